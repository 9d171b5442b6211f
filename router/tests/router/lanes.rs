//! Tests nodes with lanes: Workers that move, and requests that are repeated in a lane.

use std::num::NonZeroUsize;

use tenon_proto::catalog::{WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tokio::task::JoinHandle;

use crate::harness::{Behavior, FullResponse, Node, Options, Scenario, eventually, worker};

const MOVED: Behavior = Behavior::Refuse(FailureCode::Moved);

/// Starts two nodes with lanes. Returns first the node that contains the shard to which the Worker
/// `shop/cart` is pinned.
async fn pinned_first() -> (Scenario, Node, Node) {
    let nodes = ["n1", "n2"].map(|name| Node::with_lanes(name, Behavior::Echo));
    let scenario = Scenario::with(&nodes.each_ref()).await;
    let pin = scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    let [one, two] = nodes;
    if one.name() == &*pin.node { (scenario, one, two) } else { (scenario, two, one) }
}

/// Sends a GET to a shard that hangs, and ends the shard once the request has begun there.
async fn lose_shard(scenario: &Scenario, node: &mut Node) -> JoinHandle<FullResponse> {
    node.behave(Behavior::Hang);
    let mut client = scenario.client().await;
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the invocation to begin", || node.invocations() == 1).await;
    node.kill();
    response
}

fn moves(scenario: &Scenario, to: &str) -> usize {
    scenario.metric("tenon_router_moves_total", Some(to)) as usize
}

#[tokio::test]
async fn a_worker_moved_to_a_lane_is_found_and_remembered_there() {
    let (scenario, first, second) = pinned_first().await;
    first.behave(MOVED);
    let mut client = scenario.client().await;
    for _ in 0..40 {
        let answer = client.post("/", "x").await;
        assert_eq!((answer.header("observed-node"), &answer.body[..]), (first.name(), &b"x"[..]));
        assert!(answer.header("tenon-shard").starts_with("lane-"), "{answer:?}");
    }
    assert_eq!(first.in_lanes(), 40);
    assert!(first.invocations() <= 10, "{} of 40 requests went to the shard", first.invocations());
    assert_eq!((moves(&scenario, "lane"), moves(&scenario, "shard")), (first.invocations(), 0));
    assert_eq!(
        scenario.metric("tenon_router_retries_total", None),
        0.0,
        "a move counts as a retry"
    );
    assert_eq!(second.invocations() + second.in_lanes(), 0);
}

#[tokio::test]
async fn the_first_request_for_a_new_revision_goes_to_a_lane() {
    let nodes = ["n1", "n2"].map(|name| Node::with_lanes(name, Behavior::Echo));
    // Each thread remembers by itself which revisions it has seen.
    let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&nodes.each_ref(), options).await;
    let mut client = scenario.client().await;
    assert_eq!(
        client.post("/", "x").await.header("tenon-shard"),
        "0",
        "a revision of the first snapshot counts as new"
    );
    let next = Worker { digest: vec![8; 32], ..worker("shop/cart", "shop") };
    let workers = vec![next, worker("shop/till", "till")];
    scenario.catalog.change(WatchResponse { workers, ..Default::default() });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 2.0)
        .await;
    assert!(client.post("/", "x").await.header("tenon-shard").starts_with("lane-"));
    for _ in 0..5 {
        // The later requests go to the shard, so that the node starts the revision there too.
        assert_eq!(client.post("/", "x").await.header("tenon-shard"), "0");
    }
    assert_eq!(moves(&scenario, "lane") + moves(&scenario, "shard"), 0);
}

#[tokio::test]
async fn a_worker_stays_in_one_lane_of_its_node() {
    let (scenario, mut first, _second) = pinned_first().await;
    first.behave(MOVED);
    let mut client = scenario.client().await;
    for _ in 0..10 {
        client.get("/").await;
    }
    assert!(first.lanes().iter().any(|lane| lane.invocations() == 10));
}

#[tokio::test]
async fn requests_follow_a_promoted_worker_to_its_shard() {
    let (scenario, mut first, _second) = pinned_first().await;
    first.behave(MOVED);
    let mut client = scenario.client().await;
    client.get("/").await;
    first.behave(Behavior::Echo);
    first.lanes().iter().for_each(|lane| lane.behave(MOVED));
    let invocations = first.in_lanes();
    for _ in 0..10 {
        let answer = client.post("/", "x").await;
        assert_eq!((answer.status.as_u16(), answer.header("tenon-shard")), (200, "0"));
    }
    assert!(first.in_lanes() <= invocations + 1, "the router still sends requests to the lane");
}

#[tokio::test]
async fn a_request_moved_back_and_forth_stays_in_a_lane() {
    let (scenario, mut first, second) = pinned_first().await;
    first.processes().for_each(|process| process.behave(Behavior::SendOn));
    let mut client = scenario.client().await;
    for _ in 0..3 {
        let answer = client.post("/", "x").await;
        assert_eq!((answer.header("observed-node"), &answer.body[..]), (first.name(), &b"x"[..]));
        assert!(answer.header("tenon-shard").starts_with("lane-"), "{answer:?}");
    }
    assert_eq!(
        moves(&scenario, "lane") + moves(&scenario, "shard"),
        6,
        "the three requests did not move twice each"
    );
    assert_eq!(second.invocations() + second.in_lanes(), 0);
}

#[tokio::test]
async fn a_worker_that_no_process_of_its_node_runs_goes_to_another_node() {
    let (scenario, mut first, second) = pinned_first().await;
    first.processes().for_each(|process| process.behave(MOVED));
    let answer = scenario.client().await.post("/", "x").await;
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
}

#[tokio::test]
async fn a_request_whose_shard_is_lost_is_repeated_in_a_lane_of_its_node() {
    let (scenario, mut first, second) = pinned_first().await;
    let response = lose_shard(&scenario, &mut first).await;
    let answer = response.await.unwrap();
    assert_eq!(answer.header("observed-node"), first.name());
    assert!(answer.header("tenon-shard").starts_with("lane-"), "{answer:?}");
    let ran = first.lanes().iter().find(|lane| lane.invocations() == 1).unwrap();
    assert!(ran.last_head().stay, "the lane may move the request");
    assert_eq!((second.invocations() + second.in_lanes(), moves(&scenario, "lane")), (0, 0));
}

#[tokio::test]
async fn a_request_whose_node_is_lost_is_repeated_in_a_lane_of_another_node() {
    let (scenario, mut first, mut second) = pinned_first().await;
    first.lanes().iter_mut().for_each(|lane| lane.kill());
    let response = lose_shard(&scenario, &mut first).await;
    let answer = response.await.unwrap();
    assert_eq!(answer.header("observed-node"), second.name());
    assert!(answer.header("tenon-shard").starts_with("lane-"), "{answer:?}");
    let ran = second.lanes().iter().find(|lane| lane.invocations() == 1).unwrap();
    assert!(ran.last_head().stay, "the lane may move the request");
    assert_eq!((second.invocations(), moves(&scenario, "lane")), (0, 0));
}

#[tokio::test]
async fn a_request_that_an_overloaded_node_cannot_repeat_goes_to_another_node() {
    let (scenario, mut first, mut second) = pinned_first().await;
    first.lanes().iter().for_each(|lane| lane.behave(Behavior::Refuse(FailureCode::Overloaded)));
    let response = lose_shard(&scenario, &mut first).await;
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
    assert_eq!((first.in_lanes(), second.in_lanes(), second.invocations()), (1, 1, 0));
    assert!(second.lanes().iter().any(|lane| lane.invocations() == 1 && lane.last_head().stay));
}

#[tokio::test]
async fn a_request_whose_node_loses_its_processes_one_by_one_goes_to_another_node() {
    let (scenario, mut first, second) = pinned_first().await;
    first.lanes().iter().for_each(|lane| lane.behave(Behavior::Hang));
    let response = lose_shard(&scenario, &mut first).await;
    eventually("the repetition to begin", || first.in_lanes() == 1).await;
    first.lanes().sort_by_key(|lane| lane.invocations());
    first.lanes().iter_mut().for_each(|lane| lane.kill());
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
    assert_eq!((second.invocations(), second.in_lanes()), (0, 1));
}

#[tokio::test]
async fn a_request_whose_shard_is_lost_is_repeated_in_a_lane_of_the_only_node() {
    let mut node = Node::with_lanes("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let response = lose_shard(&scenario, &mut node).await;
    let answer = response.await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.header("tenon-shard").starts_with("lane-"), "{answer:?}");
}

#[tokio::test]
async fn a_lane_runs_the_workers_of_the_only_shard_during_its_restart() {
    let mut node = Node::with_lanes("n1", Behavior::SendOn);
    let scenario = Scenario::with(&[&node]).await;
    node.kill();
    let mut client = scenario.client().await;
    for _ in 0..5 {
        let answer = client.post("/", "x").await;
        assert_eq!((answer.status.as_u16(), node.in_lanes() > 0), (200, true));
    }
}

#[tokio::test]
async fn a_request_whose_only_lane_is_lost_is_repeated_in_its_successor() {
    let (scenario, mut first, second) = pinned_first().await;
    first.behave(MOVED);
    let mut client = scenario.client().await;
    client.get("/").await;
    first.lanes().sort_by_key(|lane| lane.invocations());
    first.lanes()[0].kill();
    let lane = &mut first.lanes()[1];
    lane.behave(Behavior::Hang);
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the invocation to begin", || lane.invocations() == 2).await;
    lane.end();
    lane.behave(Behavior::Echo);
    lane.start_successor();
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, first.name()));
    assert!(first.lanes()[1].last_head().stay, "the successor may move the request");
    assert_eq!(second.invocations() + second.in_lanes(), 0);
}

#[tokio::test]
async fn a_request_that_ended_a_shard_and_a_lane_is_not_repeated() {
    let (scenario, mut first, second) = pinned_first().await;
    first.lanes().iter().for_each(|lane| lane.behave(Behavior::Hang));
    let response = lose_shard(&scenario, &mut first).await;
    eventually("the repetition to begin", || first.in_lanes() == 1).await;
    first.lanes().iter_mut().find(|lane| lane.invocations() == 1).unwrap().kill();
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (502, "node_lost".into()));
    assert_eq!((second.invocations(), first.in_lanes(), second.in_lanes()), (0, 1, 0));
}

#[tokio::test]
async fn a_quarantined_revision_is_not_requested_elsewhere() {
    let (scenario, mut first, second) = pinned_first().await;
    let quarantined = Behavior::Refuse(FailureCode::WorkerQuarantined);
    first.processes().for_each(|process| process.behave(quarantined.clone()));
    let response = lose_shard(&scenario, &mut first).await;
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "worker_quarantined".into()));
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!((second.invocations(), second.in_lanes(), first.in_lanes()), (0, 0, 1));
}

#[tokio::test]
async fn a_request_goes_to_another_lane_while_one_restarts() {
    let (scenario, mut first, _second) = pinned_first().await;
    first.behave(MOVED);
    let mut client = scenario.client().await;
    client.get("/").await;
    first.lanes().iter_mut().find(|lane| lane.invocations() == 1).unwrap().kill();
    for _ in 0..5 {
        let answer = client.post("/", "x").await;
        assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, first.name()));
    }
}
