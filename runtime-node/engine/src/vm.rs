//! V8's part of an isolate: what has to be dropped in order, and entered for each turn.

#![allow(unsafe_code)] // Enters and leaves isolates.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::blocking_time::Pauses;
use super::heap::HeapGuard;
use super::platform::Tasks;
use super::realm::Realm;
use super::wasm::account::MemoryAccount;

/// The parts of V8 that a turn works with, in the order in which they must be dropped: handles into
/// the heap, the isolate, then the objects that the isolate calls back.
pub(crate) struct Vm {
    /// The first realm, and the only one unless the Worker resets.
    pub(crate) realm: Rc<Realm>,
    /// A realm in which only the modules have run, ready for the next invocation.
    pub(crate) ready: Option<Rc<Realm>>,
    pub(crate) isolate: Exited,
    pub(crate) handle: v8::IsolateHandle,
    pub(crate) guard: Rc<HeapGuard>,
    pub(crate) pauses: Box<Pauses>,
    pub(crate) memories: Arc<MemoryAccount>,
    pub(crate) tasks: Tasks,
}

impl Vm {
    /// Enters the isolate, between turns, for work that runs none of a Worker's code.
    pub(crate) fn enter<R>(
        &mut self,
        work: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i, ()>) -> R,
    ) -> R {
        // SAFETY: on the isolate's thread, with no turn running; it is left below on every path.
        unsafe { self.isolate.enter() };
        let result = catch_unwind(AssertUnwindSafe(|| {
            v8::scope!(let scope, &mut *self.isolate);
            work(scope)
        }));
        // SAFETY: entered above.
        unsafe { self.isolate.exit() };
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Disposes of the isolate. The remaining handles refer to nothing.
    pub(crate) fn end(&mut self) {
        self.tasks.close();
        self.isolate.end();
        self.tasks.leave();
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.tasks.close();
    }
}

/// An isolate that no thread has entered, which is its state between turns.
pub(crate) struct Exited(Option<v8::OwnedIsolate>);

impl Exited {
    /// Leaves an isolate that has just been made.
    pub(crate) fn new(isolate: v8::OwnedIsolate) -> Self {
        // SAFETY: making the isolate entered it, on this thread.
        unsafe { isolate.exit() };
        Self(Some(isolate))
    }

    /// Returns whether the isolate has not been disposed of.
    pub(crate) fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Disposes of the isolate.
    pub(crate) fn end(&mut self) {
        if let Some(isolate) = self.0.take() {
            // SAFETY: on the isolate's thread, with no turn running. An isolate is disposed of
            // while entered, which also leaves it.
            unsafe { isolate.enter() };
            drop(isolate);
        }
    }
}

impl Deref for Exited {
    type Target = v8::OwnedIsolate;

    fn deref(&self) -> &v8::OwnedIsolate {
        self.0.as_ref().expect(ENDED)
    }
}

impl DerefMut for Exited {
    fn deref_mut(&mut self) -> &mut v8::OwnedIsolate {
        self.0.as_mut().expect(ENDED)
    }
}

const ENDED: &str = "an isolate that has been disposed of is sealed and not used";

impl Drop for Exited {
    fn drop(&mut self) {
        self.end();
    }
}
