//! The two ways of a thread into an isolate, fenced: one that owns it enters and exits; one of many takes V8's Locker
//! first.
//!
//! Everything else of a turn is the same: [`turn::take`].

#![allow(unsafe_code)] // Enters and leaves isolates, and gives them to other threads.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use crate::sandbox::{Sandbox, World};
use crate::turn::{self, Input, Step};

/// An isolate with the Worker in it, to whoever is about to give it a turn.
pub trait Isolate {
    fn turn(&self, input: Input) -> Step;
}

/// What an isolate has beside itself.
struct Inside {
    sandbox: Sandbox,
    world: World,
}

impl Inside {
    fn new(sandbox: Sandbox, isolate: &mut v8::Isolate) -> Self {
        Self { sandbox, world: sandbox.world(isolate) }
    }

    fn turn(&mut self, isolate: &mut v8::Isolate, input: Input) -> Step {
        if self.sandbox.anew() && matches!(input, Input::Request(_)) {
            self.world = self.sandbox.world(isolate);
        }
        turn::take(isolate, &self.world, input)
    }
}

/// An isolate of one thread, which is inside of it for a turn only.
pub struct Owned(RefCell<Rooms>);

struct Rooms {
    inside: Inside,
    isolate: Exited,
}

impl Owned {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let inside = Inside::new(sandbox, &mut isolate);
        // SAFETY: making it entered it, on this thread.
        unsafe { isolate.exit() };
        Self(RefCell::new(Rooms { inside, isolate: Exited(isolate) }))
    }
}

impl Isolate for Owned {
    fn turn(&self, input: Input) -> Step {
        let Rooms { inside, isolate: Exited(isolate) } = &mut *self.0.borrow_mut();
        // SAFETY: it is neither `Send` nor `Sync`, so that this is its thread; `exit` follows, unless the turn panics,
        // which ends the process.
        unsafe { isolate.enter() };
        let step = inside.turn(isolate, input);
        // SAFETY: entered above; a turn leaves what it enters.
        unsafe { isolate.exit() };
        step
    }
}

/// An isolate that no thread is inside of.
struct Exited(v8::OwnedIsolate);

impl Drop for Exited {
    fn drop(&mut self) {
        // SAFETY: on the isolate's thread, with no turn running. An isolate is disposed of from inside, and the drop of
        // the field, which comes next, leaves it.
        unsafe { self.0.enter() };
    }
}

/// An isolate of all threads, one at a time.
pub struct Shared {
    /// Taken with V8's lock held, so that nobody ever waits for it.
    inside: Mutex<Inside>,
    isolate: v8::SharedIsolate,
}

impl Shared {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let inside = Inside::new(sandbox, &mut isolate);
        // SAFETY: what hangs off it is one slot, the `Outbox`, which is plain data; native functions capture nothing;
        // no reference into a `Global` is held.
        let shared = unsafe { isolate.try_into_shared() };
        Self { inside: Mutex::new(inside), isolate: shared.expect("it has no weak handles and is the one entered") }
    }
}

impl Isolate for Shared {
    fn turn(&self, input: Input) -> Step {
        let mut locker = self.isolate.lock();
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.turn(&mut locker, input)
    }
}
