//! Tests the ways in which a turn ends, and the result of each.

use futures::FutureExt as _;
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::revision::{Limits, Revision};
use tokio::task::LocalSet;

use super::*;
use crate::callbacks::{Callback, contain};
use crate::invocation::Invocation;
use crate::isolate::deliver::invoke;
use crate::testing::NoInterfaces;
use crate::{Engine, Watchdog};

const LIMIT: Duration = Duration::from_millis(50);

fn revision() -> Revision {
    Revision::from_source(WorkerId::new("default", "hello"), "export default { fetch: () => {} }")
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
        let ids = [(); 2]
            .map(|()| isolate.state.begin(Invocation::new(Event::Fetch, String::new(), LIMIT, 0)));
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
        let result =
            isolate.turn(&pass, Some(one), |_, _| -> Option<()> { panic!("a defect of the node") });
        assert_eq!(result, Err(Stop::Limit));
        assert_eq!(isolate.condemned(), Some(FailureCode::Internal));
        assert_eq!([one, other].map(|id| code(isolate, id)), [Some(FailureCode::Internal); 2]);
        assert_eq!(isolate.turn(&pass, Some(other), |_, _| Some(())), Err(Stop::NotBegun));
    });
}

#[test]
fn an_invocation_that_begins_in_a_sealed_isolate_fails_immediately() {
    with_isolate(async |isolate, _| {
        isolate.state.seal(FailureCode::MemoryLimitExceeded);
        for event in [Event::Start, Event::Fetch] {
            let invocation = Invocation::new(event, String::new(), LIMIT, 0);
            let outcome =
                invoke(isolate, isolate.queue().await, None, invocation, |_, _, _| unreachable!());
            let code = outcome.now_or_never().map(|outcome| outcome.unwrap_err().code);
            assert_eq!(code, Some(FailureCode::MemoryLimitExceeded), "{event:?}");
        }
    });
}

#[test]
fn a_panic_in_a_native_function_does_not_return_to_the_worker() {
    with_isolate(async |isolate, [one, other]| {
        let pass = isolate.queue().await;
        let result = isolate.turn(&pass, Some(one), |scope, _| {
            let global = scope.get_current_context().global(scope);
            let key = v8::String::new(scope, "panics")?;
            let panics = v8::Function::builder(
                |scope: &mut v8::PinScope<'_, '_>,
                 _: v8::FunctionCallbackArguments<'_>,
                 _: v8::ReturnValue<'_>| {
                    let _ = contain(scope, Callback::Op, |_| panic!("a defect of the node"));
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
fn a_heap_filled_between_turns_ends_all_invocations_of_the_isolate() {
    with_isolate(async |isolate, ids| {
        // Each invocation has its outcome and continues.
        for id in ids {
            isolate.state.invocations.borrow_mut().wait_until(id);
            isolate.state.fail(id, FailureCode::NoResponse);
            assert_eq!(code(isolate, id), Some(FailureCode::NoResponse));
        }
        let text = "x".repeat(1 << 20);
        let filled = isolate.enter(|scope, _| {
            (0..2 * Limits::default().memory_mib)
                .try_for_each(|_| v8::String::new(scope, &text).map(|_| ()))
        });
        assert_eq!((filled, isolate.condemned()), (None, Some(FailureCode::MemoryLimitExceeded)));
        assert_eq!((isolate.in_flight(), Rc::strong_count(isolate)), (0, 1));
        assert_eq!(isolate.memory_bytes(), 0, "the heap has not been freed");
    });
}

#[test]
fn invocations_without_cpu_time_left_do_not_keep_the_isolate() {
    with_isolate(async |isolate, ids| {
        let pass = isolate.queue().await;
        for id in ids {
            isolate.state.invocations.borrow_mut().wait_until(id);
            isolate.state.fail(id, FailureCode::NoResponse);
            assert_eq!(code(isolate, id), Some(FailureCode::NoResponse));
            isolate.state.charge(Some(id), LIMIT * 2);
            assert_eq!(
                isolate.turn(&pass, Some(id), |_, _| -> Option<()> { unreachable!() }),
                Err(Stop::Limit)
            );
        }
        assert_eq!((isolate.in_flight(), Rc::strong_count(isolate)), (0, 1));
    });
}

#[test]
fn an_invocation_slightly_beyond_its_limit_retires_its_isolate() {
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
fn an_invocation_without_cpu_time_left_gets_no_turn() {
    with_isolate(async |isolate, [one, _]| {
        isolate.state.charge(Some(one), LIMIT * 2);
        let pass = isolate.queue().await;
        assert_eq!(
            isolate.turn(&pass, Some(one), |_, _| -> Option<()> { unreachable!() }),
            Err(Stop::Limit)
        );
        assert_eq!(code(isolate, one), Some(FailureCode::CpuLimitExceeded));
    });
}
