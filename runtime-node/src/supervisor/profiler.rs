//! Takes profiles of Workers for `tenon profile`, on a listener that only this machine reaches.
//!
//! ```text
//!  client ─ Profile ─► placement: the Worker runs in lanes ─► lanes: profile ─► shards: consult
//!     ▲                                                          │
//!     └──────── parts ◄──── accept: the right lane? ◄── reports ─┘
//! ```
//!
//! The listener is on the loopback interface, without TLS: clients reach it through the API
//! server's port-forward, which authorizes them. By default, no Worker reaches it, because nodes
//! refuse loopback addresses to Workers. A pool that allows these addresses lets its Workers take
//! profiles.
//!
//! A call holds a [`Run`], whose end restores the placement, however the call ends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::node::order::Order as OrderKind;
use tenon_proto::node::profile_response::Response as Kind;
use tenon_proto::node::profiler_server::{self, ProfilerServer};
use tenon_proto::node::report_profile_request::Report;
use tenon_proto::node::{
    self, ProfileKind, ProfileRequest, ProfileResponse, ReportProfileRequest, Waiting,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tonic::{Request, Response, Status};

use super::profiles::{Accepted, Begun};
use super::{Shared, lock, order};
use crate::profile::{MAX_PROFILE_DURATION, TAKE, WAIT};

/// Maximum number of connections. A client needs one.
const CONNECTIONS: usize = 8;

/// Longest time for which a connection may be open: the time for a profile and its transfer.
const LONGEST_CONNECTION: Duration = Duration::from_secs(600);

/// Maximum number of concurrent calls of a connection.
const STREAMS: u32 = 4;

/// Time that a lane gets for a report beyond the time that the profile takes: other Workers of the
/// lane run meanwhile, and a heap snapshot blocks it.
const REPORT_MARGIN: Duration = Duration::from_secs(60);

/// Pause after a failed accept. The cause is nearly always a temporary lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds the listener.
///
/// # Errors
/// Fails if the port is taken.
pub(super) fn bind(port: u16) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves clients forever.
pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("cannot poll the listener");
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve_connection(stream, Arc::clone(&shared));
                tokio::spawn(async move {
                    let _permit = permit;
                    // After the timeout, the connection is closed, which ends its calls.
                    let _ = tokio::time::timeout(LONGEST_CONNECTION, served).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for profiles");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let service = TowerToHyperService::new(ProfilerServer::new(Profiler { shared }));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "lost the connection of a client for profiles");
    }
}

struct Profiler {
    shared: Arc<Shared>,
}

#[tonic::async_trait]
impl profiler_server::Profiler for Profiler {
    type ProfileStream = Pin<Box<dyn Stream<Item = Result<ProfileResponse, Status>> + Send>>;

    async fn profile(
        &self,
        request: Request<ProfileRequest>,
    ) -> Result<Response<Self::ProfileStream>, Status> {
        let request = request.into_inner();
        let kind = request.kind();
        let worker: WorkerId =
            request.worker.parse().map_err(|error: tenon_proto::id::InvalidWorkerId| {
                Status::invalid_argument(error.to_string())
            })?;
        let duration = Duration::from_millis(request.duration_ms.into());
        if kind == ProfileKind::Unspecified || duration.is_zero() || duration > MAX_PROFILE_DURATION
        {
            let why = format!(
                "the request has no kind of profile, or its duration is not allowed; choose a CPU profile or a heap snapshot, and at most {} s",
                MAX_PROFILE_DURATION.as_secs()
            );
            return Err(Status::invalid_argument(why));
        }
        let run = Run::begin(&self.shared, worker, kind, duration)?;
        let at_most_ms = u32::try_from(WAIT.as_millis()).unwrap_or(u32::MAX);
        let waiting = response(Kind::Waiting(Waiting { at_most_ms }));
        let parts = stream::unfold(Some(run), |run: Option<Run>| async move {
            let mut run = run?;
            match run.next().await? {
                Ok(response) => Some((Ok(response), Some(run))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(stream::iter([Ok(waiting)]).chain(parts).boxed()))
    }
}

fn response(kind: Kind) -> ProfileResponse {
    ProfileResponse { response: Some(kind) }
}

/// A profile that is being taken for a client. Dropping it ends the profile.
struct Run {
    shared: Arc<Shared>,
    id: u64,
    worker: WorkerId,
    duration: Duration,
    /// Whether the copy, the isolate that is profiled, has started in a lane.
    has_begun: bool,
    reports_rx: mpsc::Receiver<Report>,
}

impl Run {
    fn begin(
        shared: &Arc<Shared>,
        worker: WorkerId,
        kind: ProfileKind,
        duration: Duration,
    ) -> Result<Self, Status> {
        if !shared.children.iter().any(|child| child.id.is_lane()) {
            let why = "the node has no lanes, and profiles are taken in lanes; set `lanes` of the RuntimePool";
            return Err(Status::failed_precondition(why));
        }
        let begun = lock(&shared.profiles).begin(worker.clone());
        let Begun { id, reports_rx } = begun.map_err(|busy| {
            Status::failed_precondition(format!(
                "the node takes a profile of Worker {busy} already; try again when it has ended, or choose another node"
            ))
        })?;
        // From here on, dropping the run restores everything.
        let run = Self {
            shared: Arc::clone(shared),
            id,
            worker: worker.clone(),
            duration,
            has_begun: false,
            reports_rx,
        };
        tracing::info!(%worker, ?kind, ?duration, "profiling a Worker");
        lock(&shared.placement).profiled = Some(worker.clone());
        let profile = node::Profile {
            id,
            worker: worker.to_string(),
            kind: kind.into(),
            duration_ms: u32::try_from(duration.as_millis()).unwrap_or(u32::MAX),
        };
        shared.order_all(&OrderKind::Profile(profile), ShardId::is_lane);
        let consult = node::Consult { worker: worker.to_string() };
        shared.order_all(&OrderKind::Consult(consult), |id| !id.is_lane());
        Ok(run)
    }

    /// Returns the next response, or `None` after the last one.
    async fn next(&mut self) -> Option<Result<ProfileResponse, Status>> {
        let limit = REPORT_MARGIN + if self.has_begun { self.duration } else { WAIT };
        let Ok(report) = tokio::time::timeout(limit, self.reports_rx.recv()).await else {
            let why = "the lane does not answer, because other Workers of the node keep it busy; try again later, or choose another node";
            return Some(Err(Status::deadline_exceeded(why)));
        };
        match report {
            Some(Report::Part(part)) => {
                self.has_begun = true;
                Some(Ok(response(Kind::Part(part))))
            }
            Some(Report::Complete(_)) => None,
            Some(Report::Failed(why)) => Some(Err(Status::aborted(why))),
            None => {
                let why = "the process of the lane ended before the profile was complete, perhaps because it ran out of memory, or because a snapshot took too long; raise the memory of the RuntimePool's nodes, or choose a shorter duration";
                Some(Err(Status::aborted(why)))
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        tracing::info!(worker = %self.worker, "the profile of a Worker has ended");
        self.shared.end_profile(self.id);
    }
}

impl Shared {
    /// Passes a lane's report on to the client, and waits until the client has taken the previous
    /// report.
    ///
    /// # Errors
    /// Fails if the report is empty or the profile is no longer wanted, or if the client does not
    /// take reports in time, which ends the profile.
    pub(super) async fn report_profile(
        &self,
        by: ShardId,
        request: ReportProfileRequest,
    ) -> Result<(), Status> {
        let ReportProfileRequest { id, report } = request;
        let report = report.ok_or_else(|| Status::invalid_argument("the report is empty"))?;
        let accepted = lock(&self.profiles).accept(by, id, &report);
        let Accepted { reports_tx, is_first, ends_recording } =
            accepted.map_err(|rejected| Status::cancelled(rejected.to_string()))?;
        if is_first {
            let end = OrderKind::EndProfile(node::EndProfile { id });
            self.order_all(&end, |lane| lane.is_lane() && lane != by);
        }
        if ends_recording {
            self.end_recording();
        }
        if tokio::time::timeout(TAKE, reports_tx.send(report)).await.is_err() {
            self.end_profile(id);
            return Err(Status::cancelled("the client does not read the profile"));
        }
        Ok(())
    }

    /// Ends the profile that is lost with this lane's process, if there is one. Returns whether the
    /// copy ran in that process.
    pub(super) fn lose_profile(&self, lane: ShardId) -> bool {
        let lost = lock(&self.profiles).lost_with(lane);
        lost.is_some_and(|(id, had_copy)| {
            self.end_profile(id);
            had_copy
        })
    }

    fn end_profile(&self, id: u64) {
        if lock(&self.profiles).end(id) {
            self.end_recording();
        }
        self.order_all(&OrderKind::EndProfile(node::EndProfile { id }), ShardId::is_lane);
    }

    /// Lets the profiled Worker run again where it would run without a profile.
    fn end_recording(&self) {
        lock(&self.placement).profiled = None;
        let consult = OrderKind::Consult(node::Consult::default());
        self.order_all(&consult, |id| !id.is_lane());
    }

    fn order_all(&self, wanted: &OrderKind, concerned: impl Fn(ShardId) -> bool) {
        let concerned = self.children.iter().filter(|child| concerned(child.id));
        concerned.for_each(|child| child.order(order(wanted.clone())));
    }
}
