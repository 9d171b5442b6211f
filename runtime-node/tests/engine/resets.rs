//! Tests of Workers whose state is reset, so that no invocation sees the state of another.

use std::rc::Rc;

use futures::future::join_all;
use tenon_proto::failure::{FailureCode, Phase};
use tenon_proto::revision::StatePolicy;

use crate::harness::{Shard, Text as _, Worker, await_condition, trials};

trials! {
    each_invocation_has_its_own_global_variables,
    concurrent_invocations_do_not_see_each_other,
    changes_to_built_in_prototypes_do_not_outlive_an_invocation,
    modules_are_evaluated_again_for_each_invocation,
    work_after_the_response_continues_in_its_own_realm,
    an_import_by_a_finalizer_of_an_ended_realm_settles,
    a_realm_that_fails_to_start_fails_only_its_invocation,
    realms_that_have_served_are_collected,
    a_heap_filled_by_one_invocation_condemns_the_isolate,
    a_heap_filled_by_realms_that_linger_condemns_the_isolate,
}

fn resetting(worker: Worker) -> Worker {
    worker.state(StatePolicy::Reset)
}

async fn each_invocation_has_its_own_global_variables(shard: Rc<Shard>) {
    let source = "let n = 0; export default { fetch: () => new Response(`${++n} ${globalThis.m = (globalThis.m ?? 0) + 1}`) }";
    let worker = resetting(shard.worker(source)).start().await.unwrap();
    for _ in 0..5 {
        assert_eq!(worker.get("/").await.unwrap().text(), "1 1");
    }
}

async fn concurrent_invocations_do_not_see_each_other(shard: Rc<Shard>) {
    let source = "let seen = []; export default { async fetch(request) {
        seen.push(new URL(request.url).pathname);
        await new Promise((resolve) => setTimeout(resolve, 2));
        return new Response(seen.join());
    } }";
    let worker = resetting(shard.worker(source)).start().await.unwrap();
    let paths: Vec<String> = (0..10).map(|n| format!("/{n}")).collect();
    let answers = join_all(paths.iter().map(|path| worker.get(path))).await;
    for (path, answer) in paths.iter().zip(answers) {
        assert_eq!(answer.unwrap().text(), path);
    }
}

async fn changes_to_built_in_prototypes_do_not_outlive_an_invocation(shard: Rc<Shard>) {
    let source = "export default { fetch() {
        const found = [].tampered ?? 'nothing';
        Array.prototype.tampered = 'something'; globalThis.Response.tampered = true;
        return new Response(found + String(Response.tampered));
    } }";
    let worker = resetting(shard.worker(source)).start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(worker.get("/").await.unwrap().text(), "nothingtrue");
    }
}

async fn modules_are_evaluated_again_for_each_invocation(shard: Rc<Shard>) {
    let modules = [
        (
            "worker.js",
            "export default { async fetch() { return new Response((await import('./lib/counts.js')).count()) } }",
        ),
        ("lib/counts.js", "let n = 0; export const count = () => `${++n} in ${import.meta.url}`"),
    ];
    let worker = resetting(shard.modules(&modules)).start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(worker.get("/").await.unwrap().text(), "1 in file:///lib/counts.js");
    }
}

async fn work_after_the_response_continues_in_its_own_realm(shard: Rc<Shard>) {
    let source = "let n = 0; export default { fetch(request, env, ctx) {
        n += 1;
        ctx.waitUntil((async () => {
            for (let i = 0; i < 3; i++) await new Promise((resolve) => setTimeout(resolve, 1));
            console.log('after', ++n);
        })());
        return new Response();
    } }";
    let worker = resetting(shard.worker(source)).start().await.unwrap();
    for _ in 0..3 {
        worker.get("/").await.unwrap();
    }
    worker.0.idle().await;
    assert_eq!(
        shard.log().iter().filter(|line| line.ends_with("after 2")).count(),
        3,
        "{:?}",
        shard.log()
    );
}

async fn an_import_by_a_finalizer_of_an_ended_realm_settles(shard: Rc<Shard>) {
    // Finalizers run when the heap is collected, in the turn of their realm's invocation or in a
    // later one.
    let modules = [
        ("worker.js", "export default { fetch() {
            const registry = new FinalizationRegistry(() => import('./other.js').then(() => console.log('imported'), (error) => console.log(error.message)));
            registry.register({}, 0);
            new Array(1e5).fill(0).map((_, i) => ({ i }));
            return new Response('held');
        } }"),
        ("other.js", ""),
    ];
    let worker = resetting(shard.modules(&modules))
        .limits(|limits| limits.cpu_ms = 5_000)
        .start()
        .await
        .unwrap();
    for _ in 0..20 {
        assert_eq!(worker.get("/").await.unwrap().text(), "held");
    }
    let answered =
        |line: &String| line.ends_with("imported") || line.contains("The invocation has ended");
    assert!(shard.log().iter().all(answered), "{:?}", shard.log());
}

async fn a_realm_that_fails_to_start_fails_only_its_invocation(shard: Rc<Shard>) {
    // The realms of an isolate differ only in the results of `Math.random()`.
    let source = "if (Math.random() < 0.5) throw new Error('tails'); export default { fetch: () => new Response('heads') }";
    let worker = loop {
        if let Ok(worker) = resetting(shard.worker(source)).start().await {
            break worker;
        }
    };
    let answers = join_all((0..40).map(|_| worker.get("/"))).await;
    let failures: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(!failures.is_empty() && failures.len() < 40);
    for failure in failures {
        assert_eq!((failure.code, failure.phase), (FailureCode::WorkerStartFailed, Phase::Start));
    }
    assert_eq!(worker.0.condemned(), None);
}

async fn realms_that_have_served_are_collected(shard: Rc<Shard>) {
    let source = "globalThis.kept = new Array(1e5).fill('kept'); export default { fetch: () => new Response('well') }";
    let worker = resetting(shard.worker(source))
        .limits(|limits| limits.memory_mib = 64)
        .start()
        .await
        .unwrap();
    for _ in 0..300 {
        assert_eq!(worker.get("/").await.unwrap().text(), "well");
    }
    await_condition("the end of the last start", || worker.0.in_flight() == 0).await;
    assert!(worker.0.memory_bytes() < 64 << 20);
}

async fn a_heap_filled_by_one_invocation_condemns_the_isolate(shard: Rc<Shard>) {
    let source = "export default { fetch(request) {
        if (request.url.endsWith('/grows')) for (const kept = [];;) kept.push(new Array(1e5).fill(0));
        return new Response('well');
    } }";
    let worker = resetting(shard.worker(source))
        .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (32, 20_000));
    let worker = worker.start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "well");
    assert_eq!(worker.get("/grows").await.unwrap_err().code, FailureCode::MemoryLimitExceeded);
    assert_eq!(worker.0.condemned(), Some(FailureCode::MemoryLimitExceeded));
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_heap_filled_by_realms_that_linger_condemns_the_isolate(shard: Rc<Shard>) {
    // Different sizes fill the heap at different steps of the creation of the next realm.
    for size in [0, 100, 200, 400, 700, 1_000, 3_333, 33_000] {
        let source = format!(
            "export default {{ fetch(request, env, ctx) {{
                globalThis.kept = new Array({size}).fill(0).map((_, i) => [i]);
                ctx.waitUntil(new Promise((resolve) => setTimeout(resolve, 1e6)));
                return new Response('well');
            }} }}"
        );
        let worker = resetting(shard.worker(&source))
            .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (16, 20_000));
        let worker = worker.start().await.unwrap();
        let mut served = 0;
        let failure = loop {
            match worker.get("/").await {
                Ok(_) => served += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure.code, FailureCode::MemoryLimitExceeded, "{size} after {served}");
        assert_eq!(
            worker.0.condemned(),
            Some(FailureCode::MemoryLimitExceeded),
            "{size} after {served}"
        );
        assert_eq!(worker.0.in_flight(), 0);
    }
    shard.expect_a_neighbor_to_answer().await;
}
