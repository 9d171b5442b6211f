//! The two ways for a thread to get into an isolate, with their unsafe code fenced: a thread that
//! owns it enters and exits; one of many threads takes V8's Locker first.
//!
//! Everything else in a turn is the same: [`turn::take`].

#![allow(unsafe_code)] // Enters and leaves isolates, and gives them to other threads.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use crate::sandbox::Sandbox;
use crate::turn::{self, Input, Realm, Step};

/// An isolate with its Worker, as seen by the code that gives it turns.
pub trait Isolate {
    fn turn(&self, input: Input) -> Step;
}

/// The state that belongs to an isolate.
struct Inside {
    sandbox: Sandbox,
    realm: Realm,
}

impl Inside {
    fn new(sandbox: Sandbox, isolate: &mut v8::Isolate) -> Self {
        Self { sandbox, realm: sandbox.realm(isolate) }
    }

    fn turn(&mut self, isolate: &mut v8::Isolate, input: Input) -> Step {
        if self.sandbox.new_context() && matches!(input, Input::Request(_)) {
            self.realm = self.sandbox.realm(isolate);
        }
        turn::take(isolate, &self.realm, input)
    }
}

/// An isolate of one thread, which is inside it only during turns.
pub struct Owned(RefCell<OwnedState>);

struct OwnedState {
    inside: Inside,
    isolate: Exited,
}

impl Owned {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let inside = Inside::new(sandbox, &mut isolate);
        // SAFETY: making the isolate entered it, on this thread.
        unsafe { isolate.exit() };
        Self(RefCell::new(OwnedState { inside, isolate: Exited(isolate) }))
    }
}

impl Isolate for Owned {
    fn turn(&self, input: Input) -> Step {
        let OwnedState { inside, isolate: Exited(isolate) } = &mut *self.0.borrow_mut();
        // SAFETY: `self` is neither `Send` nor `Sync`, so this is the isolate's thread; `exit`
        // follows, unless the turn panics, which ends the process.
        unsafe { isolate.enter() };
        let step = inside.turn(isolate, input);
        // SAFETY: the isolate was entered above, and a turn exits everything that it enters.
        unsafe { isolate.exit() };
        step
    }
}

/// An isolate that no thread is inside.
struct Exited(v8::OwnedIsolate);

impl Drop for Exited {
    fn drop(&mut self) {
        // SAFETY: this is the isolate's thread, with no turn running. An isolate must be entered to
        // be disposed of, and the drop of the field, which comes next, exits it.
        unsafe { self.0.enter() };
    }
}

/// An isolate of all threads, used by one at a time.
pub struct Shared {
    /// Locked only while V8's lock is held, so that no thread ever waits for it.
    inside: Mutex<Inside>,
    isolate: v8::SharedIsolate,
}

impl Shared {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let inside = Inside::new(sandbox, &mut isolate);
        // SAFETY: the isolate's only slot is the `Outbox`, which is plain data; native functions
        // capture nothing; no reference into a `Global` is held.
        let shared = unsafe { isolate.try_into_shared() };
        Self {
            inside: Mutex::new(inside),
            isolate: shared.expect("the isolate has no weak handles and is the entered one"),
        }
    }
}

impl Isolate for Shared {
    fn turn(&self, input: Input) -> Step {
        let mut locker = self.isolate.lock();
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.turn(&mut locker, input)
    }
}
