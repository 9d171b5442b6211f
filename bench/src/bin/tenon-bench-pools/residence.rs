//! The residence of isolates: an isolate resides on the one thread that owns it, or is shared by
//! many threads. A thread that owns an isolate enters and exits it for a turn. A thread that shares
//! an isolate also takes V8's Locker. All unsafe code of this program is here.
//!
//! The rest of a turn is the same in both cases: [`turn::take`].

#![allow(unsafe_code)] // Enters and leaves isolates, and gives them to other threads.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use crate::sandbox::Sandbox;
use crate::turn::{self, Input, Realm, Step};

/// An isolate with its Worker, as seen by the code that gives it turns.
pub trait Isolate {
    fn turn(&self, input: Input) -> Step;
}

/// The state of an isolate between turns.
struct State {
    sandbox: Sandbox,
    realm: Realm,
}

impl State {
    fn new(sandbox: Sandbox, isolate: &mut v8::Isolate) -> Self {
        Self { sandbox, realm: sandbox.realm(isolate) }
    }

    fn turn(&mut self, isolate: &mut v8::Isolate, input: Input) -> Step {
        if self.sandbox.has_context_per_request() && matches!(input, Input::Request(_)) {
            self.realm = self.sandbox.realm(isolate);
        }
        turn::take(isolate, &self.realm, input)
    }
}

/// An isolate that one thread owns, and enters only for turns.
pub struct Owned(RefCell<OwnedState>);

struct OwnedState {
    state: State,
    isolate: Exited,
}

impl Owned {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let state = State::new(sandbox, &mut isolate);
        // SAFETY: this thread has entered the isolate by creating it.
        unsafe { isolate.exit() };
        Self(RefCell::new(OwnedState { state, isolate: Exited(isolate) }))
    }
}

impl Isolate for Owned {
    fn turn(&self, input: Input) -> Step {
        let OwnedState { state, isolate: Exited(isolate) } = &mut *self.0.borrow_mut();
        // SAFETY: `self` is neither `Send` nor `Sync`, so this is the isolate's thread. `exit`
        // follows, unless the turn panics, and a panic ends the process.
        unsafe { isolate.enter() };
        let step = state.turn(isolate, input);
        // SAFETY: the isolate was entered above, and a turn exits everything that it enters.
        unsafe { isolate.exit() };
        step
    }
}

/// An isolate that no thread has entered.
struct Exited(v8::OwnedIsolate);

impl Drop for Exited {
    fn drop(&mut self) {
        // SAFETY: this is the isolate's thread, with no turn running. An isolate must be entered
        // when it is disposed of. The drop of the field comes next, and exits the isolate.
        unsafe { self.0.enter() };
    }
}

/// An isolate that any thread may enter, one thread at a time.
pub struct Shared {
    /// A thread locks this mutex only while it holds V8's lock, so it never waits for the mutex.
    state: Mutex<State>,
    isolate: v8::SharedIsolate,
}

impl Shared {
    pub fn new(sandbox: Sandbox) -> Self {
        let mut isolate = sandbox.isolate();
        let state = State::new(sandbox, &mut isolate);
        // SAFETY: the isolate's only slot is the `Outbox`, which is plain data; native functions
        // capture nothing; no reference into a `Global` is held.
        let shared = unsafe { isolate.try_into_shared() };
        Self {
            state: Mutex::new(state),
            isolate: shared.expect("the isolate has weak handles, or is not the entered one"),
        }
    }
}

impl Isolate for Shared {
    fn turn(&self, input: Input) -> Step {
        let mut locker = self.isolate.lock();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.turn(&mut locker, input)
    }
}
