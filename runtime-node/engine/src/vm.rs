//! V8's part of an isolate: the objects that have to be dropped in order, and that a turn enters.

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
    /// The isolate's first realm, which is its only realm unless the Worker's realms are reset
    /// between invocations.
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
        // SAFETY: this runs on the isolate's thread while no turn runs. The isolate is left below
        // on every path.
        unsafe { self.isolate.enter() };
        let result = catch_unwind(AssertUnwindSafe(|| {
            v8::scope!(let scope, &mut *self.isolate);
            work(scope)
        }));
        // SAFETY: the isolate was entered above.
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
    /// Leaves an isolate that has just been created, and wraps it.
    pub(crate) fn new(isolate: v8::OwnedIsolate) -> Self {
        // SAFETY: the creation of the isolate entered it, on this thread.
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
            // SAFETY: this runs on the isolate's thread while no turn runs. An isolate has to be
            // entered when it is dropped, and the drop also leaves it.
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

/// The failure text for a use of an isolate that no longer exists.
const ENDED: &str = "the isolate has been disposed of";

impl Drop for Exited {
    fn drop(&mut self) {
        self.end();
    }
}
