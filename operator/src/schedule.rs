//! Schedules: from a Worker's `spec.schedules` to calls of its `scheduled` handler. On the leader only.
//!
//! ```text
//!  watches ── a Worker with schedules ──► agenda ── its time has come ──► queue ─► due (pure) ─► claim: status
//!                                           ▲                                                     │ refused: somebody else
//!                                           └────────────── what is next ─────────────────────────┤ wrote meanwhile; again
//!                                                                            router ◄── call ◄────┘
//! ```
//!
//! A time is called for at most once, whoever leads: see [`due`]. Nobody waits for a handler to end: where it runs longer
//! than until the next time, both run. One that fails is not called again for that time; it is told by an Event and counted.
//!
//! - [`timetable`], [`due`], [`agenda`]: every decision.
//! - [`call`]: the call itself.
//! - [`Scheduler`]: carries them out.

pub mod agenda;
pub mod call;
pub mod due;
pub mod timetable;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource};
use serde_json::json;
use tenon_crds::{ScheduleStatus, Worker};
use tenon_lifecycle::drain;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::metrics::Metrics;
use crate::watches::SharedIndex;
use crate::worker::queue;
use agenda::Agenda;
use call::Caller;
use due::{CATCH_UP, Call, Due};

/// The field manager of what is written here.
const MANAGER: &str = "tenon-operator-schedules";

/// How long nothing is looked at when nothing is due. A machine's clock may be put forward meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Calls Workers when their times have come.
pub struct Scheduler {
    client: Client,
    recorder: Recorder,
    index: SharedIndex,
    metrics: Arc<Metrics>,
    caller: Caller,
    /// The process does not end before the calls that it has begun have ended.
    drain: drain::Watch,
}

/// Why a claim was not written. It will be made again.
#[derive(Debug, thiserror::Error)]
#[error("cannot claim a time of a schedule: {0}")]
pub struct ClaimError(#[from] kube::Error);

impl Scheduler {
    pub fn new(
        client: Client,
        recorder: Recorder,
        index: SharedIndex,
        metrics: Arc<Metrics>,
        caller: Caller,
        drain: drain::Watch,
    ) -> Arc<Self> {
        Arc::new(Self { client, recorder, index, metrics, caller, drain })
    }

    /// Looks at the clock for as long as the process lives.
    ///
    /// # Arguments
    /// * `seen_rx` - Workers with schedules, or with what is left of some in their status, whenever they change.
    /// * `leading_rx` - whether this replica may claim.
    pub async fn run(self: Arc<Self>, seen_rx: mpsc::UnboundedReceiver<WorkerId>, leading_rx: watch::Receiver<bool>) {
        let (due_tx, due_rx) = mpsc::unbounded_channel();
        let all = {
            let scheduler = Arc::clone(&self);
            move || scheduler.index.with(|index| index.scheduled())
        };
        let work = {
            let scheduler = Arc::clone(&self);
            move |id| Arc::clone(&scheduler).look_at(id)
        };
        tokio::select! {
            () = queue::run(due_rx, leading_rx, all, work, self.metrics.queue("Schedule")) => {}
            () = self.watch_the_clock(seen_rx, due_tx) => {}
        }
    }

    /// Passes on whoever is due.
    async fn watch_the_clock(
        &self,
        mut seen_rx: mpsc::UnboundedReceiver<WorkerId>,
        due_tx: mpsc::UnboundedSender<WorkerId>,
    ) {
        let mut agenda = Agenda::default();
        loop {
            let now = Timestamp::now();
            while let Some(id) = agenda.take(now) {
                agenda.set(&id, self.worker(&id).and_then(|worker| Due::of(&worker, now).next));
                // The queue ends with this.
                drop(due_tx.send(id));
            }
            let until = agenda.next().map_or(LONGEST_SLEEP, |next| {
                Duration::try_from(next.duration_since(now)).unwrap_or_default().min(LONGEST_SLEEP)
            });
            tokio::select! {
                seen = seen_rx.recv() => match seen {
                    Some(id) => agenda.set(&id, self.worker(&id).and_then(|worker| time_of(&worker, Timestamp::now()))),
                    None => return,
                },
                () = sleep(until) => {}
            }
        }
    }

    /// Claims what is due of a Worker's schedules, and has the Worker called.
    async fn look_at(self: Arc<Self>, id: WorkerId) -> Result<(), ClaimError> {
        // It is gone, and its schedules with it.
        let Some(worker) = self.worker(&id) else { return Ok(()) };
        let due = Due::of(&worker, Timestamp::now());
        let Some(claim) = &due.claim else { return Ok(()) };
        match self.claim(&id, &worker, claim).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for schedule in due.passed_over {
            self.metrics.scheduled.with_label_values(&["passed_over"]).inc();
            let minutes = CATCH_UP.as_mins();
            let note = format!(
                "Times of {:?} ({}) were passed over: nobody could call for them within {minutes} minutes",
                schedule.cron, schedule.time_zone
            );
            self.publish(&worker, "SchedulePassedOver", note).await;
        }
        for call in due.calls {
            tokio::spawn(Arc::clone(&self).call(id.clone(), worker.clone(), call));
        }
        Ok(())
    }

    fn worker(&self, id: &WorkerId) -> Option<Arc<Worker>> {
        self.index.with(|index| index.worker(id))
    }

    /// Writes how far the schedules have come, unless somebody else has written meanwhile.
    async fn claim(&self, id: &WorkerId, worker: &Worker, schedules: &[ScheduleStatus]) -> Result<(), kube::Error> {
        let patch = json!({
            "apiVersion": Worker::api_version(&()),
            "kind": Worker::kind(&()),
            "metadata": {"resourceVersion": worker.metadata.resource_version},
            "status": {"schedules": schedules},
        });
        let workers: Api<Worker> = Api::namespaced(self.client.clone(), id.namespace());
        let params = PatchParams::apply(MANAGER).force();
        workers.patch_status(id.name(), &params, &Patch::Apply(patch)).await.map(drop)
    }

    async fn call(self: Arc<Self>, id: WorkerId, worker: Arc<Worker>, call: Call) {
        let late = Timestamp::now().duration_since(call.time).as_secs_f64();
        self.metrics.schedule_delay.observe(late.max(0.0));
        let _held_up = self.drain.clone();
        let outcome = self.caller.call(&id, &call).await;
        let code = outcome.as_ref().map_or_else(|failure| failure.code.as_str(), |()| "ok");
        self.metrics.scheduled.with_label_values(&[code]).inc();
        if let Err(failure) = outcome {
            tracing::warn!(worker = %id, cron = call.cron, time = %call.time, %failure, "a scheduled call failed");
            let note = format!("{:?} at {}: {}: {}", call.cron, call.time, failure.code, failure.message);
            self.publish(&worker, "ScheduledCallFailed", note).await;
        }
    }

    /// Events are for people: one that is lost is no reason to do the rest again.
    async fn publish(&self, worker: &Worker, reason: &str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Schedule".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &worker.object_ref(&())).await {
            tracing::warn!(%error, reason, "cannot record an Event");
        }
    }
}

/// When there is something to do about a Worker's schedules: at once where its status does not say how far they are.
fn time_of(worker: &Worker, now: Timestamp) -> Option<Timestamp> {
    let due = Due::of(worker, now);
    if due.claim.is_some() { Some(now) } else { due.next }
}
