//! Serves one child process over its control connection.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryFutureExt as _, stream};
use tenon_proto::catalog::{GetRevisionRequest, WorkerReport};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::node::get_revision_response::Part;
use tenon_proto::node::notice::Notice as NoticeKind;
use tenon_proto::node::place_response;
use tenon_proto::node::placed::Verdict as WireVerdict;
use tenon_proto::node::supervisor_server::{self, SupervisorServer};
use tenon_proto::node::{
    GetRevisionResponse, KeepBytecodeRequest, KeepBytecodeResponse, Notice, Order, PlaceRequest,
    PlaceResponse, Placed, ReportProfileRequest, ReportProfileResponse,
};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::Shared;
use super::lock;
use super::placement::PlacementDecision;
use super::process::process_name;
use crate::child::MAX_MESSAGE;
use crate::source::{RevisionWithBytecode, Source};

/// Maximum size of one piece of bytecode, in bytes. A revision's bytecode may be many times larger.
const PIECE: usize = 1 << 20;

/// Maximum size of one revision's bytecode, in bytes: a shard makes no bytecode for modules of more
/// than 8 MiB.
const MAX_BYTECODE: usize = 64 << 20;

/// Serves one process. Does not return when the connection ends: the caller aborts the task.
///
/// # Arguments
/// * `alive` - whether the process is alive; notices of an ended process are ignored.
pub(super) async fn serve(
    shared: Arc<Shared>,
    id: ShardId,
    alive: Arc<AtomicBool>,
    control: UnixStream,
    orders: Orders,
) {
    let service =
        SupervisorServer::new(Service { shared, id, alive, orders: Mutex::new(Some(orders)) })
            .max_decoding_message_size(MAX_MESSAGE);
    let incoming =
        stream::once(async { Ok::<_, std::io::Error>(control) }).chain(stream::pending());
    if let Err(error) = Server::builder().add_service(service).serve_with_incoming(incoming).await {
        tracing::warn!(process = process_name(id), %error, "lost the control connection");
    }
}

/// The orders for a process.
pub(super) type Orders = mpsc::UnboundedReceiver<Order>;

struct Service {
    shared: Arc<Shared>,
    id: ShardId,
    /// False once the process has ended.
    alive: Arc<AtomicBool>,
    /// Taken when the process calls `Control`.
    orders: Mutex<Option<Orders>>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl supervisor_server::Supervisor for Service {
    type ControlStream = Responses<Order>;
    type PlaceStream = Responses<PlaceResponse>;
    type GetRevisionStream = Responses<GetRevisionResponse>;

    async fn control(
        &self,
        request: Request<Streaming<Notice>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let orders = lock(&self.orders).take();
        let orders = orders
            .ok_or_else(|| Status::failed_precondition("the process receives orders already"))?;
        let (shared, id, mut notices) = (Arc::clone(&self.shared), self.id, request.into_inner());
        let alive = Arc::clone(&self.alive);
        tokio::spawn(async move {
            // An error means that the process has ended, which its `Keeper` notices too.
            while let Ok(Some(notice)) = notices.message().await {
                // A late notice of an ended process must not be mistaken for a notice of the
                // process's successor.
                if !alive.load(Ordering::Relaxed) {
                    return;
                }
                handle_notice(&shared, id, notice);
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(orders).map(Ok).boxed()))
    }

    async fn place(
        &self,
        request: Request<PlaceRequest>,
    ) -> Result<Response<Self::PlaceStream>, Status> {
        let PlaceRequest { digest, worker, stay, send } = request.into_inner();
        let (digest, worker) = (read_digest(&digest)?, read_worker(&worker)?);
        if stay {
            self.shared.await_verdict(&digest).await;
        }
        let (is_known, verdict) = {
            let mut placement = lock(&self.shared.placement);
            (
                placement.knows(&digest),
                placement.place(self.id, &worker, &digest, stay, Instant::now()),
            )
        };
        if !is_known && verdict == PlacementDecision::Elsewhere {
            // The code is fetched while the revision's first request moves from the shard to a
            // lane.
            self.shared.source.prefetch(worker.as_str(), digest);
        }
        let (verdict, remaining) = match verdict {
            PlacementDecision::Here => (WireVerdict::Here, Duration::ZERO),
            PlacementDecision::Elsewhere => (WireVerdict::Elsewhere, Duration::ZERO),
            PlacementDecision::Quarantined(remaining) => (WireVerdict::Quarantined, remaining),
        };
        let remaining_ms = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        let placed = place_response::Part::Placed(Placed { verdict: verdict.into(), remaining_ms });
        let mut parts = stream::iter([Ok(placed)]).boxed();
        if send && verdict == WireVerdict::Here {
            let code = code(self.shared.source.clone(), worker.to_string(), digest)
                .map(|part| part.map(place_response::Part::Code));
            parts = parts.chain(code).boxed();
        }
        Ok(Response::new(
            parts.map(|part| part.map(|part| PlaceResponse { part: Some(part) })).boxed(),
        ))
    }

    async fn get_revision(
        &self,
        request: Request<GetRevisionRequest>,
    ) -> Result<Response<Self::GetRevisionStream>, Status> {
        let GetRevisionRequest { digest, worker } = request.into_inner();
        let digest = read_digest(&digest)?;
        Ok(Response::new(code(self.shared.source.clone(), worker, digest).boxed()))
    }

    async fn keep_bytecode(
        &self,
        request: Request<Streaming<KeepBytecodeRequest>>,
    ) -> Result<Response<KeepBytecodeResponse>, Status> {
        let mut pieces = request.into_inner();
        let (mut digest, mut bytecode) = (None, Vec::new());
        while let Some(piece) = pieces.message().await? {
            if digest.is_none() {
                digest = Some(read_digest(&piece.digest)?);
            }
            bytecode.extend_from_slice(&piece.bytecode);
            if bytecode.len() > MAX_BYTECODE {
                return Err(Status::resource_exhausted("the bytecode is too large"));
            }
        }
        let digest =
            digest.ok_or_else(|| Status::invalid_argument("the bytecode has no digest"))?;
        self.shared.source.keep(digest, Bytes::from(bytecode)).await;
        Ok(Response::new(KeepBytecodeResponse {}))
    }

    async fn report_profile(
        &self,
        request: Request<ReportProfileRequest>,
    ) -> Result<Response<ReportProfileResponse>, Status> {
        self.shared.report_profile(self.id, request.into_inner()).await?;
        Ok(Response::new(ReportProfileResponse {}))
    }
}

/// Streams a revision and its bytecode, in parts.
fn code(
    source: Source,
    worker: String,
    digest: RevisionDigest,
) -> impl Stream<Item = Result<GetRevisionResponse, Status>> + Send {
    let fetched = async move {
        source.fetch(&worker, digest).await.map_err(|failure| Status::from(&failure))
    };
    let parts = fetched.map_ok(move |RevisionWithBytecode { revision, bytecode }| {
        let revision = revision.to_messages(&digest).map(Part::Revision);
        let bytecode = bytecode.unwrap_or_default();
        let pieces = (0..bytecode.len())
            .step_by(PIECE)
            .map(move |at| Part::Bytecode(bytecode.slice(at..bytecode.len().min(at + PIECE))));
        let parts = revision.chain(pieces).map(|part| Ok(GetRevisionResponse { part: Some(part) }));
        stream::iter(parts.collect::<Vec<_>>())
    });
    parts.try_flatten_stream()
}

/// Handles a notice. Ignores a malformed notice, because hostile code may have subverted the
/// process.
fn handle_notice(shared: &Shared, id: ShardId, notice: Notice) {
    let digest = |bytes: &[u8]| RevisionDigest::try_from(bytes).ok();
    match notice.notice {
        Some(NoticeKind::Ready(_)) => shared.on_ready(id),
        Some(NoticeKind::Report(WorkerReport { worker, digest: bytes, state })) => {
            if let (Some(digest), Some(state)) = (digest(&bytes), state) {
                shared.reporter.relay(id, worker.parse().ok(), digest, state);
            }
        }
        Some(NoticeKind::Heavy(heavy)) => {
            digest(&heavy.digest).into_iter().for_each(|digest| shared.on_heavy(id, &digest))
        }
        Some(NoticeKind::Light(light)) => {
            digest(&light.digest)
                .into_iter()
                .for_each(|digest| shared.on_light(&digest, light.requests));
        }
        Some(NoticeKind::Warm(warm)) => {
            digest(&warm.digest).into_iter().for_each(|digest| shared.on_warm(&digest))
        }
        Some(NoticeKind::Metrics(metrics)) => shared.on_metrics(id, metrics),
        Some(NoticeKind::Worn(_)) => shared.child(id).worn.notify_one(),
        None => {}
    }
}

fn read_digest(bytes: &[u8]) -> Result<RevisionDigest, Status> {
    RevisionDigest::try_from(bytes).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn read_worker(id: &str) -> Result<WorkerId, Status> {
    id.parse().map_err(|error: tenon_proto::id::InvalidWorkerId| {
        Status::invalid_argument(error.to_string())
    })
}
