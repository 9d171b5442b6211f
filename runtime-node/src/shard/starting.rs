//! Performs a cold start, from the fetch of the revision's code to a warm isolate.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use tenon_engine::share::Share;
use tenon_engine::{Bytecode, Isolate};
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::StatePolicy;

use super::coverage::Coverage;
use super::resident::{Resident, Start};
use super::weight::Weight;
use super::{Shard, start_panicked};
use crate::admission::{DeadlineSemaphore, Refusal};
use crate::child::{Delivery, Supervisor};
use crate::pool::{Launch, Retry};
use crate::source::{self, RevisionWithBytecode};

impl Shard {
    /// Fetches and starts a revision, and passes the outcome to the requests that wait for the
    /// start.
    ///
    /// # Arguments
    /// * `worker` - the id of the Worker to which the revision should belong.
    /// * `delivery` - the revision's code, if the supervisor has sent it.
    pub(super) async fn start(
        self: Rc<Self>,
        worker: Box<str>,
        launch: Launch,
        start: Start,
        delivery: Option<Delivery>,
    ) {
        let (began, digest) = (Instant::now(), launch.digest());
        let has_spares = self.engine.spares() > 0;
        // If there is no spare isolate, one is made while the code is fetched.
        let prepare = async {
            let began = Instant::now();
            if !has_spares && self.free_memory_for_start() {
                self.engine.make_spare();
            }
            began.elapsed()
        };
        let fetch = async {
            match delivery {
                Some(delivery) => source::receive(digest, delivery.code()).await,
                None => self.source.fetch(&worker, digest).await,
            }
        };
        let (fetched, isolate_time) = futures::join!(fetch, prepare);
        let fetch_time = began.elapsed();
        let worker = fetched.as_ref().ok().map(|fetched| fetched.revision.worker.clone());
        let loaded = match fetched {
            // Concurrent starts may have used up the memory.
            Ok(_) if !self.free_memory_for_start() => Err(self.shed(Refusal::MemoryShort)),
            Ok(fetched) => {
                self.metrics.workers.open(digest, &fetched.revision);
                // After any failure, even a panic, the slot must become free and the waiting
                // requests must get the failure.
                let load = AssertUnwindSafe(self.load(
                    digest,
                    fetched,
                    start.semaphore.clone(),
                    has_spares,
                ));
                load.catch_unwind().await.unwrap_or_else(|_| Err(start_panicked()))
            }
            Err(failure) => Err(failure),
        };
        self.metrics.starts.record_end(began, loaded.is_ok());
        let now = Instant::now();
        match loaded {
            Ok(resident) => {
                let phases = [fetch_time - isolate_time, isolate_time, now - began - fetch_time];
                self.metrics.starts.observe_phases(&phases);
                self.metrics.workers.record_start(&digest, &phases);
                self.register(&resident.isolate);
                self.pool.borrow_mut().started(launch, resident.clone(), now);
                if !self.pool.borrow().is_reported(&digest) {
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
                worker.iter().for_each(|worker| self.report_failed_copy(worker, &failure));
                // A failed fetch is not a failure of the revision's code.
                if let (Retry::BackOff, Some(worker)) = (retry, worker) {
                    self.reports.failing(
                        &worker,
                        digest,
                        failure.code,
                        failures,
                        failure.place.clone(),
                    );
                }
                start.fail(failure);
            }
        }
        self.apply_pool_changes();
    }

    /// Evaluates the code in an isolate, and returns the isolate as a resident of the pool.
    ///
    /// # Arguments
    /// * `had_spares` - whether the engine had a spare isolate when the start began.
    async fn load(
        &self,
        digest: RevisionDigest,
        fetched: RevisionWithBytecode,
        semaphore: DeadlineSemaphore,
        had_spares: bool,
    ) -> Result<Resident, Failure> {
        let RevisionWithBytecode { revision, bytecode } = fetched;
        let bytecode = bytecode.and_then(|encoded| {
            let decoded = Bytecode::decode(&encoded);
            decoded
                .inspect_err(|why| tracing::info!(revision = digest.short(), %why, "ignoring unusable bytecode"))
                .ok()
        });
        let bytecode = bytecode.map(Arc::new);
        let (worker, limits) = (revision.worker.clone(), revision.limits);
        let resets = revision.state == StatePolicy::Reset;
        self.metrics.starts.count_spare_lookup(had_spares && self.engine.has_spare(&limits));
        self.demand.borrow_mut().started(Instant::now());
        self.spares_are_due.notify_one();
        // The engine's copy of the revision belongs to this thread alone; module bytes are not
        // copied.
        let isolate =
            Isolate::start(&self.engine, digest, Rc::new((*revision).clone()), bytecode.clone())
                .await?;
        let is_copy = self.adopt(&isolate, &revision);
        let request_body_bytes = u64::from(limits.request_body_mib) * 1024 * 1024;
        // Regardless of its own limit, a Worker leaves half of the shard to the other Workers.
        let half =
            u32::try_from(Share::Half.of(self.bounds.in_flight as usize)).unwrap_or(u32::MAX);
        let concurrency = limits.concurrency.min(half);
        let tunnels = DeadlineSemaphore::new(u32::MAX, 0);
        let weight = if is_copy { Weight::unreported() } else { self.weigh_start(&isolate) };
        let weight = Rc::new(weight);
        // On a shard, making bytecode delays neighbors. The realms of a Worker that resets share no
        // compiled functions, and bytecode is made from the first one.
        let renews = !resets && self.supervisor.as_ref().is_none_or(Supervisor::is_lane);
        let (lookup, now) = (isolate.bytecode_lookup(), Instant::now());
        let coverage = Coverage::new(lookup, bytecode.as_deref(), renews, now);
        Ok(Resident {
            worker,
            isolate,
            semaphore,
            tunnels,
            concurrency,
            request_body_bytes,
            weight,
            heat: Rc::default(),
            coverage: Rc::new(coverage),
        })
    }

    /// Records a started isolate.
    fn register(&self, isolate: &Rc<Isolate>) {
        let lookup = isolate.bytecode_lookup();
        lookup.into_iter().for_each(|lookup| self.metrics.starts.count_bytecode_lookup(lookup));
        self.living.borrow_mut().push(Rc::downgrade(isolate));
    }
}
