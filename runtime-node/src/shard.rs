//! A shard: one thread and everything that it owns.
//!
//! ```text
//!  admit ─► draining? ─► isolate: warm ─► permits: the Worker's ─► its tenant's ─► the shard's
//!                           │ cold                 ▲                                   │
//!                           └─► one start for all ─┘             response ◄── fetch ◄──┘
//! ```
//!
//! - [`resident`]: the pool's warm isolates and starts; [`admitted`]: an admitted request with its
//!   isolate and permits.
//! - [`chores`]: background tasks of a shard; [`weight`]: detects revisions that are too heavy for
//!   a shard; [`refusals`]: remembers which revisions the supervisor refuses.
//!
//! Nothing here is `Send`: a request runs on the thread that read it.

mod admitted;
mod chores;
mod refusals;
mod resident;
mod weight;

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, Shared};
use rustc_hash::{FxHashMap, FxHashSet};
use tenon_engine::share::Share;
use tenon_engine::{Bytecode, BytecodeLookup, Engine, Isolate};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::admission::{Gate, Permit, Refusal};
use crate::memory::{self, Pressure};
use crate::metrics::ShardMetrics;
use crate::pool::{Eviction, Launch, Lookup, Obstacle, Pool, Retry};
use crate::reports::Reports;
use crate::seat::{Delivery, Place, Supervisor};
use crate::source::{self, Source, Sourced};
use crate::spares::Demand;
use crate::tenants::Tenants;
use crate::upkeep;
use admitted::InFlight;
pub use admitted::{Admitted, Permits};
use admitted::{Ask, Counted};
use refusals::Refusals;
use resident::{Resident, Start};

/// One shard of a node.
pub struct Shard {
    engine: Rc<Engine>,
    pool: RefCell<Pool<Resident, Start>>,
    /// Every isolate that may have invocations in flight: the pool's, and those that it has
    /// evicted.
    living: RefCell<Vec<Weak<Isolate>>>,
    gate: Gate,
    tenants: RefCell<Tenants>,
    source: Source,
    /// The supervisor, which decides what may start here. `None` if the shard is not a process of
    /// its own.
    supervisor: Option<Supervisor>,
    /// Placement requests in flight to the supervisor.
    placing: RefCell<FxHashMap<(RevisionDigest, bool), Placing>>,
    reports: Reports,
    metrics: ShardMetrics,
    bounds: Bounds,
    draining: Cell<bool>,
    pressure: Cell<Pressure>,
    demand: RefCell<Demand>,
    /// Notified when a cold start begins or memory pressure is reviewed.
    spares_are_due: Notify,
    /// Revisions that the supervisor ordered released while they were starting.
    unwanted: RefCell<FxHashSet<RevisionDigest>>,
    refusals: RefCell<Refusals>,
    /// Isolates that compiled their modules because no usable bytecode was at hand.
    uncompiled: RefCell<Vec<Weak<Isolate>>>,
    bytecode_is_due: Notify,
}

/// Upper bounds on a shard's work. One tenant gets a share of each; see [`crate::tenants`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Isolates in the pool.
    pub isolates: usize,
    /// Invocations in flight.
    pub in_flight: u32,
    /// Clients' WebSockets.
    pub tunnels: u32,
    /// Requests that may wait for a permit of the shard, and likewise of each tenant and each
    /// Worker, running or starting; more are shed. The total across all queues is bounded by
    /// `in_flight`, or by this if it is larger.
    pub waiting: usize,
}

/// The supervisor's answer, shared by all requests that wait for it. The first request to resume
/// takes the code.
type Placing = Shared<LocalBoxFuture<'static, Result<Rc<Cell<Option<Delivery>>>, Failure>>>;

enum Found {
    Warm(Resident),
    Cold(Start),
}

impl Shard {
    pub fn new(
        engine: Engine,
        source: Source,
        supervisor: Option<Supervisor>,
        reports: Reports,
        bounds: Bounds,
        metrics: ShardMetrics,
    ) -> Rc<Self> {
        let Bounds { isolates, in_flight, tunnels, waiting } = bounds;
        let waiting_in_all = in_flight.max(u32::try_from(waiting).unwrap_or(u32::MAX));
        Rc::new(Self {
            engine: Rc::new(engine),
            pool: RefCell::new(Pool::new(isolates)),
            living: RefCell::default(),
            gate: Gate::new(in_flight, waiting),
            tenants: RefCell::new(Tenants::new(in_flight, waiting, waiting_in_all, tunnels)),
            source,
            supervisor,
            placing: RefCell::default(),
            reports,
            metrics,
            bounds,
            draining: Cell::new(false),
            pressure: Cell::default(),
            demand: RefCell::new(Demand::new(Instant::now())),
            spares_are_due: Notify::new(),
            unwanted: RefCell::default(),
            refusals: RefCell::default(),
            uncompiled: RefCell::default(),
            bytecode_is_due: Notify::new(),
        })
    }

    pub fn metrics(&self) -> &ShardMetrics {
        &self.metrics
    }

    /// Refuses every new invocation from now on.
    pub fn begin_drain(&self) {
        self.draining.set(true);
    }

    /// Closes every WebSocket of every Worker, including those that open later.
    pub fn close_web_sockets(&self) {
        self.engine.close_sockets();
    }

    /// Returns whether an isolate of `digest` runs here and accepts requests.
    pub fn is_warm(&self, digest: &RevisionDigest) -> bool {
        self.pool.borrow().is_warm(digest)
    }

    /// Admits a request to the isolate that runs `digest`, which is started if it is cold. Waits
    /// for permits; dropping the future leaves the queue.
    ///
    /// # Arguments
    /// * `worker` - the Worker that the revision must belong to: a router that mixes them up must
    ///   not be believed.
    /// * `deadline` - the caller's deadline; earlier deadlines are served first.
    /// * `stay` - set if the request can no longer be sent elsewhere on this node.
    ///
    /// # Errors
    /// Fails if every queue is full, the node drains, the revision runs elsewhere on the node or is
    /// quarantined, or the revision cannot be fetched or started.
    pub async fn admit(
        self: &Rc<Self>,
        worker: &str,
        digest: RevisionDigest,
        deadline: tokio::time::Instant,
        stay: bool,
    ) -> Result<Admitted, Failure> {
        let mixed_up = || {
            let why = format!("the revision does not belong to {worker}");
            Failure::new(FailureCode::BadRequest, Phase::Admission, why)
        };
        let (namespace, _) = worker.split_once('/').ok_or_else(mixed_up)?;
        let tenant = self.tenants.borrow_mut().arrive(namespace, Instant::now());
        let ask = Ask { tenant, worker: worker.into(), digest, stay, deadline };
        loop {
            if self.draining.get() {
                return Err(self.shed(Refusal::Draining));
            }
            if !self.gate.has_room() {
                return Err(self.shed(Refusal::ShardFull));
            }
            let (resident, of_worker) = self.resident(&ask).await?;
            if resident.worker.as_str() != worker {
                return Err(mixed_up());
            }
            let of_tenant = self.enter(ask.tenant.gate(), &ask, Refusal::TenantFull).await?;
            let of_shard = self.enter(&self.gate, &ask, Refusal::ShardFull).await?;
            // A request ahead of this one may have had the isolate condemned. Its successor has its
            // own queue.
            if resident.spent().is_none() {
                let counted = Counted::among(&self.metrics.in_flight);
                let permits = InFlight { worker: of_worker, _tenant: of_tenant, _shard: of_shard, _counted: counted };
                return Ok(Admitted { shard: Rc::clone(self), ask, resident, permits, tunnel: None });
            }
        }
    }

    /// Returns the isolate that runs the requested revision, with the Worker's permit. If the
    /// isolate has been condemned while this request waited, its successor is used.
    async fn resident(self: &Rc<Self>, ask: &Ask) -> Result<(Resident, Permit), Failure> {
        loop {
            let is_live = self.pool.borrow().is_live(&ask.digest);
            let delivery = match &self.supervisor {
                Some(supervisor) if !is_live => self.place(supervisor, ask).await?,
                Some(supervisor) if ask.stay => {
                    self.place_live(supervisor, ask).await?;
                    None
                }
                _ => None,
            };
            let (resident, permit) = match self.look_up(ask, delivery)? {
                Found::Warm(resident) if resident.is_taken_up() => return Err(self.shed(Refusal::WorkerFull)),
                Found::Warm(resident) => {
                    let permit = self.enter(&resident.gate, ask, Refusal::WorkerFull).await?;
                    (resident, permit)
                }
                Found::Cold(start) => {
                    let permit = self.pass(&start.gate, ask).await?;
                    // Requests that were let in, or turned away from the queue, see how the start
                    // ended. A request that found the queue full does not.
                    let resident = start.outcome().transpose()?;
                    resident.zip(permit).ok_or_else(|| self.shed(Refusal::WaitingRoomFull))?
                }
            };
            if resident.spent().is_none() {
                return Ok((resident, permit));
            }
        }
    }

    /// Asks the supervisor whether the revision may start here and, if the pool has room, for its
    /// code. Concurrent requests for the same revision share one answer; the first of them to
    /// resume takes the code.
    ///
    /// # Errors
    /// Fails with [`FailureCode::Moved`] if the revision runs elsewhere on this node, and with
    /// [`FailureCode::WorkerQuarantined`] if it is quarantined.
    async fn place(self: &Rc<Self>, supervisor: &Supervisor, ask: &Ask) -> Result<Option<Delivery>, Failure> {
        self.ensure_not_refused(&ask.digest)?;
        let key = (ask.digest, ask.stay);
        let begin = || {
            let (shard, supervisor, worker) = (Rc::clone(self), supervisor.clone(), ask.worker.clone());
            let send = self.has_room(ask);
            // Runs as its own task, so that the entry is removed even if every waiting request is
            // cancelled.
            let placing = spawn_local(async move {
                let (digest, stay) = key;
                let place = supervisor.place(&worker, &digest, stay, send).await;
                shard.placing.borrow_mut().remove(&key);
                place.and_then(|place| shard.follow(digest, place)).map(|delivery| Rc::new(Cell::new(delivery)))
            });
            placing.map(|ended| ended.unwrap_or_else(|_| Err(panicked()))).boxed_local().shared()
        };
        let placing = self.placing.borrow_mut().entry(key).or_insert_with(begin).clone();
        placing.await.map(|delivery| delivery.take())
    }

    /// Asks the supervisor whether a revision that runs here may go on, for a request that may have
    /// ended another process.
    ///
    /// # Errors
    /// Fails as [`Self::place`] does.
    async fn place_live(&self, supervisor: &Supervisor, ask: &Ask) -> Result<(), Failure> {
        self.ensure_not_refused(&ask.digest)?;
        let place = supervisor.place(&ask.worker, &ask.digest, true, false).await?;
        self.follow(ask.digest, place).map(drop)
    }

    fn ensure_not_refused(&self, digest: &RevisionDigest) -> Result<(), Failure> {
        if self.refusals.borrow_mut().has(digest, Instant::now()) { Err(quarantined()) } else { Ok(()) }
    }

    /// Returns whether neither the pool nor memory pressure would refuse a start of the requested
    /// revision.
    fn has_room(&self, ask: &Ask) -> bool {
        let (namespace, share) = (ask.tenant.namespace(), ask.tenant.share());
        self.has_memory() && self.pool.borrow().has_room(&ask.digest, namespace, share, Instant::now())
    }

    /// Returns whether there is memory for a start now.
    fn has_memory(&self) -> bool {
        upkeep::admits_starts(self.pressure.get().max(memory::on_this_process()))
    }

    /// Turns the supervisor's answer into the code, if it was requested, or into the reason for
    /// refusal.
    fn follow(&self, digest: RevisionDigest, place: Place) -> Result<Option<Delivery>, Failure> {
        match place {
            Place::Here(delivery) => Ok(delivery),
            Place::Elsewhere => {
                let why = "another process of the node runs the Worker";
                Err(Failure::new(FailureCode::Moved, Phase::Admission, why))
            }
            Place::Nowhere(remaining) => {
                let now = Instant::now();
                self.refusals.borrow_mut().add(digest, now + remaining, now);
                Err(quarantined())
            }
        }
    }

    async fn enter(&self, gate: &Gate, ask: &Ask, refusal: Refusal) -> Result<Permit, Failure> {
        self.pass(gate, ask).await?.ok_or_else(|| self.shed(refusal))
    }

    /// Waits for a permit. Returns `None` if the gate is closed or its queue is full.
    ///
    /// # Errors
    /// Fails if the tenant or the shard has as many requests waiting as it may.
    async fn pass(&self, gate: &Gate, ask: &Ask) -> Result<Option<Permit>, Failure> {
        if let Some(permit) = gate.try_enter() {
            return Ok(Some(permit));
        }
        let place = self.tenants.borrow().place(&ask.tenant);
        let _place = place.map_err(|refusal| self.shed(refusal))?;
        let _waiting = Counted::among(&self.metrics.waiting);
        Ok(gate.enter(ask.deadline).await)
    }

    fn shed(&self, refusal: Refusal) -> Failure {
        self.metrics.shed(refusal);
        refusal.into()
    }

    /// Looks the revision up in the pool, and begins a start if it has none.
    ///
    /// # Arguments
    /// * `delivery` - the revision's code, if the supervisor has sent it.
    fn look_up(self: &Rc<Self>, ask: &Ask, delivery: Option<Delivery>) -> Result<Found, Failure> {
        let mut pool = self.pool.borrow_mut();
        let (namespace, share) = (ask.tenant.namespace(), ask.tenant.share());
        let found = match pool.look_up(&ask.digest, namespace, share, Instant::now()) {
            Lookup::Warm(resident) => return Ok(Found::Warm(resident)),
            Lookup::Join(start) => return Ok(Found::Cold(start)),
            Lookup::Refused(Obstacle::Failed(failure)) => Err(failure),
            Lookup::Refused(Obstacle::Full) => Err(self.shed(Refusal::NoIdleIsolate)),
            Lookup::Refused(Obstacle::OverShare) => Err(self.shed(Refusal::TenantFull)),
            Lookup::Start(_) if !self.has_memory() => Err(self.shed(Refusal::MemoryShort)),
            Lookup::Start(vacancy) => {
                let start = Start::new(self.bounds.waiting);
                let launch = vacancy.starting(start.clone());
                if upkeep::starts_replace(self.pressure.get()) {
                    pool.let_one_go(Eviction::Memory, Instant::now());
                }
                // Runs as its own task, so that the start goes on when the requests that wait for
                // it have gone.
                spawn_local(Rc::clone(self).start(launch, start.clone(), delivery));
                Ok(Found::Cold(start))
            }
        };
        // Not called for each request of a flood that is refused.
        let has_changed = found.is_ok() || pool.has_news();
        drop(pool);
        if has_changed {
            self.settle();
        }
        found
    }

    async fn start(self: Rc<Self>, launch: Launch, start: Start, delivery: Option<Delivery>) {
        let (began, digest) = (Instant::now(), launch.digest());
        let has_spares = self.engine.spares() > 0;
        // If no isolate is spare, one is made while the code is in flight.
        let prepare = async {
            let began = Instant::now();
            if !has_spares && self.has_memory() {
                self.engine.make_spare();
            }
            began.elapsed()
        };
        let source = async {
            match delivery {
                Some(delivery) => source::receive(digest, delivery.code()).await,
                None => self.source.fetch(digest).await,
            }
        };
        let (sourced, made_in) = futures::join!(source, prepare);
        let sourced_in = began.elapsed();
        let worker = sourced.as_ref().ok().map(|sourced| sourced.revision.worker.clone());
        let loaded = match sourced {
            // Starts that were admitted together may have used up the memory.
            Ok(_) if !self.has_memory() => Err(self.shed(Refusal::MemoryShort)),
            Ok(sourced) => {
                self.metrics.workers.open(digest, &sourced.revision);
                // After any failure, even a panic, the slot must become free and the waiting
                // requests must be told.
                let load = AssertUnwindSafe(self.load(digest, sourced, start.gate.clone(), has_spares));
                load.catch_unwind().await.unwrap_or_else(|_| Err(panicked()))
            }
            Err(failure) => Err(failure),
        };
        self.metrics.cold_start(began, loaded.is_ok());
        let now = Instant::now();
        match loaded {
            Ok(resident) => {
                let phases = [sourced_in - made_in, made_in, now - began - sourced_in];
                self.metrics.cold_start_phases(&digest, &phases);
                self.register(&resident.isolate);
                self.pool.borrow_mut().started(launch, resident.clone(), now);
                if !self.pool.borrow().is_on_trial(&digest) {
                    self.reports.recovered(digest);
                }
                start.succeed(resident, self.bounds.waiting);
                if self.unwanted.borrow_mut().remove(&digest) {
                    self.pool.borrow_mut().release(&digest, now);
                }
            }
            Err(failure) => {
                self.unwanted.borrow_mut().remove(&digest);
                let retry = match failure.code {
                    FailureCode::RevisionUnavailable | FailureCode::Overloaded => Retry::Soon,
                    _ => Retry::BackOff,
                };
                let failures = self.pool.borrow_mut().failed(launch, failure.clone(), retry, now);
                // A revision that was not started says nothing about its code.
                if let (Retry::BackOff, Some(worker)) = (retry, worker) {
                    self.reports.failing(&worker, digest, failure.code, failures, failure.place.clone());
                }
                start.fail(failure);
            }
        }
        self.settle();
    }

    /// Evaluates the code in an isolate and returns it as a pool resident.
    ///
    /// # Arguments
    /// * `had_spares` - whether the engine had a spare isolate when the start began.
    async fn load(
        &self,
        digest: RevisionDigest,
        sourced: Sourced,
        gate: Gate,
        had_spares: bool,
    ) -> Result<Resident, Failure> {
        let Sourced { revision, bytecode } = sourced;
        let bytecode = bytecode.and_then(|encoded| {
            let decoded = Bytecode::decode(&encoded);
            decoded
                .inspect_err(|why| tracing::info!(revision = digest.short(), %why, "ignoring unusable bytecode"))
                .ok()
        });
        let (worker, limits) = (revision.worker.clone(), revision.limits);
        self.metrics.spare(had_spares && self.engine.has_spare(&limits));
        self.demand.borrow_mut().started(Instant::now());
        self.spares_are_due.notify_one();
        // The engine's copy of the revision belongs to this thread alone; module bytes are not
        // copied.
        let isolate =
            Isolate::start(&self.engine, digest, Rc::new((*revision).clone()), bytecode.map(Arc::new)).await?;
        let request_body_bytes = u64::from(limits.request_body_mib) * 1024 * 1024;
        // Regardless of its own limit, a Worker leaves the others half of the shard.
        let half = u32::try_from(Share::Half.of(self.bounds.in_flight as usize)).unwrap_or(u32::MAX);
        let concurrency = limits.concurrency.min(half);
        let tunnels = Gate::new(u32::MAX, 0);
        let weight = Rc::new(self.weigh_start(&isolate));
        Ok(Resident { worker, isolate, gate, tunnels, concurrency, request_body_bytes, weight })
    }

    /// Records a started isolate.
    fn register(&self, isolate: &Rc<Isolate>) {
        let lookup = isolate.bytecode_lookup();
        lookup.into_iter().for_each(|lookup| self.metrics.bytecode(lookup));
        if lookup.is_some_and(|lookup| lookup != BytecodeLookup::Hit) {
            self.uncompiled.borrow_mut().push(Rc::downgrade(isolate));
            self.bytecode_is_due.notify_one();
        }
        self.living.borrow_mut().push(Rc::downgrade(isolate));
    }
}

fn quarantined() -> Failure {
    let why = "the Worker's code ended a process; the revision is in quarantine";
    Failure::new(FailureCode::WorkerQuarantined, Phase::Admission, why)
}

fn panicked() -> Failure {
    Failure::new(FailureCode::Internal, Phase::Start, "the platform failed to start the Worker")
}
