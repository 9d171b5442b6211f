//! Tests of Workers that exceed a limit: the process continues, the failure names the limit, and
//! neighbors are unaffected.

use std::cell::RefCell;
use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{Loaded, Shard, Text as _, trials};

trials! {
    a_loop_ends_at_the_cpu_limit_wherever_it_is,
    a_loop_that_the_optimizer_has_unrolled_ends_at_the_cpu_limit,
    catch_and_finally_blocks_do_not_outlast_the_cpu_limit,
    the_cpu_limit_applies_to_the_sum_of_all_turns_of_an_invocation,
    waiting_does_not_use_cpu_time,
    a_condemned_isolate_finishes_its_other_invocations,
    a_termination_never_reaches_the_next_turn,
    a_loop_after_the_response_ends_at_the_cpu_limit,
    floods_of_microtasks_and_timers_end_at_the_cpu_limit,
    a_backlog_of_long_turns_does_not_run_ahead_of_a_neighbor,
}

async fn a_loop_ends_at_the_cpu_limit_wherever_it_is(shard: Rc<Shard>) {
    let loops = [
        "for (;;);",
        "await null; for (;;);",
        "await new Promise((resolve) => setTimeout(resolve, 1)); for (;;);",
        "setTimeout(() => { for (;;); }, 1); await new Promise((resolve) => setTimeout(resolve, 1e6))",
        "queueMicrotask(() => { for (;;); }); await new Promise(() => {})",
        "Promise.resolve().then(function f() { return Promise.resolve().then(f) }); await new Promise(() => {})",
        "/(a*)*b/.test('a'.repeat(40))",
        "[...Array(1e5).keys()].sort(() => { for (;;); })",
        "JSON.stringify({ toJSON() { for (;;); } })",
        "new Proxy({}, { get() { for (;;); } }).x",
        "class E extends Error { get stack() { for (;;); } } throw new E()",
        "throw { toString() { for (;;); } }",
        "throw Object.defineProperty(new Error(), 'stack', { get() { for (;;); } })",
        "Error.prepareStackTrace = () => { for (;;); }; throw new Error()",
        "return { get then() { for (;;); } }",
        "console.log({ get [Symbol.toStringTag]() { for (;;); } }); for (;;);",
        "2n ** (2n ** 26n) ** 2n; for (;;);",
        "eval('for (;;);')",
        "new Headers({ get a() { for (;;); } })",
        "new Response('', { get status() { for (;;); } })",
    ];
    for code in loops {
        let worker = shard.handler(code).limits(|limits| limits.cpu_ms = 30);
        let failure = worker.get().await.expect_err(code);
        // The code that describes a thrown value loops, but the engine may describe the value
        // without running that code.
        let allowed: &[FailureCode] = if code.contains("throw") {
            &[FailureCode::CpuLimitExceeded, FailureCode::WorkerException]
        } else if code.contains("2n") {
            &[
                FailureCode::CpuLimitExceeded,
                FailureCode::WorkerException,
                FailureCode::MemoryLimitExceeded,
            ]
        } else {
            &[FailureCode::CpuLimitExceeded]
        };
        assert!(allowed.contains(&failure.code), "{code}: {failure}");
        assert_eq!(failure.phase, Phase::Handler);
    }
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_loop_that_the_optimizer_has_unrolled_ends_at_the_cpu_limit(shard: Rc<Shard>) {
    let worker =
        shard.handler("for (;;) new Array(1000).fill(1)").limits(|limits| limits.cpu_ms = 1_500);
    assert_eq!(worker.failure().await, (FailureCode::CpuLimitExceeded, Phase::Handler));
}

async fn catch_and_finally_blocks_do_not_outlast_the_cpu_limit(shard: Rc<Shard>) {
    let stubborn = [
        "for (;;) { try { for (;;); } catch { } }",
        "for (;;) { try { for (;;); } finally { continue } }",
        "try { for (;;); } finally { return new Response('escaped') }",
        "const again = async () => { try { for (;;); } finally { again() } }; again()",
        "await (async () => { try { for (;;); } catch {} })().catch(() => {}); return new Response('escaped')",
        "function* g() { try { for (;;); } finally { yield 1 } } for (const x of g());",
        "new Promise(() => { for (;;); }).then(() => 1, () => 2); return new Response('escaped')",
    ];
    for code in stubborn {
        let worker = shard.handler(code).limits(|limits| limits.cpu_ms = 30).start().await.unwrap();
        let failure = worker.get("/").await.expect_err(code);
        assert_eq!(failure.code, FailureCode::CpuLimitExceeded, "{code}");
        assert_eq!(worker.0.condemned(), Some(FailureCode::CpuLimitExceeded), "{code}");
        assert_eq!(worker.0.in_flight(), 0);
    }
    shard.expect_a_neighbor_to_answer().await;
}

async fn the_cpu_limit_applies_to_the_sum_of_all_turns_of_an_invocation(shard: Rc<Shard>) {
    let worker = shard.handler(
        "for (;;) {
           for (let i = 0; i < 2e6; i++);
           await new Promise((resolve) => setTimeout(resolve, 0));
         }",
    );
    assert_eq!(worker.failure().await, (FailureCode::CpuLimitExceeded, Phase::Handler));
}

async fn waiting_does_not_use_cpu_time(shard: Rc<Shard>) {
    let worker = shard.handler(
        "await new Promise((resolve) => setTimeout(resolve, 300)); return new Response('woken')",
    );
    assert_eq!(worker.limits(|limits| limits.cpu_ms = 50).get().await.unwrap().text(), "woken");
}

async fn a_condemned_isolate_finishes_its_other_invocations(shard: Rc<Shard>) {
    let worker = shard.worker(
        "export default { async fetch(request) {
           if (request.url.endsWith('/loop')) for (;;);
           await new Promise((resolve) => setTimeout(resolve, 150));
           return new Response('finished');
         } }",
    );
    let worker = worker.start().await.unwrap();
    let (slow, looping) = tokio::join!(worker.get("/slow"), worker.get("/loop"));
    assert_eq!(looping.unwrap_err().code, FailureCode::CpuLimitExceeded);
    assert_eq!(worker.0.condemned(), Some(FailureCode::CpuLimitExceeded));
    assert_eq!(slow.unwrap().text(), "finished");
}

async fn a_termination_never_reaches_the_next_turn(shard: Rc<Shard>) {
    let well = shard
        .handler("for (let i = 0; i < 1e4; i++); return new Response('well')")
        .start()
        .await
        .unwrap();
    for _ in 0..20 {
        let looping =
            shard.handler("for (;;);").limits(|limits| limits.cpu_ms = 5).start().await.unwrap();
        assert_eq!(looping.get("/").await.unwrap_err().code, FailureCode::CpuLimitExceeded);
        for _ in 0..20 {
            assert_eq!(well.get("/").await.unwrap().text(), "well");
        }
    }
}

async fn a_loop_after_the_response_ends_at_the_cpu_limit(shard: Rc<Shard>) {
    let worker = shard.handler(
        "ctx.waitUntil(new Promise((resolve) => setTimeout(() => { for (;;); }, 1))); return new Response('early')",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 30).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "early");
    worker.0.idle().await;
    assert!(shard.logged("cpu_limit_exceeded"), "{:?}", shard.log());
    assert_eq!(worker.0.condemned(), Some(FailureCode::CpuLimitExceeded));
}

async fn floods_of_microtasks_and_timers_end_at_the_cpu_limit(shard: Rc<Shard>) {
    let floods = [
        "const f = () => { setTimeout(f, 0); setTimeout(f, 0) }; f(); await new Promise(() => {})",
        "const f = async () => { await null; f(); f() }; f(); await new Promise(() => {})",
        "setInterval(() => {}, 0); const f = () => Promise.resolve().then(f); setTimeout(f); await new Promise(() => {})",
    ];
    for code in floods {
        let worker = shard.handler(code).limits(|limits| limits.cpu_ms = 50);
        let failure = worker.get().await.expect_err(code);
        assert!(
            [FailureCode::CpuLimitExceeded, FailureCode::MemoryLimitExceeded]
                .contains(&failure.code),
            "{code}: {failure}"
        );
    }
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_backlog_of_long_turns_does_not_run_ahead_of_a_neighbor(shard: Rc<Shard>) {
    let long = shard.handler("for (let i = 0; i < 2e7; i++); return new Response()");
    let long = Rc::new(long.limits(|limits| limits.cpu_ms = 60_000).start().await.unwrap());
    let neighbor = Rc::new(shard.handler("return new Response()").start().await.unwrap());
    // From now on, the engine knows that this Worker has long turns.
    long.get("/").await.unwrap();
    let answered = Rc::new(RefCell::new(Vec::new()));
    let request = |name: &'static str, worker: &Rc<Loaded>| {
        let (worker, answered) = (Rc::clone(worker), Rc::clone(&answered));
        tokio::task::spawn_local(async move {
            worker.get("/").await.unwrap();
            answered.borrow_mut().push(name);
        })
    };
    let backlog: Vec<_> =
        (0..5).map(|_| request("long", &long)).chain([request("neighbor", &neighbor)]).collect();
    for request in backlog {
        request.await.unwrap();
    }
    let place = answered.borrow().iter().position(|name| *name == "neighbor");
    assert!(place.is_some_and(|place| place <= 1), "{:?}", answered.borrow());
}
