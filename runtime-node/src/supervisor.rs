//! The supervisor of a node: a process that runs one child process for each shard and lane.
//!
//! ```text
//!  spawn ─► bind every port ─► start a process for each ─► ready ─► … ─► drain ─► all ended ─► end
//!                                  ▲          │ ended unasked: judge its revision, tell operator
//!                                  └──────────┘ restart
//! ```
//!
//! - [`process`]: one process from start to end; [`pulse`]: detects a process that is stuck;
//!   [`service`]: answers a process over its control connection.
//! - [`placement`]: decides which revisions run on a shard and which in a lane; [`quarantine`]:
//!   decides which are refused.
//! - [`memory`]: how much memory each process may have; [`governor`] sets these limits.
//!   [`exposition`], [`metrics`]: the metrics of the node.
//! - [`bulletin`]: quarantines of other nodes, from the operator.
//!
//! The supervisor runs no JavaScript and parses nothing that tenants wrote: it holds their code by
//! digest and hands it on. Whatever a tenant's code does to the process that runs it, crashes
//! included, does not reach this one.

mod bulletin;
mod exposition;
mod governor;
mod memory;
mod metrics;
mod placement;
mod process;
mod pulse;
mod quarantine;
mod service;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use prometheus::{Encoder as _, Registry, TextEncoder};
use rustix::process::Pid;
use tenon_engine::page::Page;
use tenon_lifecycle::admin::Exposition;
use tenon_lifecycle::readiness::{Handle, Readiness};
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::node::order::Order as Ordered;
use tenon_proto::node::{self, Order};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::memory::Meter;
use crate::node::{SpawnError, listen};
use crate::reports::Reporter;
use crate::source::Source;
use memory::CRAMPED;
use metrics::Metrics;
use placement::{Placement, Sentence};
use process::{Cause, Process};
use pulse::Pulse;
use quarantine::{Ruling, Term};

pub use process::Program;

/// Interval at which processes are checked. Between two checks a process can take as much memory as
/// it was allotted.
const LOOK: Duration = Duration::from_millis(100);

/// A process that served for `STEADY` is restarted at once when it ends; otherwise each restart
/// waits longer.
const STEADY: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Length of the accept queue, in connections; the standard library's default.
const BACKLOG: i32 = 128;

/// Longest time from the end of a process's connections, which routers see, to the verdict on it.
const VERDICT: Duration = Duration::from_millis(100);

/// Time beyond its grace period that a draining process may take.
const FAREWELL: Duration = Duration::from_secs(4);

/// Time in which a process must answer with its metrics; after that, its last ones are shown.
const GATHER: Duration = Duration::from_millis(500);

/// The handle to a running supervisor.
pub struct Supervisor {
    name: String,
    addresses: Vec<(ShardId, SocketAddr)>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// State that the supervisor's tasks share.
struct Shared {
    seats: Vec<Seat>,
    placement: Mutex<Placement>,
    source: Source,
    reporter: Reporter,
    metrics: Metrics,
    registry: Registry,
    /// Notified when a process has started.
    has_begun: Notify,
}

/// The place of one shard's or lane's process.
struct Seat {
    id: ShardId,
    state: Mutex<SeatState>,
    /// The metrics that its process sent last.
    shown: watch::Sender<String>,
    /// Notified when its process has used up a resource and is to be replaced. A process says so
    /// once; the notice is discarded when its successor starts.
    worn: Notify,
}

#[derive(Default)]
struct SeatState {
    orders_tx: Option<mpsc::UnboundedSender<Order>>,
    pid: Option<Pid>,
    /// Names the revision that its process is running.
    page: Option<Arc<Page>>,
    /// Holds the node unready until the first process serves.
    starting: Option<Handle>,
    serves: bool,
    /// `limit`: private writable memory that its process may have, in bytes. `room`: bytes by which
    /// it could still grow at the last check.
    limit: u64,
    room: u64,
}

impl Supervisor {
    /// Binds every port and starts the process of every shard and lane.
    ///
    /// # Errors
    /// Fails if a port is taken or the system has no more threads.
    pub fn spawn(
        config: Config,
        program: Program,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let listeners = config.seats().map(|(id, address)| listen(id, address).map(|bound| (id, bound)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let metrics = Metrics::register(registry)?;
        let of_node = crate::metrics::NodeMetrics::register(registry)?;
        let meter = Meter::new(config.memory_budget, &config.root)?;
        of_node.memory_budget.set(i64::try_from(meter.budget()).unwrap_or(i64::MAX));
        let source = Source::spawn(config.catalog.clone(), config.tls.clone(), config.code_cache_dir.clone());
        let source = source.map_err(SpawnError::Source)?;
        let (name, catalog, tls) = (config.name.clone(), config.catalog.clone(), config.tls.clone());
        let reporter = Reporter::spawn(name.clone(), catalog, tls, of_node.crash_loops.clone());
        let reporter = reporter.map_err(SpawnError::Thread)?;
        let seat = |id| {
            metrics.keeps(id);
            let state = SeatState { starting: Some(readiness.hold("shards")), ..SeatState::default() };
            Seat { id, state: Mutex::new(state), shown: watch::Sender::new(String::new()), worn: Notify::new() }
        };
        let shared = Arc::new(Shared {
            seats: listeners.iter().map(|(id, _)| seat(*id)).collect(),
            placement: Mutex::new(Placement::new(config.lanes > 0)),
            source,
            reporter,
            metrics,
            registry: registry.clone(),
            has_begun: Notify::new(),
        });
        let addresses = listeners.iter().map(|(id, (_, address))| (*id, *address)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SpawnError::Thread)?;
        let keeper = Keeper { shared: Arc::clone(&shared), program, drain, grace: config.drain_grace };
        let thread = vital::spawn("supervisor".to_owned(), move || {
            runtime.block_on(async move {
                tokio::spawn(bulletin::follow(Arc::clone(&keeper.shared), config));
                tokio::spawn(vital::task(
                    "govern",
                    governor::govern(Arc::clone(&keeper.shared), meter, of_node.memory_used),
                ));
                let keeps = listeners.into_iter().map(|(id, (listener, _))| keeper.keep(id, listener));
                futures::future::join_all(keeps).await;
            });
        });
        Ok(Self { name, addresses, shared, thread: thread.map_err(SpawnError::Thread)? })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of each shard and lane.
    pub fn addresses(&self) -> &[(ShardId, SocketAddr)] {
        &self.addresses
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

/// Restarts processes until the drain.
struct Keeper {
    shared: Arc<Shared>,
    program: Program,
    drain: drain::Watch,
    grace: Duration,
}

impl Keeper {
    /// Runs a shard's or lane's process, and restarts it when it ends. Its listener is dropped at
    /// the end, so that connections after the drain are refused.
    async fn keep(&self, id: ShardId, listener: TcpListener) {
        let mut pause = Duration::ZERO;
        while !self.drain.is_signaled() {
            let began = Instant::now();
            // The previous process shut the shared socket down when it drained.
            if let Err(error) = rustix::net::listen(&listener, BACKLOG) {
                tracing::error!(process = metrics::process(id), %error, "cannot resume listening");
            }
            let blames = match Process::start(&self.program, id, &listener) {
                Ok((process, control)) => self.attend(id, process, control).await,
                Err(error) => {
                    tracing::error!(process = metrics::process(id), %error, "cannot start a process");
                    false
                }
            };
            pause = match began.elapsed() {
                // The revision to blame is refused from now on.
                steady if steady >= STEADY || blames => Duration::ZERO,
                _ => (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.drain.signaled() => {}
            }
        }
    }

    /// Serves a process until it has ended, and handles its end.
    ///
    /// Returns whether a revision is to blame: with that revision refused, the process does not end
    /// again soon.
    async fn attend(&self, id: ShardId, mut process: Process, control: tokio::net::UnixStream) -> bool {
        let (shared, name) = (&self.shared, metrics::process(id));
        let (orders_tx, orders_rx) = mpsc::unbounded_channel();
        shared.seat(id).begins(&process, orders_tx.clone());
        shared.has_begun.notify_one();
        let alive = Arc::new(AtomicBool::new(true));
        let service = tokio::spawn(service::serve(Arc::clone(shared), id, Arc::clone(&alive), control, orders_rx));
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signaled = std::pin::pin!(self.drain.signaled());
        let (mut pulse, mut leave_by, mut killed) = (Pulse::new(Instant::now()), None, false);
        // Set if the process had to be killed because it was stuck: the revision that was running,
        // if any.
        let mut hung = None;
        // The revision that was running at the last check.
        let mut seen = None;
        let status = loop {
            tokio::select! {
                status = process.child.wait() => break status,
                now = looks.tick() => {
                    let (is_late, look) = (leave_by.is_some_and(|leave_by| now >= leave_by), process.page.look());
                    let is_stuck = pulse.is_stuck(&look, now.into());
                    seen = look.running;
                    if (is_late || is_stuck) && !killed {
                        let overrun = look.overrun.as_millis();
                        tracing::warn!(process = name, is_late, is_stuck, overrun, "killing a stuck or late process");
                        (killed, hung) = (true, is_stuck.then_some(look.running));
                        // An error means that it has ended.
                        let _ = process.child.start_kill();
                    }
                }
                () = &mut signaled, if leave_by.is_none() => leave_by = Some(self.drain(&orders_tx)),
                () = shared.seat(id).worn.notified(), if leave_by.is_none() => {
                    tracing::info!(process = name, "draining a process that has used up a resource, to replace it");
                    leave_by = Some(self.drain(&orders_tx));
                }
            }
        };
        alive.store(false, Ordering::Relaxed);
        service.abort();
        shared.seat(id).ended();
        shared.home_ended(id);
        shared.metrics.serves(id, false);
        shared.reporter.gone(id);
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                tracing::error!(process = name, %error, "cannot read how a process ended");
                return false;
            }
        };
        if leave_by.is_some() && hung.is_none() {
            return false;
        }
        let cause = Cause::of(status, hung.is_some());
        let running = hung.unwrap_or_else(|| process.page.look().running);
        shared.metrics.ended(id, cause);
        let revision = running.map(|digest| digest.short());
        tracing::error!(process = name, %status, cause = cause.as_str(), revision, "a process ended; restarting it");
        // A revision that was running before memory ran short may have used it up.
        let came_later = running != seen;
        let was_cramped = cause == Cause::Crashed && came_later && lock(&shared.seat(id).state).room < CRAMPED;
        cause.blames(running).is_some_and(|digest| shared.judge(digest, cause, was_cramped))
    }
}

impl Keeper {
    /// Orders a process to drain. Returns the deadline for its end.
    fn drain(&self, orders_tx: &mpsc::UnboundedSender<Order>) -> tokio::time::Instant {
        // If the receiver is gone, the process has ended.
        let _ = orders_tx.send(order(Ordered::Drain(node::Drain {})));
        tokio::time::Instant::now() + self.grace + FAREWELL
    }
}

impl Seat {
    fn begins(&self, process: &Process, orders_tx: mpsc::UnboundedSender<Order>) {
        // A notice of the previous process does not apply to this one.
        let _ = self.worn.notified().now_or_never();
        let mut state = lock(&self.state);
        (state.pid, state.page) = (Some(process.pid), Some(Arc::clone(&process.page)));
        (state.orders_tx, state.limit, state.room) = (Some(orders_tx), u64::MAX, u64::MAX);
    }

    fn ended(&self) {
        let mut state = lock(&self.state);
        (state.pid, state.page, state.orders_tx, state.serves) = (None, None, None, false);
    }

    /// Returns whether its process is running this revision's code, or was when it ended and has
    /// not been judged.
    fn runs(&self, digest: &RevisionDigest) -> bool {
        lock(&self.state).page.as_ref().is_some_and(|page| page.look().running == Some(*digest))
    }

    fn order(&self, order: Order) {
        if let Some(orders_tx) = &lock(&self.state).orders_tx {
            // If the receiver is gone, the process is ending.
            let _ = orders_tx.send(order);
        }
    }

    /// Returns the current metrics of its process, or its last ones.
    async fn gather(&self) -> String {
        let mut shown_rx = self.shown.subscribe();
        if lock(&self.state).serves {
            self.order(order(Ordered::Gather(node::Gather {})));
            // A timeout means that the process is busy; its last metrics are good enough.
            let _ = tokio::time::timeout(GATHER, shown_rx.changed()).await;
        }
        shown_rx.borrow().clone()
    }
}

impl Shared {
    fn seat(&self, id: ShardId) -> &Seat {
        self.seats.iter().find(|seat| seat.id == id).expect("every process has a seat")
    }

    fn is_ready(&self, id: ShardId) {
        let mut state = lock(&self.seat(id).state);
        state.serves = true;
        drop(state.starting.take());
        self.metrics.serves(id, true);
    }

    fn shows(&self, id: ShardId, page: Bytes) {
        if let Ok(page) = String::from_utf8(page.into()) {
            self.seat(id).shown.send_replace(page);
        }
    }

    fn is_light(&self, digest: &RevisionDigest, requests: u32) {
        let promotion = lock(&self.placement).light(digest, requests, Instant::now());
        let Some(promotion) = promotion else { return };
        tracing::debug!(worker = %promotion.worker, revision = digest.short(), "moved a revision to its shard");
        let (digest, worker) = (digest.as_bytes().to_vec().into(), promotion.worker.to_string());
        self.seat(promotion.home).order(order(Ordered::Prestart(node::Prestart { digest, worker })));
    }

    fn is_warm(&self, digest: &RevisionDigest) {
        lock(&self.placement).warm(digest);
        self.release(digest, ShardId::is_lane);
    }

    /// Handles a report that a revision is heavy.
    ///
    /// # Arguments
    /// * `by` - the shard or lane that reports. If the node has lanes, a shard that reports evicts
    ///   the revision regardless of its standing.
    fn is_heavy(&self, by: ShardId, digest: &RevisionDigest) {
        if !self.seats.iter().any(|seat| seat.id.is_lane()) {
            return;
        }
        let fell = lock(&self.placement).heavy(digest, Instant::now());
        if fell {
            tracing::debug!(revision = digest.short(), "moved a heavy revision to a lane");
        }
        self.release(digest, |id| !id.is_lane() && (fell || id == by));
    }

    /// Handles the end of a shard's process: revisions that were to be prestarted there start with
    /// their next request.
    fn home_ended(&self, id: ShardId) {
        let promoted = lock(&self.placement).home_ended(id);
        promoted.iter().for_each(|digest| self.release(digest, ShardId::is_lane));
    }

    /// Orders the processes that `concerned` selects to evict the revision.
    fn release(&self, digest: &RevisionDigest, concerned: impl Fn(ShardId) -> bool) {
        self.let_go(digest, false, concerned);
    }

    fn let_go(&self, digest: &RevisionDigest, condemn: bool, concerned: impl Fn(ShardId) -> bool) {
        let release = node::Release { digest: digest.as_bytes().to_vec().into(), condemn };
        let concerned = self.seats.iter().filter(|seat| concerned(seat.id));
        concerned.for_each(|seat| seat.order(order(Ordered::Release(release.clone()))));
    }

    /// Waits until no process is running this revision's code: one that seems to be may have ended
    /// and be about to be judged. A turn that goes on is waited for no longer than [`VERDICT`].
    async fn await_verdict(&self, digest: &RevisionDigest) {
        let by = Instant::now() + VERDICT;
        while self.seats.iter().any(|seat| seat.runs(digest)) && Instant::now() < by {
            tokio::time::sleep(VERDICT / 50).await;
        }
    }

    /// Judges a revision whose code was running when a process ended.
    ///
    /// Returns whether the revision is refused from now on.
    fn judge(&self, digest: RevisionDigest, cause: Cause, was_cramped: bool) -> bool {
        let now = Instant::now();
        let (sentence, quarantined) = {
            let mut placement = lock(&self.placement);
            (placement.ended_a_process(&digest, was_cramped, now), placement.quarantines.count(now))
        };
        let Some(Sentence { worker, ruling }) = sentence else { return false };
        let Ruling::Refused(Term { lasts, times, .. }) = ruling else {
            self.metrics.forgiven.inc();
            let revision = digest.short();
            tracing::warn!(%worker, revision, "a process with little memory left ended; the revision is forgiven once");
            return false;
        };
        tracing::warn!(%worker, revision = digest.short(), ?lasts, times, "quarantined a revision after a process ended");
        self.metrics.quarantined(cause);
        self.metrics.quarantined.set(quarantined as i64);
        self.reporter.quarantined(&worker, digest, cause == Cause::Hung, lasts, times);
        self.let_go(&digest, true, |_| true);
        true
    }
}

/// Renders the metrics of the supervisor and of every process.
struct Merged(Arc<Shared>);

impl Exposition for Merged {
    async fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let shared = &self.0;
        let (quarantined, placed) = {
            let placement = lock(&shared.placement);
            (placement.quarantines.count(Instant::now()), placement.counts())
        };
        shared.metrics.quarantined.set(quarantined as i64);
        shared.metrics.placed(placed);
        let pages =
            futures::future::join_all(shared.seats.iter().map(async |seat| (seat.id, seat.gather().await))).await;
        let mut own = Vec::new();
        TextEncoder::new().encode(&shared.registry.gather(), &mut own)?;
        Ok(exposition::merge(&String::from_utf8_lossy(&own), &pages).into_bytes())
    }
}

fn order(order: Ordered) -> Order {
    Order { order: Some(order) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and the data would be whole if it did.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
