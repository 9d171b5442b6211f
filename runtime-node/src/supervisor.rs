//! The supervisor of a node: a process that runs one child process for each shard and lane.
//!
//! ```text
//!  spawn ─► bind every port ─► start a process for each ─► ready ─► … ─► drain ─► all ended ─► end
//!                                  ▲          │ ended by itself: judge its revision, tell operator
//!                                  └──────────┘ restart
//! ```
//!
//! - [`keeper`]: runs a process and restarts it; [`process`]: starts a process, and determines how
//!   it ended; [`child`]: the state of a process across restarts; [`hang_detector`]: detects
//!   processes that are stuck; [`service`]: answers processes over their control connections.
//! - [`placement`]: decides which revisions run on a shard and which in a lane; [`quarantine`]:
//!   decides which revisions are refused.
//! - [`memory`]: decides how much memory each process may have; [`governor`]: sets these limits.
//! - [`profiler`]: takes profiles of Workers; [`profiles`]: decides which reports belong to a
//!   profile.
//! - [`exposition`], [`metrics`]: the metrics of the node.
//! - [`quarantine_watch`]: receives the quarantines of other nodes from the operator.
//!
//! The supervisor runs no JavaScript and parses nothing that tenants wrote: it stores tenants' code
//! by digest and passes the code on. A crash of a process that runs tenants' code therefore does
//! not affect the supervisor.

mod child;
mod exposition;
mod governor;
mod hang_detector;
mod keeper;
mod memory;
mod metrics;
mod placement;
mod process;
mod profiler;
mod profiles;
mod quarantine;
mod quarantine_watch;
mod service;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus::{Encoder as _, Registry, TextEncoder};
use tenon_lifecycle::admin::Exposition;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::node::order::Order as OrderKind;
use tenon_proto::node::{self, Order};
use tokio::sync::Notify;

use crate::config::Config;
use crate::memory::Meter;
use crate::node::{SpawnError, listen};
use crate::reports::{self, Reporter};
use crate::source::Source;
use child::Child;
use keeper::Keeper;
use metrics::Metrics;
use placement::{CrashReport, Placement};
use process::{Cause, SiblingSockets, Sockets};
use profiles::Profiles;
use quarantine::{CrashDecision, Quarantine};

pub use process::Program;

/// Interval at which the supervisor checks whether processes hang, and sets their memory limits.
/// Between two checks, a process can take as much memory as its limit allows.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Longest time from the end of a process's connections, which routers see, to the verdict on the
/// revision that the process was running.
const VERDICT: Duration = Duration::from_millis(100);

/// A handle to a running supervisor.
pub struct Supervisor {
    name: String,
    addresses: Vec<(ShardId, SocketAddr)>,
    clients: Option<SocketAddr>,
    profiler: Option<SocketAddr>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// State that the supervisor's tasks share.
struct Shared {
    children: Vec<Child>,
    placement: Mutex<Placement>,
    profiles: Mutex<Profiles>,
    source: Source,
    reporter: Reporter,
    metrics: Metrics,
    registry: Registry,
    /// Notified when a process has started.
    process_began: Notify,
}

impl Supervisor {
    /// Binds every port and starts the process of every shard and lane.
    ///
    /// # Errors
    /// Fails if a port is taken, the system cannot create a thread, or a part of the configuration
    /// is unusable.
    pub fn spawn(
        config: Config,
        program: Program,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let listeners = config
            .listen
            .addresses()
            .map(|(id, address)| listen(id, address).map(|bound| (id, bound)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let shards = NonZeroUsize::new(config.listen.shards.into()).unwrap_or(NonZeroUsize::MIN);
        let clients = config.front.as_ref();
        let clients = clients.map(|front| tenon_router::bind(&front.addresses(), shards));
        let clients = clients.transpose()?.unwrap_or_default();
        let client_address = clients.first().map(|first| first.clients.local_addr());
        let client_address = client_address.transpose().map_err(SpawnError::Address)?;
        let siblings = if clients.len() > 1 { clients.len() } else { 0 };
        let siblings = SiblingSockets::between(siblings).map_err(SpawnError::Siblings)?;
        let profiler = config.profile_port.map(|port| {
            profiler::bind(port).map_err(|source| SpawnError::Profiles { port, source })
        });
        let (profiler_listener, profiler) = profiler.transpose()?.unzip();
        let metrics = Metrics::register(registry)?;
        let meter = Meter::new(config.memory.budget, &config.memory.root)?;
        let memory_used = crate::memory::register(registry, meter.budget())?;
        let source = Source::spawn(
            config.catalog.clone(),
            config.tls.clone(),
            config.pool.code_cache_dir.clone(),
        );
        let source = source.map_err(SpawnError::Source)?;
        let (name, catalog, tls) =
            (config.name.clone(), config.catalog.ready.clone(), config.tls.clone());
        let reporter = Reporter::spawn(name.clone(), catalog, tls, reports::register(registry)?);
        let reporter = reporter.map_err(SpawnError::Thread)?;
        let child = |id| {
            metrics.processes.create_series(id);
            Child::new(id, readiness.hold("shards"))
        };
        let shared = Arc::new(Shared {
            children: listeners.iter().map(|(id, _)| child(*id)).collect(),
            placement: Mutex::new(Placement::new(config.listen.lanes > 0)),
            profiles: Mutex::default(),
            source,
            reporter,
            metrics,
            registry: registry.clone(),
            process_began: Notify::new(),
        });
        let addresses = listeners.iter().map(|(id, (_, address))| (*id, *address)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(SpawnError::Thread)?;
        let keeper =
            Keeper { shared: Arc::clone(&shared), program, drain, grace: config.drain.grace };
        let thread = vital::spawn("supervisor".to_owned(), move || {
            runtime.block_on(async move {
                tokio::spawn(quarantine_watch::follow(Arc::clone(&keeper.shared), config));
                if let Some(listener) = profiler_listener {
                    tokio::spawn(profiler::serve(listener, Arc::clone(&keeper.shared)));
                }
                tokio::spawn(vital::task(
                    "govern",
                    governor::govern(Arc::clone(&keeper.shared), meter, memory_used),
                ));
                // Shards come before lanes, which have no clients.
                let (mut clients, mut siblings) = (clients.into_iter(), siblings.into_iter());
                let keeps = listeners.into_iter().map(|(id, (shard, _))| {
                    let (clients, siblings) = match id.is_lane() {
                        true => (None, None),
                        false => (clients.next(), siblings.next()),
                    };
                    keeper.keep(id, Sockets { shard, clients, siblings })
                });
                futures::future::join_all(keeps).await;
            });
        });
        let thread = thread.map_err(SpawnError::Thread)?;
        let clients = client_address;
        Ok(Self { name, addresses, clients, profiler, shared, thread })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of each shard and lane.
    pub fn addresses(&self) -> &[(ShardId, SocketAddr)] {
        &self.addresses
    }

    /// Returns the address on which clients connect, if the node has a front.
    pub fn clients(&self) -> Option<SocketAddr> {
        self.clients
    }

    /// Returns the address at which the node takes profiles, if it does.
    pub fn profiler(&self) -> Option<SocketAddr> {
        self.profiler
    }

    /// Returns the merged metrics of the node's processes.
    pub fn exposition(&self) -> impl Exposition + use<> {
        Merged(Arc::clone(&self.shared))
    }

    /// Waits until every process has ended.
    pub fn join(self) {
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Shared {
    fn child(&self, id: ShardId) -> &Child {
        self.children.iter().find(|child| child.id == id).expect("a process has no record")
    }

    fn on_ready(&self, id: ShardId) {
        let mut state = lock(&self.child(id).state);
        state.serves = true;
        drop(state.starting.take());
        self.metrics.processes.set_serving(id, true);
    }

    fn on_metrics(&self, id: ShardId, metrics: Bytes) {
        if let Ok(metrics) = String::from_utf8(metrics.into()) {
            self.child(id).latest_metrics.send_replace(metrics);
        }
    }

    fn on_light(&self, digest: &RevisionDigest, requests: u32) {
        let promotion = lock(&self.placement).record_light(digest, requests, Instant::now());
        let Some(promotion) = promotion else { return };
        tracing::debug!(worker = %promotion.worker, revision = digest.short(), "moved a revision to its shard");
        let (digest, worker) = (digest.as_bytes().to_vec().into(), promotion.worker.to_string());
        self.child(promotion.home)
            .order(order(OrderKind::Prestart(node::Prestart { digest, worker })));
    }

    fn on_warm(&self, digest: &RevisionDigest) {
        lock(&self.placement).end_promotion(digest);
        self.release(digest, ShardId::is_lane);
    }

    /// Handles a report that a revision is heavy.
    ///
    /// # Arguments
    /// * `by` - the shard or lane that sent the report. If the node has lanes, a reporting shard is
    ///   ordered to evict the revision even if the revision is classified as heavy already.
    fn on_heavy(&self, by: ShardId, digest: &RevisionDigest) {
        if !self.children.iter().any(|child| child.id.is_lane()) {
            return;
        }
        let was_demoted = lock(&self.placement).record_heavy(digest, Instant::now());
        if was_demoted {
            tracing::debug!(revision = digest.short(), "moved a heavy revision to a lane");
        }
        self.release(digest, |id| !id.is_lane() && (was_demoted || id == by));
    }

    /// Handles the end of a shard's process: revisions that were being prestarted in it start with
    /// their next request.
    fn home_ended(&self, id: ShardId) {
        let promoted = lock(&self.placement).home_ended(id);
        promoted.iter().for_each(|digest| self.release(digest, ShardId::is_lane));
    }

    /// Orders the processes that `concerned` selects to evict the revision.
    fn release(&self, digest: &RevisionDigest, concerned: impl Fn(ShardId) -> bool) {
        self.send_release(digest, false, concerned);
    }

    fn send_release(
        &self,
        digest: &RevisionDigest,
        condemn: bool,
        concerned: impl Fn(ShardId) -> bool,
    ) {
        let release = node::Release { digest: digest.as_bytes().to_vec().into(), condemn };
        let concerned = self.children.iter().filter(|child| concerned(child.id));
        concerned.for_each(|child| child.order(order(OrderKind::Release(release.clone()))));
    }

    /// Waits until no process is running this revision's code, for at most [`VERDICT`]: a process
    /// that seems to run this code may have ended without having been judged yet.
    async fn await_verdict(&self, digest: &RevisionDigest) {
        let deadline = Instant::now() + VERDICT;
        while self.children.iter().any(|child| child.runs(digest)) && Instant::now() < deadline {
            tokio::time::sleep(VERDICT / 50).await;
        }
    }

    /// Judges a revision whose code was running when a process ended. Returns whether the revision
    /// is refused from now on.
    fn judge(&self, digest: RevisionDigest, cause: Cause, was_cramped: bool) -> bool {
        let now = Instant::now();
        let (report, quarantined) = {
            let mut placement = lock(&self.placement);
            (placement.judge(&digest, was_cramped, now), placement.quarantines.count(now))
        };
        let Some(CrashReport { worker, decision }) = report else { return false };
        let CrashDecision::Quarantined(Quarantine { duration, times, .. }) = decision else {
            self.metrics.quarantines.forgiven.inc();
            let revision = digest.short();
            tracing::warn!(%worker, revision, "a process with little memory left ended; the revision is forgiven once");
            return false;
        };
        tracing::warn!(%worker, revision = digest.short(), ?duration, times, "quarantined a revision after a process ended");
        self.metrics.quarantines.by_cause.inc(cause);
        self.metrics.quarantines.current.set(quarantined as i64);
        self.reporter.quarantined(&worker, digest, cause == Cause::Hung, duration, times);
        self.send_release(&digest, true, |_| true);
        true
    }
}

/// The metrics of the supervisor and of every process, merged.
struct Merged(Arc<Shared>);

impl Exposition for Merged {
    async fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let shared = &self.0;
        let (quarantined, placed) = {
            let placement = lock(&shared.placement);
            (placement.quarantines.count(Instant::now()), placement.counts())
        };
        shared.metrics.quarantines.current.set(quarantined as i64);
        shared.metrics.placements.set(placed);
        let pages = futures::future::join_all(
            shared.children.iter().map(async |child| (child.id, child.gather().await)),
        )
        .await;
        let mut own = Vec::new();
        TextEncoder::new().encode(&shared.registry.gather(), &mut own)?;
        Ok(exposition::merge(&String::from_utf8_lossy(&own), &pages).into_bytes())
    }
}

fn order(order: OrderKind) -> Order {
    Order { order: Some(order) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and a panic would leave consistent data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
