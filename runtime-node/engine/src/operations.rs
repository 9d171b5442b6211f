//! Passes operations to the event loop. An operation is a request of JavaScript to native code that
//! completes later, in a turn of its invocation.
//!
//! ```text
//!  State::operate ─► Operations ─► event loop of the isolate ─► Completed ─► Settle, in a turn
//!                                    └─ aborted with its invocation
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use tokio::sync::Notify;

use super::ids::{InvocationId, OperationId};

/// A function that delivers a completed operation to JavaScript, in a turn of its invocation, and
/// returns `None` if that threw.
pub type Settle = Box<dyn FnOnce(&mut v8::PinScope<'_, '_>) -> Option<()>>;

/// A completed operation, as its invocation, its id and its delivery; `None` if it was aborted or
/// has nothing to deliver.
pub type Completed = Option<(InvocationId, OperationId, Settle)>;

/// The operations of an isolate that have begun and have not been taken by its event loop yet.
#[derive(Default)]
pub struct Operations {
    begun: RefCell<Vec<LocalBoxFuture<'static, Completed>>>,
    has_begun: Rc<Notify>,
}

impl Operations {
    /// Gives an operation to the event loop.
    pub(crate) fn begin(&self, operation: LocalBoxFuture<'static, Completed>) {
        self.begun.borrow_mut().push(operation);
        self.has_begun.notify_one();
    }

    /// Takes the operations that have begun since the last call.
    pub(crate) fn take(&self) -> Vec<LocalBoxFuture<'static, Completed>> {
        self.begun.take()
    }

    /// Makes the event loop check for operations, and check whether its isolate still exists.
    pub(crate) fn wake(&self) {
        self.has_begun.notify_one();
    }

    /// Returns the `Notify` that is notified when an operation has begun.
    pub(crate) fn has_begun(&self) -> Rc<Notify> {
        Rc::clone(&self.has_begun)
    }
}
