//! The share of a bounded resource that one tenant may take.

/// The share of one tenant in a bounded resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Other tenants are present.
    Half,
    /// No other tenant is present.
    Most,
}

impl Share {
    /// Returns this share of `whole`, rounded so that a tenant gets at least one if there is one.
    pub fn of(self, whole: usize) -> usize {
        match self {
            Self::Half => whole.div_ceil(2),
            Self::Most => whole - whole / 8,
        }
    }
}
