//! The end of a node: invocations in flight finish, and new requests are told to go elsewhere.

use std::time::Duration;

use bytes::Bytes;
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{Stand, await_condition, trials};

trials! {
    an_idle_node_drains_at_once,
    a_drain_finishes_invocations_in_flight_and_refuses_new_ones,
    a_drain_waits_for_wait_until_work,
    a_drain_waits_for_evicted_isolates,
    a_drain_ends_when_its_grace_is_over,
}

const WAITS: &str = "await request.text(); return new Response('done')";

const LINGERS: &str = "ctx.waitUntil((async () => {
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      console.log('finished after its response');
    })());
    return new Response()";

async fn an_idle_node_drains_at_once(name: &'static str) {
    let mut stand =
        Stand::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let hello = stand.handler("hello", WAITS);
    stand.client().get(&hello).await.unwrap();
    stand.begin_drain();
    stand.join().await;
}

async fn a_drain_finishes_invocations_in_flight_and_refuses_new_ones(name: &'static str) {
    let mut stand =
        Stand::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let waits = stand.handler("waits", WAITS);
    let upload = stand.client().upload(&waits);
    stand.await_metric("tenon_shard_inflight", &[], 1).await;
    stand.begin_drain();

    // On a connection that is new to the node, and on one that is not.
    let newcomer = stand.client().another();
    for client in [&newcomer, stand.client(), &newcomer] {
        // The node notices the drain a moment after it begins, and may end a connection under a
        // request.
        let failure = loop {
            match client.get(&waits).await {
                Err(failure) if failure.code == FailureCode::Draining => break failure,
                _ => tokio::task::yield_now().await,
            }
        };
        assert_eq!(failure.phase, Phase::Admission);
    }
    assert_eq!(upload.end().await.unwrap().text(), "done");
    stand.join().await;
    assert!(stand.metric("tenon_shed_total", &[("reason", "draining")]) >= 3);
}

async fn a_drain_waits_for_wait_until_work(name: &'static str) {
    let mut stand =
        Stand::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let lingers = stand.handler("lingers", LINGERS);
    stand.client().get(&lingers).await.unwrap();
    stand.begin_drain();
    stand.join().await;
    assert!(stand.logged("finished after its response"));
}

async fn a_drain_waits_for_evicted_isolates(name: &'static str) {
    let mut stand =
        Stand::with(name, |config| config.drain.grace = Duration::from_secs(3600)).await;
    let body = format!("if (request.method === 'POST') for (;;); {LINGERS}");
    let lingers = stand.handler_with("lingers", &body, |limits| limits.cpu_ms = 100);
    stand.client().get(&lingers).await.unwrap();
    let failure = stand.client().post(&lingers, Bytes::new()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
    // Its successor is also stopped while it still has pending work.
    let other = stand.client().post(&lingers, Bytes::new()).await.unwrap_err();
    assert_eq!(other.code, FailureCode::CpuLimitExceeded);
    stand.await_metric("tenon_evictions_total", &[("reason", "condemned")], 2).await;
    stand.begin_drain();
    stand.join().await;
    assert!(stand.logged("finished after its response"));
}

async fn a_drain_ends_when_its_grace_is_over(name: &'static str) {
    let mut stand =
        Stand::with(name, |config| config.drain.grace = Duration::from_millis(200)).await;
    let waits = stand.handler("waits", WAITS);
    let mut upload = stand.client().upload(&waits);
    stand.await_metric("tenon_shard_inflight", &[], 1).await;
    stand.begin_drain();
    stand.join().await;
    let failure = upload.response().await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Internal, "the connection is gone: {failure}");
    await_condition("the line of the grace", || {
        crate::harness::log::lines().iter().any(|l| l.contains("grace"))
    })
    .await;
}
