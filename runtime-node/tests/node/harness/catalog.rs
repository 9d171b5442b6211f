//! A catalog whose revisions a test chooses. Like a process, the catalog can be stopped and started
//! again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tenon_proto::catalog::catalog_server::{self, CatalogServer};
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{
    GetAssetsRequest, GetAssetsResponse, GetRevisionRequest, GetRevisionResponse, Node,
    ReportRequest, ReportResponse, ReportTrafficRequest, ReportTrafficResponse, Route,
    WatchQuarantineRequest, WatchQuarantineResponse, WatchRequest, WatchResponse, Worker, node,
};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::Revision;
use tokio::sync::watch;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tonic::{Request, Response, Status};

use super::Deployed;

/// The pool of every node.
const POOL: &str = "default";

pub(crate) struct Catalog {
    addr: SocketAddr,
    content: Content,
    /// The runtime whose threads stand for the process: dropping the runtime resets every
    /// connection.
    process: Option<tokio::runtime::Runtime>,
}

#[derive(Clone, Default)]
struct Content {
    state: Arc<Mutex<State>>,
    paused: watch::Sender<bool>,
    /// Set while the catalog is not complete and refuses requests for revisions.
    incomplete: watch::Sender<bool>,
    /// The entries that fronts watch. Each change is announced as a whole snapshot.
    entries: watch::Sender<Entries>,
}

#[derive(Clone, Default)]
struct Entries {
    workers: Vec<Worker>,
    nodes: Vec<Node>,
}

#[derive(Default)]
struct State {
    revisions: HashMap<RevisionDigest, Revision>,
    /// Digests whose requests are answered with the messages of another revision.
    swapped: HashMap<RevisionDigest, RevisionDigest>,
    fetches: usize,
    reports: Vec<ReportRequest>,
}

impl Catalog {
    pub(crate) fn start() -> Self {
        let mut catalog =
            Self { addr: ([127, 0, 0, 1], 0).into(), content: Content::default(), process: None };
        catalog.restart();
        catalog
    }

    /// Starts the catalog again, at the same address and with the same content.
    pub(crate) fn restart(&mut self) {
        let process = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind(self.addr).unwrap();
        listener.set_nonblocking(true).unwrap();
        self.addr = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .add_service(CatalogServer::new(self.content.clone()));
        process.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        self.process = Some(process);
    }

    /// Stops the catalog as if it were killed.
    pub(crate) fn stop(&mut self) {
        let process = self.process.take().expect("the catalog is not running");
        // A thread of one runtime must not wait for the end of another runtime, so a new thread
        // waits. The port must be free when this function returns.
        std::thread::spawn(move || process.shutdown_timeout(Duration::from_secs(5)))
            .join()
            .unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn put(&self, revision: Revision) -> RevisionDigest {
        let digest = revision.digest();
        self.content.state().revisions.insert(digest, revision);
        digest
    }

    /// Makes later requests for `digest` return `other`.
    pub(crate) fn swap(&self, digest: RevisionDigest, other: RevisionDigest) {
        self.content.state().swapped.insert(digest, other);
    }

    /// Makes every request for a revision wait until [`Catalog::resume`].
    pub(crate) fn pause(&self) {
        self.content.paused.send_replace(true);
    }

    pub(crate) fn resume(&self) {
        self.content.paused.send_replace(false);
    }

    /// Refuses every later request for a revision, like an operator that has not listed the cluster
    /// yet.
    pub(crate) fn refuse(&self) {
        self.content.incomplete.send_replace(true);
    }

    /// Copies the revisions of this catalog to another one.
    pub(crate) fn copy_to(&self, other: &Self) {
        let revisions = self.content.state().revisions.clone();
        other.content.state().revisions.extend(revisions);
    }

    /// Announces a Worker to fronts, with a route for each host.
    pub(crate) fn announce(&self, deployed: &Deployed, hosts: &[&str]) {
        let route = |host: &&str| Route { host: (*host).to_owned(), path: "/".to_owned() };
        let worker = Worker {
            id: deployed.worker.to_string(),
            pool: POOL.to_owned(),
            digest: deployed.digest.as_bytes().to_vec(),
            routes: hosts.iter().map(route).collect(),
            wall_ms: 30_000,
            request_body_bytes: 1 << 20,
            ..Worker::default()
        };
        self.content.entries.send_modify(|entries| entries.workers.push(worker));
    }

    /// Announces a node to fronts, replacing any other node of that name.
    pub(crate) fn announce_node(&self, name: &str, shard_ports: Vec<u32>, lane_ports: Vec<u32>) {
        let node = Node {
            name: name.to_owned(),
            pool: POOL.to_owned(),
            address: "127.0.0.1".to_owned(),
            shard_ports,
            lane_ports,
            state: node::State::Ready.into(),
        };
        self.content.entries.send_modify(|entries| {
            entries.nodes.retain(|other| other.name != name);
            entries.nodes.push(node);
        });
    }

    /// Returns the number of requests for revisions so far.
    pub(crate) fn fetches(&self) -> usize {
        self.content.state().fetches
    }

    /// Returns the reports about the health of Workers that have arrived so far.
    pub(crate) fn reports(&self) -> Vec<ReportRequest> {
        self.content.state().reports.clone()
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        // A thread of one runtime must not wait for the threads of another runtime.
        if let Some(process) = self.process.take() {
            process.shutdown_background();
        }
    }
}

impl Content {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the catalog")
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl catalog_server::Catalog for Content {
    type WatchStream = Answers<WatchResponse>;
    type GetRevisionStream = Answers<GetRevisionResponse>;

    async fn watch(&self, _: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let snapshot = |Entries { workers, nodes }| {
            let kind = Kind::SnapshotEnd.into();
            Ok(WatchResponse { kind, workers, nodes, ..WatchResponse::default() })
        };
        Ok(Response::new(WatchStream::new(self.entries.subscribe()).map(snapshot).boxed()))
    }

    async fn get_revision(
        &self,
        request: Request<GetRevisionRequest>,
    ) -> Result<Response<Self::GetRevisionStream>, Status> {
        let digest = RevisionDigest::try_from(&request.get_ref().digest[..]).unwrap();
        let mut paused_rx = self.paused.subscribe();
        paused_rx.wait_for(|paused| !paused).await.expect("the sender was dropped");
        let mut state = self.state();
        state.fetches += 1;
        if *self.incomplete.borrow() {
            return Err(Status::unavailable("the catalog is not complete yet"));
        }
        let digest = state.swapped.get(&digest).copied().unwrap_or(digest);
        let revision =
            state.revisions.get(&digest).ok_or_else(|| Status::not_found("no such revision"))?;
        Ok(Response::new(stream::iter(revision.to_messages(&digest)).map(Ok).boxed()))
    }

    type GetAssetsStream = Answers<GetAssetsResponse>;

    async fn get_assets(
        &self,
        _: Request<GetAssetsRequest>,
    ) -> Result<Response<Self::GetAssetsStream>, Status> {
        Err(Status::unimplemented("nodes do not serve static files"))
    }

    type WatchQuarantineStream = Answers<WatchQuarantineResponse>;

    async fn watch_quarantine(
        &self,
        _: Request<WatchQuarantineRequest>,
    ) -> Result<Response<Self::WatchQuarantineStream>, Status> {
        Ok(Response::new(
            stream::once(async { Ok(WatchQuarantineResponse::default()) })
                .chain(stream::pending())
                .boxed(),
        ))
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        self.state().reports.push(request.into_inner());
        Ok(Response::new(ReportResponse {}))
    }

    async fn report_traffic(
        &self,
        _: Request<ReportTrafficRequest>,
    ) -> Result<Response<ReportTrafficResponse>, Status> {
        Err(Status::unimplemented("a node reported requests"))
    }
}
