//! The budget of an invocation, to which its outgoing requests are charged.

use std::any::Any;

/// The budget of an invocation.
pub trait InvocationBudget {
    /// Counts a request.
    ///
    /// # Errors
    /// Returns the invocation's limit on requests if the limit has been reached.
    fn subrequest(&self) -> Result<(), u32>;

    /// Reserves memory, in bytes, until the returned guard is dropped. Returns `None` if there is
    /// not enough memory.
    fn hold(&self, bytes: usize) -> Option<Box<dyn Any>>;
}
