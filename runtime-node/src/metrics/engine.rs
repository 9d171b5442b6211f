//! Metrics of what a shard's engine does: turns, spare isolates and buffers.

use std::time::Duration;

use prometheus::{
    Counter, CounterVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use tenon_engine::buffers::BufferMetrics;
use tenon_lifecycle::metrics::Register as _;

/// The metric families of engines, for all shards.
pub struct EngineFamilies {
    turns: IntCounterVec,
    turn_cpu: CounterVec,
    spares: IntGaugeVec,
    buffers: IntGaugeVec,
    buffers_in_use: IntGaugeVec,
    buffer_fallbacks: IntCounterVec,
}

/// The metrics of one shard's engine.
pub struct EngineMetrics {
    turns: IntCounter,
    turn_cpu: Counter,
    /// Isolates made ahead of demand, which belong to no Worker yet.
    pub spares: IntGauge,
    /// Metrics of the shard's buffer pool.
    pub buffers: BufferMetrics,
}

impl EngineFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let turn_cpu = Opts::new("tenon_shard_turn_cpu_seconds_total", "CPU time of turns.");
        Ok(Self {
            turns: registry.counters(
                "tenon_shard_turns_total",
                "Turns: uninterrupted stretches of JavaScript.",
                &["shard"],
            )?,
            turn_cpu: registry.add(CounterVec::new(turn_cpu, &["shard"])?)?,
            spares: registry.gauges(
                "tenon_spare_isolates",
                "Spare isolates, made ahead of demand.",
                &["shard"],
            )?,
            buffers: registry.gauges(
                "tenon_buffer_pool_blocks",
                "Buffers for responses.",
                &["shard"],
            )?,
            buffers_in_use: registry.gauges(
                "tenon_buffer_pool_blocks_in_use",
                "Buffers that hold responses in transit.",
                &["shard"],
            )?,
            buffer_fallbacks: registry.counters(
                "tenon_buffer_pool_fallbacks_total",
                "Responses whose buffer came from the global allocator, by reason.",
                &["shard", "reason"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, shard: &str) -> EngineMetrics {
        EngineMetrics {
            turns: self.turns.with_label_values(&[shard]),
            turn_cpu: self.turn_cpu.with_label_values(&[shard]),
            spares: self.spares.with_label_values(&[shard]),
            buffers: BufferMetrics {
                blocks: self.buffers.with_label_values(&[shard]),
                in_use: self.buffers_in_use.with_label_values(&[shard]),
                none_free: self.buffer_fallbacks.with_label_values(&[shard, "none_free"]),
                too_large: self.buffer_fallbacks.with_label_values(&[shard, "too_large"]),
            },
        }
    }
}

impl EngineMetrics {
    /// Sets the totals of turns and of their CPU time.
    pub fn set_turns(&self, turns: u64, cpu: Duration) {
        self.turns.inc_by(turns.saturating_sub(self.turns.get()));
        self.turn_cpu.inc_by((cpu.as_secs_f64() - self.turn_cpu.get()).max(0.0));
    }
}
