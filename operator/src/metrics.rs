//! The operator's metrics.

use std::time::{Duration, Instant};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::rollouts::Rollouts;

/// Bucket boundaries in seconds. A reconcile is a few round trips to the API server.
const DURATION_BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Kinds whose series exist from the start, so that the first error is seen as an increase.
const KINDS: [&str; 3] = ["Worker", "WorkerHealth", "RuntimePool"];

/// Bucket boundaries in seconds. The target is one second.
const READY_BUCKETS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

pub struct Metrics {
    reconciles: IntCounterVec,
    duration: HistogramVec,
    queues: IntGaugeVec,
    workers: IntGaugeVec,
    ready: Histogram,
    interruptions: IntCounterVec,
    /// Number of stored objects that do not match their schema, by kind.
    pub malformed: IntGaugeVec,
    /// 1 on the leader, 0 on standbys.
    pub leader: IntGauge,
    /// Nodes' reports on Workers' health, by outcome.
    pub reports: IntCounterVec,
    /// Due times of schedules, by outcome: `ok`, a failure code, or `passed_over`.
    pub scheduled: IntCounterVec,
    /// Delay between a schedule's due time and the call of its Worker.
    pub schedule_delay: Histogram,
}

/// Bucket boundaries in seconds. The delay includes a write to the API server, which may be behind
/// many others in a busy minute or after a change of leader.
const DELAY_BUCKETS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Gauges of a queue's depth.
#[derive(Clone)]
pub struct QueueGauges {
    pub waiting: IntGauge,
    pub running: IntGauge,
    /// Items that have failed and will be retried.
    pub retrying: IntGauge,
}

/// Observes the duration when [`ended`](Self::ended) is called. A timer that is dropped before was
/// cancelled, and is not counted.
pub struct ReconcileTimer<'a> {
    metrics: &'a Metrics,
    kind: &'static str,
    began: Instant,
}

impl Metrics {
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("tenon_operator_reconciles_total", "Reconciles, by kind and result."),
                &["kind", "result"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new("tenon_operator_reconcile_duration_seconds", "Duration of reconciles, by kind.")
                    .buckets(DURATION_BUCKETS.to_vec()),
                &["kind"],
            )?,
            queues: IntGaugeVec::new(
                Opts::new("tenon_operator_queue_depth", "Items in the work queues, by queue and state."),
                &["queue", "state"],
            )?,
            workers: IntGaugeVec::new(
                Opts::new("tenon_operator_workers", "Workers, by the rollout stage of their newest spec."),
                &["stage"],
            )?,
            ready: Histogram::with_opts(
                HistogramOpts::new(
                    "tenon_operator_worker_ready_duration_seconds",
                    "Time from the observation of a Worker's new spec until its status is ready.",
                )
                .buckets(READY_BUCKETS.to_vec()),
            )?,
            interruptions: IntCounterVec::new(
                Opts::new(
                    "tenon_operator_watch_interruptions_total",
                    "Interrupted watches of the API server, by kind.",
                ),
                &["kind"],
            )?,
            malformed: IntGaugeVec::new(
                Opts::new(
                    "tenon_operator_malformed_objects",
                    "Stored objects that are skipped because they do not match their schema, by kind.",
                ),
                &["kind"],
            )?,
            leader: IntGauge::new("tenon_operator_leader", "1 on the leader, 0 on standbys.")?,
            reports: IntCounterVec::new(
                Opts::new("tenon_operator_worker_reports_total", "Nodes' reports about Workers' health, by outcome."),
                &["outcome"],
            )?,
            scheduled: IntCounterVec::new(
                Opts::new("tenon_operator_scheduled_calls_total", "Due times of Workers' schedules, by outcome."),
                &["outcome"],
            )?,
            schedule_delay: Histogram::with_opts(
                HistogramOpts::new(
                    "tenon_operator_schedule_delay_seconds",
                    "Time from a schedule's due time to the call.",
                )
                .buckets(DELAY_BUCKETS.to_vec()),
            )?,
        };
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.queues.clone()))?;
        registry.register(Box::new(metrics.workers.clone()))?;
        registry.register(Box::new(metrics.ready.clone()))?;
        registry.register(Box::new(metrics.interruptions.clone()))?;
        registry.register(Box::new(metrics.malformed.clone()))?;
        registry.register(Box::new(metrics.leader.clone()))?;
        registry.register(Box::new(metrics.reports.clone()))?;
        registry.register(Box::new(metrics.scheduled.clone()))?;
        registry.register(Box::new(metrics.schedule_delay.clone()))?;
        for kind in KINDS {
            let _ = metrics.duration.with_label_values(&[kind]);
            ["ok", "error"].iter().for_each(|result| _ = metrics.reconciles.with_label_values(&[kind, result]));
        }
        Ok(metrics)
    }

    pub fn queue(&self, name: &str) -> QueueGauges {
        let of = |state| self.queues.with_label_values(&[name, state]);
        QueueGauges { waiting: of("waiting"), running: of("running"), retrying: of("retrying") }
    }

    /// Returns the counter of broken watches of this kind.
    pub fn interruptions(&self, kind: &str) -> IntCounter {
        self.interruptions.with_label_values(&[kind])
    }

    /// Sets the number of Workers in each stage, and observes the duration of a rollout that has
    /// just completed.
    pub fn rollouts(&self, rollouts: &Rollouts, took: Option<Duration>) {
        for (stage, count) in rollouts.counts() {
            self.workers.with_label_values(&[stage.as_str()]).set(count as i64);
        }
        took.into_iter().for_each(|took| self.ready.observe(took.as_secs_f64()));
    }

    pub fn reconcile(&self, kind: &'static str) -> ReconcileTimer<'_> {
        ReconcileTimer { metrics: self, kind, began: Instant::now() }
    }
}

impl ReconcileTimer<'_> {
    pub fn ended(self, well: bool) {
        let result = if well { "ok" } else { "error" };
        self.metrics.reconciles.with_label_values(&[self.kind, result]).inc();
        self.metrics.duration.with_label_values(&[self.kind]).observe(self.began.elapsed().as_secs_f64());
    }
}
