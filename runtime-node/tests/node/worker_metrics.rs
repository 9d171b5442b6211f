//! A node's metrics about each Worker.

use tenon_proto::failure::FailureCode;

use crate::harness::{Stand, trials};

trials! {
    the_metrics_of_a_worker_carry_its_name_and_usage,
    the_metrics_of_a_worker_outlive_its_stopped_isolate,
    a_shard_exports_metrics_of_its_turns_and_buffers,
}

async fn the_metrics_of_a_worker_carry_its_name_and_usage(name: &'static str) {
    let stand = Stand::start(name).await;
    let [one, other] =
        ["one", "other"].map(|name| stand.handler(name, "return new Response('hello')"));
    for _ in 0..3 {
        stand.client().get(&one).await.unwrap();
    }
    stand.client().get(&other).await.unwrap();
    let of = |worker| [("worker", worker), ("code", "ok")];
    stand.await_metric("tenon_worker_invocations_total", &of("one"), 3).await;
    stand.await_metric("tenon_worker_invocations_total", &of("other"), 1).await;
    assert_eq!(
        stand.metric("tenon_worker_cold_starts_total", &[("worker", "one"), ("revision", "one-1")]),
        1
    );
    stand
        .await_any(
            "tenon_worker_memory_bytes",
            &[("worker", "one"), ("namespace", one.worker.namespace())],
        )
        .await;
}

async fn the_metrics_of_a_worker_outlive_its_stopped_isolate(name: &'static str) {
    let stand = Stand::start(name).await;
    let spins = stand.handler_with("spins", "for (;;) {}", |limits| limits.cpu_ms = 10);
    let failure = stand.client().get(&spins).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
    let stopped = [("worker", "spins"), ("code", "cpu_limit_exceeded")];
    stand.await_metric("tenon_worker_invocations_total", &stopped, 1).await;
    assert!(stand.client().get(&spins).await.is_err());
    stand.await_metric("tenon_worker_invocations_total", &stopped, 2).await;
    stand.await_metric("tenon_worker_cold_starts_total", &[("worker", "spins")], 2).await;
}

async fn a_shard_exports_metrics_of_its_turns_and_buffers(name: &'static str) {
    let stand = Stand::start(name).await;
    let hello = stand.handler("hello", "return new Response()");
    stand.client().get(&hello).await.unwrap();
    stand.await_any("tenon_shard_turns_total", &[]).await;
    assert_eq!(stand.metric("tenon_buffer_pool_blocks", &[]), 30);
}
