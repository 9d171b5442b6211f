//! The one way into an isolate.
//!
//! ```text
//!  enter ─► stop clock ─► arm watchdog ─► work ─► microtasks ─► V8's tasks ─► disarm ─► leave
//!                              │                                               │
//!             the invocation's remaining CPU time        deduct the turn's CPU time from it
//! ```
//!
//! [`Isolate::turn`] takes a closure and returns when JavaScript has nothing more to do, so an
//! isolate cannot be held across an await. Whatever a Worker does, a turn ends in one of three
//! ways: the work succeeded, it threw, or it was stopped. In the last case the isolate is
//! condemned, because a terminated turn may leave state half updated, which must not serve the next
//! request. A panic also stops the turn, although the fault must be ours.

#![allow(unsafe_code)] // Enters and leaves isolates.

use std::cell::RefMut;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use tenon_proto::failure::FailureCode;

use super::clock::Standstill;
use super::exception::Exception;
use super::invocation::{Event, InvocationId};
use super::isolate::{Isolate, Vm};
use super::platform::Tasks;
use super::realm::{Hooks, Realm};
use super::rejections;
use super::turnstile::Pass;
use super::wasm;
use crate::page::Page;

/// Maximum number of times that the end of a turn runs V8's tasks, including those that earlier
/// tasks have posted.
const TASK_ROUNDS: usize = 8;

/// The turn length from which the isolate's heap is inspected, which takes some microseconds.
/// Filling a heap by a relevant amount takes longer than this.
const LONG: Duration = Duration::from_millis(5);

/// The reason why a turn's work did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The work threw.
    Threw(Exception),
    /// A limit stopped the turn. The invocation has been failed.
    Limit,
    /// The turn did not begin, because the invocation has ended or the isolate must never be
    /// entered again.
    NotBegun,
}

impl Isolate {
    /// Runs `work`, and everything that follows from it, for the invocation `who`; for `None`,
    /// within the budget that the isolate has for unattended work. `work` returns `None` if
    /// JavaScript threw.
    ///
    /// # Arguments
    /// * `pass` - the right to the turn, to which its CPU time is charged.
    pub(crate) fn turn<R>(
        &self,
        pass: &Pass,
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
        if budget.is_zero() {
            who.into_iter().for_each(|who| state.fail(who, FailureCode::CpuLimitExceeded));
            // This may have been the last invocation.
            state.rest();
            return Err(Stop::Limit);
        }
        let mut entered = Entered::enter(self);
        let vm = &mut *entered.vm;
        let realm = who.and_then(|who| state.realm_of(who)).unwrap_or_else(|| Rc::clone(&vm.realm));
        let standstill = Standstill::begin();
        let watch = self.engine.post.arm(vm.handle.clone(), budget, vm.guard.exhausted());
        let result = catch_unwind(AssertUnwindSafe(|| {
            v8::scope!(let scope, &mut *vm.isolate);
            let context = v8::Local::new(scope, &realm.context);
            let scope = &mut v8::ContextScope::new(scope, context);
            v8::tc_scope!(let scope, scope);
            let owner = v8::Number::new(scope, who.map_or(0.0, InvocationId::to_number));
            scope.set_continuation_preserved_embedder_data(owner.into());
            let result = work(scope, &realm.hooks);
            let result = result.ok_or_else(|| thrown(scope));
            // A stopped turn leaves microtasks behind that nothing would limit any more.
            if !self.engine.post.is_over() {
                settle(scope, &vm.tasks);
            }
            rejections::report(scope, state);
            let nobody = v8::undefined(scope);
            scope.set_continuation_preserved_embedder_data(nobody.into());
            result
        }));
        let spent = watch.end();
        drop(standstill);
        pass.charge(spent.cpu, !starts);
        self.engine.turns.set(self.engine.turns.get() + 1);
        self.engine.turn_cpu.set(self.engine.turn_cpu.get() + spent.cpu);
        self.cpu.set(self.cpu.get() + spent.cpu);
        self.stretches.note(spent.cpu);
        if spent.cpu >= LONG {
            vm.guard.inspect(&mut vm.isolate, state.buffers.limit());
        }
        if spent.expired || vm.guard.is_exhausted() {
            vm.isolate.cancel_terminate_execution();
        }
        let exhausted = vm.guard.is_exhausted();
        drop(entered);

        state.charge(who, spent.cpu);
        let limited = if exhausted {
            self.seal(FailureCode::MemoryLimitExceeded);
            self.give_back();
            true
        } else if result.is_err() || self.is_sealed() {
            // A panic may have left anything half updated.
            self.seal(FailureCode::Internal);
            true
        } else if spent.expired {
            state.condemn(FailureCode::CpuLimitExceeded);
            who.into_iter().for_each(|who| state.fail(who, FailureCode::CpuLimitExceeded));
            true
        } else {
            false
        };
        state.rest();
        // The work may have succeeded or thrown before the limit struck in a microtask.
        match result {
            Ok(result) if !limited => result.map_err(Stop::Threw),
            _ => Err(Stop::Limit),
        }
    }
}

impl Isolate {
    /// Enters the isolate for work that runs no JavaScript and so needs no limit. Returns `None` if
    /// the isolate must never be entered again.
    pub(crate) fn look<R>(
        &self,
        look: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i, ()>, &Realm) -> Option<R>,
    ) -> Option<R> {
        if self.is_sealed() {
            return None;
        }
        let (found, exhausted) = {
            let mut entered = Entered::enter(self);
            let vm = &mut *entered.vm;
            v8::scope!(let scope, &mut *vm.isolate);
            let found = self.stretches.measure(|| look(scope, &vm.realm));
            (found, vm.guard.is_exhausted())
        };
        if exhausted {
            self.seal(FailureCode::MemoryLimitExceeded);
            self.give_back();
            self.state.rest();
            return None;
        }
        found
    }
}

/// Runs microtasks to exhaustion, then V8's own tasks and the microtasks that they queue.
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

/// An isolate that this thread has entered. Leaves it when dropped.
struct Entered<'a> {
    vm: RefMut<'a, Vm>,
    /// The page in which the supervisor reads which revision's code is running.
    page: Option<&'a Page>,
    _memories: wasm::pages::Entered,
}

impl<'a> Entered<'a> {
    fn enter(isolate: &'a Isolate) -> Self {
        let (vm, page) = (isolate.vm.borrow_mut(), isolate.engine.page.as_deref());
        page.into_iter().for_each(|page| page.begin(&isolate.digest()));
        // SAFETY: an isolate belongs to one thread, which its `Rc` ensures, and the exclusive
        // borrow ensures that there is one turn at a time; `drop` leaves the isolate on every path.
        unsafe { vm.isolate.enter() };
        let memories = vm.memories.enter();
        Self { vm, page, _memories: memories }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // SAFETY: entered in `enter`; anything entered within a turn is left within it.
        unsafe { self.vm.isolate.exit() };
        self.page.into_iter().for_each(Page::end);
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
    pub(crate) fn is_there(&self) -> bool {
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

const ENDED: &str = "an isolate that has been disposed of was sealed before, and is not asked for";

impl Drop for Exited {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytes::Bytes;
    use futures::FutureExt as _;
    use tenon_proto::egress::Egress;
    use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
    use tenon_proto::revision::{Limits, Revision, StatePolicy};
    use tokio::task::LocalSet;

    use super::*;
    use crate::fence::{Callback, contain};
    use crate::fetch::invoke;
    use crate::invocation::Invocation;
    use crate::testing::NoInterfaces;
    use crate::{Engine, Watchdog};

    const LIMIT: Duration = Duration::from_millis(50);

    fn revision() -> Revision {
        Revision {
            worker: WorkerId::new("default", "hello"),
            name: "hello-1".to_owned(),
            entrypoint: "worker.js".to_owned(),
            modules: BTreeMap::from([(
                "worker.js".to_owned(),
                Bytes::from_static(b"export default { fetch: () => {} }"),
            )]),
            vars: BTreeMap::default(),
            secrets: BTreeMap::default(),
            services: BTreeMap::default(),
            limits: Limits::default(),
            state: StatePolicy::Persist,
            egress: Egress::default(),
            compatibility_flags: BTreeSet::new(),
        }
    }

    /// Runs a test with an isolate and two of its invocations.
    fn with_isolate(test: impl AsyncFnOnce(&Rc<Isolate>, [InvocationId; 2])) {
        crate::init();
        let watchdog = Watchdog::spawn();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let engine = Rc::new(Engine::new(&watchdog, ShardId(0), Rc::new(NoInterfaces)));
            let digest = RevisionDigest::new([0; 32]);
            let isolate = Isolate::start(&engine, digest, Rc::new(revision()), None).await.unwrap();
            let ids = [(); 2].map(|()| isolate.state.begin(Invocation::new(Event::Fetch, String::new(), LIMIT, 0)));
            test(&isolate, ids).await;
            // Invocations in flight keep their isolate alive.
            ids.into_iter().for_each(|id| isolate.state.end(id));
        });
    }

    fn code(isolate: &Isolate, id: InvocationId) -> Option<FailureCode> {
        let outcome = isolate.state.invocations.borrow_mut().take(id, std::task::Waker::noop());
        outcome.map(|outcome| outcome.unwrap_err().code)
    }

    #[test]
    fn a_panic_in_a_turn_ends_all_of_the_isolates_invocations() {
        with_isolate(async |isolate, [one, other]| {
            let pass = isolate.queue().await;
            let result = isolate.turn(&pass, Some(one), |_, _| -> Option<()> { panic!("a defect of the node") });
            assert_eq!(result, Err(Stop::Limit));
            assert_eq!(isolate.condemned(), Some(FailureCode::Internal));
            assert_eq!([one, other].map(|id| code(isolate, id)), [Some(FailureCode::Internal); 2]);
            assert_eq!(isolate.turn(&pass, Some(other), |_, _| Some(())), Err(Stop::NotBegun));
        });
    }

    #[test]
    fn an_invocation_that_begins_when_its_isolate_has_been_sealed_fails_at_once() {
        with_isolate(async |isolate, _| {
            isolate.seal(FailureCode::MemoryLimitExceeded);
            for event in [Event::Start, Event::Fetch] {
                let invocation = Invocation::new(event, String::new(), LIMIT, 0);
                let outcome = invoke(isolate, isolate.queue().await, None, invocation, |_, _, _| unreachable!());
                let code = outcome.now_or_never().map(|outcome| outcome.unwrap_err().code);
                assert_eq!(code, Some(FailureCode::MemoryLimitExceeded), "{event:?}");
            }
        });
    }

    #[test]
    fn a_panic_in_a_native_function_does_not_come_back_to_the_worker() {
        with_isolate(async |isolate, [one, other]| {
            let pass = isolate.queue().await;
            let result = isolate.turn(&pass, Some(one), |scope, _| {
                let global = scope.get_current_context().global(scope);
                let key = v8::String::new(scope, "panics")?;
                let panics = v8::Function::builder(
                    |scope: &mut v8::PinScope<'_, '_>, _: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>| {
                        let _ = contain(scope, Callback::Operation, |_| panic!("a defect of the node"));
                    },
                );
                let panics = panics.build(scope)?;
                global.set(scope, key.into(), panics.into())?;
                let code = v8::String::new(scope, "try { panics() } catch {} finally { for (;;); }")?;
                v8::Script::compile(scope, code, None)?.run(scope).map(drop)
            });
            assert_eq!(result, Err(Stop::Limit));
            assert_eq!([one, other].map(|id| code(isolate, id)), [Some(FailureCode::Internal); 2]);
        });
    }

    #[test]
    fn an_isolate_whose_heap_is_full_between_turns_is_kept_by_none_of_its_invocations() {
        with_isolate(async |isolate, ids| {
            // Each has its outcome and continues.
            for id in ids {
                isolate.state.invocations.borrow_mut().wait_until(id);
                isolate.state.fail(id, FailureCode::NoResponse);
                assert_eq!(code(isolate, id), Some(FailureCode::NoResponse));
            }
            let text = "x".repeat(1 << 20);
            let filled = isolate.look(|scope, _| {
                (0..2 * Limits::default().memory_mib).try_for_each(|_| v8::String::new(scope, &text).map(|_| ()))
            });
            assert_eq!((filled, isolate.condemned()), (None, Some(FailureCode::MemoryLimitExceeded)));
            assert_eq!((isolate.in_flight(), Rc::strong_count(isolate)), (0, 1));
            assert_eq!(isolate.memory_bytes(), 0, "its heap has been given back");
        });
    }

    #[test]
    fn an_isolate_is_kept_by_none_of_its_invocations_that_have_nothing_left() {
        with_isolate(async |isolate, ids| {
            let pass = isolate.queue().await;
            for id in ids {
                isolate.state.invocations.borrow_mut().wait_until(id);
                isolate.state.fail(id, FailureCode::NoResponse);
                assert_eq!(code(isolate, id), Some(FailureCode::NoResponse));
                isolate.state.charge(Some(id), LIMIT * 2);
                assert_eq!(isolate.turn(&pass, Some(id), |_, _| -> Option<()> { unreachable!() }), Err(Stop::Limit));
            }
            assert_eq!((isolate.in_flight(), Rc::strong_count(isolate)), (0, 1));
        });
    }

    #[test]
    fn an_invocation_over_its_limit_that_ends_by_itself_is_answered_and_its_isolate_retires() {
        with_isolate(async |isolate, [one, other]| {
            isolate.state.charge(Some(one), LIMIT);
            assert!(!isolate.is_retired());
            isolate.state.charge(Some(one), Duration::from_millis(1));
            assert!(isolate.is_retired());
            assert_eq!((isolate.condemned(), code(isolate, one)), (None, None));
            let pass = isolate.queue().await;
            assert_eq!(isolate.turn(&pass, Some(other), |_, _| Some(())), Ok(()));
        });
    }

    #[test]
    fn an_invocation_that_has_nothing_left_gets_no_turn() {
        with_isolate(async |isolate, [one, _]| {
            isolate.state.charge(Some(one), LIMIT * 2);
            let pass = isolate.queue().await;
            assert_eq!(isolate.turn(&pass, Some(one), |_, _| -> Option<()> { unreachable!() }), Err(Stop::Limit));
            assert_eq!(code(isolate, one), Some(FailureCode::CpuLimitExceeded));
        });
    }
}
