//! What the operator counts.

use std::time::Instant;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Seconds: a reconcile is a few round trips to the API server.
const DURATION_BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

pub struct Metrics {
    reconciles: IntCounterVec,
    duration: HistogramVec,
    /// Stored objects that do not fit their schema, by kind.
    pub malformed: IntGaugeVec,
    /// 1 on the replica that writes.
    pub leader: IntGauge,
    /// What nodes said of Workers' health, by what became of it.
    pub reports: IntCounterVec,
}

/// Observes on [`ended`](Self::ended); one that was dropped before has been cancelled and counts for nothing.
pub struct ReconcileTimer<'a> {
    metrics: &'a Metrics,
    kind: &'static str,
    began: Instant,
}

impl Metrics {
    /// # Errors
    /// When the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("tenon_operator_reconciles_total", "Reconciles by kind and result."),
                &["kind", "result"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new("tenon_operator_reconcile_duration_seconds", "Duration of a reconcile.")
                    .buckets(DURATION_BUCKETS.to_vec()),
                &["kind"],
            )?,
            malformed: IntGaugeVec::new(
                Opts::new(
                    "tenon_operator_malformed_objects",
                    "Stored objects that are skipped because they do not fit their schema.",
                ),
                &["kind"],
            )?,
            leader: IntGauge::new("tenon_operator_leader", "1 on the replica that writes, 0 elsewhere.")?,
            reports: IntCounterVec::new(
                Opts::new("tenon_operator_worker_reports_total", "What nodes said of Workers' health, by its outcome."),
                &["outcome"],
            )?,
        };
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.malformed.clone()))?;
        registry.register(Box::new(metrics.leader.clone()))?;
        registry.register(Box::new(metrics.reports.clone()))?;
        Ok(metrics)
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
