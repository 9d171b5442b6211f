//! A shard: one thread and all that it owns.
//!
//! ```text
//!  admit ─► draining? ─► isolate: warm ───────────────────────► permits: the shard's, the Worker's
//!                           │ cold                                 ▲                      │
//!                           └─► waiting room ─► one start for all ─┘   response ◄── fetch ┘
//! ```
//!
//! Nothing here is `Send`: a request runs on the thread that read it.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{LocalBoxFuture, Shared};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::admission::{Gate, Permit, Refusal};
use crate::engine::{Engine, FetchRequest, FetchResponse, Isolate};
use crate::memory::Pressure;
use crate::metrics::ShardMetrics;
use crate::pool::{Eviction, Lookup, Occupant, Pool, Retry};
use crate::reports::Reports;
use crate::source::Source;
use crate::spares::Demand;

/// Requests that may wait for one cold isolate: as many as a Worker may have in flight by default, and some that
/// will be refused when its own limit is known.
const WAITING_ROOM: u32 = 256;

/// The pause between two evictions for want of memory: what one has freed shows in the next look at its use.
const RELIEF: Duration = Duration::from_millis(20);

/// How long no turn has begun when a thread counts as idle, and how often that is waited for: a thread that is never
/// idle would otherwise make its isolates when requests wait for them.
const LULL: Duration = Duration::from_millis(2);
const LULLS: u32 = 20;

/// How often the demand for spare isolates is looked at when nothing happens.
const SPARES_REVIEW: Duration = Duration::from_secs(1);

/// One shard of a node.
pub struct Shard {
    engine: Rc<Engine>,
    pool: RefCell<Pool<Resident, Start>>,
    /// Every isolate that may have something in flight: the pool's, and those that it has let go.
    living: RefCell<Vec<Weak<Isolate>>>,
    gate: Gate,
    source: Source,
    reports: Reports,
    metrics: ShardMetrics,
    draining: Cell<bool>,
    pressure: Cell<Pressure>,
    demand: RefCell<Demand>,
    /// A cold start has begun, or memory has become short.
    spares_are_due: Notify,
}

/// A start that many may wait for.
#[derive(Clone)]
struct Start {
    outcome: Shared<LocalBoxFuture<'static, Result<Resident, Failure>>>,
    waiting_room: Gate,
}

/// A warm isolate and how much of it is in use.
#[derive(Clone)]
struct Resident {
    worker: WorkerId,
    isolate: Rc<Isolate>,
    gate: Gate,
    request_body_bytes: u64,
}

impl Occupant for Resident {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn is_busy(&self) -> bool {
        self.gate.in_flight() > 0 || self.isolate.in_flight() > 0
    }

    fn is_condemned(&self) -> bool {
        self.isolate.condemned().is_some()
    }
}

impl Resident {
    /// What goes on after its response counts too: otherwise `waitUntil` would be a way around the limit.
    fn enter(&self) -> Result<Permit, Refusal> {
        if self.isolate.in_flight() >= self.gate.limit() as usize {
            return Err(Refusal::WorkerFull);
        }
        self.gate.enter().ok_or(Refusal::WorkerFull)
    }
}

/// Admission to a Worker's isolate. The permits are held for as long as the response takes.
pub struct Admitted {
    shard: Rc<Shard>,
    resident: Resident,
    permits: Permits,
}

/// The shard's permit and the Worker's.
pub struct Permits {
    _shard: InFlight,
    _worker: Permit,
}

/// The shard's permit, and its place in the gauge.
struct InFlight {
    _permit: Permit,
    gauge: prometheus::IntGauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Shard {
    /// # Arguments
    /// * `isolates` - how many the pool holds.
    /// * `max_inflight` - invocations at once, over which the shard sheds.
    pub fn new(
        engine: Engine,
        source: Source,
        reports: Reports,
        isolates: usize,
        max_inflight: u32,
        metrics: ShardMetrics,
    ) -> Rc<Self> {
        Rc::new(Self {
            engine: Rc::new(engine),
            pool: RefCell::new(Pool::new(isolates)),
            living: RefCell::default(),
            gate: Gate::new(max_inflight),
            source,
            reports,
            metrics,
            draining: Cell::new(false),
            pressure: Cell::default(),
            demand: RefCell::new(Demand::new(Instant::now())),
            spares_are_due: Notify::new(),
        })
    }

    pub fn metrics(&self) -> &ShardMetrics {
        &self.metrics
    }

    /// From now on every new invocation is refused.
    pub fn begin_drain(&self) {
        self.draining.set(true);
    }

    /// Resolves when no isolate has anything in flight, what `waitUntil` keeps included.
    pub async fn idle(&self) {
        loop {
            let busy = self.living.borrow().iter().filter_map(Weak::upgrade).find(|isolate| isolate.in_flight() > 0);
            match busy {
                Some(isolate) => isolate.idle().await,
                None => return,
            }
        }
    }

    /// Lets isolates go that are idle for too long, and while memory is short others as well, one after another.
    pub async fn tend(self: Rc<Self>, mut pressure_rx: watch::Receiver<Pressure>, idle: Duration) {
        loop {
            let pressure = *pressure_rx.borrow_and_update();
            self.pressure.set(pressure);
            self.spares_are_due.notify_one();
            let pause = match pressure {
                Pressure::Eased => (idle / 4).max(RELIEF),
                Pressure::Tight | Pressure::Critical => {
                    self.pool.borrow_mut().let_one_go(Eviction::Memory);
                    RELIEF
                }
            };
            if let Some(since) = Instant::now().checked_sub(idle) {
                self.pool.borrow_mut().evict_unused(since);
            }
            self.settle();
            // An error says that the node has ended, as this task will in a moment.
            if let Ok(Err(_)) = tokio::time::timeout(pause, pressure_rx.changed()).await {
                return;
            }
        }
    }

    /// Has as many spare isolates as the demand asks for, and none while memory is short.
    ///
    /// # Arguments
    /// * `most` - how many there may be.
    pub async fn keep_spares(self: Rc<Self>, most: usize) {
        loop {
            let most = if self.pressure.get() == Pressure::Eased { most } else { 0 };
            let wanted = self.demand.borrow().wanted(Instant::now(), most);
            match self.engine.spares().cmp(&wanted) {
                Ordering::Less => {
                    self.lull().await;
                    self.engine.make_spare();
                }
                Ordering::Greater => self.engine.drop_spare(),
                Ordering::Equal => {
                    self.settle();
                    // Demand wanes by itself.
                    let _ = tokio::time::timeout(SPARES_REVIEW, self.spares_are_due.notified()).await;
                }
            }
        }
    }

    /// Resolves when the thread has a moment to spare, or never had one for long.
    async fn lull(&self) {
        for _ in 0..LULLS {
            let turns = self.engine.turns();
            tokio::time::sleep(LULL).await;
            if self.engine.turns() == turns {
                return;
            }
        }
    }

    /// A place in the isolate that runs `digest`, started if it is cold.
    ///
    /// # Arguments
    /// * `worker` - whose revision it must be: a router that mixes them up must not be believed.
    ///
    /// # Errors
    /// When there is no room, the node drains, or the revision cannot be had or started.
    pub async fn admit(self: &Rc<Self>, worker: &str, digest: RevisionDigest) -> Result<Admitted, Failure> {
        if self.draining.get() {
            return Err(self.shed(Refusal::Draining));
        }
        if self.gate.is_full() {
            return Err(self.shed(Refusal::ShardFull));
        }
        let resident = self.resident(digest).await?;
        if resident.worker.as_str() != worker {
            let why = format!("the revision is not one of {worker}");
            return Err(Failure::new(FailureCode::BadRequest, Phase::Admission, why));
        }
        let permit = self.gate.enter().ok_or_else(|| self.shed(Refusal::ShardFull))?;
        let gauge = self.metrics.in_flight.clone();
        gauge.inc();
        let shard = InFlight { _permit: permit, gauge };
        let worker = resident.enter().map_err(|refusal| self.shed(refusal))?;
        let permits = Permits { _shard: shard, _worker: worker };
        Ok(Admitted { shard: Rc::clone(self), resident, permits })
    }

    fn shed(&self, refusal: Refusal) -> Failure {
        self.metrics.shed(refusal);
        refusal.into()
    }

    /// The isolate that runs `digest`. One that others before us had condemned by our turn is replaced.
    async fn resident(self: &Rc<Self>, digest: RevisionDigest) -> Result<Resident, Failure> {
        loop {
            let start = match self.look_up(digest)? {
                Found::Warm(resident) => return Ok(resident),
                Found::Cold(start) => start,
            };
            let _waiting = start.waiting_room.enter().ok_or_else(|| self.shed(Refusal::WaitingRoomFull))?;
            let resident = start.outcome.await?;
            if !resident.is_condemned() {
                return Ok(resident);
            }
        }
    }

    fn look_up(self: &Rc<Self>, digest: RevisionDigest) -> Result<Found, Failure> {
        let mut pool = self.pool.borrow_mut();
        let found = pool.look_up(&digest, Instant::now());
        let start = match found {
            Lookup::Warm(resident) => return Ok(Found::Warm(resident)),
            Lookup::Join(start) => return Ok(Found::Cold(start)),
            Lookup::Failed(failure) => return Err(failure),
            Lookup::Full => return Err(self.shed(Refusal::NoIdleIsolate)),
            Lookup::Start if self.pressure.get() == Pressure::Critical => {
                return Err(self.shed(Refusal::MemoryShort));
            }
            Lookup::Start => {
                let outcome = Rc::clone(self).start(digest).boxed_local().shared();
                // On a task of its own, so that it goes on when those who wait for it have gone.
                spawn_local(outcome.clone());
                Start { outcome, waiting_room: Gate::new(WAITING_ROOM) }
            }
        };
        pool.starting(digest, start.clone());
        drop(pool);
        self.settle();
        Ok(Found::Cold(start))
    }

    async fn start(self: Rc<Self>, digest: RevisionDigest) -> Result<Resident, Failure> {
        let began = Instant::now();
        let revision = self.source.fetch(digest).await;
        let worker = revision.as_ref().ok().map(|revision| revision.worker.clone());
        let started = match revision {
            Ok(revision) => self.load(digest, &revision).await,
            Err(failure) => Err(failure),
        };
        self.metrics.cold_start(began, started.is_ok());
        let now = Instant::now();
        match &started {
            Ok(resident) => {
                self.living.borrow_mut().push(Rc::downgrade(&resident.isolate));
                self.pool.borrow_mut().started(digest, resident.clone(), now);
                self.reports.recovered(digest);
            }
            Err(failure) => {
                let missing = failure.code == FailureCode::RevisionUnavailable;
                let retry = if missing { Retry::Soon } else { Retry::BackOff };
                let failures = self.pool.borrow_mut().failed(digest, failure.clone(), retry, now);
                // One that could not be had has told nothing of its code.
                if let Some(worker) = worker {
                    self.reports.failing(&worker, digest, failure.code, failures);
                }
            }
        }
        self.settle();
        started
    }

    async fn load(&self, digest: RevisionDigest, revision: &Revision) -> Result<Resident, Failure> {
        let (worker, limits) = (revision.worker.clone(), revision.limits);
        self.metrics.spare(self.engine.has_spare(&limits));
        self.demand.borrow_mut().started(Instant::now());
        self.spares_are_due.notify_one();
        // The engine's share is this thread's alone; module bytes stay where they are.
        let isolate = Isolate::start(&self.engine, digest, Rc::new(revision.clone())).await?;
        let request_body_bytes = u64::from(limits.request_body_mib) * 1024 * 1024;
        // Whatever its own limit, a Worker leaves the others half of the shard.
        let gate = Gate::new(limits.concurrency.min(self.gate.limit().div_ceil(2)));
        Ok(Resident { worker, isolate, gate, request_body_bytes })
    }

    /// Ends what the pool has let go of and tells the metrics how it stands now. Call when it has changed.
    fn settle(&self) {
        // Isolates end outside of the borrow: that takes a while, and what they held may look at the pool.
        let evicted = self.pool.borrow_mut().take_evicted();
        for (why, resident) in evicted {
            self.metrics.evicted(why);
            drop(resident);
        }
        let (warm, starting) = self.pool.borrow().count();
        let living = {
            let mut living = self.living.borrow_mut();
            living.retain(|isolate| isolate.strong_count() > 0);
            living.len()
        };
        let gauges = &self.metrics.isolates;
        gauges.warm.set(warm as i64);
        gauges.starting.set(starting as i64);
        gauges.retiring.set(living.saturating_sub(warm) as i64);
        self.metrics.spares.set(self.engine.spares() as i64);
    }
}

enum Found {
    Warm(Resident),
    Cold(Start),
}

impl Admitted {
    /// The largest request body that the Worker takes, in bytes.
    pub fn request_body_bytes(&self) -> u64 {
        self.resident.request_body_bytes
    }

    /// Delivers the request; dropping the future cancels the invocation. The permits come back with the response, to
    /// be held until it has been sent.
    ///
    /// # Errors
    /// As [`Isolate::fetch`].
    pub async fn fetch(mut self, request: FetchRequest) -> Result<(FetchResponse, Permits), Failure> {
        let mut pass = self.resident.isolate.queue().await;
        // What a limit has stopped meanwhile serves nobody who has not begun.
        while self.resident.is_condemned() {
            drop(pass);
            self.resident = self.shard.resident(self.resident.isolate.digest()).await?;
            self.permits._worker = self.resident.enter().map_err(|refusal| self.shard.shed(refusal))?;
            pass = self.resident.isolate.queue().await;
        }
        let response = self.resident.isolate.deliver(pass, request).await?;
        Ok((response, self.permits))
    }
}
