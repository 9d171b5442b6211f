//! The only entry into an isolate.
//!
//! ```text
//!  enter ─► stop clock ─► arm watchdog ─► work ─► microtasks ─► disarm ─► leave
//!                              │                                    │
//!             the invocation's remaining CPU time        deduct the turn's CPU time
//! ```
//!
//! V8's own tasks, such as parts of garbage collections, run in turns without an invocation, so
//! they delay no response. Once such turns have used up their CPU time, the tasks run at the end of
//! the turns of invocations.
//!
//! [`Isolate::turn`] takes a closure and returns when JavaScript has nothing more to do, so an
//! isolate cannot be held across an await. Whatever a Worker does, a turn ends in one of three
//! ways: the work succeeded, it threw, or it was stopped. After a turn that was stopped, the
//! isolate is condemned, because a terminated turn may leave state half updated, which must not
//! serve the next request. A panic also stops the turn, although it is a defect of the node.

#![allow(unsafe_code)] // Enters and leaves isolates.

use std::cell::RefMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use tenon_proto::failure::FailureCode;

use super::Isolate;
use crate::clock::FrozenClock;
use crate::exception::Exception;
use crate::fair_scheduler::Pass;
use crate::ids::InvocationId;
use crate::invocation::Event;
use crate::page::Page;
use crate::platform::Tasks;
use crate::realm::{Hooks, Realm};
use crate::uncaught;
use crate::vm::Vm;
use crate::wasm::account;

/// Maximum number of times that a turn runs V8's tasks, including those that earlier tasks have
/// posted.
const TASK_ROUNDS: usize = 8;

/// CPU time of turns after which the isolate's heap is inspected, which takes a few microseconds.
/// No relevant part of a heap can be filled in less CPU time than this.
const INSPECTION: Duration = Duration::from_millis(5);

/// The reason why a turn's work did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The work threw.
    Threw(Exception),
    /// A limit or a panic stopped the turn, and the invocation has failed.
    Limit,
    /// The turn did not begin, because the invocation has ended or the isolate must never be
    /// entered again.
    NotBegun,
}

impl Isolate {
    /// Runs `work` and the microtasks that follow, for the invocation `id` or, if that is `None`,
    /// within the isolate's budget for unattended work. `work` returns `None` if JavaScript threw.
    ///
    /// # Arguments
    /// * `pass` - the right to the turn, to which the turn's CPU time is charged.
    pub(crate) fn turn<R>(
        &self,
        pass: &Pass,
        id: Option<InvocationId>,
        work: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i>, &Hooks) -> Option<R>,
    ) -> Result<R, Stop> {
        let state = &self.state;
        // A Worker that a client of an inspector steps through has no meaningful CPU time.
        let was_debugged = self.is_debugged();
        let (budget, starts) = match id {
            _ if self.is_sealed() => return Err(Stop::NotBegun),
            None => (state.unattended_cpu(), false),
            Some(id) => {
                let invocations = state.invocations.borrow();
                let invocation = invocations.get(id).ok_or(Stop::NotBegun)?;
                (invocation.cpu_left, matches!(invocation.event, Event::Start))
            }
        };
        let budget = if was_debugged { Duration::MAX } else { budget };
        if budget.is_zero() {
            id.into_iter().for_each(|id| state.fail(id, FailureCode::CpuLimitExceeded));
            // This may have been the last invocation.
            state.reap();
            return Err(Stop::Limit);
        }
        let mut entered = Entered::enter(self);
        let vm = &mut *entered.vm;
        let realm = id.and_then(|id| state.realm_of(id)).unwrap_or_else(|| Rc::clone(&vm.realm));
        let frozen = FrozenClock::begin();
        let watch = self.engine.turn_timer.arm(vm.handle.clone(), budget, vm.guard.exhausted());
        let result = catch_unwind(AssertUnwindSafe(|| {
            v8::scope!(let scope, &mut *vm.isolate);
            let context = v8::Local::new(scope, &realm.context);
            let scope = &mut v8::ContextScope::new(scope, context);
            v8::tc_scope!(let scope, scope);
            let owner = v8::Number::new(scope, id.map_or(0.0, InvocationId::to_number));
            scope.set_continuation_preserved_embedder_data(owner.into());
            let result = work(scope, &realm.hooks);
            let result = result.ok_or_else(|| thrown(scope));
            // After a stopped turn, no limit would apply to the remaining microtasks.
            if !self.engine.turn_timer.is_over() {
                scope.perform_microtask_checkpoint();
                if id.is_none() || state.unattended_cpu().is_zero() {
                    self.run_tasks(scope, &vm.tasks);
                } else if vm.tasks.are_urgent() {
                    vm.tasks.wake();
                }
            }
            uncaught::report(scope, state);
            let none = v8::undefined(scope);
            scope.set_continuation_preserved_embedder_data(none.into());
            result
        }));
        let spent = watch.end();
        drop(frozen);
        pass.charge(spent.cpu, !starts);
        self.engine.count_turn(spent.cpu);
        self.cpu.set(self.cpu.get() + spent.cpu);
        self.longest_blocking_time.record(spent.cpu);
        let uninspected = self.uninspected.get() + spent.cpu;
        let is_due = uninspected >= INSPECTION;
        self.uninspected.set(if is_due { Duration::ZERO } else { uninspected });
        if is_due {
            let namespace = vm.memories.namespace();
            vm.guard.inspect(&mut vm.isolate, state.buffers.limit(), &namespace);
        }
        if spent.expired || vm.guard.is_exhausted() {
            vm.isolate.cancel_terminate_execution();
        }
        let exhausted = vm.guard.is_exhausted();
        drop(entered);

        if !was_debugged && !self.is_debugged() {
            state.charge(id, spent.cpu);
        }
        let limited = if exhausted {
            state.seal(FailureCode::MemoryLimitExceeded);
            self.free_heap();
            true
        } else if result.is_err() || self.is_sealed() {
            // A panic may have left any state half updated.
            state.seal(FailureCode::Internal);
            true
        } else if spent.expired {
            state.condemn(FailureCode::CpuLimitExceeded);
            id.into_iter().for_each(|id| state.fail(id, FailureCode::CpuLimitExceeded));
            true
        } else {
            false
        };
        state.reap();
        // The work may have succeeded or thrown before a microtask reached the limit.
        match result {
            Ok(result) if !limited => result.map_err(Stop::Threw),
            _ => Err(Stop::Limit),
        }
    }

    /// Enters the isolate for work that runs no JavaScript and therefore needs no limit. Returns
    /// `None` if `work` does, if the isolate must never be entered again, or if the heap is full
    /// afterwards.
    pub(crate) fn enter<R>(
        &self,
        work: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i, ()>, &Realm) -> Option<R>,
    ) -> Option<R> {
        self.enter_unmeasured(|scope, realm| {
            self.longest_blocking_time.measure(|| work(scope, realm))
        })
    }

    /// Enters the isolate like [`Self::enter`], for work that does not count as the Worker's.
    pub(crate) fn enter_unmeasured<R>(
        &self,
        work: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i, ()>, &Realm) -> Option<R>,
    ) -> Option<R> {
        if self.is_sealed() {
            return None;
        }
        let (found, exhausted) = {
            let mut entered = Entered::enter(self);
            let vm = &mut *entered.vm;
            v8::scope!(let scope, &mut *vm.isolate);
            let found = work(scope, &vm.realm);
            (found, vm.guard.is_exhausted())
        };
        if exhausted {
            self.state.seal(FailureCode::MemoryLimitExceeded);
            self.free_heap();
            self.state.reap();
            return None;
        }
        found
    }

    /// Runs V8's own tasks that need a turn now, each followed by the microtasks that it queues,
    /// for at most `TASK_ROUNDS` rounds or until a limit stops the turn.
    fn run_tasks(&self, scope: &mut v8::PinScope<'_, '_>, tasks: &Tasks) {
        for _ in 0..TASK_ROUNDS {
            for task in tasks.take_due() {
                // V8's own flag is of no use here, because V8 clears it when a terminated task
                // returns.
                if self.engine.turn_timer.is_over() {
                    return;
                }
                task.run();
                scope.perform_microtask_checkpoint();
            }
            if !tasks.are_urgent() {
                return;
            }
        }
    }
}

/// Returns the exception that `work` left in the enclosing try-catch.
fn thrown(scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, '_, v8::HandleScope<'_>>>) -> Exception {
    match scope.exception() {
        Some(exception) if !scope.has_terminated() => {
            scope.reset();
            Exception::describe(scope, exception)
        }
        _ => Exception::terminated(),
    }
}

/// An isolate that this thread has entered. Dropping this value leaves the isolate.
struct Entered<'a> {
    vm: RefMut<'a, Vm>,
    /// The page in which the supervisor reads which revision's code is running.
    page: Option<&'a Page>,
    _memories: account::Entered,
}

impl<'a> Entered<'a> {
    fn enter(isolate: &'a Isolate) -> Self {
        let (vm, page) = (isolate.vm.borrow_mut(), isolate.engine.page.as_deref());
        page.into_iter().for_each(|page| page.begin(&isolate.digest()));
        // SAFETY: an isolate belongs to one thread, as its `Rc` ensures; the exclusive borrow
        // ensures that there is only one turn at a time; `drop` leaves the isolate on every path.
        unsafe { vm.isolate.enter() };
        let memories = vm.memories.enter();
        Self { vm, page, _memories: memories }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: `enter` has entered the isolate; everything that a turn enters it also leaves.
        unsafe { self.vm.isolate.exit() };
        self.page.into_iter().for_each(Page::end);
    }
}

#[cfg(test)]
mod tests;
