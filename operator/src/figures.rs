//! Adds up the routers' figures about the revisions of rollouts, in the statuses of their Workers.
//!
//! ```text
//!  catalog ── router's report ─► backlog ─► queue ─► sum (pure) ─► status.rolloutFigures
//!                                  ▲                  ▲                 │ conflict:
//!                                  └──────────────────┴── the status ───┴─ retried
//! ```
//!
//! Any replica may receive a router's report, and each replica adds the figures that it receives to
//! those in the status, whether it leads or not. A write names the version of the Worker whose
//! figures it has read, and fails with a conflict if the Worker has a later version, so concurrent
//! writes neither lose figures nor add them twice. The leader sees the sum like any other change of
//! the Worker. The field belongs to a separate field manager, so it never conflicts with the
//! reconciler's fields.
//!
//! - [`sum`]: every decision.
//! - [`backlog`]: the figures that have not been written yet. Their number is bounded.
//! - [`FiguresWriter`]: the task that writes sums.

mod backlog;
mod sum;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryFutureExt as _;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tenon_catalog::TrafficReport;
use tenon_crds::Worker;
use tenon_proto::id::WorkerId;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::sleep;

use crate::index::SharedIndex;
use crate::metrics::Metrics;
use crate::worker::queue::{self, Author, Order};
use crate::worker::status_patch;
use backlog::Backlog;
use sum::{Change, change};

/// The field manager of the written field.
const MANAGER: &str = "tenon-operator-figures";

/// Kind of this work in metrics.
const KIND: &str = "WorkerFigures";

/// Time for which a finished write keeps its place among the concurrent writes. It limits the
/// writes of one Worker's figures to one every two seconds, and those of all Workers to sixteen per
/// second, for any number of reports: each write makes every replica derive the Worker's entry
/// again.
const PAUSE: Duration = Duration::from_secs(2);

/// Maximum number of concurrent writes, including those that pause.
const MAX_CONCURRENT_WRITES: usize = 32;

/// Writes routers' figures into Workers' statuses.
pub struct FiguresWriter {
    client: Client,
    index: SharedIndex,
    metrics: Arc<Metrics>,
    backlog: Mutex<Backlog>,
    writing: Semaphore,
}

/// The error of a failed write. The write is retried with a new sum.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the figures of a rollout: {0}")]
pub struct WriteError(#[from] kube::Error);

impl FiguresWriter {
    pub fn new(client: Client, index: SharedIndex, metrics: Arc<Metrics>) -> Arc<Self> {
        let (backlog, writing) = (Mutex::default(), Semaphore::new(MAX_CONCURRENT_WRITES));
        Arc::new(Self { client, index, metrics, backlog, writing })
    }

    /// Receives figures and writes statuses for the lifetime of the process.
    ///
    /// # Arguments
    /// * `reports_rx` - the routers' reports.
    /// * `stale_rx` - the Workers with figures of a rollout that they no longer have.
    pub async fn run(
        self: Arc<Self>,
        reports_rx: mpsc::Receiver<Vec<TrafficReport>>,
        stale_rx: mpsc::UnboundedReceiver<WorkerId>,
    ) {
        let (touched_tx, touched_rx) = mpsc::unbounded_channel();
        // The sender is held while the queue runs. The value stays true, because every replica may
        // write.
        let (_always_tx, always_rx) = watch::channel(true);
        let write = {
            let figures = Arc::clone(&self);
            move |id| Arc::clone(&figures).write(id).map_ok(|()| None)
        };
        let (order, author) = (Order::OldestFirst, |_: &WorkerId| Author::default());
        let metrics = self.metrics.queue(KIND);
        tokio::select! {
            () = queue::run(touched_rx, always_rx, Vec::new, write, order, author, metrics) => {}
            () = self.listen(reports_rx, stale_rx, touched_tx) => {}
        }
    }

    async fn listen(
        &self,
        mut reports_rx: mpsc::Receiver<Vec<TrafficReport>>,
        mut stale_rx: mpsc::UnboundedReceiver<WorkerId>,
        touched_tx: mpsc::UnboundedSender<WorkerId>,
    ) {
        // The receiver is dropped only together with this future.
        let touch = |id| drop(touched_tx.send(id));
        loop {
            tokio::select! {
                reports = reports_rx.recv() => match reports {
                    Some(reports) => reports.into_iter().for_each(|report| {
                        let id = report.worker.clone();
                        if self.backlog().add(report) {
                            touch(id);
                        }
                    }),
                    None => return,
                },
                stale = stale_rx.recv() => match stale {
                    Some(id) => touch(id),
                    None => return,
                },
            }
        }
    }

    /// Adds the pending figures of a Worker to those in its status.
    async fn write(self: Arc<Self>, id: WorkerId) -> Result<(), WriteError> {
        let _writing = self.writing.acquire().await.expect("the semaphore is never closed");
        let pending = self.backlog().take(&id);
        // A Worker that is not in the index has been deleted, and its status with it.
        let Some(worker) = self.index.with(|index| index.worker(&id)) else { return Ok(()) };
        let status = worker.status.clone().unwrap_or_default();
        let Some(change) = change(&status, pending.as_ref()) else { return Ok(()) };
        let timer = self.metrics.reconcile(KIND);
        let applied = self.apply(&id, &worker, &change).await;
        timer.ended(applied.is_ok());
        match applied {
            Ok(()) => {
                sleep(PAUSE).await;
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => {
                pending
                    .into_iter()
                    .for_each(|pending| self.backlog().put_back(id.clone(), pending));
                Err(error.into())
            }
        }
    }

    async fn apply(
        &self,
        id: &WorkerId,
        worker: &Worker,
        change: &Change,
    ) -> Result<(), kube::Error> {
        // The API server removes a field that its field manager no longer names.
        let status = match change {
            Change::Set(figures) => json!({"rolloutFigures": figures}),
            Change::Remove => json!({}),
        };
        let patch = status_patch(worker, &status);
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), id.namespace());
        let params = PatchParams::apply(MANAGER).force();
        workers.patch_status(id.name(), &params, &Patch::Apply(patch)).await.map(drop)
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // Each change of the map is one call, so a panic cannot leave it half changed.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
