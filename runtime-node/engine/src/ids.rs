//! The ids of an isolate's invocations and operations, which native code and the built-in
//! JavaScript exchange as numbers.

/// The id of one invocation of an isolate, which the isolate never reuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InvocationId(pub(crate) u64);

impl InvocationId {
    /// Returns the id as a number of JavaScript, which is exact for the first 2⁵³ invocations.
    pub fn to_number(self) -> f64 {
        self.0 as f64
    }

    pub fn from_number(number: f64) -> Self {
        Self(number as u64)
    }
}

/// The id of one operation of an isolate (such as a timer), which the isolate never reuses.
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
