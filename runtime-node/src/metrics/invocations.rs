//! Counts and times invocations, for their shard and for their Worker.

use std::time::Instant;

use prometheus::{Histogram, HistogramVec, IntCounterVec, Registry};
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, Register as _};
use tenon_proto::failure::FailureCode;
use tenon_proto::id::RevisionDigest;

use super::DURATION_BUCKETS;
use super::workers::{End, WorkerMetrics};

/// The metric families of invocations, for all shards.
pub struct InvocationFamilies {
    ended: IntCounterVec,
    duration: HistogramVec,
}

/// The metrics of one shard's invocations.
pub struct InvocationMetrics {
    ended: EnumCounters<End>,
    duration: Histogram,
}

impl InvocationFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            ended: registry.counters(
                "tenon_invocations_total",
                "Invocations by result code.",
                &["shard", "code"],
            )?,
            duration: registry.histograms(
                "tenon_invocation_duration_seconds",
                "Time from a request to the head of its response.",
                DURATION_BUCKETS,
                &["shard"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, shard: &str) -> InvocationMetrics {
        InvocationMetrics {
            ended: EnumMap::of(&self.ended, &[shard]),
            duration: self.duration.with_label_values(&[shard]),
        }
    }
}

/// A measurement of one invocation, recorded on drop. If the measurement is dropped without a call
/// to [`end`](Self::end), the caller has canceled the invocation.
pub struct Observation<'a> {
    invocations: &'a InvocationMetrics,
    workers: &'a WorkerMetrics,
    digest: RevisionDigest,
    began: Instant,
    end: End,
}

impl<'a> Observation<'a> {
    /// Begins to observe an invocation of the revision.
    pub(super) fn begin(
        invocations: &'a InvocationMetrics,
        workers: &'a WorkerMetrics,
        digest: RevisionDigest,
    ) -> Self {
        Self { invocations, workers, digest, began: Instant::now(), end: End::Cancelled }
    }

    /// Records that the invocation ended with this failure or, if it is `None`, with a response.
    pub fn end(mut self, failure: Option<FailureCode>) {
        self.end = failure.map_or(End::Answered, End::Failed);
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.invocations.ended.inc(self.end);
        self.invocations.duration.observe(took.as_secs_f64());
        self.workers.record_end(&self.digest, self.end, took);
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::id::ShardId;

    use super::*;
    use crate::metrics::workers::WorkerFamilies;

    const DIGEST: RevisionDigest = RevisionDigest::new([0; 32]);

    fn metrics() -> (InvocationMetrics, WorkerMetrics) {
        let registry = Registry::new();
        let workers = WorkerFamilies::register(&registry).unwrap().shard(ShardId(0));
        (InvocationFamilies::register(&registry).unwrap().shard("0"), workers)
    }

    #[test]
    fn each_failure_is_counted_under_its_own_code() {
        let (invocations, workers) = metrics();
        for code in FailureCode::ALL {
            Observation::begin(&invocations, &workers, DIGEST).end(Some(*code));
            assert_eq!(invocations.ended.get(End::Failed(*code)).get(), 1, "{code}");
        }
    }

    #[test]
    fn an_invocation_that_is_dropped_before_its_end_was_canceled() {
        let (invocations, workers) = metrics();
        drop(Observation::begin(&invocations, &workers, DIGEST));
        Observation::begin(&invocations, &workers, DIGEST).end(None);
        let ended = |end| invocations.ended.get(end).get();
        assert_eq!((ended(End::Cancelled), ended(End::Answered)), (1, 1));
        assert_eq!(invocations.duration.get_sample_count(), 2);
    }
}
