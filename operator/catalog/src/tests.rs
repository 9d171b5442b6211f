//! Tests the catalog over its socket, as a router and a node use it.

use std::net::SocketAddr;

use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{
    GetRevisionRequest, GetRevisionResponse, Quarantined, QuarantinedRevision, Recovered,
    ReportRequest, WatchQuarantineRequest, WatchQuarantineResponse, WatchRequest, WorkerReport,
    quarantined, worker_report,
};
use tenon_proto::revision::Assembler;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use super::*;

mod early;
mod traffic;

pub(super) fn revision(worker: &str, name: &str) -> Arc<Revision> {
    let revision = Revision::from_source(WorkerId::new("shop", worker), "export default {}");
    Arc::new(Revision { name: name.to_owned(), ..revision })
}

fn route() -> Route {
    Route { host: "cart.example".into(), path: "/".into() }
}

fn node(name: &str) -> Node {
    Node { name: name.into(), ..Node::default() }
}

struct Served {
    catalog: Catalog,
    client: CatalogClient<Channel>,
    drain: tenon_lifecycle::drain::Signal,
}

async fn serve_new() -> Served {
    let listener =
        tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (drain, watch) = tenon_lifecycle::drain::channel();
    let catalog = Catalog::new();
    tokio::spawn(serve(listener, None, catalog.clone(), watch));
    Served { catalog, client: CatalogClient::connect(url).await.unwrap(), drain }
}

impl Served {
    async fn watch(
        &mut self,
        resume: Option<Cursor>,
    ) -> Result<Streaming<WatchResponse>, tonic::Status> {
        let request = WatchRequest { client: "test".into(), resume };
        self.client.watch(request).await.map(tonic::Response::into_inner)
    }

    async fn get(
        &mut self,
        digest: RevisionDigest,
    ) -> Result<Streaming<GetRevisionResponse>, tonic::Status> {
        let digest = digest.as_bytes().to_vec();
        let request = GetRevisionRequest { digest, worker: "shop/cart".to_owned() };
        self.client.get_revision(request).await.map(tonic::Response::into_inner)
    }
}

#[tokio::test]
async fn the_catalog_is_unavailable_before_it_is_synced() {
    let mut served = serve_new().await;
    assert_eq!(served.watch(None).await.unwrap_err().code(), Code::Unavailable);
    let unknown = revision("cart", "1").digest();
    assert_eq!(served.get(unknown).await.unwrap_err().code(), Code::Unavailable);
    served.catalog.mark_synced();
    assert!(served.watch(None).await.is_ok());
    assert_eq!(served.get(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_watcher_gets_a_snapshot_and_then_every_change() {
    let mut served = serve_new().await;
    let digest = served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    served.catalog.mark_synced();
    let mut stream = served.watch(None).await.unwrap();

    let snapshot = stream.message().await.unwrap().unwrap();
    assert_eq!(snapshot.kind(), Kind::SnapshotEnd);
    let expected = Worker {
        assets: None,
        id: "shop/cart".into(),
        pool: "default".into(),
        digest: digest.as_bytes().to_vec(),
        routes: vec![route()],
        wall_ms: 30_000,
        request_body_bytes: 16 << 20,
        services: Vec::new(),
        variants: Vec::new(),
        session_affinity: None,
        strict_affinity: false,
        rate_limits: None,
        measurement: 0,
    };
    assert_eq!(snapshot.workers, [expected]);

    served.catalog.set_node(node("a"));
    let delta = stream.message().await.unwrap().unwrap();
    assert_eq!((delta.kind(), &delta.nodes[..]), (Kind::Delta, &[node("a")][..]));

    served.catalog.remove_worker(&WorkerId::new("shop", "cart"));
    let delta = stream.message().await.unwrap().unwrap();
    assert_eq!(delta.removed_workers, ["shop/cart"]);
}

#[tokio::test]
async fn a_reconnected_watcher_gets_only_the_missed_changes() {
    let mut served = serve_new().await;
    served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    served.catalog.mark_synced();
    let cursor = served.watch(None).await.unwrap().message().await.unwrap().unwrap().cursor;

    served.catalog.set_node(node("a"));
    let delta = served.watch(cursor).await.unwrap().message().await.unwrap().unwrap();
    assert_eq!((delta.kind(), delta.workers.len(), delta.nodes.len()), (Kind::Delta, 0, 1));
}

#[tokio::test]
async fn a_node_gets_the_revision_that_serves_and_the_one_before() {
    let mut served = serve_new().await;
    served.catalog.mark_synced();
    for name in ["1", "2"] {
        served.catalog.set_worker(revision("cart", name), "default", vec![route()]);
    }
    for name in ["1", "2"] {
        let expected = revision("cart", name);
        let mut stream = served.get(expected.digest()).await.unwrap();
        let mut assembler = Assembler::default();
        while let Some(message) = stream.message().await.unwrap() {
            assembler.push(message).unwrap();
        }
        assert_eq!(assembler.finish().unwrap(), (expected.digest(), (*expected).clone()));
    }
}

#[tokio::test]
async fn a_held_revision_gets_requests_and_cannot_be_fetched() {
    let mut served = serve_new().await;
    let (cart, digest) = (revision("cart", "1"), revision("cart", "2").digest());
    let mut held = Deployment::new(cart.clone(), "default", vec![route()]);
    held.shares[0].digest = Digest::Held(digest);
    served.catalog.deploy(held);
    served.catalog.mark_synced();
    assert_eq!(served.get(digest).await.unwrap_err().code(), Code::FailedPrecondition);
    let mut stream = served.watch(None).await.unwrap();
    let part = stream.message().await.unwrap().unwrap();
    assert_eq!(part.kind(), Kind::SnapshotEnd);
    assert_eq!(part.workers[0].digest, digest.as_bytes());
    assert_eq!(part.workers[0].routes, [route()]);
}

#[tokio::test]
async fn a_drain_ends_the_streams_of_catalog_watchers() {
    let mut served = serve_new().await;
    served.catalog.mark_synced();
    let mut stream = served.watch(None).await.unwrap();
    stream.message().await.unwrap();
    let drained = tokio::spawn(served.drain.drain());
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
    drop((stream, served.client));
    drained.await.unwrap();
}

#[tokio::test]
async fn a_change_reaches_a_thousand_watchers() {
    let mut served = serve_new().await;
    served.catalog.mark_synced();
    let mut streams = Vec::new();
    for _ in 0..1_000 {
        let mut stream = served.watch(None).await.unwrap();
        stream.message().await.unwrap();
        streams.push(stream);
    }
    served.catalog.set_node(node("a"));
    for stream in &mut streams {
        assert_eq!(stream.message().await.unwrap().unwrap().nodes, [node("a")]);
    }
}

fn recovery(node: &str, worker: &str, digest: RevisionDigest) -> ReportRequest {
    let state = Some(worker_report::State::Recovered(Recovered {}));
    let report = WorkerReport {
        worker: format!("shop/{worker}"),
        digest: digest.as_bytes().to_vec(),
        state,
    };
    ReportRequest { node: node.into(), workers: vec![report] }
}

#[tokio::test]
async fn a_node_can_report_only_revisions_that_serve_its_own_pool_now() {
    let mut served = serve_new().await;
    let opts = prometheus::Opts::new("reports", "By outcome.");
    let outcomes = prometheus::IntCounterVec::new(opts, &["outcome"]).unwrap();
    let (reports_tx, mut reports_rx) = tokio::sync::mpsc::channel(1);
    served.catalog.set_report_sink(ReportSink { reports_tx, outcomes: outcomes.clone() });
    served.catalog.set_node(Node {
        name: "node-a".into(),
        pool: "default".into(),
        ..Node::default()
    });
    served.catalog.set_node(Node {
        name: "node-b".into(),
        pool: "other".into(),
        ..Node::default()
    });
    let old = served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    let new = served.catalog.set_worker(revision("cart", "2"), "default", vec![route()]);
    let early = served.client.report(recovery("node-a", "cart", new)).await.unwrap_err();
    assert_eq!(early.code(), Code::Unavailable);
    served.catalog.mark_synced();

    for lie in [
        recovery("node-a", "cart", old),
        recovery("node-a", "nobody", new),
        recovery("node-b", "cart", new),
        recovery("nobody", "cart", new),
    ] {
        served.client.report(lie).await.unwrap();
    }
    assert!(reports_rx.try_recv().is_err());
    served.client.report(recovery("node-a", "cart", new)).await.unwrap();
    let full = served.client.report(recovery("node-a", "cart", new)).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let (worker, health) = (WorkerId::new("shop", "cart"), WorkerHealth::Recovered);
    let report = HealthReport { worker, revision: "2".into(), node: "node-a".into(), health };
    assert_eq!(reports_rx.try_recv(), Ok(report));
    let count = |outcome: Outcome| outcomes.with_label_values(&[outcome.as_str()]).get();
    let all = [Outcome::Taken, Outcome::Outdated, Outcome::UnknownNode, Outcome::Full];
    assert_eq!(all.map(count), [1, 2, 2, 1]);
}

fn quarantine(
    node: &str,
    worker: &str,
    digest: RevisionDigest,
    duration_ms: u64,
    times: u32,
) -> ReportRequest {
    let cause = quarantined::Cause::Crashed.into();
    let state = Some(worker_report::State::Quarantined(Quarantined { cause, duration_ms, times }));
    let report = WorkerReport {
        worker: format!("shop/{worker}"),
        digest: digest.as_bytes().to_vec(),
        state,
    };
    ReportRequest { node: node.into(), workers: vec![report] }
}

/// Serves a catalog with the nodes `a` and `b` of one pool and `c` of another, with a receiver of
/// reports.
async fn serve_pools() -> (Served, tokio::sync::mpsc::Receiver<HealthReport>) {
    let served = serve_new().await;
    let opts = prometheus::Opts::new("reports", "By outcome.");
    let outcomes = prometheus::IntCounterVec::new(opts, &["outcome"]).unwrap();
    let (reports_tx, reports_rx) = tokio::sync::mpsc::channel(64);
    served.catalog.set_report_sink(ReportSink { reports_tx, outcomes });
    for (name, pool) in [("a", "default"), ("b", "default"), ("c", "other")] {
        served.catalog.set_node(Node { name: name.into(), pool: pool.into(), ..Node::default() });
    }
    (served, reports_rx)
}

impl Served {
    async fn watch_quarantine(
        &mut self,
        node: &str,
    ) -> Result<Streaming<WatchQuarantineResponse>, tonic::Status> {
        let request = WatchQuarantineRequest { client: format!("node/{node}") };
        self.client.watch_quarantine(request).await.map(tonic::Response::into_inner)
    }
}

async fn next(stream: &mut Streaming<WatchQuarantineResponse>) -> Vec<QuarantinedRevision> {
    stream.message().await.unwrap().unwrap().revisions
}

#[tokio::test]
async fn a_revision_that_ended_a_process_is_refused_by_every_node_of_its_pool() {
    let (mut served, mut reports_rx) = serve_pools().await;
    let digest = served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    assert_eq!(served.watch_quarantine("b").await.unwrap_err().code(), Code::Unavailable);
    served.catalog.mark_synced();
    let (mut same_pool, mut other_pool) =
        (served.watch_quarantine("b").await.unwrap(), served.watch_quarantine("c").await.unwrap());
    assert_eq!((next(&mut same_pool).await, next(&mut other_pool).await), (Vec::new(), Vec::new()));

    served.client.report(quarantine("a", "cart", digest, 3_600_000, 2)).await.unwrap();
    let listed = next(&mut same_pool).await.remove(0);
    assert_eq!(
        (listed.worker.as_str(), listed.times, &listed.digest[..]),
        ("shop/cart", 2, &digest.as_bytes()[..])
    );
    assert!((1..=3_600_000).contains(&listed.remaining_ms), "{}", listed.remaining_ms);
    let health = WorkerHealth::Quarantined {
        cause: Cause::Crashed,
        duration: Duration::from_secs(3_600),
        times: 2,
    };
    assert_eq!(reports_rx.try_recv().map(|report| report.health), Ok(health));
    // A later watcher receives the list immediately, with the remaining duration.
    let listed = next(&mut served.watch_quarantine("a").await.unwrap()).await;
    assert_eq!(listed.len(), 1);
    // The operator tells the node of the other pool only about that pool's revisions.
    let menu = served.catalog.set_worker(revision("menu", "1"), "other", vec![route()]);
    served.client.report(quarantine("c", "menu", menu, 3_600_000, 1)).await.unwrap();
    let workers: Vec<_> =
        next(&mut other_pool).await.into_iter().map(|entry| entry.worker).collect();
    assert_eq!(workers, ["shop/menu"]);
}

#[tokio::test]
async fn a_quarantine_of_a_replaced_revision_does_not_affect_its_successor() {
    let (mut served, mut reports_rx) = serve_pools().await;
    let old = served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    served.catalog.set_worker(revision("cart", "2"), "default", vec![route()]);
    served.catalog.set_worker(revision("menu", "1"), "default", vec![route()]);
    served.catalog.mark_synced();
    served.client.report(quarantine("a", "menu", old, 3_600_000, 1)).await.unwrap();
    assert!(
        next(&mut served.watch_quarantine("b").await.unwrap()).await.is_empty(),
        "a digest that was never the Worker's is quarantined"
    );
    served.client.report(quarantine("a", "cart", old, 3_600_000, 1)).await.unwrap();
    let listed = next(&mut served.watch_quarantine("b").await.unwrap()).await;
    assert_eq!(listed[0].digest, old.as_bytes());
    assert!(reports_rx.try_recv().is_err());
}

#[tokio::test]
async fn a_quarantine_received_by_another_replica_is_sent_to_nodes() {
    let (mut served, _reports_rx) = serve_pools().await;
    served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    served.catalog.mark_synced();
    let mut stream = served.watch_quarantine("a").await.unwrap();
    assert!(next(&mut stream).await.is_empty());
    let cart = WorkerId::new("shop", "cart");
    served.catalog.quarantine(&WorkerId::new("shop", "nobody"), "1", Duration::from_secs(60), 1);
    served.catalog.quarantine(&cart, "1", Duration::from_secs(3_600), 1);
    assert_eq!(next(&mut stream).await[0].times, 1);
    // Repeating the same quarantine changes nothing.
    (0..10).for_each(|_| served.catalog.quarantine(&cart, "1", Duration::from_secs(3_600), 1));
    served.catalog.quarantine(&cart, "1", Duration::from_secs(3_600), 2);
    assert_eq!(next(&mut stream).await[0].times, 2);
}

#[tokio::test]
async fn a_quarantine_expires_and_survives_a_change_of_revision() {
    let (mut served, _reports_rx) = serve_pools().await;
    served.catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    served.catalog.mark_synced();
    served.catalog.quarantine(&WorkerId::new("shop", "cart"), "1", Duration::from_millis(1_500), 1);
    for name in ["2", "1"] {
        served.catalog.set_worker(revision("cart", name), "default", vec![route()]);
    }
    let mut stream = served.watch_quarantine("a").await.unwrap();
    let first = next(&mut stream).await;
    if !first.is_empty() {
        assert!(next(&mut stream).await.is_empty());
    }
    assert!(next(&mut served.watch_quarantine("b").await.unwrap()).await.is_empty());
}

#[tokio::test]
async fn a_drain_ends_the_streams_of_quarantine_watchers() {
    let (mut served, _reports_rx) = serve_pools().await;
    served.catalog.mark_synced();
    let mut stream = served.watch_quarantine("a").await.unwrap();
    assert!(next(&mut stream).await.is_empty());
    let drained = tokio::spawn(served.drain.drain());
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
    drop((stream, served.client));
    drained.await.unwrap();
}

#[test]
fn a_node_may_have_only_the_revisions_of_its_pool() {
    let catalog = Catalog::new();
    let digest = catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    let of = |pool: &str| CallerPool::Of(pool.to_owned());
    assert_eq!(catalog.check_access(&digest, of("default")), Ok(()));
    assert_eq!(catalog.check_access(&digest, CallerPool::Any), Ok(()));
    let (caller, pools) = (of("gpu"), vec!["default".to_owned()]);
    let denial = Denial::OtherPool { caller: caller.clone(), pools };
    assert_eq!(catalog.check_access(&digest, caller.clone()), Err(denial.clone()));
    let unknown = RevisionDigest::new([7; 32]);
    assert_eq!(catalog.check_access(&unknown, caller), Ok(()), "an unknown digest is no secret");
    let message = tonic::Status::from(denial).message().to_owned();
    assert!(!message.contains("default"), "a node learns of another pool: {message}");
}

#[test]
fn a_worker_that_moves_to_another_pool_can_be_run_by_both_for_a_while() {
    let catalog = Catalog::new();
    let digest = catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    catalog.set_worker(revision("cart", "1"), "gpu", vec![route()]);
    for (pool, may) in [("default", true), ("gpu", true), ("third", false)] {
        let access = catalog.check_access(&digest, CallerPool::Of(pool.to_owned()));
        assert_eq!(access.is_ok(), may, "{pool}");
    }
}

#[test]
fn a_node_is_told_only_of_quarantined_revisions_of_its_pool() {
    let catalog = Catalog::new();
    catalog.set_worker(revision("cart", "1"), "default", vec![route()]);
    let cart = WorkerId::new("shop", "cart");
    catalog.quarantine(&cart, "1", Duration::from_secs(60), 1);
    let refused = |pool: &str| {
        let pool = CallerPool::Of(pool.to_owned());
        catalog.refused_by(&pool, "a", Instant::now()).len()
    };
    assert_eq!((refused("default"), refused("gpu")), (1, 0));
    // A deleted Worker may be created again.
    catalog.remove_worker(&cart);
    assert_eq!((refused("default"), refused("gpu")), (1, 0));
}

#[test]
fn refused_calls_are_counted() {
    let denials = Denials::new();
    let address = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let caller = Caller { address, certificate: None };
    let status = denials.record(access::Call::GetRevision, &caller, Denial::NoPool);
    assert_eq!(status.code(), Code::PermissionDenied);
    let count = |call| denials.count(call);
    assert_eq!((count(access::Call::GetRevision), count(access::Call::Watch)), (1, 0));
}
