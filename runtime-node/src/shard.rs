//! A shard: one thread and everything that the thread owns.
//!
//! ```text
//!  admit ─► draining? ─► isolate: warm ─► permits: the Worker's ─► its tenant's ─► the shard's
//!                           │ cold                 ▲                                   │
//!                           └─► one start for all ─┘             response ◄── fetch ◄──┘
//! ```
//!
//! - [`resident`]: the pool's warm isolates and starts; [`admitted`]: an admitted request with its
//!   isolate and permits.
//! - [`placing`]: asks the supervisor where a revision runs; [`quarantine_cache`]: remembers which
//!   revisions the supervisor refuses; [`starting`]: a cold start.
//! - [`background`]: background tasks of a shard; [`coverage`]: decides when bytecode is made.
//! - [`profiling`]: profiles a Worker in a lane.
//! - [`weight`]: detects revisions that are too heavy for a shard; [`weighing`]: reports them.
//! - [`heat`]: detects Workers that need more than one shard.
//!
//! Nothing here is `Send`: a request runs on the thread that read it.

mod admitted;
mod background;
mod coverage;
mod heat;
mod placing;
mod profiling;
mod quarantine_cache;
mod resident;
mod starting;
mod weighing;
mod weight;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use tenon_engine::{Engine, Isolate};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::admission::{DeadlineSemaphore, Permit, Refusal};
use crate::child::{Delivery, Supervisor};
use crate::memory::{self, Pressure};
use crate::metrics::ShardMetrics;
use crate::pool::{Eviction, Lookup, Obstacle, Pool};
use crate::reports::Reports;
use crate::source::Source;
use crate::spares::Demand;
use crate::tenants::Tenants;
use crate::upkeep;
use admitted::{AdmissionRequest, GaugeGuard, InFlight};
pub use admitted::{Admitted, Answer, Permits};
use coverage::Coverage;
use heat::ShardHeat;
use placing::Placing;
use profiling::Profiling;
use quarantine_cache::QuarantineCache;
use resident::{Resident, Start};

/// One shard of a node.
pub struct Shard {
    engine: Rc<Engine>,
    pool: RefCell<Pool<Resident, Start>>,
    /// Every isolate that may have invocations in flight: those in the pool, and those that the
    /// pool has evicted.
    living: RefCell<Vec<Weak<Isolate>>>,
    semaphore: DeadlineSemaphore,
    tenants: RefCell<Tenants>,
    source: Source,
    /// The supervisor, which decides what may start here. `None` if the shard is not a process of
    /// its own.
    supervisor: Option<Supervisor>,
    /// Placement requests in flight to the supervisor, by revision and by whether the request can
    /// no longer be sent elsewhere.
    placing: RefCell<FxHashMap<(RevisionDigest, bool), Placing>>,
    reports: Reports,
    metrics: ShardMetrics,
    bounds: ShardBounds,
    draining: Cell<bool>,
    /// Whether this process has asked the supervisor to replace it.
    was_reported_worn: Cell<bool>,
    pressure: Cell<Pressure>,
    demand: RefCell<Demand>,
    /// Notified when a cold start begins or memory pressure is reviewed.
    spares_are_due: Notify,
    /// Revisions that the supervisor ordered this shard to release while they were starting.
    unwanted: RefCell<FxHashSet<RevisionDigest>>,
    quarantines: RefCell<QuarantineCache>,
    heat: ShardHeat,
    /// Measures the time for which the thread runs tasks.
    event_loop: RuntimeMetrics,
    /// The Worker for which the shard asks the supervisor before each request.
    consulted: RefCell<Option<WorkerId>>,
    profiling: RefCell<Option<Profiling>>,
    /// Isolates whose bytecode is to be made.
    uncovered: RefCell<Vec<(Weak<Isolate>, Rc<Coverage>)>>,
    bytecode_due: Notify,
}

/// Maximum number of idle isolates that are evicted for one start while this process has almost no
/// memory left.
const EVICTIONS: usize = 8;

/// Upper bounds on a shard's work. One tenant gets a share of each; see [`crate::tenants`].
#[derive(Clone, Copy, Debug)]
pub struct ShardBounds {
    /// Maximum number of isolates in the pool.
    pub isolates: usize,
    /// Maximum number of invocations in flight.
    pub in_flight: u32,
    /// Maximum number of clients' WebSockets.
    pub tunnels: u32,
    /// Maximum length of the queue for the shard's permits, and of the queue of each tenant and of
    /// each Worker, running or starting; further requests are shed. The total across all queues is
    /// bounded by the larger of `in_flight` and `waiting`.
    pub waiting: usize,
}

enum ResidentOrStart {
    Warm(Resident),
    Cold(Start),
}

impl Shard {
    /// Creates the shard of the current thread.
    ///
    /// # Panics
    /// Panics if no Tokio runtime runs on the current thread.
    pub fn new(
        engine: Engine,
        source: Source,
        supervisor: Option<Supervisor>,
        reports: Reports,
        bounds: ShardBounds,
        metrics: ShardMetrics,
    ) -> Rc<Self> {
        let ShardBounds { isolates, in_flight, tunnels, waiting } = bounds;
        let max_waiting_total = in_flight.max(u32::try_from(waiting).unwrap_or(u32::MAX));
        Rc::new(Self {
            engine: Rc::new(engine),
            pool: RefCell::new(Pool::new(isolates)),
            living: RefCell::default(),
            semaphore: DeadlineSemaphore::new(in_flight, waiting),
            tenants: RefCell::new(Tenants::new(in_flight, waiting, max_waiting_total, tunnels)),
            source,
            supervisor,
            placing: RefCell::default(),
            reports,
            metrics,
            bounds,
            draining: Cell::new(false),
            was_reported_worn: Cell::new(false),
            pressure: Cell::default(),
            demand: RefCell::new(Demand::new(Instant::now())),
            spares_are_due: Notify::new(),
            unwanted: RefCell::default(),
            quarantines: RefCell::default(),
            heat: ShardHeat::new(Instant::now()),
            event_loop: Handle::current().metrics(),
            consulted: RefCell::default(),
            profiling: RefCell::default(),
            uncovered: RefCell::default(),
            bytecode_due: Notify::new(),
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
        self.engine.leave();
    }

    /// Returns whether this shard has a warm isolate of `digest` that accepts requests.
    pub fn is_warm(&self, digest: &RevisionDigest) -> bool {
        self.pool.borrow().is_warm(digest)
    }

    /// Admits a request to the isolate that runs `digest`, and starts that isolate if it is cold.
    /// Waits for permits; dropping the future leaves the queue.
    ///
    /// # Arguments
    /// * `worker` - the Worker to which the revision must belong. The router is not trusted to send
    ///   a revision of that Worker.
    /// * `deadline` - the caller's deadline; earlier deadlines are served first.
    /// * `stay` - set if the request can no longer be sent elsewhere on this node.
    ///
    /// # Errors
    /// Fails if a queue that the request must join is full, the pool or the tenant's share of it
    /// has no room, the node drains or has no memory for a start, or the revision does not belong
    /// to the Worker, runs elsewhere on the node, is quarantined, or cannot be fetched or started.
    pub async fn admit(
        self: &Rc<Self>,
        worker: &str,
        digest: RevisionDigest,
        deadline: tokio::time::Instant,
        stay: bool,
    ) -> Result<Admitted, Failure> {
        let mismatch = || {
            let why = format!("the revision does not belong to {worker}");
            Failure::new(FailureCode::BadRequest, Phase::Admission, why)
        };
        let (namespace, _) = worker.split_once('/').ok_or_else(mismatch)?;
        let tenant = self.tenants.borrow_mut().arrive(namespace, Instant::now());
        let is_cold = Cell::new(false);
        let worker_id = worker.into();
        let request =
            AdmissionRequest { tenant, worker: worker_id, digest, stay, deadline, is_cold };
        loop {
            if self.draining.get() {
                return Err(self.shed(Refusal::Draining));
            }
            if !self.semaphore.has_room() {
                return Err(self.shed(Refusal::ShardFull));
            }
            let (resident, of_worker) = self.resident(&request).await?;
            if resident.worker.as_str() != worker {
                return Err(mismatch());
            }
            let of_tenant = self
                .acquire_or_shed(request.tenant.semaphore(), &request, Refusal::TenantFull)
                .await?;
            let of_shard =
                self.acquire_or_shed(&self.semaphore, &request, Refusal::ShardFull).await?;
            // An earlier request may have caused the isolate to be condemned. The isolate's
            // successor has its own queue.
            if resident.spent().is_none() {
                let counted = GaugeGuard::new(&self.metrics.admission.in_flight);
                let permits = InFlight {
                    worker: of_worker,
                    _tenant: of_tenant,
                    _shard: of_shard,
                    _counted: counted,
                };
                return Ok(Admitted {
                    shard: Rc::clone(self),
                    admission: request,
                    resident,
                    permits,
                    tunnel: None,
                });
            }
        }
    }

    /// Returns the isolate that runs the requested revision, with the Worker's permit. If an
    /// isolate is condemned while this request waits for it, the request goes to the isolate's
    /// successor.
    async fn resident(
        self: &Rc<Self>,
        request: &AdmissionRequest,
    ) -> Result<(Resident, Permit), Failure> {
        loop {
            let is_live =
                self.pool.borrow().is_live(&request.digest) && !self.consults(&request.worker);
            let delivery = match &self.supervisor {
                Some(supervisor) if !is_live => self.place(supervisor, request).await?,
                Some(supervisor) if request.stay => {
                    self.place_running(supervisor, request).await?;
                    None
                }
                _ => None,
            };
            let (resident, permit) = match self.look_up(request, delivery)? {
                ResidentOrStart::Warm(resident) if resident.is_full_of_background_work() => {
                    return Err(self.shed(Refusal::WorkerFull));
                }
                ResidentOrStart::Warm(resident) => {
                    let permit = self
                        .acquire_or_shed(&resident.semaphore, request, Refusal::WorkerFull)
                        .await?;
                    (resident, permit)
                }
                ResidentOrStart::Cold(start) => {
                    request.is_cold.set(true);
                    let permit = self.acquire(&start.semaphore, request).await?;
                    // Requests that were admitted, or were waiting in the queue, see the outcome of
                    // the start. A request that found the queue full does not.
                    let resident = start.outcome().transpose()?;
                    resident.zip(permit).ok_or_else(|| self.shed(Refusal::WaitingRoomFull))?
                }
            };
            if resident.spent().is_none() {
                return Ok((resident, permit));
            }
        }
    }

    /// Returns the pressure as last measured, or the pressure on this process now, whichever is
    /// higher.
    fn pressure(&self) -> Pressure {
        self.pressure.get().max(memory::on_this_process())
    }

    /// Frees memory for a start: evicts an idle isolate if memory is short, and up to
    /// [`EVICTIONS`] more while this process has almost no memory left. Returns whether there is
    /// room.
    fn free_memory_for_start(&self) -> bool {
        let replaces = upkeep::starts_replace(self.pressure()) && self.evict_idle();
        let mut evictions = 0;
        while memory::on_this_process() == Pressure::Critical {
            if evictions == EVICTIONS || !self.evict_idle() {
                return false;
            }
            evictions += 1;
        }
        upkeep::admits_start(self.pressure.get(), replaces)
    }

    /// Evicts the spent or idle isolate that is first in the order of eviction. Returns whether
    /// there was such an isolate.
    fn evict_idle(&self) -> bool {
        let evicted = self.pool.borrow_mut().evict_one(Eviction::Memory, Instant::now());
        if evicted {
            self.apply_pool_changes();
        }
        evicted
    }

    /// Waits for a permit, and counts the request as shed if it gets none.
    async fn acquire_or_shed(
        &self,
        semaphore: &DeadlineSemaphore,
        request: &AdmissionRequest,
        refusal: Refusal,
    ) -> Result<Permit, Failure> {
        self.acquire(semaphore, request).await?.ok_or_else(|| self.shed(refusal))
    }

    /// Waits for a permit. Returns `None` if the semaphore is closed or its queue is full.
    ///
    /// # Errors
    /// Fails if the tenant or the shard has its maximum number of waiting requests.
    async fn acquire(
        &self,
        semaphore: &DeadlineSemaphore,
        request: &AdmissionRequest,
    ) -> Result<Option<Permit>, Failure> {
        if let Some(permit) = semaphore.try_acquire() {
            return Ok(Some(permit));
        }
        let slot = self.tenants.borrow().reserve_queue_slot(&request.tenant);
        let _slot = slot.map_err(|refusal| self.shed(refusal))?;
        let _waiting = GaugeGuard::new(&self.metrics.admission.waiting);
        Ok(semaphore.acquire(request.deadline).await)
    }

    fn shed(&self, refusal: Refusal) -> Failure {
        self.metrics.admission.shed.inc(refusal);
        refusal.into()
    }

    /// Looks the revision up in the pool, and begins a start if the pool has neither an isolate nor
    /// a start of it.
    ///
    /// # Arguments
    /// * `delivery` - the revision's code, if the supervisor has sent it.
    fn look_up(
        self: &Rc<Self>,
        request: &AdmissionRequest,
        delivery: Option<Delivery>,
    ) -> Result<ResidentOrStart, Failure> {
        let mut pool = self.pool.borrow_mut();
        let (namespace, share) = (request.tenant.namespace(), request.tenant.share());
        let found = match pool.look_up(&request.digest, namespace, share, Instant::now()) {
            Lookup::Warm(resident) => return Ok(ResidentOrStart::Warm(resident)),
            Lookup::Join(start) => return Ok(ResidentOrStart::Cold(start)),
            Lookup::Refused(Obstacle::Failed(failure)) => Err(failure),
            Lookup::Refused(Obstacle::Full) => Err(self.shed(Refusal::NoIdleIsolate)),
            Lookup::Refused(Obstacle::OverShare) => Err(self.shed(Refusal::TenantFull)),
            Lookup::Start(vacancy)
                if !upkeep::admits_start(self.pressure(), vacancy.can_replace()) =>
            {
                Err(self.shed(Refusal::MemoryShort))
            }
            Lookup::Start(vacancy) => {
                let start = Start::new(self.bounds.waiting);
                let launch = vacancy.starting(start.clone());
                // The start runs as its own task, so that it continues after the requests that wait
                // for it have been canceled.
                let worker = request.worker.clone();
                spawn_local(Rc::clone(self).start(worker, launch, start.clone(), delivery));
                Ok(ResidentOrStart::Cold(start))
            }
        };
        // During a flood of refused requests, changes must not be applied for each request.
        let has_changed = found.is_ok() || pool.has_updates();
        drop(pool);
        if has_changed {
            self.apply_pool_changes();
        }
        found
    }
}

fn start_panicked() -> Failure {
    Failure::new(FailureCode::Internal, Phase::Start, "the platform failed to start the Worker")
}
