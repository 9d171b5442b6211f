//! Tests to which shards the requests of a hot Worker go.

use std::cmp::Reverse;
use std::num::NonZeroUsize;

use http::{Method, StatusCode};
use tenon_proto::catalog::{WatchResponse, Worker};

use crate::harness::{Behavior, Client, Node, Options, Scenario, eventually, full, worker};

/// The host of the Worker, which differs from that of the scenario's first Worker.
const HOST: &str = "hot";

async fn get(client: &mut Client) -> StatusCode {
    let request = http::Request::builder().method(Method::GET).uri("/").header("host", HOST);
    client.send(request.body(full("")).unwrap()).await.unwrap().status
}

/// Starts two nodes that report that the Worker is hot. While the first node has a request that it
/// does not answer, sends ten further requests, and returns the number of them that the other node
/// gets.
async fn spread(strict_affinity: bool) -> usize {
    let mut nodes = [Node::start("n1", Behavior::Hot), Node::start("n2", Behavior::Hot)];
    // Each thread counts its own requests in flight.
    let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&[&nodes[0], &nodes[1]], options).await;
    let entry = Worker { strict_affinity, ..worker("shop/hot", HOST) };
    scenario.catalog.change(WatchResponse { workers: vec![entry], ..Default::default() });
    eventually("the Worker", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    let mut client = scenario.client().await;
    assert_eq!(get(&mut client).await, 200);
    nodes.sort_by_key(|node| Reverse(node.invocations()));
    let [home, other] = &nodes;
    home.behave(Behavior::Hang);
    let mut patient = scenario.client().await;
    let waiting = tokio::spawn(async move { get(&mut patient).await });
    eventually("the request that waits", || home.invocations() == 2).await;
    home.behave(Behavior::Hot);
    for _ in 0..10 {
        assert_eq!(get(&mut client).await, 200);
    }
    waiting.abort();
    let spilled = scenario.metric("tenon_router_spills_total", Some("hot"));
    assert_eq!(spilled, other.invocations() as f64);
    other.invocations()
}

#[tokio::test]
async fn a_hot_worker_gets_the_shard_with_the_fewest_requests() {
    assert_eq!(spread(false).await, 10);
}

#[tokio::test]
async fn a_worker_with_strict_affinity_stays_on_its_shard() {
    assert_eq!(spread(true).await, 0);
}
