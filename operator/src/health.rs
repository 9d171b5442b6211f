//! Workers' health: from what nodes report to a condition, a list of crash loops or a quarantine, and an Event.
//!
//! ```text
//!  catalog ── a node's report ──┐
//!  watches ── was redeployed ───┼─► news, by Worker ─► queue ─► verdict (pure) ─► status, Event
//!  clock ──── is it over? ──────┘                                    ▲              │ refused: somebody else wrote
//!                                       index ◄── the status itself ─┴──────────────┘          meanwhile; again
//! ```
//!
//! Any replica may get a node's report, and each writes what it hears, leader or not. They agree because all that is
//! known of other nodes is in the status itself: who writes names the version that the verdict was made from, and is
//! refused if that is not the newest. What is written belongs to a field manager of its own, so the reconciler's
//! conditions and this one never meet.
//!
//! - [`verdict`]: every decision.
//! - [`backlog`]: what has been heard and not been written, within bounds.
//! - [`Health`]: carries verdicts out.

mod backlog;
pub mod verdict;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::Recorder;
use kube::{Api, Client, Resource};
use serde_json::json;
use tenon_crds::Worker;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::catalog::Heard;
use crate::metrics::Metrics;
use crate::watches::SharedIndex;
use crate::worker::queue;
use backlog::Backlog;
use verdict::{News, Verdict, verdict};

/// The field manager of what is written here.
const MANAGER: &str = "tenon-operator-health";

/// How long a write keeps its place in the queue: a Worker's health is written each two seconds at most, and with the
/// queue's sixteen places that of all Workers together eight times a second, whatever nodes say.
const PAUSE: Duration = Duration::from_secs(2);

/// How often Workers with a crash loop or a quarantine are looked at: whether it is over by now.
const SWEEP: Duration = Duration::from_secs(5);

/// A Worker has been redeployed, or one has been seen whose status names crash loops or a quarantine.
pub struct Ailing {
    pub id: WorkerId,
    /// It serves another digest than before.
    pub redeployed: bool,
}

/// Writes what nodes report.
pub struct Health {
    client: Client,
    recorder: Recorder,
    index: SharedIndex,
    metrics: Arc<Metrics>,
    backlog: Mutex<Backlog>,
}

/// Why a verdict was not written. It will be made again.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the health of a Worker: {0}")]
pub struct WriteError(#[from] kube::Error);

impl Health {
    pub fn new(client: Client, recorder: Recorder, index: SharedIndex, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { client, recorder, index, metrics, backlog: Mutex::default() })
    }

    /// Listens and writes for as long as the process lives.
    pub async fn run(self: Arc<Self>, heard_rx: mpsc::Receiver<Heard>, ailing_rx: mpsc::UnboundedReceiver<Ailing>) {
        let (touched_tx, touched_rx) = mpsc::unbounded_channel();
        // Held for as long as the queue runs: every replica may write.
        let (_always_tx, always_rx) = watch::channel(true);
        let write = {
            let health = Arc::clone(&self);
            move |id| Arc::clone(&health).write(id)
        };
        tokio::select! {
            () = queue::run(touched_rx, always_rx, Vec::new, write, self.metrics.queue("WorkerHealth")) => {}
            () = self.listen(heard_rx, ailing_rx, touched_tx) => {}
        }
    }

    async fn listen(
        &self,
        mut heard_rx: mpsc::Receiver<Heard>,
        mut ailing_rx: mpsc::UnboundedReceiver<Ailing>,
        touched_tx: mpsc::UnboundedSender<WorkerId>,
    ) {
        let mut ailing = HashSet::new();
        let mut sweeps = interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The queue ends with this.
        let touch = |id: &WorkerId| drop(touched_tx.send(id.clone()));
        loop {
            tokio::select! {
                heard = heard_rx.recv() => match heard {
                    Some(heard) => {
                        let id = heard.worker.clone();
                        if self.backlog().hear(heard, Timestamp::now()) {
                            touch(&id);
                        }
                    }
                    None => return,
                },
                seen = ailing_rx.recv() => match seen {
                    Some(Ailing { id, redeployed }) => {
                        if redeployed {
                            self.backlog().redeployed(&id, Timestamp::now());
                        }
                        touch(&id);
                        ailing.insert(id);
                    }
                    None => return,
                },
                _ = sweeps.tick() => {
                    ailing.retain(|id| self.index.with(|index| index.is_ailing(id)));
                    ailing.iter().for_each(touch);
                }
            }
        }
    }

    /// Makes a Worker's status say what is known of its health.
    async fn write(self: Arc<Self>, id: WorkerId) -> Result<(), WriteError> {
        let news = self.backlog().take(&id);
        // It is gone, and its health with it.
        let Some(worker) = self.index.with(|index| index.worker(&id)) else { return Ok(()) };
        let status = worker.status.clone().unwrap_or_default();
        let Some(verdict) = verdict(&status, &news, Timestamp::now()) else { return Ok(()) };
        let timer = self.metrics.reconcile("WorkerHealth");
        let applied = self.apply(&id, &worker, &verdict).await;
        timer.ended(applied.is_ok());
        match applied {
            Ok(()) => {
                self.publish(&worker, verdict).await;
                sleep(PAUSE).await;
                Ok(())
            }
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => {
                self.backlog().put_back(id, news);
                Err(error.into())
            }
        }
    }

    async fn apply(&self, id: &WorkerId, worker: &Worker, verdict: &Verdict) -> Result<(), kube::Error> {
        let mut status = json!({"conditions": [verdict.condition], "crashLoops": verdict.crash_loops});
        // What a field manager does not name any more is removed.
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

    /// Events are for people: one that is lost is no reason to do the rest again.
    async fn publish(&self, worker: &Worker, verdict: Verdict) {
        let Some(event) = verdict.event else { return };
        if let Err(error) = self.recorder.publish(&event, &worker.object_ref(&())).await {
            tracing::warn!(%error, reason = event.reason, "cannot record an Event");
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // A map that is changed by single calls: a panic leaves no half of one.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
