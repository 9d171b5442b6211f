//! A shard: one thread and all that it owns.
//!
//! ```text
//!  admit ─► draining? ─► isolate: warm ───────────────────────► permits: the Worker's, the shard's
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
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::admission::{Gate, Permit, Refusal};
use crate::engine::{BytecodeLookup, Engine, FetchRequest, FetchResponse, Isolate};
use crate::memory::Pressure;
use crate::metrics::ShardMetrics;
use crate::pool::{Eviction, Lookup, Notice, Occupant, Pool, Retry};
use crate::reports::Reports;
use crate::source::{Source, Sourced};
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
    bounds: Bounds,
    draining: Cell<bool>,
    pressure: Cell<Pressure>,
    demand: RefCell<Demand>,
    /// A cold start has begun, or memory has become short.
    spares_are_due: Notify,
    /// Isolates whose modules had to be compiled.
    uncompiled: RefCell<Vec<Weak<Isolate>>>,
    bytecode_is_due: Notify,
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

    fn condemned(&self) -> Option<FailureCode> {
        self.isolate.condemned()
    }
}

impl Resident {
    /// Whether what goes on after its response takes all of its room: otherwise `waitUntil` would be a way around the
    /// limit. It is not waited for, as it may take as long as it likes.
    fn is_taken_up(&self) -> bool {
        let lingering = self.isolate.in_flight().saturating_sub(self.gate.in_flight() as usize);
        lingering >= self.gate.limit() as usize
    }
}

/// Admission to a Worker's isolate. The permits are held for as long as the response takes.
pub struct Admitted {
    shard: Rc<Shard>,
    resident: Resident,
    permits: Permits,
    deadline: tokio::time::Instant,
}

/// The shard's permit and the Worker's.
pub struct Permits {
    _worker: Permit,
    _shard: Permit,
    _counted: Counted,
}

/// A place in a gauge.
struct Counted(prometheus::IntGauge);

impl Counted {
    fn among(gauge: &prometheus::IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How many a shard has to do with at once.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Isolates in the pool.
    pub isolates: usize,
    /// Invocations in flight.
    pub in_flight: u32,
    /// Those that wait for room of the shard, and again of each Worker; over that it sheds.
    pub waiting: usize,
}

impl Shard {
    pub fn new(engine: Engine, source: Source, reports: Reports, bounds: Bounds, metrics: ShardMetrics) -> Rc<Self> {
        Rc::new(Self {
            engine: Rc::new(engine),
            pool: RefCell::new(Pool::new(bounds.isolates)),
            living: RefCell::default(),
            gate: Gate::new(bounds.in_flight, bounds.waiting),
            source,
            reports,
            metrics,
            bounds,
            draining: Cell::new(false),
            pressure: Cell::default(),
            demand: RefCell::new(Demand::new(Instant::now())),
            spares_are_due: Notify::new(),
            uncompiled: RefCell::default(),
            bytecode_is_due: Notify::new(),
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

    /// Keeps the bytecode of what had to be compiled, once it has been used, for starts to come.
    pub async fn keep_bytecode(self: Rc<Self>) {
        loop {
            self.bytecode_is_due.notified().await;
            for isolate in self.uncompiled.take() {
                self.lull().await;
                let Some(isolate) = isolate.upgrade() else { continue };
                if isolate.condemned().is_none()
                    && let Some(bytecode) = isolate.bytecode()
                {
                    self.source.keep(isolate.digest(), bytecode);
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

    /// A place in the isolate that runs `digest`, started if it is cold. Waits for room; dropping the future gives up.
    ///
    /// # Arguments
    /// * `worker` - whose revision it must be: a router that mixes them up must not be believed.
    /// * `deadline` - the caller's: who has less time left goes first.
    ///
    /// # Errors
    /// When there is no room to wait in either, the node drains, or the revision cannot be had or started.
    pub async fn admit(
        self: &Rc<Self>,
        worker: &str,
        digest: RevisionDigest,
        deadline: tokio::time::Instant,
    ) -> Result<Admitted, Failure> {
        loop {
            if self.draining.get() {
                return Err(self.shed(Refusal::Draining));
            }
            if !self.gate.has_room() {
                return Err(self.shed(Refusal::ShardFull));
            }
            let resident = self.resident(digest).await?;
            if resident.worker.as_str() != worker {
                let why = format!("the revision is not one of {worker}");
                return Err(Failure::new(FailureCode::BadRequest, Phase::Admission, why));
            }
            if resident.is_taken_up() {
                return Err(self.shed(Refusal::WorkerFull));
            }
            let worker = self.enter(&resident.gate, deadline, Refusal::WorkerFull).await?;
            let shard = self.enter(&self.gate, deadline, Refusal::ShardFull).await?;
            // Who was before us may have had the isolate condemned. Its successor has a queue of its own.
            if resident.condemned().is_none() {
                let counted = Counted::among(&self.metrics.in_flight);
                let permits = Permits { _worker: worker, _shard: shard, _counted: counted };
                return Ok(Admitted { shard: Rc::clone(self), resident, permits, deadline });
            }
        }
    }

    async fn enter(&self, gate: &Gate, deadline: tokio::time::Instant, refusal: Refusal) -> Result<Permit, Failure> {
        if let Some(permit) = gate.try_enter() {
            return Ok(permit);
        }
        let _waiting = Counted::among(&self.metrics.waiting);
        gate.enter(deadline).await.ok_or_else(|| self.shed(refusal))
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
            let _waiting = start.waiting_room.try_enter().ok_or_else(|| self.shed(Refusal::WaitingRoomFull))?;
            let resident = start.outcome.await?;
            if resident.condemned().is_none() {
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
            Lookup::Failed(failure) => {
                drop(pool);
                self.settle();
                return Err(failure);
            }
            Lookup::Full => return Err(self.shed(Refusal::NoIdleIsolate)),
            Lookup::Start if self.pressure.get() == Pressure::Critical => {
                return Err(self.shed(Refusal::MemoryShort));
            }
            Lookup::Start => {
                let outcome = Rc::clone(self).start(digest).boxed_local().shared();
                // On a task of its own, so that it goes on when those who wait for it have gone.
                spawn_local(outcome.clone());
                Start { outcome, waiting_room: Gate::new(WAITING_ROOM, 0) }
            }
        };
        pool.starting(digest, start.clone());
        drop(pool);
        self.settle();
        Ok(Found::Cold(start))
    }

    async fn start(self: Rc<Self>, digest: RevisionDigest) -> Result<Resident, Failure> {
        let began = Instant::now();
        let sourced = self.source.fetch(digest).await;
        let worker = sourced.as_ref().ok().map(|sourced| sourced.revision.worker.clone());
        let started = match sourced {
            Ok(sourced) => self.load(digest, sourced).await,
            Err(failure) => Err(failure),
        };
        self.metrics.cold_start(began, started.is_ok());
        let now = Instant::now();
        match &started {
            Ok(resident) => {
                let isolate = Rc::downgrade(&resident.isolate);
                let lookup = resident.isolate.bytecode_lookup();
                lookup.into_iter().for_each(|lookup| self.metrics.bytecode(lookup));
                if lookup.is_some_and(|lookup| lookup != BytecodeLookup::Hit) {
                    self.uncompiled.borrow_mut().push(isolate.clone());
                    self.bytecode_is_due.notify_one();
                }
                self.living.borrow_mut().push(isolate);
                self.pool.borrow_mut().started(digest, resident.clone(), now);
                if !self.pool.borrow().is_on_trial(&digest) {
                    self.reports.recovered(digest);
                }
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

    async fn load(&self, digest: RevisionDigest, sourced: Sourced) -> Result<Resident, Failure> {
        let Sourced { revision, bytecode } = sourced;
        let (worker, limits) = (revision.worker.clone(), revision.limits);
        self.metrics.spare(self.engine.has_spare(&limits));
        self.demand.borrow_mut().started(Instant::now());
        self.spares_are_due.notify_one();
        // The engine's share is this thread's alone; module bytes stay where they are.
        let isolate = Isolate::start(&self.engine, digest, Rc::new((*revision).clone()), bytecode).await?;
        let request_body_bytes = u64::from(limits.request_body_mib) * 1024 * 1024;
        // Whatever its own limit, a Worker leaves the others half of the shard.
        let concurrency = limits.concurrency.min(self.bounds.in_flight.div_ceil(2));
        let gate = Gate::new(concurrency, self.bounds.waiting);
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
        for notice in self.pool.borrow_mut().take_notices() {
            match notice {
                Notice::Failing { worker, digest, why, times } => self.reports.failing(&worker, digest, why, times),
                Notice::Recovered(digest) => self.reports.recovered(digest),
            }
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
        while self.resident.condemned().is_some() {
            drop(pass);
            self.resident = self.shard.resident(self.resident.isolate.digest()).await?;
            let Self { shard, resident, permits, deadline } = &mut self;
            permits._worker = shard.enter(&resident.gate, *deadline, Refusal::WorkerFull).await?;
            pass = self.resident.isolate.queue().await;
        }
        let response = self.resident.isolate.deliver(pass, request).await?;
        Ok((response, self.permits))
    }
}
