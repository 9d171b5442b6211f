//! Metrics of schedules.

use prometheus::{Histogram, IntCounterVec, Registry};
use tenon_lifecycle::metrics::Register as _;

/// Bucket boundaries in seconds. The delay includes a write to the API server, which may wait for
/// many other writes in a busy minute or after a change of leader.
const DELAY_BUCKETS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Metrics of schedules.
pub struct ScheduleMetrics {
    /// Number of due times by outcome: `ok`, a failure code, or `passed_over`.
    pub calls: IntCounterVec,
    /// Delay between a schedule's due time and the call of its Worker, in seconds.
    pub delay: Histogram,
}

impl ScheduleMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            calls: registry.counters(
                "tenon_operator_scheduled_calls_total",
                "Due times of Workers' schedules, by outcome.",
                &["outcome"],
            )?,
            delay: registry.histogram(
                "tenon_operator_schedule_delay_seconds",
                "Time from a schedule's due time to the call.",
                DELAY_BUCKETS,
            )?,
        })
    }
}
