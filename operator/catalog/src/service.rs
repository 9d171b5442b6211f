//! The catalog over gRPC.
//!
//! A watcher's stream holds only its position in the catalog. It is polled only when the connection
//! has room, so a slow client gets fewer and larger messages.

use std::convert::Infallible;
use std::future::pending;
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt as _};
use tenon_lifecycle::drain;
use tenon_proto::catalog::catalog_server::{self, CatalogServer};
use tenon_proto::catalog::{
    GetAssetsRequest, GetAssetsResponse, GetRevisionRequest, GetRevisionResponse, ReportRequest,
    ReportResponse, ReportTrafficRequest, ReportTrafficResponse, WatchQuarantineRequest,
    WatchQuarantineResponse, WatchRequest, WatchResponse,
};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::Revision;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::access::{Call, Caller, CallerPool, Denial};
use super::incoming::{Authentication, incoming};
use super::quarantine::Entry;
use super::state::Walk;
use super::watchers::Registration;
use super::{Catalog, Full, Progress, assets, report, traffic};

/// A client that has not answered a ping for this long is considered dead, and its connection is
/// closed.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two pings.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// Minimum interval between two messages of a quarantine stream. Changes in between are sent
/// together.
const QUARANTINE_PAUSE: Duration = Duration::from_millis(500);

/// Interval at which superseded revisions are expired if nothing else expires them earlier.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// Serves the catalog on `listener` until the drain. Then tells every watcher to use another
/// operator, and completes requests for revisions.
///
/// # Arguments
/// * `authentication` - authenticates routers and nodes. If `None`, every caller is served.
///
/// # Errors
/// Fails if the gRPC server fails. Failures to accept a connection are logged and retried.
pub async fn serve(
    listener: TcpListener,
    authentication: Option<Authentication>,
    catalog: Catalog,
    drain: drain::Watch,
) -> Result<(), tonic::transport::Error> {
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(CatalogServer::new(Service { catalog: catalog.clone(), drain: drain.clone() }))
        .serve_with_incoming_shutdown(incoming(listener, authentication), drain.signaled());
    tokio::select! {
        ended = server => ended,
        never = expire_periodically(catalog) => match never {},
    }
}

async fn expire_periodically(catalog: Catalog) -> Infallible {
    let mut interval = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        interval.tick().await;
        catalog.expire();
    }
}

struct Service {
    catalog: Catalog,
    drain: drain::Watch,
}

#[tonic::async_trait]
impl catalog_server::Catalog for Service {
    type WatchStream = BoxStream<'static, Result<WatchResponse, Status>>;
    type GetRevisionStream = BoxStream<'static, Result<GetRevisionResponse, Status>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.check_router(Call::Watch, &request)?;
        if !self.catalog.is_synced() {
            return Err(not_synced());
        }
        let caller = Caller::of(&request)?.clone();
        let peer = caller.address;
        let WatchRequest { client, resume } = request.into_inner();
        let walk = self.catalog.walk(resume.as_ref(), caller.gets_certificates());
        tracing::info!(client, %peer, resumes = resume.is_some(), "a client watches the catalog");
        let watcher = Watcher {
            catalog: self.catalog.clone(),
            caller,
            walk,
            registration: self.catalog.shared.watchers.register(),
            progress_rx: self.catalog.progress(),
            drain: self.drain.clone(),
        };
        Ok(Response::new(watcher.into_stream().boxed()))
    }

    async fn get_revision(
        &self,
        request: Request<GetRevisionRequest>,
    ) -> Result<Response<Self::GetRevisionStream>, Status> {
        let pool = self.pool_of(Call::GetRevision, &request)?;
        let caller = Caller::of(&request)?.clone();
        let GetRevisionRequest { digest, worker } = request.into_inner();
        let digest = RevisionDigest::try_from(&digest[..])
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let denied =
            |denial| self.catalog.shared.denials.record(Call::GetRevision, &caller, denial);
        let send = |revision: &Revision| {
            Ok(Response::new(stream::iter(revision.to_messages(&digest)).map(Ok).boxed()))
        };
        self.catalog.check_access(&digest, pool.clone()).map_err(denied)?;
        match self.catalog.revision(&digest) {
            Some(revision) => {
                let revision = self.catalog.with_modules(revision).await.ok_or_else(|| {
                    Status::unavailable("the artifact of the revision cannot be pulled now")
                })?;
                send(&revision)
            }
            // A Secret may exist that has not been listed yet.
            None if !self.catalog.is_synced() => {
                let found = self.catalog.early(&worker, digest, &pool).await.map_err(denied)?;
                send(&*found.ok_or_else(not_synced)?)
            }
            None if self.catalog.is_unresolved(&digest) => Err(Status::failed_precondition(
                "a Secret that the revision binds does not exist; create it",
            )),
            None => Err(Status::not_found(format!("no Worker serves revision {digest}"))),
        }
    }

    type GetAssetsStream = BoxStream<'static, Result<GetAssetsResponse, Status>>;

    async fn get_assets(
        &self,
        request: Request<GetAssetsRequest>,
    ) -> Result<Response<Self::GetAssetsStream>, Status> {
        self.check_router(Call::GetAssets, &request)?;
        let digest = RevisionDigest::try_from(&request.into_inner().digest[..])
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let revision = self.catalog.revision(&digest).ok_or_else(|| {
            if self.catalog.is_synced() {
                Status::not_found(format!("no Worker serves revision {digest}"))
            } else {
                not_synced()
            }
        })?;
        let pack = self.catalog.pack(revision).await.ok_or_else(|| {
            Status::unavailable("the static files of the revision cannot be pulled now")
        })?;
        Ok(Response::new(assets::messages(pack).boxed()))
    }

    type WatchQuarantineStream = BoxStream<'static, Result<WatchQuarantineResponse, Status>>;

    async fn watch_quarantine(
        &self,
        request: Request<WatchQuarantineRequest>,
    ) -> Result<Response<Self::WatchQuarantineStream>, Status> {
        let pool = self.pool_of(Call::WatchQuarantine, &request)?;
        if !self.catalog.is_synced() {
            return Err(not_synced());
        }
        let WatchQuarantineRequest { client } = request.into_inner();
        let watcher = QuarantineWatcher {
            changes_rx: self.catalog.quarantine_changes(),
            catalog: self.catalog.clone(),
            pool,
            node: client.strip_prefix("node/").unwrap_or(&client).to_owned(),
            sent: None,
            sent_at: Instant::now(),
            drain: self.drain.clone(),
        };
        Ok(Response::new(watcher.into_stream().boxed()))
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        let pool = self.pool_of(Call::Report, &request)?;
        // Until the serving revisions are known, a correct report would be dropped as outdated.
        if !self.catalog.is_synced() {
            return Err(not_synced());
        }
        let (node, parts) = report::parse(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.catalog.take_report(&pool, &node, parts).map_err(|Full| {
            Status::resource_exhausted("too many reports are queued; retry later")
        })?;
        Ok(Response::new(ReportResponse {}))
    }

    async fn report_traffic(
        &self,
        request: Request<ReportTrafficRequest>,
    ) -> Result<Response<ReportTrafficResponse>, Status> {
        self.check_router(Call::ReportTraffic, &request)?;
        if !self.catalog.is_synced() {
            return Err(not_synced());
        }
        let parts = traffic::parse(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.catalog.take_figures(parts).map_err(|Full| {
            Status::resource_exhausted("too many figures are queued; retry later")
        })?;
        Ok(Response::new(ReportTrafficResponse {}))
    }
}

impl Service {
    /// Refuses callers that do not serve clients: only routers, and nodes with a front, need the
    /// routes of all pools and can count the requests of a Worker.
    fn check_router<T>(&self, call: Call, request: &Request<T>) -> Result<(), Status> {
        let caller = Caller::of(request)?;
        let denied = |denial| self.catalog.shared.denials.record(call, caller, denial);
        match self.catalog.check_router(caller) {
            // The pools with fronts are not complete yet.
            Err(_) if caller.may_have_front() && !self.catalog.is_synced() => Err(not_synced()),
            checked => checked.map_err(denied),
        }
    }

    /// Returns the pool of a node, and refuses callers that are not nodes. Revisions contain code
    /// and secrets and are only for the nodes that run them, and only these can report on them.
    fn pool_of<T>(&self, call: Call, request: &Request<T>) -> Result<CallerPool, Status> {
        let caller = Caller::of(request)?;
        let denied = |denial| self.catalog.shared.denials.record(call, caller, denial);
        match self.catalog.pool_of(caller) {
            // The addresses of nodes are not complete yet.
            Err(Denial::NoPool) if !self.catalog.is_synced() => Err(not_synced()),
            pool => pool.map_err(denied),
        }
    }
}

fn not_synced() -> Status {
    Status::unavailable("the catalog of this operator is not complete yet; retry later")
}

fn draining_status() -> Status {
    Status::unavailable("this operator is draining; watch another operator")
}

/// The stream of one client.
struct Watcher {
    catalog: Catalog,
    caller: Caller,
    walk: Walk,
    registration: Registration,
    progress_rx: watch::Receiver<Progress>,
    drain: drain::Watch,
}

impl Watcher {
    fn into_stream(self) -> impl futures::Stream<Item = Result<WatchResponse, Status>> + Send {
        // The state is `None` after an error has ended the stream.
        stream::unfold(Some(self), |watcher| async {
            let mut watcher = watcher?;
            Some(match watcher.next().await {
                Ok(response) => (Ok(response), Some(watcher)),
                Err(status) => (Err(status), None),
            })
        })
    }

    async fn next(&mut self) -> Result<WatchResponse, Status> {
        loop {
            if self.drain.is_signaled() {
                return Err(draining_status());
            }
            // The change is marked as seen before the catalog is read, so that a change in between
            // wakes the watcher again.
            self.progress_rx.mark_unchanged();
            // The pool of a node may have lost its front since the stream began.
            self.catalog.check_router(&self.caller).map_err(|denial| {
                self.catalog.shared.denials.record(Call::Watch, &self.caller, denial)
            })?;
            let was_up_to_date = self.walk.is_up_to_date();
            let next = self
                .catalog
                .next(&mut self.walk)
                .map_err(|behind| Status::aborted(behind.to_string()))?;
            let waited = if was_up_to_date && next.is_some() { self.catalog.age() } else { None };
            self.registration.record_delivery(self.walk.position(), waited);
            if let Some(response) = next {
                return Ok(response);
            }
            tokio::select! {
                // The sender lives as long as the catalog, which this watcher holds.
                _ = self.progress_rx.changed() => {}
                () = self.drain.signaled() => {}
            }
        }
    }
}

/// One node's stream of the revisions that it must refuse.
struct QuarantineWatcher {
    catalog: Catalog,
    pool: CallerPool,
    node: String,
    /// The list that was sent last, if any was sent.
    sent: Option<Vec<Entry>>,
    sent_at: Instant,
    changes_rx: watch::Receiver<()>,
    drain: drain::Watch,
}

impl QuarantineWatcher {
    fn into_stream(
        self,
    ) -> impl futures::Stream<Item = Result<WatchQuarantineResponse, Status>> + Send {
        stream::unfold(Some(self), |watcher| async {
            let mut watcher = watcher?;
            Some(match watcher.next().await {
                Ok(response) => (Ok(response), Some(watcher)),
                Err(status) => (Err(status), None),
            })
        })
    }

    async fn next(&mut self) -> Result<WatchQuarantineResponse, Status> {
        loop {
            if self.drain.is_signaled() {
                return Err(draining_status());
            }
            self.changes_rx.mark_unchanged();
            let now = Instant::now();
            let refused = self.catalog.refused_by(&self.pool, &self.node, now);
            if self.sent.as_ref() != Some(&refused) {
                let revisions = refused.iter().map(|entry| entry.to_message(now)).collect();
                (self.sent, self.sent_at) = (Some(refused), now);
                return Ok(WatchQuarantineResponse { revisions });
            }
            let first_end = self.sent.iter().flatten().map(|entry| entry.until).min();
            tokio::select! {
                // The sender lives as long as the catalog, which this watcher holds.
                _ = self.changes_rx.changed() => {}
                () = sleep_until(first_end) => {}
                () = self.drain.signaled() => {}
            }
            tokio::select! {
                () = sleep_until(Some(self.sent_at + QUARANTINE_PAUSE)) => {}
                () = self.drain.signaled() => {}
            }
        }
    }
}

/// Sleeps until `at`, or forever if there is no deadline.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}
