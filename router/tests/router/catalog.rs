//! Tests routers whose catalog starts late, or is lost and returns.

use tenon_proto::catalog::WatchResponse;
use tonic::Code;

use crate::harness::{
    Behavior, Catalog, InternalCaller, Node, Options, Scenario, eventually, worker,
};

#[tokio::test]
async fn a_router_is_not_ready_before_the_catalog_is_received() {
    let stopped = Catalog::start().await.stop();
    let mut scenario = Scenario::start(stopped.addr(), Catalog::start().await, Options::default());
    assert_eq!(scenario.readiness.waiting(), ["catalog"]);
    assert_eq!(scenario.client().await.get("/").await.code(), "worker_not_found");
    assert_eq!(scenario.readiness.waiting(), ["catalog"]);
    scenario.catalog = stopped.start();
    eventually("readiness", || scenario.readiness.is_ready()).await;
}

#[tokio::test]
async fn a_router_serves_without_the_catalog_and_catches_up_later() {
    let node = Node::start("n1", Behavior::Echo);
    let mut scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    assert_eq!(client.get("/").await.status, 200);
    let connected = |scenario: &Scenario| scenario.metric("tenon_router_catalog_connected", None);
    assert_eq!(connected(&scenario), 1.0);

    let placeholder = Catalog::start().await;
    let stopped = std::mem::replace(&mut scenario.catalog, placeholder).stop();
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 200);
    }
    eventually("the disconnection to be reported", || connected(&scenario) == 0.0).await;

    scenario.catalog = stopped.start();
    scenario
        .catalog
        .change(WatchResponse { workers: vec![worker("shop/till", "till")], ..Default::default() });
    eventually("the change to arrive", || scenario.metric("tenon_router_routes", None) == 2.0)
        .await;
    let resumed = scenario.catalog.resumed();
    assert_eq!(resumed.first(), Some(&None));
    assert_eq!(
        resumed.last().unwrap().as_ref().unwrap().version,
        1,
        "the router did not resume at its version"
    );
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn a_router_acknowledges_a_worker_that_it_serves_as_announced() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let addr = scenario.internal_addr();
    let till = worker("shop/till", "till");
    let early = tokio::spawn(InternalCaller::await_worker(addr, till.clone()));
    scenario.catalog.change(WatchResponse { workers: vec![till.clone()], ..Default::default() });
    early.await.unwrap().unwrap();
    InternalCaller::await_worker(addr, till.clone()).await.unwrap();

    let mut other = till;
    other.pool = "another".to_owned();
    let status = InternalCaller::await_worker(addr, other).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let status = InternalCaller::await_worker(addr, Default::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
