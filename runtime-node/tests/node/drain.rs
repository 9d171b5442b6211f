//! Tests of the drain of a node: invocations in flight finish, and new requests are refused.

use std::time::Duration;

use bytes::Bytes;
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{TestNode, await_condition, trials};

trials! {
    an_idle_node_drains_immediately,
    a_drain_finishes_invocations_in_flight_and_refuses_new_ones,
    a_drain_waits_for_wait_until_work,
    a_drain_waits_for_evicted_isolates,
    a_drain_ends_when_its_grace_period_ends,
}

const WAITS: &str = "await request.text(); return new Response('done')";

const LINGERS: &str = "ctx.waitUntil((async () => {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      console.log('finished after its response');
    })());
    return new Response()";

async fn an_idle_node_drains_immediately(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let hello = node.handler("hello", WAITS);
    node.client().get(&hello).await.unwrap();
    node.begin_drain();
    node.join().await;
}

async fn a_drain_finishes_invocations_in_flight_and_refuses_new_ones(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let waits = node.handler("waits", WAITS);
    let upload = node.client().upload(&waits);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    node.begin_drain();

    // The clients use a connection that is new to the node, and a connection that is not.
    let newcomer = node.client().another();
    for client in [&newcomer, node.client(), &newcomer] {
        // The shard learns of the drain with a delay, and may end a connection during a request.
        let failure = loop {
            match client.get(&waits).await {
                Err(failure) if failure.code == FailureCode::Draining => break failure,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(failure.phase, Phase::Admission);
    }
    assert_eq!(upload.end().await.unwrap().text(), "done");
    node.join().await;
    assert!(node.metric("tenon_shed_total", &[("reason", "draining")]) >= 3);
}

async fn a_drain_waits_for_wait_until_work(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let lingers = node.handler("lingers", LINGERS);
    node.client().get(&lingers).await.unwrap();
    node.begin_drain();
    node.join().await;
    assert!(node.logged("finished after its response"));
}

async fn a_drain_waits_for_evicted_isolates(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let body = format!("if (request.method === 'POST') for (;;); {LINGERS}");
    let lingers = node.handler_with("lingers", &body, |limits| limits.cpu_ms = 100);
    node.client().get(&lingers).await.unwrap();
    let failure = node.client().post(&lingers, Bytes::new()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
    // The next isolate is stopped as well, while the first one still has pending work.
    let other = node.client().post(&lingers, Bytes::new()).await.unwrap_err();
    assert_eq!(other.code, FailureCode::CpuLimitExceeded);
    node.await_metric("tenon_evictions_total", &[("reason", "condemned")], 2).await;
    node.begin_drain();
    node.join().await;
    assert!(node.logged("finished after its response"));
}

async fn a_drain_ends_when_its_grace_period_ends(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_millis(200)).await;
    let waits = node.handler("waits", WAITS);
    let mut upload = node.client().upload(&waits);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    node.begin_drain();
    node.join().await;
    let failure = upload.response().await.unwrap_err();
    assert_eq!(
        failure.code,
        FailureCode::Internal,
        "the request did not end with its connection: {failure}"
    );
    await_condition("a log line about the grace period", || {
        crate::harness::log::lines().iter().any(|l| l.contains("grace"))
    })
    .await;
}
