//! Turns nodes' reports on Workers' health into a condition, a list of crash loops, a quarantine
//! and an Event.
//!
//! ```text
//!  catalog ── node's report ──┐
//!  watches ── redeployment ───┼─► pending reports ─► queue ─► verdict (pure) ─► status, Event
//!  timer ──── expiry ─────────┘                               ▲                │ conflict:
//!                                     index ◄── the status ───┴────────────────┘ retried
//! ```
//!
//! Any replica may receive a node's report, and each replica writes the reports that it receives,
//! whether it leads or not. The replicas agree because everything that is known from other nodes is
//! in the status itself: a write names the version of the Worker on which the verdict is based, and
//! fails with a conflict if the Worker has a later version. The written fields belong to a separate
//! field manager, so they never conflict with the reconciler's conditions.
//!
//! - [`verdict`]: every decision.
//! - [`backlog`]: the reports that have not been written yet. Their number is bounded.
//! - [`Health`]: the task that writes verdicts.

mod backlog;
pub mod verdict;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryFutureExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tenon_catalog::HealthReport;
use tenon_crds::Worker;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::events::Events;
use crate::index::SharedIndex;
use crate::metrics::Metrics;
use crate::worker::queue::{self, Author, Order};
use backlog::Backlog;
use verdict::{PendingReports, Verdict, verdict};

/// The field manager of the written fields.
const MANAGER: &str = "tenon-operator-health";

/// Time for which a finished write keeps its place among the sixteen keys of its namespace that the
/// queue runs at the same time. It limits the writes of one Worker's health to one every two
/// seconds, and those of a namespace to eight per second, for any number of reports.
const PAUSE: Duration = Duration::from_secs(2);

/// Interval at which Workers with a crash loop or a quarantine are judged again, because the crash
/// loop or the quarantine may have ended.
const SWEEP: Duration = Duration::from_secs(5);

/// A reason to judge a Worker's health again: the Worker has been redeployed, or its status names
/// crash loops or a quarantine.
pub struct HealthTrigger {
    pub id: WorkerId,
    /// Whether the bindings of a revision that serves the Worker have changed.
    pub redeployed: bool,
}

/// Writes nodes' reports into Workers' statuses.
pub struct Health {
    client: Client,
    events: Events,
    index: SharedIndex,
    metrics: Arc<Metrics>,
    backlog: Mutex<Backlog>,
}

/// The error of a failed write. The write is retried with a new verdict.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the health of a Worker: {0}")]
pub struct WriteError(#[from] kube::Error);

impl Health {
    pub fn new(
        client: Client,
        events: Events,
        index: SharedIndex,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self { client, events, index, metrics, backlog: Mutex::default() })
    }

    /// Receives reports and writes statuses for the lifetime of the process.
    pub async fn run(
        self: Arc<Self>,
        reports_rx: mpsc::Receiver<HealthReport>,
        health_rx: mpsc::UnboundedReceiver<HealthTrigger>,
    ) {
        let (touched_tx, touched_rx) = mpsc::unbounded_channel();
        // The sender is held while the queue runs. The value stays true, because every replica may
        // write.
        let (_always_tx, always_rx) = watch::channel(true);
        let write = {
            let health = Arc::clone(&self);
            move |id| Arc::clone(&health).write(id).map_ok(|()| None)
        };
        let (order, author) = (Order::OldestFirst, |_: &WorkerId| Author::default());
        let metrics = self.metrics.queue("WorkerHealth");
        tokio::select! {
            () = queue::run(touched_rx, always_rx, Vec::new, write, order, author, metrics) => {}
            () = self.listen(reports_rx, health_rx, touched_tx) => {}
        }
    }

    async fn listen(
        &self,
        mut reports_rx: mpsc::Receiver<HealthReport>,
        mut health_rx: mpsc::UnboundedReceiver<HealthTrigger>,
        touched_tx: mpsc::UnboundedSender<WorkerId>,
    ) {
        let mut unhealthy = HashSet::new();
        let mut sweeps = interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The receiver is dropped only together with this future.
        let touch = |id: &WorkerId| drop(touched_tx.send(id.clone()));
        loop {
            tokio::select! {
                report = reports_rx.recv() => match report {
                    Some(report) => {
                        let id = report.worker.clone();
                        if self.backlog().add(report, Timestamp::now()) {
                            touch(&id);
                        }
                    }
                    None => return,
                },
                trigger = health_rx.recv() => match trigger {
                    Some(HealthTrigger { id, redeployed }) => {
                        if redeployed {
                            self.backlog().mark_redeployed(&id, Timestamp::now());
                        }
                        touch(&id);
                        unhealthy.insert(id);
                    }
                    None => return,
                },
                _ = sweeps.tick() => {
                    unhealthy.retain(|id| self.index.with(|index| index.is_unhealthy(id)));
                    unhealthy.iter().for_each(touch);
                }
            }
        }
    }

    /// Updates a Worker's status with the pending reports on the Worker's health.
    async fn write(self: Arc<Self>, id: WorkerId) -> Result<(), WriteError> {
        let pending = self.backlog().take(&id);
        // A Worker that is not in the index has been deleted, and its status with it.
        let Some(worker) = self.index.with(|index| index.worker(&id)) else { return Ok(()) };
        let status = worker.status.clone().unwrap_or_default();
        let Some(verdict) = verdict(&status, &pending, Timestamp::now()) else { return Ok(()) };
        let timer = self.metrics.reconcile("WorkerHealth");
        let applied = self.apply(&id, &worker, &verdict).await;
        timer.ended(applied.is_ok());
        match applied {
            Ok(()) => {
                if let Some(event) = verdict.event {
                    self.events.publish(&event, &worker.object_ref(&())).await;
                }
                sleep(PAUSE).await;
                Ok(())
            }
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => {
                self.backlog().put_back(id, pending);
                Err(error.into())
            }
        }
    }

    async fn apply(
        &self,
        id: &WorkerId,
        worker: &Worker,
        verdict: &Verdict,
    ) -> Result<(), kube::Error> {
        let mut status =
            json!({"conditions": [verdict.condition], "crashLoops": verdict.crash_loops});
        // The API server removes a field that its field manager no longer names.
        if let Some(quarantine) = &verdict.quarantine {
            status["quarantine"] = json!(quarantine);
        }
        let patch = json!({
            "apiVersion": Worker::api_version(&()),
            "kind": Worker::kind(&()),
            "metadata": {"resourceVersion": worker.metadata.resource_version},
            "status": status,
        });
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), id.namespace());
        let params = PatchParams::apply(MANAGER).force();
        workers.patch_status(id.name(), &params, &Patch::Apply(patch)).await.map(drop)
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // Each change of the map is one call, so a panic cannot leave it half changed.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
