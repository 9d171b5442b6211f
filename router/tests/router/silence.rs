//! Tests silent shards, lanes and nodes whose connections stay open.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tenon_lifecycle::tls::Role;
use tenon_proto::catalog::{self, WatchResponse, Worker};
use tenon_proto::failure::FailureCode;

use crate::harness::{
    Authority, Behavior, Catalog, Client, DEADLINE, Node, Options, Process, Scenario, TlsProxy,
    eventually, worker,
};

/// The maximum time for a request to leave a silent shard, which takes two seconds, or longer on a
/// busy machine. The wall limit of the request is far longer.
const WELL_BEFORE_THE_LIMIT: Duration = Duration::from_secs(15);

/// Returns a Worker with a long wall limit.
fn patient() -> Worker {
    Worker { wall_ms: 60_000, ..worker("shop/cart", "shop") }
}

/// Starts two nodes, and returns the Worker's pinned node first.
async fn pinned_first(start: impl Fn(&str) -> Node) -> (Scenario, Node, Node) {
    let nodes = ["n1", "n2"].map(start);
    // Each thread detects silence by itself.
    let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&nodes.each_ref(), options).await;
    scenario.catalog.change(WatchResponse {
        workers: vec![patient(), worker("shop/till", "till")],
        ..Default::default()
    });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 2.0)
        .await;
    let pin = scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    let [one, two] = nodes;
    if one.name() == &*pin.node { (scenario, one, two) } else { (scenario, two, one) }
}

fn with_lanes(name: &str) -> Node {
    Node::with_lanes(name, Behavior::Echo)
}

fn without_lanes(name: &str) -> Node {
    Node::start(name, Behavior::Echo)
}

fn silent(scenario: &Scenario) -> f64 {
    scenario.metric("tenon_router_ejections_total", Some("silent"))
}

#[tokio::test]
async fn a_get_leaves_a_stopped_node_and_later_requests_avoid_the_node() {
    for start in [with_lanes, without_lanes] {
        let (scenario, mut first, second) = pinned_first(start).await;
        let mut client = scenario.client().await;
        assert_eq!(client.get("/").await.header("observed-node"), first.name());
        first.processes().for_each(|process| process.stop());

        let started = Instant::now();
        let answer = client.get("/").await;
        assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
        assert!(started.elapsed() < WELL_BEFORE_THE_LIMIT, "{:?}", started.elapsed());
        assert_eq!(scenario.metric("tenon_router_retries_total", Some("unresponsive")), 1.0);
        assert_eq!(silent(&scenario), 1.0);
        for _ in 0..5 {
            assert_eq!(client.post("/", "x").await.header("observed-node"), second.name());
        }

        first.processes().for_each(|process| process.resume());
        while client.post("/", "x").await.header("observed-node") != first.name() {
            tokio::task::yield_now().await;
        }
        assert_eq!(scenario.metric("tenon_router_ejected_shards", None), 0.0);
    }
}

#[tokio::test]
async fn a_post_that_was_sent_to_a_stopped_node_waits_for_the_node() {
    let (scenario, mut first, second) = pinned_first(with_lanes).await;
    let mut client = scenario.client().await;
    // This request makes the router connect, because the router sends no POST before the handshake
    // of the connection is complete.
    client.get("/").await;
    first.processes().for_each(|process| process.stop());
    let response = tokio::spawn(async move { client.post("/", "x").await });
    eventually("the silence to be noticed", || silent(&scenario) == 1.0).await;
    assert_eq!(scenario.client().await.post("/", "y").await.header("observed-node"), second.name());
    first.processes().for_each(|process| process.resume());
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, first.name()));
    assert_eq!(scenario.metric("tenon_router_retries_total", None), 0.0);
}

#[tokio::test]
async fn a_request_waits_for_a_busy_lane_that_others_avoid() {
    let (scenario, mut first, second) = pinned_first(with_lanes).await;
    first.behave(Behavior::Refuse(FailureCode::Moved));
    let mut client = scenario.client().await;
    client.get("/").await;
    let [mut own, mut other] =
        first.lanes().iter_mut().collect::<Vec<_>>().try_into().ok().unwrap();
    if own.invocations() == 0 {
        (own, other) = (other, own);
    }
    own.stop();
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the silence to be noticed", || silent(&scenario) == 1.0).await;
    let mut client = scenario.client().await;
    // The loop takes longer than a probe of the node.
    let noticed = Instant::now();
    let mut others = 0;
    while noticed.elapsed() < Duration::from_secs(2) {
        assert_eq!(client.post("/", "y").await.status, 200);
        others += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(other.invocations(), others, "some requests did not go to the node's other lane");
    own.resume();
    assert_eq!(response.await.unwrap().status, 200);
    assert_eq!(scenario.metric("tenon_router_retries_total", None), 0.0);
    assert_eq!((own.invocations(), second.in_lanes()), (2, 0));
}

#[tokio::test]
async fn requests_wait_for_the_successors_of_silent_lanes_that_ended() {
    let (scenario, mut first, second) = pinned_first(with_lanes).await;
    first.behave(Behavior::Refuse(FailureCode::Moved));
    let mut lost = Vec::new();
    for silent_lanes in 1..=2 {
        let mut client = scenario.client().await;
        client.get("/").await;
        first.lanes().sort_by_key(|lane| lane.invocations());
        first.lanes()[2 - silent_lanes].stop();
        lost.push(tokio::spawn(async move { client.post("/", "x").await }));
        eventually("the silence to be noticed", || silent(&scenario) == silent_lanes as f64).await;
    }
    first.lanes().iter_mut().for_each(Process::end);
    for lost in lost {
        assert_eq!(lost.await.unwrap().code(), "node_lost");
    }
    let mut client = scenario.client().await;
    let next = tokio::spawn(async move { client.post("/", "y").await });
    first.lanes().iter_mut().for_each(Process::start_successor);
    let answer = next.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, first.name()));
    assert_eq!(
        second.invocations() + second.in_lanes(),
        0,
        "a request that ended the lanes of one node was sent to another"
    );
}

#[tokio::test]
async fn a_request_leaves_a_lane_whose_whole_node_is_stopped() {
    let (scenario, mut first, mut second) = pinned_first(with_lanes).await;
    first.behave(Behavior::Refuse(FailureCode::Moved));
    let mut client = scenario.client().await;
    client.get("/").await;
    first.processes().for_each(|process| process.stop());
    let started = Instant::now();
    let answer = client.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
    assert!(started.elapsed() < WELL_BEFORE_THE_LIMIT, "{:?}", started.elapsed());
    let ran = second.lanes().iter().find(|lane| lane.invocations() == 1).unwrap();
    assert!(ran.last_head().stay);
}

#[tokio::test]
async fn a_request_that_has_lost_a_shard_leaves_a_lane_whose_whole_node_is_stopped() {
    let (scenario, mut first, second) = pinned_first(with_lanes).await;
    first.processes().for_each(|process| process.behave(Behavior::Hang));
    let mut client = scenario.client().await;
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the invocation to begin", || first.invocations() == 1).await;
    first.kill();
    eventually("the repetition to begin", || first.in_lanes() == 1).await;
    first.lanes().iter_mut().for_each(|lane| lane.stop());
    let answer = response.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("observed-node")), (200, second.name()));
    assert_eq!(second.in_lanes(), 1);
}

#[tokio::test]
async fn a_request_waits_for_a_stopped_node_that_is_the_only_one() {
    let mut node = Node::with_lanes("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    client.get("/").await;
    node.processes().for_each(|process| process.stop());
    let response = tokio::spawn(async move { client.get("/").await });
    eventually("the silence to be noticed", || silent(&scenario) == 1.0).await;
    node.processes().for_each(|process| process.resume());
    assert_eq!(response.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_slow_worker_is_not_silent() {
    let (scenario, first, second) = pinned_first(with_lanes).await;
    first.behave(Behavior::Hang);
    let hasty = Worker { wall_ms: 1500, ..worker("shop/cart", "shop") };
    let workers = vec![hasty, worker("shop/third", "third")];
    scenario.catalog.change(WatchResponse { workers, ..Default::default() });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 3.0)
        .await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (504, "wall_limit_exceeded".into()));
    assert_eq!(
        (silent(&scenario), second.invocations() + second.in_lanes()),
        (0.0, 0),
        "a node that answers pings counts as silent"
    );
}

#[tokio::test]
async fn an_unsent_request_leaves_a_shard_that_does_not_complete_the_tls_handshake() {
    let authority = Authority::new();
    let catalog = Catalog::start().await;
    let catalog_proxy = TlsProxy::in_front_of(catalog.addr(), authority.tls(Role::Operator)).await;
    let nodes = ["n1", "n2"].map(|name| Node::start(name, Behavior::Echo));
    // Only the kernel accepts these connections.
    let deaf = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut proxies = Vec::new();
    for node in &nodes {
        proxies.push(TlsProxy::in_front_of(node.addr(), authority.tls(Role::RuntimeNode)).await);
    }
    let entry =
        |node: &Node, port: u16| catalog::Node { shard_ports: vec![port.into()], ..node.entry() };
    let entries = || nodes.iter().zip(&proxies).map(|(node, proxy)| entry(node, proxy.addr.port()));
    catalog.change(WatchResponse {
        workers: vec![patient()],
        nodes: entries().collect(),
        ..Default::default()
    });
    let options = Options { tls: Some(authority.tls(Role::Router)), ..Options::default() };
    let scenario = Scenario::start(catalog_proxy.addr, catalog, options);
    eventually("readiness", || scenario.readiness.is_ready()).await;

    let pin = scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    let pinned = nodes.iter().find(|node| node.name() == &*pin.node).unwrap();
    let changed = entry(pinned, deaf.local_addr().unwrap().port());
    let workers = vec![worker("shop/till", "till")];
    scenario.catalog.change(WatchResponse { nodes: vec![changed], workers, ..Default::default() });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 2.0)
        .await;
    let started = Instant::now();
    let answer = scenario.client().await.post("/", "x").await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.header("observed-node"), pinned.name());
    assert!(started.elapsed() < WELL_BEFORE_THE_LIMIT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_hung_shard_holds_at_most_its_share_of_a_threads_requests() {
    // A shard's bulkhead is an eighth of the thread's limit; one address gets three quarters of the
    // bulkhead.
    const SHARE: usize = 16_384 / 8 / 4 * 3;
    const STREAMS: usize = 128;
    let (scenario, first, second) = pinned_first(without_lanes).await;
    first.behave(Behavior::Hang);
    let (answered_tx, mut answered_rx) = tokio::sync::mpsc::unbounded_channel();
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..=SHARE / STREAMS {
        let Client::Http2(sender) = Client::http2(scenario.addr()).await else { unreachable!() };
        for _ in 0..STREAMS {
            let (mut client, answered_tx) = (Client::Http2(sender.clone()), answered_tx.clone());
            requests.spawn(async move {
                let answer = client.post("/", "x").await;
                answered_tx.send(answer.header("observed-node").to_owned()).unwrap();
            });
        }
    }
    for _ in 0..STREAMS {
        let answered = tokio::time::timeout(DEADLINE, answered_rx.recv()).await;
        assert_eq!(
            answered.unwrap().unwrap(),
            second.name(),
            "a request beyond the share did not go to the other node"
        );
    }
    assert_eq!(scenario.metric("tenon_router_inflight", None) as usize, SHARE);
    requests.abort_all();
    eventually("the share to be returned", || {
        scenario.metric("tenon_router_inflight", None) == 0.0
    })
    .await;
}
