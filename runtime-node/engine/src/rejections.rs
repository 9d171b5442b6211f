//! Remembers the rejected promises of a turn: those without a handler, and those that got a handler
//! late. [`uncaught`](super::uncaught) processes them.

use super::ids::InvocationId;

/// Maximum number of remembered rejections of each kind in a turn. A Worker may cause a million
/// rejections in one turn.
const REJECTIONS: usize = 64;

/// The rejections of the running turn.
#[derive(Default)]
pub(crate) struct Rejections {
    /// Promises that were rejected and have no handler yet.
    pub(crate) unhandled: Vec<Rejection>,
    /// Promises that got a handler late (see [`Rejections::forget`]).
    pub(crate) handled: Vec<Rejection>,
}

/// A rejected promise.
pub(crate) struct Rejection {
    pub(crate) promise: v8::Global<v8::Promise>,
    pub(crate) reason: v8::Global<v8::Value>,
    /// The invocation whose code rejected the promise or, for a late handler, added the handler.
    pub(crate) invocation: Option<InvocationId>,
}

impl Rejections {
    pub(crate) fn is_empty(&self) -> bool {
        self.unhandled.is_empty() && self.handled.is_empty()
    }

    /// Returns whether another promise without a handler can be remembered.
    pub(crate) fn have_room(&self) -> bool {
        self.unhandled.len() < REJECTIONS
    }

    pub(crate) fn add(&mut self, rejection: Rejection) {
        self.unhandled.push(rejection);
    }

    /// Forgets a promise that has a handler now. Returns whether the handler counts as late: the
    /// promise was rejected in an earlier turn, or its rejection was not remembered.
    pub(crate) fn forget(&mut self, promise: v8::Local<'_, v8::Promise>) -> bool {
        let before = self.unhandled.len();
        self.unhandled.retain(|rejection| rejection.promise != promise);
        self.unhandled.len() == before
    }

    /// Returns whether another promise with a late handler can be remembered.
    pub(crate) fn have_room_for_handled(&self) -> bool {
        self.handled.len() < REJECTIONS
    }

    pub(crate) fn add_handled(&mut self, rejection: Rejection) {
        self.handled.push(rejection);
    }
}
