//! Metrics of the watches of the API server, by kind.

use prometheus::{IntCounterVec, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::Register as _;

/// Metrics of the watches.
pub struct WatchMetrics {
    /// Number of interrupted watches.
    pub interruptions: IntCounterVec,
    /// Number of stored objects that do not match their schema.
    pub malformed: IntGaugeVec,
}

impl WatchMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Fails if the registry already has these metrics.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            interruptions: registry.counters(
                "tenon_operator_watch_interruptions_total",
                "Interrupted watches of the API server, by kind.",
                &["kind"],
            )?,
            malformed: registry.gauges(
                "tenon_operator_malformed_objects",
                "Stored objects that are skipped because they do not match their schema, by kind.",
                &["kind"],
            )?,
        })
    }
}
