//! Tests of a node's metrics about each Worker.

use tenon_proto::failure::FailureCode;

use crate::harness::{TestNode, trials};

trials! {
    the_metrics_of_a_worker_carry_its_name_and_usage,
    the_metrics_of_a_worker_outlive_its_stopped_isolate,
    a_shard_exports_metrics_of_its_turns_and_buffers,
}

async fn the_metrics_of_a_worker_carry_its_name_and_usage(name: &'static str) {
    let node = TestNode::start(name).await;
    let [one, other] =
        ["one", "other"].map(|name| node.handler(name, "return new Response('hello')"));
    for _ in 0..3 {
        node.client().get(&one).await.unwrap();
    }
    node.client().get(&other).await.unwrap();
    let of = |worker| [("worker", worker), ("code", "ok")];
    node.await_metric("tenon_worker_invocations_total", &of("one"), 3).await;
    node.await_metric("tenon_worker_invocations_total", &of("other"), 1).await;
    assert_eq!(
        node.metric("tenon_worker_cold_starts_total", &[("worker", "one"), ("revision", "one-1")]),
        1
    );
    node.await_any(
        "tenon_worker_memory_bytes",
        &[("worker", "one"), ("namespace", one.worker.namespace())],
    )
    .await;
}

async fn the_metrics_of_a_worker_outlive_its_stopped_isolate(name: &'static str) {
    let node = TestNode::start(name).await;
    let spins = node.handler_with("spins", "for (;;) {}", |limits| limits.cpu_ms = 10);
    let failure = node.client().get(&spins).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
    let stopped = [("worker", "spins"), ("code", "cpu_limit_exceeded")];
    node.await_metric("tenon_worker_invocations_total", &stopped, 1).await;
    assert!(node.client().get(&spins).await.is_err());
    node.await_metric("tenon_worker_invocations_total", &stopped, 2).await;
    node.await_metric("tenon_worker_cold_starts_total", &[("worker", "spins")], 2).await;
}

async fn a_shard_exports_metrics_of_its_turns_and_buffers(name: &'static str) {
    let node = TestNode::start(name).await;
    let hello = node.handler("hello", "return new Response()");
    node.client().get(&hello).await.unwrap();
    node.await_any("tenon_shard_turns_total", &[]).await;
    assert_eq!(node.metric("tenon_buffer_pool_blocks", &[]), 30);
}
