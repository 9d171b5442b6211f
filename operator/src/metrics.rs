//! The operator's metrics. This module counts reconciles. The operator's modules `watches` and
//! `schedule` update the metrics in [`watches`] and [`schedules`]. Other metrics are registered by
//! the modules that update them.

mod schedules;
mod watches;

use std::time::Instant;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, Registry};
use tenon_catalog::Outcome;
use tenon_lifecycle::metrics::Register as _;

use crate::deployments::DeploymentMetrics;
use crate::events::EventOutcome;
use crate::leader;
use crate::worker::queue::{QueueFamilies, QueueMetrics};
use schedules::ScheduleMetrics;
use watches::WatchMetrics;

/// Bucket boundaries in seconds. A reconcile is a few round trips to the API server.
const DURATION_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Kinds whose series exist from the start, so that the first error is seen as an increase.
const KINDS: [&str; 7] = [
    "Worker",
    "WorkerHealth",
    "WorkerFigures",
    "RuntimePool",
    "HostGrant",
    "GatewayAPI",
    "Certificates",
];

pub struct Metrics {
    reconciles: IntCounterVec,
    duration: HistogramVec,
    queues: QueueFamilies,
    pub deployments: DeploymentMetrics,
    pub watches: WatchMetrics,
    pub schedules: ScheduleMetrics,
    /// 1 on the leader, 0 on standbys.
    pub leader: IntGauge,
    /// Nodes' reports on Workers' health, by outcome.
    pub reports: IntCounterVec,
    /// Events about objects, by outcome.
    pub events: IntCounterVec,
}

/// A timer that observes the duration when [`ended`](Self::ended) is called. A canceled reconcile
/// drops its timer before that, and is not counted.
pub struct ReconcileTimer<'a> {
    metrics: &'a Metrics,
    kind: &'static str,
    began: Instant,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            reconciles: registry.counters(
                "tenon_operator_reconciles_total",
                "Reconciles, by kind and result.",
                &["kind", "result"],
            )?,
            duration: registry.histograms(
                "tenon_operator_reconcile_duration_seconds",
                "Duration of reconciles, by kind.",
                DURATION_BUCKETS,
                &["kind"],
            )?,
            queues: QueueFamilies::register(registry)?,
            deployments: DeploymentMetrics::register(registry)?,
            watches: WatchMetrics::register(registry)?,
            schedules: ScheduleMetrics::register(registry)?,
            leader: leader::register(registry)?,
            reports: Outcome::register(registry)?,
            events: EventOutcome::register(registry)?,
        };
        for kind in KINDS {
            let _ = metrics.duration.with_label_values(&[kind]);
            ["ok", "error"]
                .iter()
                .for_each(|result| _ = metrics.reconciles.with_label_values(&[kind, result]));
        }
        Ok(metrics)
    }

    /// Returns the metrics of the queue with this name.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        self.queues.of(name)
    }

    /// Starts the timer of a reconcile of this kind.
    pub fn reconcile(&self, kind: &'static str) -> ReconcileTimer<'_> {
        ReconcileTimer { metrics: self, kind, began: Instant::now() }
    }
}

impl ReconcileTimer<'_> {
    /// Counts the reconcile and observes its duration.
    pub fn ended(self, succeeded: bool) {
        let result = if succeeded { "ok" } else { "error" };
        self.metrics.reconciles.with_label_values(&[self.kind, result]).inc();
        self.metrics
            .duration
            .with_label_values(&[self.kind])
            .observe(self.began.elapsed().as_secs_f64());
    }
}
