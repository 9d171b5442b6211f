//! The catalog through its socket, as a router and a node see it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{
    GetRevisionRequest, GetRevisionResponse, Recovered, ReportRequest, WatchRequest, WorkerReport, worker_report,
};
use tenon_proto::egress::Egress;
use tenon_proto::revision::{Assembler, Limits, StatePolicy};
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use super::*;

pub(super) fn revision(worker: &str, name: &str) -> Arc<Revision> {
    Arc::new(Revision {
        worker: WorkerId::new("shop", worker),
        name: name.to_owned(),
        entrypoint: "worker.js".to_owned(),
        modules: [("worker.js".to_owned(), "export default {}".into())].into(),
        vars: BTreeMap::new(),
        secrets: BTreeMap::new(),
        services: BTreeMap::new(),
        limits: Limits::default(),
        state: StatePolicy::default(),
        egress: Egress::default(),
        compatibility_flags: BTreeSet::new(),
    })
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
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (drain, watch) = tenon_lifecycle::drain::channel();
    let catalog = Catalog::new();
    tokio::spawn(serve(listener, None, catalog.clone(), watch));
    Served { catalog, client: CatalogClient::connect(url).await.unwrap(), drain }
}

impl Served {
    async fn watch(&mut self, resume: Option<Cursor>) -> Result<Streaming<WatchResponse>, tonic::Status> {
        let request = WatchRequest { client: "test".into(), resume };
        self.client.watch(request).await.map(tonic::Response::into_inner)
    }

    async fn get(&mut self, digest: RevisionDigest) -> Result<Streaming<GetRevisionResponse>, tonic::Status> {
        let request = GetRevisionRequest { digest: digest.as_bytes().to_vec() };
        self.client.get_revision(request).await.map(tonic::Response::into_inner)
    }
}

#[tokio::test]
async fn no_watcher_is_answered_before_everything_is_known() {
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
        id: "shop/cart".into(),
        pool: "default".into(),
        digest: digest.as_bytes().to_vec(),
        routes: vec![route()],
        wall_ms: 30_000,
        request_body_bytes: 16 * MIB,
        services: Vec::new(),
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
async fn a_watcher_that_comes_back_gets_only_what_it_missed() {
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
async fn at_the_drain_watchers_are_sent_elsewhere() {
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
async fn a_thousand_watchers_all_hear_of_a_change() {
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
    let report = WorkerReport { worker: format!("shop/{worker}"), digest: digest.as_bytes().to_vec(), state };
    ReportRequest { node: node.into(), workers: vec![report] }
}

#[tokio::test]
async fn a_node_is_believed_about_what_serves_its_own_pool_now() {
    let mut served = serve_new().await;
    let opts = prometheus::Opts::new("reports", "By outcome.");
    let reports = prometheus::IntCounterVec::new(opts, &["outcome"]).unwrap();
    let (heard_tx, mut heard_rx) = tokio::sync::mpsc::channel(1);
    served.catalog.listen(Ear { heard_tx, reports: reports.clone() });
    served.catalog.set_node(Node { name: "node-a".into(), pool: "default".into(), ..Node::default() });
    served.catalog.set_node(Node { name: "node-b".into(), pool: "other".into(), ..Node::default() });
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
    assert!(heard_rx.try_recv().is_err());
    served.client.report(recovery("node-a", "cart", new)).await.unwrap();
    let full = served.client.report(recovery("node-a", "cart", new)).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let (worker, word) = (WorkerId::new("shop", "cart"), Word::Recovered);
    let heard = Heard { worker, revision: "2".into(), node: "node-a".into(), word };
    assert_eq!(heard_rx.try_recv(), Ok(heard));
    let count = |outcome: Outcome| reports.with_label_values(&[outcome.as_str()]).get();
    let outcomes = [Outcome::Taken, Outcome::Outdated, Outcome::Stranger, Outcome::Full];
    assert_eq!(outcomes.map(count), [1, 2, 2, 1]);
}
