//! Tests which requests a router counts for rollouts, and that it reports them.

use futures::stream;
use http::Method;
use tenon_proto::catalog::{RevisionTraffic, Variant, WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tonic::Code;

use crate::harness::{
    Behavior, Catalog, Client, InternalCaller, Node, Options, Scenario, eventually, full, head,
    worker,
};

/// Returns a measured Worker, half of whose requests go to the revision `[8; 32]`.
fn measured(measurement: u64) -> Worker {
    let variant =
        Variant { digest: vec![8; 32], percent: 50, wall_ms: 10_000, ..Default::default() };
    Worker { variants: vec![variant], measurement, ..worker("shop/cart", "shop") }
}

/// Starts a router that measures the Worker from its first table on, in which no revision is new.
async fn scenario(nodes: &[&Node], measurement: u64) -> Scenario {
    let catalog = Catalog::start().await;
    catalog.change(WatchResponse {
        workers: vec![measured(measurement), worker("shop/till", "till")],
        nodes: nodes.iter().map(|node| node.entry()).collect(),
        ..Default::default()
    });
    let scenario = Scenario::start(catalog.addr(), catalog, Options::default());
    eventually("readiness", || scenario.readiness.is_ready()).await;
    scenario
}

async fn get(client: &mut Client, host: &str) -> u16 {
    let request = http::Request::builder().method(Method::GET).uri("/").header("host", host);
    client.send(request.body(full("")).unwrap()).await.unwrap().status.as_u16()
}

/// Returns the sums of the requests, of those that failed, and of those with a latency, of all
/// reports about a revision.
fn sums(reported: &[RevisionTraffic], digest: u8) -> [u64; 3] {
    let of_revision = reported.iter().filter(|entry| entry.digest[0] == digest);
    of_revision.fold([0; 3], |[requests, failed, timed], entry| {
        let latencies: u64 = entry.latencies.iter().sum();
        [requests + entry.requests, failed + entry.failed, timed + latencies]
    })
}

#[tokio::test]
async fn requests_of_a_measured_worker_are_reported_by_revision() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = scenario(&[&node], 7).await;
    let mut client = scenario.client().await;
    let mut sent = [0; 2];
    for _ in 0..40 {
        assert_eq!(get(&mut client, "shop").await, 200);
        sent[usize::from(node.last_head().digest[0] == 8)] += 1;
    }
    node.behave(Behavior::Status(503));
    assert_eq!(get(&mut client, "shop").await, 503);
    node.behave(Behavior::Fail(FailureCode::WorkerException));
    assert_eq!(get(&mut client, "shop").await, 500);
    node.behave(Behavior::Status(404));
    assert_eq!(get(&mut client, "shop").await, 404);

    let total = || {
        let reported = scenario.catalog.traffic();
        let [old, new] = [7, 8].map(|digest| sums(&reported, digest));
        [old[0] + new[0], old[1] + new[1], old[2] + new[2]]
    };
    eventually("the report", || total() == [43, 2, 43]).await;
    let reported = scenario.catalog.traffic();
    for (digest, sent) in [(7, sent[0]), (8, sent[1])] {
        let [requests, failed, _] = sums(&reported, digest);
        assert!((sent..=sent + 3).contains(&requests) && failed <= 2, "{reported:?}");
    }
    let is_measured =
        |entry: &RevisionTraffic| (&*entry.worker, entry.measurement) == ("shop/cart", 7);
    assert!(reported.iter().all(is_measured), "{reported:?}");
}

#[tokio::test]
async fn calls_from_inside_the_platform_are_counted() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = scenario(&[&node], 7).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    caller.call(head("shop/cart"), stream::empty()).await.unwrap();
    let requests = || scenario.catalog.traffic().iter().map(|entry| entry.requests).sum::<u64>();
    eventually("the report", || requests() == 1).await;
}

#[tokio::test]
async fn a_worker_that_is_not_measured_is_not_reported() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = scenario(&[&node], 0).await;
    let mut client = scenario.client().await;
    for _ in 0..10 {
        assert_eq!([get(&mut client, "shop").await, get(&mut client, "till").await], [200; 2]);
    }
    // The report about a measured request would follow a report about the requests above.
    let internal = scenario.internal_addr();
    scenario.catalog.change(WatchResponse { workers: vec![measured(9)], ..Default::default() });
    InternalCaller::await_worker(internal, measured(9)).await.unwrap();
    assert_eq!(get(&mut client, "shop").await, 200);
    eventually("the report", || !scenario.catalog.traffic().is_empty()).await;
    let traffic = scenario.catalog.traffic();
    assert!(traffic.len() == 1 && traffic[0].measurement == 9, "{traffic:?}");
}

#[tokio::test]
async fn a_refused_report_is_sent_again() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = scenario(&[&node], 7).await;
    scenario.catalog.refuse_traffic(Code::ResourceExhausted);
    let mut client = scenario.client().await;
    assert_eq!(get(&mut client, "shop").await, 200);
    let requests = || scenario.catalog.traffic().iter().map(|entry| entry.requests).sum::<u64>();
    eventually("the report", || requests() == 1).await;
    assert!(!scenario.catalog.refuses_traffic());
}

#[tokio::test]
async fn a_router_reports_again_after_an_operator_of_an_earlier_version() {
    let node = Node::start("n1", Behavior::Echo);
    let mut scenario = scenario(&[&node], 7).await;
    scenario.catalog.refuse_traffic(Code::Unimplemented);
    let mut client = scenario.client().await;
    assert_eq!(get(&mut client, "shop").await, 200);
    eventually("the refusal", || !scenario.catalog.refuses_traffic()).await;
    let placeholder = Catalog::start().await;
    let stopped = std::mem::replace(&mut scenario.catalog, placeholder).stop();
    let connected = |scenario: &Scenario| scenario.metric("tenon_router_catalog_connected", None);
    eventually("the disconnection", || connected(&scenario) == 0.0).await;
    scenario.catalog = stopped.start();
    eventually("the connection", || connected(&scenario) == 1.0).await;
    assert_eq!(get(&mut client, "shop").await, 200);
    eventually("the report", || !scenario.catalog.traffic().is_empty()).await;
}
