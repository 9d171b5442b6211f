//! The share of a bounded resource that one tenant may take.

/// The share of one tenant in a bounded resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Half of the resource, while other tenants use the resource.
    Half,
    /// All but an eighth of the resource, while no other tenant uses the resource.
    Most,
}

impl Share {
    /// Returns this share of `whole`. It is at least one if `whole` is at least one.
    pub fn of(self, whole: usize) -> usize {
        match self {
            Self::Half => whole.div_ceil(2),
            Self::Most => whole - whole / 8,
        }
    }
}
