//! What a node counts. Each shard holds its own children of every family, so that counting is an add on memory
//! that no other thread writes.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use tenon_proto::failure::FailureCode;
use tenon_proto::id::ShardId;

/// Seconds: from a warm hello, some microseconds, to the longest wall limits.
const DURATION_BUCKETS: &[f64] = &[
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    5.0, 30.0,
];

/// The families, for all shards.
pub struct Metrics {
    invocations: IntCounterVec,
    duration: HistogramVec,
    start_duration: HistogramVec,
    isolates: IntGaugeVec,
    in_flight: IntGaugeVec,
    evictions: IntCounterVec,
}

/// One shard's.
pub struct ShardMetrics {
    ok: IntCounter,
    failed: Vec<IntCounter>,
    /// Seconds of an invocation, from its first message to its response's head.
    pub duration: Histogram,
    /// Seconds of a cold start, the fetch of its code included.
    pub start_duration: Histogram,
    pub isolates: IntGauge,
    pub in_flight: IntGauge,
    pub evictions: IntCounter,
}

impl Metrics {
    /// # Errors
    /// When the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let shard = &["shard"];
        let metrics = Self {
            invocations: IntCounterVec::new(
                Opts::new("tenon_invocations_total", "Invocations by how they ended."),
                &["shard", "code"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new("tenon_invocation_duration_seconds", "Time from a request to its response's head.")
                    .buckets(DURATION_BUCKETS.to_vec()),
                shard,
            )?,
            start_duration: HistogramVec::new(
                HistogramOpts::new("tenon_cold_start_duration_seconds", "Time to load a revision, its fetch included.")
                    .buckets(DURATION_BUCKETS.to_vec()),
                shard,
            )?,
            isolates: IntGaugeVec::new(Opts::new("tenon_isolates", "Isolates in the pool."), shard)?,
            in_flight: IntGaugeVec::new(Opts::new("tenon_shard_inflight", "Invocations in flight."), shard)?,
            evictions: IntCounterVec::new(
                Opts::new("tenon_evictions_total", "Isolates that made room for others."),
                shard,
            )?,
        };
        registry.register(Box::new(metrics.invocations.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.start_duration.clone()))?;
        registry.register(Box::new(metrics.isolates.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.evictions.clone()))?;
        Ok(metrics)
    }

    pub fn shard(&self, shard: ShardId) -> ShardMetrics {
        let shard = shard.to_string();
        let labels = &[shard.as_str()];
        let ended = |code: &str| self.invocations.with_label_values(&[shard.as_str(), code]);
        ShardMetrics {
            ok: ended("ok"),
            failed: FailureCode::ALL.iter().map(|code| ended(code.as_str())).collect(),
            duration: self.duration.with_label_values(labels),
            start_duration: self.start_duration.with_label_values(labels),
            isolates: self.isolates.with_label_values(labels),
            in_flight: self.in_flight.with_label_values(labels),
            evictions: self.evictions.with_label_values(labels),
        }
    }
}

impl ShardMetrics {
    /// Counts an invocation that ended: well, or with a failure.
    pub fn ended(&self, failure: Option<FailureCode>) {
        match failure {
            None => self.ok.inc(),
            // `failed` and `FailureCode::ALL` have the same order, that of the declaration.
            Some(code) => self.failed[code as usize].inc(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_counted_under_its_own_code() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let shard = metrics.shard(ShardId(0));
        for code in FailureCode::ALL {
            shard.ended(Some(*code));
            assert_eq!(metrics.invocations.with_label_values(&["0", code.as_str()]).get(), 1, "{code}");
        }
    }
}
