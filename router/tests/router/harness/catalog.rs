//! A catalog whose content the test sets.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tenon_proto::catalog::catalog_server::{self, CatalogServer};
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{
    Cursor, GetAssetsRequest, GetAssetsResponse, GetRevisionRequest, GetRevisionResponse,
    ReportRequest, ReportResponse, ReportTrafficRequest, ReportTrafficResponse, RevisionTraffic,
    WatchQuarantineRequest, WatchQuarantineResponse, WatchRequest, WatchResponse,
};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Code, Request, Response, Status};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A running catalog server. Dropping it closes the listener; [`Catalog::stop`] also disconnects
/// the watchers.
pub(crate) struct Catalog {
    addr: SocketAddr,
    content: Content,
    _stop_tx: oneshot::Sender<()>,
}

#[derive(Clone, Default)]
struct Content(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// All changes so far; together they are the snapshot.
    changes: Vec<WatchResponse>,
    watchers: Vec<mpsc::UnboundedSender<WatchResponse>>,
    resumed: Vec<Option<Cursor>>,
    /// Packs of static files, by the digest of a revision.
    packs: HashMap<Vec<u8>, Bytes>,
    /// The number of packs that were requested.
    requested: usize,
    traffic: Vec<RevisionTraffic>,
    /// The answer to the next report of figures, if it is not OK.
    refusal: Option<Code>,
}

const EPOCH: &str = "test";

impl Catalog {
    pub(crate) async fn start() -> Self {
        Self::serve(TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), Content::default())
    }

    fn serve(listener: TcpListener, content: Content) -> Self {
        let addr = listener.local_addr().unwrap();
        let (stop_tx, stop_rx) = oneshot::channel::<()>();
        let server =
            tonic::transport::Server::builder().add_service(CatalogServer::new(content.clone()));
        tokio::spawn(async move {
            // The server does not shut down gracefully: it stops accepting connections immediately.
            tokio::select! {
                served = server.serve_with_incoming(TcpListenerStream::new(listener)) => {
                    served.unwrap();
                }
                _ = stop_rx => {}
            }
        });
        Self { addr, content, _stop_tx: stop_tx }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sends a change to every watcher, including future ones.
    pub(crate) fn change(&self, mut change: WatchResponse) {
        let mut state = self.content.0.lock().unwrap();
        change.set_kind(Kind::Delta);
        change.cursor = Some(cursor(state.changes.len() + 1));
        state.watchers.retain(|watcher| watcher.send(change.clone()).is_ok());
        state.changes.push(change);
    }

    /// Stops the server, and keeps the content for [`Stopped::start`].
    pub(crate) fn stop(self) -> Stopped {
        self.content.0.lock().unwrap().watchers.clear();
        Stopped { addr: self.addr, content: self.content }
    }

    /// Sets the pack of the static files of a revision.
    pub(crate) fn set_pack(&self, digest: &[u8], pack: Bytes) {
        self.content.0.lock().unwrap().packs.insert(digest.to_vec(), pack);
    }

    /// Returns the number of packs that were requested.
    pub(crate) fn requested_packs(&self) -> usize {
        self.content.0.lock().unwrap().requested
    }

    /// Returns the figures that were reported.
    pub(crate) fn traffic(&self) -> Vec<RevisionTraffic> {
        self.content.0.lock().unwrap().traffic.clone()
    }

    /// Refuses the next report of figures.
    pub(crate) fn refuse_traffic(&self, code: Code) {
        self.content.0.lock().unwrap().refusal = Some(code);
    }

    /// Returns whether the next report of figures will be refused.
    pub(crate) fn refuses_traffic(&self) -> bool {
        self.content.0.lock().unwrap().refusal.is_some()
    }

    /// Returns the cursors from which watchers asked to resume, in order of arrival.
    pub(crate) fn resumed(&self) -> Vec<Option<Cursor>> {
        self.content.0.lock().unwrap().resumed.clone()
    }
}

pub(crate) struct Stopped {
    addr: SocketAddr,
    content: Content,
}

impl Stopped {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Restarts the server at the same address.
    pub(crate) fn start(self) -> Catalog {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.addr).unwrap();
        Catalog::serve(socket.listen(64).unwrap(), self.content)
    }
}

fn cursor(version: usize) -> Cursor {
    Cursor { epoch: EPOCH.into(), version: version as u64 }
}

#[tonic::async_trait]
impl catalog_server::Catalog for Content {
    type WatchStream = Answers<WatchResponse>;
    type GetRevisionStream = Answers<GetRevisionResponse>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let mut state = self.0.lock().unwrap();
        let resume = request.into_inner().resume;
        state.resumed.push(resume.clone());
        let (watcher_tx, watcher_rx) = mpsc::unbounded_channel();
        match resume {
            Some(Cursor { epoch, version }) if epoch == EPOCH => {
                state.changes[version as usize..]
                    .iter()
                    .for_each(|change| watcher_tx.send(change.clone()).unwrap());
            }
            _ => snapshot(&state.changes).for_each(|part| watcher_tx.send(part).unwrap()),
        }
        state.watchers.push(watcher_tx);
        Ok(Response::new(UnboundedReceiverStream::new(watcher_rx).map(Ok).boxed()))
    }

    async fn get_revision(
        &self,
        _request: Request<GetRevisionRequest>,
    ) -> Result<Response<Self::GetRevisionStream>, Status> {
        Err(Status::unimplemented("a router requested code"))
    }

    type GetAssetsStream = Answers<GetAssetsResponse>;

    async fn get_assets(
        &self,
        request: Request<GetAssetsRequest>,
    ) -> Result<Response<Self::GetAssetsStream>, Status> {
        let mut state = self.0.lock().unwrap();
        state.requested += 1;
        let pack = state.packs.get(&request.into_inner().digest);
        let pack = pack.cloned().ok_or_else(|| Status::not_found("the revision has no pack"))?;
        let pieces: Vec<_> = pack.chunks(1000).map(|piece| pack.slice_ref(piece)).collect();
        let pieces = pieces.into_iter().map(|data| Ok(GetAssetsResponse { data }));
        Ok(Response::new(futures::stream::iter(pieces).boxed()))
    }

    type WatchQuarantineStream = Answers<WatchQuarantineResponse>;

    async fn watch_quarantine(
        &self,
        _request: Request<WatchQuarantineRequest>,
    ) -> Result<Response<Self::WatchQuarantineStream>, Status> {
        Err(Status::unimplemented("a router watched quarantines"))
    }

    async fn report(
        &self,
        _request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        Err(Status::unimplemented("a router sent a report"))
    }

    async fn report_traffic(
        &self,
        request: Request<ReportTrafficRequest>,
    ) -> Result<Response<ReportTrafficResponse>, Status> {
        let mut state = self.0.lock().unwrap();
        if let Some(code) = state.refusal.take() {
            return Err(Status::new(code, "not now"));
        }
        state.traffic.extend(request.into_inner().revisions);
        Ok(Response::new(ReportTrafficResponse {}))
    }
}

fn snapshot(changes: &[WatchResponse]) -> impl Iterator<Item = WatchResponse> {
    let part =
        |change: &WatchResponse| WatchResponse { kind: Kind::Snapshot.into(), ..change.clone() };
    let end = WatchResponse {
        kind: Kind::SnapshotEnd.into(),
        cursor: Some(cursor(changes.len())),
        ..Default::default()
    };
    changes.iter().map(part).chain([end])
}
