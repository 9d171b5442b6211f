//! The numbers of an isolate's invocations and operations, by which native code and the built-in
//! JavaScript name them to each other.

/// The id of one invocation of one isolate, never reused within that isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InvocationId(pub(crate) u64);

impl InvocationId {
    /// Returns the id as JavaScript carries it; exact for the first 2⁵³ invocations.
    pub fn to_number(self) -> f64 {
        self.0 as f64
    }

    pub fn from_number(number: f64) -> Self {
        Self(number as u64)
    }
}

/// The id of one operation (a timer, the reading of a body) of one isolate, never reused within
/// that isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(crate) u64);

impl OperationId {
    pub fn to_number(self) -> f64 {
        self.0 as f64
    }

    pub fn from_number(number: f64) -> Self {
        Self(number as u64)
    }
}
