//! Tests how a shard measures the time for which Workers occupy their thread.

use std::rc::Rc;
use std::time::Duration;

use crate::harness::{Shard, trials};

trials! {
    the_longest_turn_is_the_longest_blocking_time_until_it_is_read,
    a_start_is_measured,
    a_long_collection_is_distinguished_from_a_long_computation,
    a_collection_that_a_shard_requests_is_measured,
}

/// JavaScript that computes for at least about ten milliseconds.
const COUNTS: &str = "let n = 0; for (let i = 0; i < 3e7; i++) n += i & 3;";

async fn the_longest_turn_is_the_longest_blocking_time_until_it_is_read(shard: Rc<Shard>) {
    let worker = shard.handler(&format!(
        "if (request.url.endsWith('/long')) {{ {COUNTS} return new Response(n) }} return new Response()"
    ));
    let worker = worker.limits(|limits| limits.cpu_ms = 10_000).start().await.unwrap();
    worker.0.longest_blocking_time();
    worker.get("/long").await.unwrap();
    worker.get("/").await.unwrap();
    let long = worker.0.longest_blocking_time();
    worker.get("/").await.unwrap();
    let short = worker.0.longest_blocking_time();
    assert!(!short.is_zero() && long > short * 2, "{long:?}, {short:?}");
    assert_eq!(worker.0.longest_blocking_time(), Duration::ZERO);
}

async fn a_start_is_measured(shard: Rc<Shard>) {
    let busy = shard.worker(&format!("{COUNTS} export default {{ fetch: () => new Response(n) }}"));
    let busy = busy.limits(|limits| limits.startup_ms = 10_000).start().await.unwrap();
    let light = shard.handler("return new Response()").start().await.unwrap();
    let (busy, light) = (busy.0.longest_blocking_time(), light.0.longest_blocking_time());
    assert!(!light.is_zero() && busy > light, "{busy:?}, {light:?}");
}

/// The Worker uses a chain of keys, each reachable only through the value before it, so that one
/// collection goes through the table many times.
async fn a_long_collection_is_distinguished_from_a_long_computation(shard: Rc<Shard>) {
    let collects = "
        const map = globalThis.map = new WeakMap();
        const keys = Array.from({ length: 100_000 }, () => ({}));
        for (let i = keys.length - 1; i > 0; i--) map.set(keys[i - 1], keys[i]);
        globalThis.first = keys[0];
        keys.length = 1;
        for (let i = 0; i < 100; i++) globalThis.kept = new Array(100_000).fill(i);
        return new Response()";
    let collects =
        shard.handler(collects).limits(|limits| limits.cpu_ms = 60_000).start().await.unwrap();
    collects.0.longest_collection();
    collects.get("/").await.unwrap();
    let collection = collects.0.longest_collection();
    let turn = collects.0.longest_blocking_time();
    assert!(!collection.cpu.is_zero() && collection.cpu < turn, "{collection:?} in {turn:?}");
    assert_eq!(collects.0.longest_collection().cpu, Duration::ZERO);

    let counts = shard.handler(&format!("{COUNTS} return new Response(n)"));
    let counts = counts.limits(|limits| limits.cpu_ms = 10_000).start().await.unwrap();
    counts.get("/").await.unwrap();
    let (collection, turn) = (counts.0.longest_collection(), counts.0.longest_blocking_time());
    assert!(collection.cpu * 4 < turn, "{collection:?} in {turn:?}");
}

async fn a_collection_that_a_shard_requests_is_measured(shard: Rc<Shard>) {
    let worker = shard.worker(
        "const kept = Array.from({ length: 50_000 }, (_, i) => ({ i })); export default { fetch: () => new Response(kept.length) }",
    );
    let worker = worker.start().await.unwrap();
    worker.get("/").await.unwrap();
    let _ = (worker.0.longest_blocking_time(), worker.0.longest_collection());
    worker.0.idle().await;
    worker.0.collect().expect("the idle, small isolate was not collected");
    let (collection, blocking) = (worker.0.longest_collection(), worker.0.longest_blocking_time());
    assert!(
        !collection.cpu.is_zero() && blocking >= collection.cpu,
        "{collection:?} in {blocking:?}"
    );
}
