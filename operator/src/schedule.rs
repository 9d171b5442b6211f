//! Calls Workers' `scheduled` handlers at the times in `spec.schedules`. Only the leader does so.
//!
//! ```text
//!  watches ── Worker with schedules ─► timers ── due ─► queue ─► due (pure) ─► claim: status
//!                                        ▲                                      │ on conflict,
//!                                        └──────────── next time ───────────────┤ retry
//!                                                          router ◄── call ◄────┘
//! ```
//!
//! Each due time leads to at most one call, whichever replica leads; see [`tenon_schedule::due`]. A
//! call does not wait for the previous call to end: if a handler runs past the next time, both
//! calls run. A call that fails after it has begun is not repeated. Failed calls are counted and
//! recorded as Events.
//!
//! [`Scheduler`] is the task that carries out the decisions. The decisions and the call itself have
//! a crate of their own, [`tenon_schedule`].

use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt as _;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Client, Resource};
use serde_json::json;
use tenon_crds::{ScheduleStatus, Worker};
use tenon_lifecycle::drain;
use tenon_proto::id::WorkerId;
use tenon_schedule::call::Caller;
use tenon_schedule::due::{CATCH_UP, Call, Due};
use tenon_schedule::timer_queue::TimerQueue;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::events::Events;
use crate::index::SharedIndex;
use crate::metrics::Metrics;
use crate::worker::queue::{self, Author, Order};

/// The field manager of the written fields.
const MANAGER: &str = "tenon-operator-schedules";

/// Maximum sleep. It is bounded because the machine's clock may be set forward during a sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Calls Workers at their scheduled times.
pub struct Scheduler {
    client: Client,
    events: Events,
    index: SharedIndex,
    metrics: Arc<Metrics>,
    caller: Caller,
    /// Each call holds a clone, so that the process does not exit before its calls have ended.
    drain: drain::Watch,
}

/// The error of a failed claim. The claim is retried.
#[derive(Debug, thiserror::Error)]
#[error("cannot claim a time of a schedule: {0}")]
pub struct ClaimError(#[from] kube::Error);

impl Scheduler {
    pub fn new(
        client: Client,
        events: Events,
        index: SharedIndex,
        metrics: Arc<Metrics>,
        caller: Caller,
        drain: drain::Watch,
    ) -> Arc<Self> {
        Arc::new(Self { client, events, index, metrics, caller, drain })
    }

    /// Runs for the lifetime of the process.
    ///
    /// # Arguments
    /// * `scheduled_rx` - the Workers with schedules in their spec or status, each time they
    ///   change.
    /// * `leading_rx` - whether this replica may claim.
    pub async fn run(
        self: Arc<Self>,
        scheduled_rx: mpsc::UnboundedReceiver<WorkerId>,
        leading_rx: watch::Receiver<bool>,
    ) {
        let (due_tx, due_rx) = mpsc::unbounded_channel();
        let all = {
            let scheduler = Arc::clone(&self);
            move || scheduler.index.with(|index| index.scheduled())
        };
        let work = {
            let scheduler = Arc::clone(&self);
            move |id| Arc::clone(&scheduler).start_due(id).map_ok(|()| None)
        };
        let (order, author) = (Order::OldestFirst, |_: &WorkerId| Author::default());
        let metrics = self.metrics.queue("Schedule");
        tokio::select! {
            () = queue::run(due_rx, leading_rx, all, work, order, author, metrics) => {}
            () = self.run_timers(scheduled_rx, due_tx) => {}
        }
    }

    /// Sends a Worker to the queue each time one of its schedules is due.
    async fn run_timers(
        &self,
        mut scheduled_rx: mpsc::UnboundedReceiver<WorkerId>,
        due_tx: mpsc::UnboundedSender<WorkerId>,
    ) {
        let mut timers = TimerQueue::default();
        loop {
            let now = Timestamp::now();
            while let Some(id) = timers.take(now) {
                timers.set(&id, self.worker(&id).and_then(|worker| Due::of(&worker, now).next));
                // The receiver is dropped only together with this future.
                drop(due_tx.send(id));
            }
            let until = timers.next().map_or(LONGEST_SLEEP, |next| {
                Duration::try_from(next.duration_since(now)).unwrap_or_default().min(LONGEST_SLEEP)
            });
            tokio::select! {
                seen = scheduled_rx.recv() => match seen {
                    Some(id) => {
                        let worker = self.worker(&id);
                        let time = worker.and_then(|worker| time_of(&worker, Timestamp::now()));
                        timers.set(&id, time);
                    }
                    None => return,
                },
                () = sleep(until) => {}
            }
        }
    }

    /// Claims the due times of a Worker's schedules, and starts the calls.
    async fn start_due(self: Arc<Self>, id: WorkerId) -> Result<(), ClaimError> {
        // A Worker that is not in the index has been deleted.
        let Some(worker) = self.worker(&id) else { return Ok(()) };
        let due = Due::of(&worker, Timestamp::now());
        let Some(claim) = &due.claim else { return Ok(()) };
        match self.claim(&id, &worker, claim).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for schedule in due.passed_over {
            self.metrics.schedules.calls.with_label_values(&["passed_over"]).inc();
            let minutes = CATCH_UP.as_mins();
            let note = format!(
                "Skipped times of {:?} ({}): no call was possible within {minutes} minutes",
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

    /// Writes the progress of the schedules. The write fails if the Worker has been changed
    /// meanwhile.
    async fn claim(
        &self,
        id: &WorkerId,
        worker: &Worker,
        schedules: &[ScheduleStatus],
    ) -> Result<(), kube::Error> {
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
        let delay = Timestamp::now().duration_since(call.time).as_secs_f64();
        self.metrics.schedules.delay.observe(delay.max(0.0));
        let _drain = self.drain.clone();
        let outcome = self.caller.call(&id, &call).await;
        let code = outcome.as_ref().map_or_else(|failure| failure.code.as_str(), |()| "ok");
        self.metrics.schedules.calls.with_label_values(&[code]).inc();
        if let Err(failure) = outcome {
            tracing::warn!(
                worker = %id,
                cron = call.cron,
                time = %call.time,
                %failure,
                "a scheduled call failed"
            );
            let note = format!(
                "Call of {:?} at {} failed: {}: {}",
                call.cron, call.time, failure.code, failure.message
            );
            self.publish(&worker, "ScheduledCallFailed", note).await;
        }
    }

    async fn publish(&self, worker: &Worker, reason: &str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Schedule".to_owned(),
            secondary: None,
        };
        self.events.publish(&event, &worker.object_ref(&())).await;
    }
}

/// Returns the next time at which a Worker's schedules must be handled. It is `now` if the Worker's
/// status is not up to date, and `None` if no schedule will be due.
fn time_of(worker: &Worker, now: Timestamp) -> Option<Timestamp> {
    let due = Due::of(worker, now);
    if due.claim.is_some() { Some(now) } else { due.next }
}
