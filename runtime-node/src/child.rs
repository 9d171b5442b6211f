//! A shard's or lane's side of its supervisor: what its process inherits, the notices it sends and
//! the orders it gets.
//!
//! ```text
//!  inherit: control connection, page, listener ─► Node::spawn_child
//!  control thread ── orders ──► shard thread: release, prestart          ── drain ──► main
//!                 ◄─ notices ── shard thread: heavy, light, reports, ready
//! ```
//!
//! The control connection has a thread of its own, so that the process shows its metrics and
//! receives a drain order while a turn is running. When the connection ends, so does the process:
//! without a supervisor it would be neither restarted nor told to drain.

#![allow(unsafe_code)] // Takes over file descriptors by their number.

use std::ffi::CString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, TryStreamExt as _, stream};
use http::Uri;
use hyper_util::rt::TokioIo;
use prometheus::{Registry, TextEncoder};
use rustix::process::{Signal, nice, set_parent_process_death_signal};
use rustix::thread::set_name;
use tenon_engine::page::Page;
use tenon_lifecycle::vital;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::node::notice::Notice as Said;
use tenon_proto::node::order::Order as Ordered;
use tenon_proto::node::place_response::Part;
use tenon_proto::node::placed::Verdict;
use tenon_proto::node::supervisor_client::SupervisorClient;
use tenon_proto::node::{
    self, GetRevisionResponse, KeepBytecodeRequest, Notice, Order, PlaceRequest, PlaceResponse,
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tower_service::Service;

/// Numbers of the file descriptors that the process inherits.
pub(crate) const CONTROL: RawFd = 3;
pub(crate) const PAGE: RawFd = 4;
pub(crate) const LISTENER: RawFd = 5;

/// Niceness that a lane adds to a shard's, in steps of nice(2): a lane gets a tenth of a core that
/// a shard wants as well.
const LANE_NICENESS: i32 = 10;

/// Added to `oom_score_adj`, out of 1,000: the kernel ends these processes before the supervisor
/// when memory is short, and lanes first.
const OOM_SCORE_SHARD: i32 = 100;
const OOM_SCORE_LANE: i32 = 200;

/// The largest piece of a message, in bytes.
const PIECE: usize = 1 << 20;

/// The file descriptors that a shard's or lane's process has inherited.
pub struct Inherited {
    id: ShardId,
    control: UnixStream,
    page: Page,
    listener: TcpListener,
}

/// This process's place in its node.
pub struct ChildProcess {
    pub(crate) id: ShardId,
    pub(crate) page: Arc<Page>,
    pub(crate) listener: TcpListener,
    pub(crate) supervisor: Supervisor,
    pub(crate) commands_rx: mpsc::UnboundedReceiver<Command>,
}

/// A task from the supervisor for the shard's thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Evict the revision and, if its code ended a process, fail its invocations in flight.
    Release { digest: RevisionDigest, condemn: bool },
    /// Start the revision and report when that has ended.
    Prestart(WorkerId, RevisionDigest),
}

/// The place where a revision runs.
#[derive(Debug)]
pub(crate) enum Place {
    /// It runs in this process. Carries its code if that was requested.
    Here(Option<Delivery>),
    /// It runs in another process of this node.
    Elsewhere,
    /// It is quarantined for this long.
    Nowhere(Duration),
}

/// The rest of a placement answer: the revision's code.
#[derive(Debug)]
pub(crate) struct Delivery(Box<Streaming<PlaceResponse>>);

impl Delivery {
    pub(crate) fn code(self) -> impl Stream<Item = Result<GetRevisionResponse, Status>> + Unpin {
        Box::pin(self.0.try_filter_map(async |PlaceResponse { part }| match part {
            Some(Part::Code(code)) => Ok(Some(code)),
            Some(Part::Placed(_)) | None => Ok(None),
        }))
    }
}

/// A handle to the supervisor, for any thread.
#[derive(Clone)]
pub struct Supervisor {
    id: ShardId,
    client: SupervisorClient<Channel>,
    notices_tx: mpsc::UnboundedSender<Notice>,
}

/// Takes over the file descriptors that the supervisor has handed to this process. Call before
/// anything else, and once.
///
/// # Errors
/// Fails if the process was not started by a supervisor.
pub fn inherit(id: ShardId) -> io::Result<Inherited> {
    let page = Page::open(take(PAGE)?)?;
    let (control, listener) =
        (UnixStream::from(take(CONTROL)?), TcpListener::from(take(LISTENER)?));
    control.set_nonblocking(true)?;
    Ok(Inherited { id, control, page, listener })
}

fn take(fd: RawFd) -> io::Result<OwnedFd> {
    if !Path::new(&format!("/proc/self/fd/{fd}")).exists() {
        let why = "--child is set by a node's supervisor; omit it to run a node";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    // SAFETY: the descriptor is open, and nothing else in this process owns it: `inherit` is called
    // before the process opens any, and once for each number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets how the kernel treats this process: it ends with its supervisor, and before it when memory
/// is short; a lane is scheduled last; its name tells its role. Call before other threads are
/// started, which inherit this.
pub fn settle(id: ShardId) {
    let ends = set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    let more = if id.is_lane() { OOM_SCORE_LANE } else { OOM_SCORE_SHARD };
    let scored = std::fs::read_to_string("/proc/self/oom_score_adj").and_then(|score| {
        let score = score.trim().parse::<i32>().map_err(io::Error::other)?;
        std::fs::write("/proc/self/oom_score_adj", (score + more).min(1000).to_string())
    });
    let name = if id.is_lane() { format!("tenon-{id}") } else { format!("tenon-shard-{id}") };
    let named = CString::new(name).map_err(io::Error::from).and_then(|name| Ok(set_name(&name)?));
    let niced =
        if id.is_lane() { nice(LANE_NICENESS).map(drop).map_err(io::Error::from) } else { Ok(()) };
    for (what, done) in [
        ("end with its supervisor", ends),
        ("end before its supervisor when memory is short", scored),
        ("be scheduled after shards", niced),
        ("have its own name", named),
    ] {
        if let Err(error) = done {
            eprintln!("{id} will not {what}: {error}");
        }
    }
}

impl Inherited {
    /// Starts the control thread. Returns the process, and a receiver that resolves when the
    /// process is to drain.
    ///
    /// # Arguments
    /// * `registry` - metrics of the process.
    ///
    /// # Errors
    /// Fails if the system has no more threads.
    pub fn attend(self, registry: Registry) -> io::Result<(ChildProcess, oneshot::Receiver<()>)> {
        let Self { id, control, page, listener } = self;
        let (notices_tx, notices_rx) = mpsc::unbounded_channel();
        let (commands_tx, commands_rx) = mpsc::unbounded_channel();
        let (drain_tx, drain_rx) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            // The channel's task belongs to this runtime.
            let _within = runtime.enter();
            let control = tokio::net::UnixStream::from_std(control)?;
            let channel = Endpoint::from_static("http://supervisor")
                .connect_with_connector_lazy(Once(Some(control)));
            SupervisorClient::new(channel).max_decoding_message_size(64 << 20)
        };
        let supervisor = Supervisor { id, client: client.clone(), notices_tx: notices_tx.clone() };
        let control_thread =
            ControlThread { registry, notices_tx, commands_tx, drain_tx: Some(drain_tx) };
        vital::spawn("control".to_owned(), move || {
            runtime.block_on(control_thread.attend(client, notices_rx))
        })?;
        Ok((ChildProcess { id, page: Arc::new(page), listener, supervisor, commands_rx }, drain_rx))
    }
}

/// The control thread's state: receives and carries out orders.
struct ControlThread {
    registry: Registry,
    notices_tx: mpsc::UnboundedSender<Notice>,
    commands_tx: mpsc::UnboundedSender<Command>,
    drain_tx: Option<oneshot::Sender<()>>,
}

impl ControlThread {
    async fn attend(
        mut self,
        mut client: SupervisorClient<Channel>,
        notices_rx: mpsc::UnboundedReceiver<Notice>,
    ) {
        let lost = match client.attend(UnboundedReceiverStream::new(notices_rx)).await {
            Ok(orders) => self.follow(orders.into_inner()).await,
            Err(status) => status,
        };
        eprintln!("lost the supervisor ({}); exiting", lost.message());
        std::process::exit(1);
    }

    /// Carries out orders until the stream ends. Returns why it ended.
    async fn follow(&mut self, mut orders: Streaming<Order>) -> Status {
        loop {
            match orders.message().await {
                Ok(Some(Order { order: Some(order) })) => self.obey(order),
                Ok(Some(Order { order: None })) => {}
                Ok(None) => return Status::unavailable("the stream of orders ended"),
                Err(status) => return status,
            }
        }
    }

    fn obey(&mut self, order: Ordered) {
        let digest = |bytes: &[u8]| RevisionDigest::try_from(bytes).ok();
        let command = match order {
            Ordered::Drain(_) => {
                // If the receiver is gone, the main thread is ending already.
                self.drain_tx.take().map(|drain_tx| drain_tx.send(()));
                None
            }
            Ordered::Gather(_) => {
                let page = TextEncoder::new()
                    .encode_to_string(&self.registry.gather())
                    .unwrap_or_default();
                let _ = self.notices_tx.send(notice(Said::Metrics(page.into())));
                None
            }
            Ordered::Release(node::Release { digest: of, condemn }) => {
                digest(&of).map(|digest| Command::Release { digest, condemn })
            }
            Ordered::Prestart(node::Prestart { digest: of, worker }) => {
                digest(&of).and_then(|digest| Some(Command::Prestart(worker.parse().ok()?, digest)))
            }
        };
        // If the receiver is gone, the process is about to end.
        command.map(|command| self.commands_tx.send(command));
    }
}

impl Supervisor {
    /// Asks where a revision runs that is not warm here.
    ///
    /// # Arguments
    /// * `stay` - set if the request can no longer be sent elsewhere.
    /// * `send` - set if the code is wanted as well.
    ///
    /// # Errors
    /// Fails if the supervisor does not answer, or answers nonsense.
    pub(crate) async fn place(
        &self,
        worker: &str,
        digest: &RevisionDigest,
        stay: bool,
        send: bool,
    ) -> Result<Place, Failure> {
        let digest = digest.as_bytes().to_vec().into();
        let request = PlaceRequest { digest, worker: worker.to_owned(), stay, send };
        let failure = |code, message: &str| Err(Failure::new(code, Phase::Admission, message));
        let answer = async {
            let mut parts = self.client.clone().place(request).await?.into_inner();
            Ok::<_, Status>((parts.message().await?, parts))
        };
        let (placed, rest) = match answer.await {
            Ok((Some(PlaceResponse { part: Some(Part::Placed(placed)) }), rest)) => (placed, rest),
            Ok(_) => {
                return failure(
                    FailureCode::Internal,
                    "the supervisor's response violates the protocol",
                );
            }
            Err(status) => {
                tracing::warn!(%status, "cannot ask the supervisor where a revision runs");
                return failure(FailureCode::RevisionUnavailable, "the node is about to restart");
            }
        };
        match placed.verdict() {
            Verdict::Here => Ok(Place::Here(send.then(|| Delivery(Box::new(rest))))),
            Verdict::Elsewhere => Ok(Place::Elsewhere),
            Verdict::Quarantined => Ok(Place::Nowhere(Duration::from_millis(placed.remaining_ms))),
            Verdict::Unspecified => {
                failure(FailureCode::Internal, "the supervisor's response violates the protocol")
            }
        }
    }

    /// Fetches a revision from the supervisor's store: the catalog's messages and bytecode.
    ///
    /// # Errors
    /// Returns the status with which the supervisor's own source failed.
    pub(crate) async fn get_revision(
        &self,
        digest: &RevisionDigest,
    ) -> Result<Streaming<GetRevisionResponse>, Status> {
        let request =
            tenon_proto::catalog::GetRevisionRequest { digest: digest.as_bytes().to_vec() };
        self.client.clone().get_revision(request).await.map(tonic::Response::into_inner)
    }

    /// Stores bytecode with the supervisor, for later starts on any shard.
    pub(crate) async fn keep_bytecode(&self, digest: &RevisionDigest, bytecode: bytes::Bytes) {
        let digest = bytes::Bytes::copy_from_slice(digest.as_bytes());
        let pieces = (0..bytecode.len()).step_by(PIECE).map(move |at| KeepBytecodeRequest {
            digest: digest.clone(),
            bytecode: bytecode.slice(at..bytecode.len().min(at + PIECE)),
        });
        if let Err(status) = self.client.clone().keep_bytecode(stream::iter(pieces)).await {
            tracing::debug!(%status, "the supervisor did not store bytecode");
        }
    }

    pub(crate) fn is_lane(&self) -> bool {
        self.id.is_lane()
    }

    /// Reports that the process serves.
    pub(crate) fn report_ready(&self) {
        self.notify(Said::Ready(node::Ready {}));
    }

    /// Reports that a turn or a collection of the revision took long.
    pub(crate) fn report_heavy(&self, digest: &RevisionDigest) {
        self.notify(Said::Heavy(node::Heavy { digest: digest.as_bytes().to_vec().into() }));
    }

    /// Reports this many more requests of the revision without a long turn or collection.
    pub(crate) fn report_light(&self, digest: &RevisionDigest, requests: u32) {
        self.notify(Said::Light(node::Light {
            digest: digest.as_bytes().to_vec().into(),
            requests,
        }));
    }

    /// Reports that the start of a revision which was to be prestarted has ended, well or not.
    pub(crate) fn report_warm(&self, digest: &RevisionDigest) {
        self.notify(Said::Warm(node::Warm { digest: digest.as_bytes().to_vec().into() }));
    }

    /// Reports that a resource which the process cannot recover is nearly used up.
    pub(crate) fn report_worn(&self) {
        self.notify(Said::Worn(node::Worn {}));
    }

    /// Reports that a revision fails again and again, or has recovered.
    pub(crate) fn report(&self, report: tenon_proto::catalog::WorkerReport) {
        self.notify(Said::Report(report));
    }

    fn notify(&self, said: Said) {
        // If the control thread is gone, the process is about to end.
        let _ = self.notices_tx.send(notice(said));
    }
}

fn notice(said: Said) -> Notice {
    Notice { notice: Some(said) }
}

/// A connector that hands out the inherited connection, once.
struct Once(Option<tokio::net::UnixStream>);

impl Service<Uri> for Once {
    type Response = TokioIo<tokio::net::UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let control = self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into());
        Box::pin(async { control.map(TokioIo::new) })
    }
}
