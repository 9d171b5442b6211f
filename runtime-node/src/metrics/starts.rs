//! Counts and times cold starts.

use std::time::Instant;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};
use tenon_engine::BytecodeLookup;
use tenon_lifecycle::metrics::{EnumMap, Register as _};

use super::DURATION_BUCKETS;
use super::workers::{Phases, StartPhase};

/// The metric families of cold starts, for all shards.
pub struct StartFamilies {
    starts: IntCounterVec,
    duration: HistogramVec,
    phases: HistogramVec,
    spare_lookups: IntCounterVec,
    bytecode_lookups: IntCounterVec,
}

/// The metrics of one shard's cold starts.
pub struct StartMetrics {
    succeeded: IntCounter,
    failed: IntCounter,
    duration: Histogram,
    phases: EnumMap<StartPhase, Histogram>,
    spare_hits: IntCounter,
    spare_misses: IntCounter,
    bytecode_hits: IntCounter,
    bytecode_misses: IntCounter,
    bytecode_rejections: IntCounter,
}

impl StartFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            starts: registry.counters(
                "tenon_cold_starts_total",
                "Cold starts of revisions, by outcome.",
                &["shard", "outcome"],
            )?,
            duration: registry.histograms(
                "tenon_cold_start_duration_seconds",
                "Duration of a cold start, including the fetch of the code.",
                DURATION_BUCKETS,
                &["shard"],
            )?,
            phases: registry.histograms(
                "tenon_cold_start_phase_duration_seconds",
                "Duration of each phase of successful cold starts.",
                DURATION_BUCKETS,
                &["shard", "phase"],
            )?,
            spare_lookups: registry.counters(
                "tenon_spare_lookups_total",
                "Starts that looked for a spare isolate, by outcome.",
                &["shard", "outcome"],
            )?,
            bytecode_lookups: registry.counters(
                "tenon_bytecode_lookups_total",
                "Starts of Workers that are large enough for bytecode, by outcome.",
                &["shard", "outcome"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, shard: &str) -> StartMetrics {
        let of = |family: &IntCounterVec, outcome| family.with_label_values(&[shard, outcome]);
        let bytecode = |lookup: BytecodeLookup| of(&self.bytecode_lookups, lookup.as_str());
        StartMetrics {
            succeeded: of(&self.starts, "ok"),
            failed: of(&self.starts, "failed"),
            duration: self.duration.with_label_values(&[shard]),
            phases: EnumMap::of(&self.phases, &[shard]),
            spare_hits: of(&self.spare_lookups, "hit"),
            spare_misses: of(&self.spare_lookups, "miss"),
            bytecode_hits: bytecode(BytecodeLookup::Hit),
            bytecode_misses: bytecode(BytecodeLookup::Miss),
            bytecode_rejections: bytecode(BytecodeLookup::Rejected),
        }
    }
}

impl StartMetrics {
    /// Counts a start by whether it found a spare isolate.
    pub fn count_spare_lookup(&self, found: bool) {
        if found { &self.spare_hits } else { &self.spare_misses }.inc();
    }

    /// Counts a start by whether it found bytecode.
    pub fn count_bytecode_lookup(&self, lookup: BytecodeLookup) {
        let counter = match lookup {
            BytecodeLookup::Hit => &self.bytecode_hits,
            BytecodeLookup::Miss => &self.bytecode_misses,
            BytecodeLookup::Rejected => &self.bytecode_rejections,
        };
        counter.inc();
    }

    /// Counts a start that began at `began` and has just ended.
    pub fn record_end(&self, began: Instant, succeeded: bool) {
        if succeeded { &self.succeeded } else { &self.failed }.inc();
        self.duration.observe(began.elapsed().as_secs_f64());
    }

    /// Observes the phases of a successful start.
    pub fn observe_phases(&self, phases: &Phases) {
        for ((_, histogram), took) in self.phases.iter().zip(phases) {
            histogram.observe(took.as_secs_f64());
        }
    }
}
