//! Metrics of admission: invocations in flight, waiting requests and shed requests.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, Register as _};

use super::Refusal;

/// The metric families of admission, for all shards.
pub struct AdmissionFamilies {
    in_flight: IntGaugeVec,
    waiting: IntGaugeVec,
    tunnels: IntGaugeVec,
    shed: IntCounterVec,
}

/// The admission metrics of one shard.
pub struct AdmissionMetrics {
    /// Invocations that hold a permit of the shard.
    pub in_flight: IntGauge,
    /// Requests that wait for a permit of the shard, of their tenant or of their Worker. The Worker
    /// may have to be started first.
    pub waiting: IntGauge,
    /// Clients' open WebSockets, which hold no permit of the shard.
    pub tunnels: IntGauge,
    pub shed: EnumCounters<Refusal>,
}

impl AdmissionFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            in_flight: registry.gauges(
                "tenon_shard_inflight",
                "Invocations in flight.",
                &["shard"],
            )?,
            waiting: registry.gauges(
                "tenon_shard_waiting",
                "Invocations that are queued for a permit or a start.",
                &["shard"],
            )?,
            tunnels: registry.gauges(
                "tenon_shard_tunnels",
                "Open WebSockets of clients.",
                &["shard"],
            )?,
            shed: registry.counters(
                "tenon_shed_total",
                "Invocations that were shed, by reason.",
                &["shard", "reason"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, shard: &str) -> AdmissionMetrics {
        AdmissionMetrics {
            in_flight: self.in_flight.with_label_values(&[shard]),
            waiting: self.waiting.with_label_values(&[shard]),
            tunnels: self.tunnels.with_label_values(&[shard]),
            shed: EnumMap::of(&self.shed, &[shard]),
        }
    }
}
