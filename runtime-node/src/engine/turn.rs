//! The one way into an isolate.
//!
//! ```text
//!  enter ─► clock stands ─► watchdog armed ─► work ─► microtasks ─► V8's tasks ─► watchdog disarmed ─► leave
//!                                │                                                     │
//!                         the invocation's remaining CPU time          what the turn used is taken from it
//! ```
//!
//! [`Isolate::turn`] takes a closure and returns when JavaScript has nothing more to do: an isolate cannot be held
//! across an await. Whatever a Worker does, a turn ends, and its end is one of three: the work came through, it
//! threw, or it was stopped, and then the isolate is condemned: what a terminated turn leaves half done is nothing
//! to serve the next request from.

#![allow(unsafe_code)] // Enters and leaves isolates.

use std::cell::RefMut;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tenon_proto::failure::FailureCode;

use super::clock::Standstill;
use super::exception::{Exception, report_rejections};
use super::invocation::{Event, InvocationId};
use super::isolate::{Isolate, Vm};
use super::platform::Tasks;
use super::realm::{Hooks, Realm};

/// How often the end of a turn looks for tasks of V8 that its own tasks have posted.
const TASK_ROUNDS: usize = 8;

/// Why a turn's work did not come through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It threw.
    Threw(Exception),
    /// A limit stopped it. The invocation has been failed.
    Limit,
    /// It did not begin: the invocation has ended, or the isolate is never entered again.
    NotBegun,
}

impl Isolate {
    /// Runs `work` for the invocation `who`, and all that follows from it; for nobody, on what the isolate has for
    /// that. `work` returns `None` when JavaScript threw.
    pub(super) fn turn<R>(
        &self,
        who: Option<InvocationId>,
        work: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i>, &Hooks) -> Option<R>,
    ) -> Result<R, Stop> {
        let state = &self.state;
        let (budget, starts) = match who {
            _ if self.is_sealed() => return Err(Stop::NotBegun),
            None => (state.unattended_cpu(), false),
            Some(who) => {
                let invocations = state.invocations.borrow();
                let invocation = invocations.get(who).ok_or(Stop::NotBegun)?;
                (invocation.cpu_left, matches!(invocation.event, Event::Start))
            }
        };
        let mut entered = Entered::enter(self.vm.borrow_mut());
        let vm = &mut *entered.0;
        let realm = who.and_then(|who| state.realm_of(who)).unwrap_or_else(|| Rc::clone(&vm.realm));
        let standstill = Standstill::begin();
        self.engine.post.arm(vm.handle.clone(), budget, vm.guard.exhausted());
        let result = {
            v8::scope!(let scope, &mut *vm.isolate);
            let context = v8::Local::new(scope, &realm.context);
            let scope = &mut v8::ContextScope::new(scope, context);
            v8::tc_scope!(let scope, scope);
            let owner = v8::Number::new(scope, who.map_or(0.0, InvocationId::to_number));
            scope.set_continuation_preserved_embedder_data(owner.into());
            let result = work(scope, &realm.hooks);
            let result = result.ok_or_else(|| thrown(scope));
            // What was stopped has left behind what it wanted to do next, which nothing would stop any more.
            if !self.engine.post.is_over() {
                settle(scope, &vm.tasks);
            }
            report_rejections(scope, state);
            let nobody = v8::undefined(scope);
            scope.set_continuation_preserved_embedder_data(nobody.into());
            result
        };
        let spent = self.engine.post.disarm();
        drop(standstill);
        // What a start takes says nothing of the requests to come.
        if !starts {
            self.account.charge(spent.cpu);
        }
        self.engine.turns.set(self.engine.turns.get() + 1);
        if spent.expired || vm.guard.is_exhausted() {
            vm.isolate.cancel_terminate_execution();
        }
        let exhausted = vm.guard.is_exhausted();
        drop(entered);

        state.charge(who, spent.cpu);
        let limited = if exhausted {
            self.seal(FailureCode::MemoryLimitExceeded);
            true
        } else if spent.expired {
            state.condemn(FailureCode::CpuLimitExceeded);
            who.into_iter().for_each(|who| state.fail(who, FailureCode::CpuLimitExceeded));
            true
        } else {
            false
        };
        if limited {
            self.engine.turnstile.remember(self.digest(), &self.account);
        }
        state.rest();
        // The work may have come through, or thrown, before the limit struck in a microtask.
        match result {
            _ if limited => Err(Stop::Limit),
            Ok(value) => Ok(value),
            Err(thrown) => Err(Stop::Threw(thrown)),
        }
    }
}

impl Isolate {
    /// Enters the isolate for what runs no JavaScript, and so needs no limit. `None` when it is never entered again.
    pub(super) fn look<R>(
        &self,
        look: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i, ()>, &Realm) -> Option<R>,
    ) -> Option<R> {
        if self.is_sealed() {
            return None;
        }
        let (found, exhausted) = {
            let mut entered = Entered::enter(self.vm.borrow_mut());
            let vm = &mut *entered.0;
            v8::scope!(let scope, &mut *vm.isolate);
            (look(scope, &vm.realm), vm.guard.is_exhausted())
        };
        if exhausted {
            self.seal(FailureCode::MemoryLimitExceeded);
            return None;
        }
        found
    }
}

/// Microtasks to exhaustion, then V8's own tasks and the microtasks that they bring.
fn settle(scope: &mut v8::PinScope<'_, '_>, tasks: &Tasks) {
    scope.perform_microtask_checkpoint();
    for _ in 0..TASK_ROUNDS {
        if !tasks.are_urgent() || scope.is_execution_terminating() {
            return;
        }
        for task in tasks.take_due() {
            task.run();
            scope.perform_microtask_checkpoint();
        }
    }
}

/// What `work` left in the try-catch around it.
fn thrown(scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, '_, v8::HandleScope<'_>>>) -> Exception {
    match scope.exception() {
        Some(exception) if !scope.has_terminated() => {
            scope.reset();
            Exception::describe(scope, exception)
        }
        _ => Exception::terminated(),
    }
}

/// An isolate that this thread is inside of. Leaves when dropped.
struct Entered<'a>(RefMut<'a, Vm>);

impl<'a> Entered<'a> {
    fn enter(vm: RefMut<'a, Vm>) -> Self {
        // SAFETY: an isolate belongs to one thread, its `Rc` sees to that, and the exclusive borrow to there being
        // one turn at a time; `drop` leaves it on every way out.
        unsafe { vm.isolate.enter() };
        Self(vm)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: entered in `enter`; what is entered within a turn is left within it.
        unsafe { self.0.isolate.exit() };
    }
}

/// An isolate that no thread is inside of, which is how it spends the time between turns.
pub(super) struct Exited(v8::OwnedIsolate);

impl Exited {
    /// Leaves an isolate that has just been made.
    pub(super) fn new(isolate: v8::OwnedIsolate) -> Self {
        // SAFETY: making it entered it, on this thread.
        unsafe { isolate.exit() };
        Self(isolate)
    }
}

impl Deref for Exited {
    type Target = v8::OwnedIsolate;

    fn deref(&self) -> &v8::OwnedIsolate {
        &self.0
    }
}

impl DerefMut for Exited {
    fn deref_mut(&mut self) -> &mut v8::OwnedIsolate {
        &mut self.0
    }
}

impl Drop for Exited {
    fn drop(&mut self) {
        // SAFETY: on the isolate's thread, with no turn running. An isolate is disposed of from inside, and the drop
        // of the field, which comes next, leaves it.
        unsafe { self.0.enter() };
    }
}
