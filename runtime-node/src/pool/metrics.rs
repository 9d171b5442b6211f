//! Metrics of a pool: its isolates by state, and the evictions by reason.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, Register as _};

tenon_lifecycle::label_values! {
    /// The reason for an eviction.
    pub enum Eviction {
        /// Another revision needed the isolate's slot.
        Room = "room",
        /// The isolate exceeded a limit, and its state could no longer be trusted.
        Condemned = "condemned",
        /// An invocation exceeded a limit and ended by itself.
        Retired = "retired",
        /// Another revision of the Worker started, and this one had had no request for a while.
        Superseded = "superseded",
        /// The isolate had no request for a long time.
        Idle = "idle",
        /// The node's memory was short.
        Memory = "memory",
        /// The revision runs elsewhere on the node from now on, or is refused.
        Moved = "moved",
    }
}

/// The metric families of pools, for all shards.
pub struct PoolFamilies {
    isolates: IntGaugeVec,
    evictions: IntCounterVec,
    collections: IntCounterVec,
}

/// The metrics of one shard's pool.
pub struct PoolMetrics {
    /// Isolates that are starting.
    pub starting: IntGauge,
    /// Isolates that are ready for an invocation, or busy.
    pub warm: IntGauge,
    /// Isolates that were evicted, and still finish invocations.
    pub retiring: IntGauge,
    pub evictions: EnumCounters<Eviction>,
    /// Idle isolates whose garbage was collected because memory was short.
    pub collections: IntCounter,
}

impl PoolFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            isolates: registry.gauges(
                "tenon_isolates",
                "Isolates by state.",
                &["shard", "state"],
            )?,
            evictions: registry.counters(
                "tenon_evictions_total",
                "Evicted isolates, by reason.",
                &["shard", "reason"],
            )?,
            collections: registry.counters(
                "tenon_forced_collections_total",
                "Garbage collections of idle isolates because memory was short.",
                &["shard"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, shard: &str) -> PoolMetrics {
        let isolates = |state| self.isolates.with_label_values(&[shard, state]);
        PoolMetrics {
            starting: isolates("starting"),
            warm: isolates("warm"),
            retiring: isolates("retiring"),
            evictions: EnumMap::of(&self.evictions, &[shard]),
            collections: self.collections.with_label_values(&[shard]),
        }
    }
}
