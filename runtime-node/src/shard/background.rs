//! A shard's background tasks, which run for as long as the shard does. [`crate::upkeep`],
//! [`crate::spares`], [`crate::wear`] and [`crate::pool`] make the decisions.

use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenon_engine::Isolate;
use tenon_engine::inspector::Inspector;
use tenon_proto::id::RevisionDigest;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

use super::Shard;
use super::resident::Resident;
use crate::child::{Command, Supervisor};
use crate::memory::{self, Pressure};
use crate::pool::{Eviction, Notice};
use crate::upkeep::{self, Relief, Stock, Upkeep};
use crate::wear::{self, Signs};

/// A thread on which no turn began for `QUIET` counts as idle. After `QUIET_TRIES` tries, a task
/// that waits for an idle thread continues anyway: on a thread that is never idle, isolates would
/// otherwise be made only when requests wait for them.
const QUIET: Duration = Duration::from_millis(2);
const QUIET_TRIES: u32 = 20;

/// Interval at which the usage of isolates is read, and maximum number of isolates whose usage is
/// read each time; reading the usage of one isolate takes a few microseconds.
const USAGE_INTERVAL: Duration = Duration::from_secs(1);
const MAX_USAGE_READS: usize = 50;

/// Time from a prestart's arrival in the admission queue to its deadline. A prestart starts an
/// isolate for which no request waits yet.
const PRESTART: Duration = Duration::from_secs(10);

/// Interval at which the demand for spare isolates is reviewed in the absence of starts.
const SPARES_REVIEW: Duration = Duration::from_secs(1);

impl Shard {
    /// Evicts isolates that are spent or have been idle for `idle` and, while memory is short,
    /// other idle isolates, one after another.
    pub async fn evict_continually(
        self: Rc<Self>,
        mut pressure_rx: watch::Receiver<Pressure>,
        idle: Duration,
    ) {
        let mut upkeep = Upkeep::default();
        loop {
            let pressure = *pressure_rx.borrow_and_update();
            self.pressure.set(pressure);
            self.spares_are_due.notify_one();
            let now = Instant::now();
            let freed = match upkeep.relief(pressure, now) {
                Relief::Nothing => false,
                Relief::Collect if self.collect_largest() => true,
                Relief::Collect | Relief::Evict => {
                    self.pool.borrow_mut().evict_one(Eviction::Memory, now)
                }
            };
            self.report_wear(upkeep.time_without_relief(pressure, freed, now));
            let mut pause = pin!(tokio::time::sleep(upkeep::pause(pressure, idle)));
            loop {
                self.pool.borrow_mut().evict_idle(idle, Instant::now());
                self.apply_pool_changes();
                tokio::select! {
                    // An isolate that a limit has stopped is evicted immediately, because it may
                    // hold much memory.
                    () = self.engine.condemned() => {}
                    // An error means that the node has ended; this task is about to end too.
                    changed = pressure_rx.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = &mut pause => break,
                }
            }
        }
    }

    /// Collects the garbage of the largest idle isolate whose garbage has not been collected since
    /// its last use. Returns whether a collection ran.
    fn collect_largest(&self) -> bool {
        let largest =
            self.pool.borrow_mut().largest_idle(|resident| resident.isolate.memory_bytes());
        let freed = largest.and_then(|resident| resident.isolate.collect());
        if let Some(bytes) = freed {
            self.metrics.pool.collections.inc();
            tracing::debug!(bytes, "collected the garbage of an idle isolate");
        }
        freed.is_some()
    }

    /// Keeps as many spare isolates as demand calls for, and none while memory is short.
    ///
    /// # Arguments
    /// * `max` - maximum number of spare isolates.
    pub async fn keep_spares(self: Rc<Self>, max: usize) {
        loop {
            let wanted = self.demand.borrow().wanted(Instant::now(), max);
            match upkeep::stock(self.pressure.get(), self.engine.spares(), wanted) {
                Stock::Make => {
                    self.until_quiet().await;
                    self.engine.make_spare();
                }
                Stock::Drop => self.engine.drop_spare(),
                Stock::Keep => {
                    self.apply_pool_changes();
                    // Demand decays with time, so it is reviewed even in the absence of starts.
                    let _ =
                        tokio::time::timeout(SPARES_REVIEW, self.spares_are_due.notified()).await;
                }
            }
        }
    }

    /// Counts an invocation that has been answered or has failed, and orders bytecode if it is due.
    pub(super) fn count_invocation(&self, resident: &Resident) {
        if resident.coverage.count(Instant::now()) {
            let ordered = (Rc::downgrade(&resident.isolate), Rc::clone(&resident.coverage));
            self.uncovered.borrow_mut().push(ordered);
            self.bytecode_due.notify_one();
        }
    }

    /// Stores, for later starts, the bytecode of functions that had to be compiled. The task waits
    /// for an idle thread before it makes the bytecode of an isolate.
    pub async fn keep_bytecode(self: Rc<Self>) {
        loop {
            self.bytecode_due.notified().await;
            for (isolate, coverage) in self.uncovered.take() {
                self.until_quiet().await;
                let Some(isolate) = isolate.upgrade() else { continue };
                if isolate.condemned().is_none()
                    && let Some(bytecode) = isolate.bytecode()
                {
                    let bytecode = bytecode.with_invocations(coverage.invocations());
                    self.source.keep(isolate.digest(), bytecode.encode().into()).await;
                }
            }
        }
    }

    /// Updates the metrics of isolates' usage. Reads at most [`MAX_USAGE_READS`] isolates at a
    /// time, so that a large number of isolates does not delay the thread.
    pub async fn update_usage_metrics(self: Rc<Self>) {
        let mut first = 0;
        loop {
            tokio::time::sleep(USAGE_INTERVAL).await;
            self.metrics.engine.set_turns(self.engine.turns(), self.engine.turn_cpu());
            self.report_wear(Duration::ZERO);
            let living = self.living.borrow().clone();
            let count = living.len().min(MAX_USAGE_READS);
            let next = living.iter().cycle().skip(first).take(count).filter_map(Weak::upgrade);
            next.for_each(|isolate| {
                self.count_cpu(&isolate);
                self.weigh_background_turns(&isolate);
                // The memory of an isolate that a limit has stopped is no longer read.
                if isolate.condemned().is_none() {
                    self.metrics.workers.set_memory(&isolate.digest(), isolate.memory_bytes());
                }
            });
            first = (first + count) % living.len().max(1);
            let pool = self.pool.borrow();
            self.metrics.workers.review(|digest| pool.has(digest), Instant::now());
        }
    }

    /// Reports to the supervisor that this process is worn out, if it is and has not been reported.
    ///
    /// # Arguments
    /// * `without_relief` - time for which steps against a shortage of memory have freed nothing.
    fn report_wear(&self, without_relief: Duration) {
        if self.was_reported_worn.get() {
            return;
        }
        // Reading the process's memory takes system calls, so it is read only if it matters.
        let (pressure, mapped) = if without_relief < wear::MAX_WITHOUT_RELIEF {
            (Pressure::Eased, 0)
        } else {
            (memory::on_this_process(), memory::mapped())
        };
        let types_are_used_up = self.engine.exhausted();
        if (Signs { without_relief, pressure, mapped, types_are_used_up }).show_wear() {
            self.was_reported_worn.set(true);
            self.supervisor.iter().for_each(Supervisor::report_worn);
        }
    }

    /// Carries out the supervisor's commands until its channel closes.
    pub(crate) async fn run_commands(
        self: Rc<Self>,
        supervisor: Supervisor,
        mut commands_rx: mpsc::UnboundedReceiver<Command>,
    ) {
        while let Some(command) = commands_rx.recv().await {
            match command {
                // The copy is released when its profile ends.
                Command::Release { digest, condemn: false } if self.profiles(&digest) => {}
                Command::Release { digest, condemn } => self.release(digest, condemn),
                Command::Consult(worker) => self.consult(worker),
                Command::Profile(order) => self.begin_profile(supervisor.clone(), order),
                Command::EndProfile(id) => self.end_profile(id),
                Command::Prestart(worker, digest) => {
                    let (shard, supervisor) = (Rc::clone(&self), supervisor.clone());
                    spawn_local(async move {
                        let deadline = tokio::time::Instant::now() + PRESTART;
                        // If the revision cannot start here, its next request tries to start it
                        // again, and gets the reason for the failure.
                        drop(shard.admit(worker.as_str(), digest, deadline, false).await);
                        supervisor.report_warm(&digest);
                    });
                }
            }
        }
    }

    /// Starts the Workers to which clients of the inspector attach.
    pub(crate) async fn start_debugged(self: Rc<Self>, inspector: Arc<Inspector>) {
        loop {
            let target = inspector.wanted().await;
            let shard = Rc::clone(&self);
            spawn_local(async move {
                let deadline = tokio::time::Instant::now() + PRESTART;
                let worker = target.worker().as_str();
                if shard.admit(worker, target.digest(), deadline, false).await.is_err() {
                    target.give_up();
                }
            });
        }
    }

    /// Evicts a revision that from now on runs elsewhere or is refused.
    ///
    /// # Arguments
    /// * `condemn` - whether the revision's invocations in flight fail as well.
    pub(super) fn release(&self, digest: RevisionDigest, condemn: bool) {
        let is_starting = {
            let mut pool = self.pool.borrow_mut();
            pool.release(&digest, Instant::now());
            pool.is_starting(&digest)
        };
        if is_starting {
            self.unwanted.borrow_mut().insert(digest);
        }
        if condemn {
            let living = self.living.borrow().clone();
            let concerned = living
                .iter()
                .filter_map(Weak::upgrade)
                .filter(|isolate| isolate.digest() == digest);
            concerned.for_each(|isolate| isolate.forbid());
        }
        self.apply_pool_changes();
    }

    /// Adds to the Worker's metrics the CPU time that the isolate has used since the last call.
    fn count_cpu(&self, isolate: &Isolate) {
        self.metrics.workers.add_cpu(&isolate.digest(), isolate.take_cpu());
    }

    /// Waits until the thread is idle, for at most `QUIET_TRIES` tries.
    async fn until_quiet(&self) {
        for _ in 0..QUIET_TRIES {
            let turns = self.engine.turns();
            tokio::time::sleep(QUIET).await;
            if self.engine.turns() == turns {
                return;
            }
        }
    }

    /// Waits until no isolate has anything in flight, including `waitUntil` promises.
    pub async fn idle(&self) {
        loop {
            let busy = self
                .living
                .borrow()
                .iter()
                .filter_map(Weak::upgrade)
                .find(|isolate| isolate.in_flight() > 0);
            match busy {
                Some(isolate) => isolate.idle().await,
                None => return,
            }
        }
    }

    /// Drops the isolates that the pool has evicted, sends the pool's notices and updates the
    /// gauges. The caller calls this after each change of the pool.
    pub(super) fn apply_pool_changes(&self) {
        // Isolates end while the pool is not borrowed: ending an isolate takes time, and drops
        // objects that may borrow the pool.
        let evicted = self.pool.borrow_mut().take_evicted();
        for (why, resident) in evicted {
            self.metrics.pool.evictions.inc(why);
            self.count_cpu(&resident.isolate);
            drop(resident);
        }
        for notice in self.pool.borrow_mut().take_notices() {
            match notice {
                Notice::Failing { worker, digest, why, times } => {
                    self.reports.failing(&worker, digest, why, times, None);
                }
                Notice::Recovered(digest) => self.reports.recovered(digest),
            }
        }
        let (warm, starting) = self.pool.borrow().count();
        let living = {
            let mut living = self.living.borrow_mut();
            living.retain(|isolate| isolate.strong_count() > 0);
            living.len()
        };
        let gauges = &self.metrics.pool;
        gauges.warm.set(warm as i64);
        gauges.starting.set(starting as i64);
        gauges.retiring.set(living.saturating_sub(warm) as i64);
        self.metrics.engine.spares.set(self.engine.spares() as i64);
    }
}
