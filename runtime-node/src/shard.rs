//! A shard: one thread and all that it owns.
//!
//! ```text
//!  invoke ─► drain? ─► permit of the shard ─► isolate: warm, or one start for all who wait
//!                                               │
//!                      response ◄── fetch ◄── permit of the Worker
//! ```
//!
//! Nothing here is `Send`: a request runs on the thread that read it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{LocalBoxFuture, Shared};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::RevisionDigest;
use tokio::task::spawn_local;

use crate::admission::{Gate, Permit};
use crate::engine::{Engine, FetchRequest, FetchResponse, Isolate};
use crate::metrics::ShardMetrics;
use crate::pool::{Lookup, Occupant, Pool};
use crate::source::Source;

/// One shard of a node.
pub struct Shard {
    engine: Rc<Engine>,
    pool: RefCell<Pool<Resident, Start>>,
    gate: Gate,
    source: Source,
    metrics: ShardMetrics,
    draining: Cell<bool>,
}

/// A start that many may wait for.
type Start = Shared<LocalBoxFuture<'static, Result<Resident, Failure>>>;

/// What a request waits for.
enum Found {
    Warm(Resident),
    Starting(Start),
}

/// A warm isolate and how much of it is in use.
#[derive(Clone)]
pub struct Resident {
    isolate: Rc<Isolate>,
    gate: Gate,
    request_body_bytes: u64,
}

impl Occupant for Resident {
    fn is_busy(&self) -> bool {
        self.gate.in_flight() > 0 || self.isolate.in_flight() > 0
    }

    fn is_condemned(&self) -> bool {
        self.isolate.condemned().is_some()
    }
}

/// Admission to a Worker's isolate. The permits are held for as long as the response takes.
pub struct Admitted {
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
    pub fn new(engine: Engine, source: Source, isolates: usize, max_inflight: u32, metrics: ShardMetrics) -> Rc<Self> {
        Rc::new(Self {
            engine: Rc::new(engine),
            pool: RefCell::new(Pool::new(isolates)),
            gate: Gate::new(max_inflight),
            source,
            metrics,
            draining: Cell::new(false),
        })
    }

    pub fn metrics(&self) -> &ShardMetrics {
        &self.metrics
    }

    /// From now on every new invocation is refused.
    pub fn begin_drain(&self) {
        self.draining.set(true);
    }

    /// Resolves when nothing is in flight, `waitUntil` included.
    pub async fn idle(&self) {
        loop {
            let busy = self.pool.borrow().occupants().find(|resident| resident.is_busy()).cloned();
            match busy {
                Some(resident) => {
                    resident.isolate.idle().await;
                    // Its permits end when the response has been sent, a moment later on this thread.
                    tokio::task::yield_now().await;
                }
                None => return,
            }
        }
    }

    /// A place in the isolate that runs `digest`, started if it is cold.
    ///
    /// # Errors
    /// When there is no room, the node drains, or the revision cannot be had or started.
    pub async fn admit(self: &Rc<Self>, digest: RevisionDigest) -> Result<Admitted, Failure> {
        let refuse = |code, why| Failure::new(code, Phase::Admission, why);
        if self.draining.get() {
            return Err(refuse(FailureCode::Draining, "the node is shutting down"));
        }
        let permit =
            self.gate.enter().ok_or_else(|| refuse(FailureCode::Overloaded, "the shard has no room for more"))?;
        let gauge = self.metrics.in_flight.clone();
        gauge.inc();
        let shard = InFlight { _permit: permit, gauge };
        let resident = self.resident(digest).await?;
        let worker = resident
            .gate
            .enter()
            .ok_or_else(|| refuse(FailureCode::Overloaded, "the Worker has as many invocations as it may"))?;
        Ok(Admitted { resident, permits: Permits { _shard: shard, _worker: worker } })
    }

    async fn resident(self: &Rc<Self>, digest: RevisionDigest) -> Result<Resident, Failure> {
        match self.find(digest)? {
            Found::Warm(resident) => Ok(resident),
            Found::Starting(start) => start.await,
        }
    }

    /// The revision's isolate, or the start that will bring it: begun here if nobody has.
    fn find(self: &Rc<Self>, digest: RevisionDigest) -> Result<Found, Failure> {
        let mut pool = self.pool.borrow_mut();
        let evicted_before = pool.evictions();
        let looked_up = pool.look_up(&digest, Instant::now());
        self.metrics.evictions.inc_by(pool.evictions() - evicted_before);
        match looked_up {
            Lookup::Warm(resident) => Ok(Found::Warm(resident)),
            Lookup::Join(start) => Ok(Found::Starting(start)),
            Lookup::Failed(failure) => Err(failure),
            Lookup::Full => {
                let why = "every isolate of the shard is busy";
                Err(Failure::new(FailureCode::Overloaded, Phase::Admission, why))
            }
            Lookup::Start => {
                let start = Rc::clone(self).start(digest).boxed_local().shared();
                pool.starting(digest, start.clone());
                self.metrics.isolates.set(pool.len() as i64);
                // On a task of its own, so that it goes on when those who wait for it have gone.
                spawn_local(start.clone());
                Ok(Found::Starting(start))
            }
        }
    }

    async fn start(self: Rc<Self>, digest: RevisionDigest) -> Result<Resident, Failure> {
        let began = Instant::now();
        let started = self.load(digest).await;
        let mut pool = self.pool.borrow_mut();
        match &started {
            Ok(resident) => {
                self.metrics.start_duration.observe(began.elapsed().as_secs_f64());
                pool.started(digest, resident.clone());
            }
            Err(failure) => {
                // Code that was not to be had may be there the next moment; code that fails will fail again.
                let remember = failure.code != FailureCode::RevisionUnavailable;
                pool.failed(digest, failure.clone(), remember, Instant::now());
            }
        }
        self.metrics.isolates.set(pool.len() as i64);
        started
    }

    async fn load(&self, digest: RevisionDigest) -> Result<Resident, Failure> {
        let revision = self.source.fetch(digest).await?;
        let limits = revision.limits;
        // The engine's share is this thread's alone; module bytes stay where they are.
        let isolate = Isolate::start(&self.engine, digest, Rc::new((*revision).clone())).await?;
        Ok(Resident {
            isolate,
            gate: Gate::new(limits.concurrency),
            request_body_bytes: u64::from(limits.request_body_mib) * 1024 * 1024,
        })
    }
}

impl Admitted {
    /// The largest request body that the Worker takes, in bytes.
    pub fn request_body_bytes(&self) -> u64 {
        self.resident.request_body_bytes
    }

    /// Delivers the request; dropping the future cancels the invocation. The permits come back with the response, to
    /// be held until it has been sent.
    ///
    /// # Arguments
    /// * `timeout` - how long the caller waits, if it said so. The Worker's own wall limit holds besides.
    ///
    /// # Errors
    /// As [`Isolate::fetch`].
    pub async fn fetch(
        self,
        request: FetchRequest,
        timeout: Option<Duration>,
    ) -> Result<(FetchResponse, Permits), Failure> {
        let fetch = self.resident.isolate.fetch(request);
        let response = match timeout {
            None => fetch.await?,
            Some(timeout) => tokio::time::timeout(timeout, fetch).await.unwrap_or_else(|_| {
                let why = "the caller's deadline has passed";
                Err(Failure::new(FailureCode::WallLimitExceeded, Phase::Handler, why))
            })?,
        };
        Ok((response, self.permits))
    }
}
