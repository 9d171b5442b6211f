//! Tests nodes that refuse requests, drain, or end.

use http::Method;
use tenon_proto::catalog::{WatchResponse, Worker, node::State};
use tenon_proto::failure::FailureCode;

use crate::harness::{Behavior, Node, Scenario, eventually, full, worker};

/// Starts two nodes, and returns the Worker's pinned node first.
async fn pinned_first(behavior: Behavior) -> (Scenario, Node, Node) {
    let nodes = [Node::start("n1", behavior.clone()), Node::start("n2", behavior)];
    let scenario = Scenario::with(&nodes.each_ref()).await;
    let pin = scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    let [one, two] = nodes;
    if one.name() == &*pin.node { (scenario, one, two) } else { (scenario, two, one) }
}

#[tokio::test]
async fn a_node_without_a_listener_is_avoided_and_then_ejected() {
    let (scenario, mut first, second) = pinned_first(Behavior::Echo).await;
    first.kill();
    let mut client = scenario.client().await;
    for _ in 0..5 {
        assert_eq!(client.post("/", "x").await.header("observed-node"), second.name());
    }
    assert_eq!(scenario.metric("tenon_router_ejections_total", None), 1.0);
    assert_eq!(
        scenario.metric("tenon_router_retries_total", Some("unreachable")),
        2.0,
        "the shard was not ejected after two failures"
    );
    let spills = |why| scenario.metric("tenon_router_spills_total", Some(why));
    assert_eq!(
        (spills("failed"), spills("ejected")),
        (2.0, 3.0),
        "the five requests were not counted once each"
    );
    assert_eq!(scenario.metric("tenon_router_ejected_shards", None), 1.0);
}

#[tokio::test]
async fn an_ejected_node_is_used_again_after_its_return() {
    let (scenario, mut first, _second) = pinned_first(Behavior::Echo).await;
    let (name, addr) = (first.name().to_owned(), first.addr());
    first.kill();
    let mut client = scenario.client().await;
    for _ in 0..3 {
        client.get("/").await;
    }
    assert_eq!(scenario.metric("tenon_router_ejections_total", None), 1.0);
    let restarted = Node::start_at(&name, Behavior::Echo, addr);
    while client.get("/").await.header("observed-node") != restarted.name() {
        tokio::task::yield_now().await;
    }
    assert_eq!(scenario.metric("tenon_router_ejected_shards", None), 0.0);
}

#[tokio::test]
async fn a_draining_node_refuses_once_and_requests_go_to_another_node() {
    let (scenario, first, second) = pinned_first(Behavior::Echo).await;
    first.behave(Behavior::Refuse(FailureCode::Draining));
    let mut client = scenario.client().await;
    for _ in 0..5 {
        assert_eq!(client.post("/", "x").await.header("observed-node"), second.name());
    }
    assert_eq!(first.invocations(), 1, "the draining node did not get exactly one request");
    assert_eq!(scenario.metric("tenon_router_spills_total", Some("draining")), 5.0);
}

#[tokio::test]
async fn a_node_draining_according_to_the_catalog_gets_no_requests() {
    let (scenario, first, second) = pinned_first(Behavior::Echo).await;
    let mut client = scenario.client().await;
    client.get("/").await;
    let mut entry = first.entry();
    entry.set_state(State::Draining);
    scenario.catalog.change(WatchResponse { nodes: vec![entry], ..Default::default() });
    let pinned = || scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    eventually("the Worker to move", || &*pinned().node == second.name()).await;
    assert_eq!(client.get("/").await.header("observed-node"), second.name());
    assert_eq!(first.invocations(), 1);
}

#[tokio::test]
async fn a_request_leaves_an_overloaded_node_and_fails_in_an_overloaded_pool() {
    let (scenario, first, second) = pinned_first(Behavior::Echo).await;
    first.behave(Behavior::Refuse(FailureCode::Overloaded));
    let mut client = scenario.client().await;
    assert_eq!(client.post("/", "x").await.header("observed-node"), second.name());
    assert_eq!(scenario.metric("tenon_router_spills_total", Some("overloaded")), 1.0);
    second.behave(Behavior::Refuse(FailureCode::Overloaded));
    let answer = client.post("/", "x").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "overloaded".into()));
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn an_idempotent_request_whose_node_is_lost_is_repeated_on_another_node() {
    let (scenario, mut first, second) = pinned_first(Behavior::Echo).await;
    first.behave(Behavior::Hang);
    let mut client = scenario.client().await;
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the invocation to begin", || first.invocations() == 1).await;
    first.kill();
    assert_eq!(response.await.unwrap().header("observed-node"), second.name());
    assert_eq!(scenario.metric("tenon_router_retries_total", Some("node_lost")), 1.0);
}

#[tokio::test]
async fn a_non_idempotent_request_that_may_have_run_is_not_repeated() {
    let (scenario, mut first, second) = pinned_first(Behavior::Hang).await;
    let mut client = scenario.client().await;
    let response = tokio::spawn(async move { client.post("/", "x").await });
    eventually("the invocation to begin", || first.invocations() == 1).await;
    first.kill();
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (502, "node_lost".into()));
    assert_eq!(second.invocations(), 0);
}

#[tokio::test]
async fn a_response_whose_node_is_lost_in_the_middle_ends_with_an_error() {
    let (scenario, mut first, second) = pinned_first(Behavior::HalfAnswer).await;
    let mut client = scenario.client().await;
    let request = client.request(Method::GET, "/").body(full("")).unwrap();
    let response = client.open(request).await.unwrap();
    first.kill();
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(body.is_err(), "half of a body was accepted as a whole one");
    assert_eq!(second.invocations(), 0, "another node continued a response that had begun");
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_invocation() {
    let (scenario, first, _second) = pinned_first(Behavior::Hang).await;
    let mut client = scenario.client().await;
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the invocation to begin", || first.invocations() == 1).await;
    response.abort();
    eventually("the invocation to end", || first.dropped() == 1).await;
}

#[tokio::test]
async fn a_request_to_a_node_that_never_responds_times_out() {
    let node = Node::start("n1", Behavior::Hang);
    let scenario = Scenario::with(&[&node]).await;
    let hasty = Worker { wall_ms: 1, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse {
        workers: vec![hasty, worker("shop/till", "till")],
        ..Default::default()
    });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 2.0)
        .await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (504, "wall_limit_exceeded".into()));
    assert_eq!(node.invocations(), 1);
    eventually("the invocation to end", || node.dropped() == 1).await;
}

#[tokio::test]
async fn the_only_node_is_reconnected_when_its_successor_listens() {
    let mut node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    assert_eq!(client.post("/", "x").await.status, 200);
    node.kill();
    let _restarted = Node::start_at("n1", Behavior::Echo, node.addr());
    assert_eq!(client.post("/", "x").await.status, 200);
}

#[tokio::test]
async fn a_pool_without_nodes_responds_with_retry_after() {
    let scenario = Scenario::with(&[]).await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "no_node".into()));
    assert!(answer.headers.contains_key("retry-after"));
}
