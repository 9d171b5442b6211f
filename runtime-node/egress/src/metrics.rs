//! Metrics of outbound requests.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::metrics::{EnumCounters, EnumMap, Register as _};
use tenon_proto::id::ShardId;

use crate::error::Stage;

/// The metric families of a node's outbound requests, labeled by shard.
pub struct EgressFamilies {
    requests: IntCounterVec,
    connections: IntGaugeVec,
    bytes: IntCounterVec,
}

impl EgressFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            requests: registry.counters(
                "tenon_egress_requests_total",
                "Fetches and sockets of Workers: ok, or the stage at which they failed.",
                &["shard", "outcome"],
            )?,
            connections: registry.gauges(
                "tenon_egress_connections",
                "Connections to origins, by state.",
                &["shard", "state"],
            )?,
            bytes: registry.counters(
                "tenon_egress_bytes_total",
                "Bytes of bodies and sockets that Workers sent to and received from origins.",
                &["shard", "direction"],
            )?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, id: ShardId) -> EgressMetrics {
        let shard = id.to_string();
        let connections = |state| self.connections.with_label_values(&[shard.as_str(), state]);
        let bytes = |direction| self.bytes.with_label_values(&[shard.as_str(), direction]);
        EgressMetrics {
            ok: self.requests.with_label_values(&[shard.as_str(), "ok"]),
            failed: EnumMap::of(&self.requests, &[&shard]),
            open: connections("open"),
            idle: connections("idle"),
            sent: bytes("sent"),
            received: bytes("received"),
        }
    }
}

/// Metrics of the outbound requests of a shard's Workers.
#[derive(Clone)]
pub struct EgressMetrics {
    ok: IntCounter,
    failed: EnumCounters<Stage>,
    /// Number of connections to origins, including idle ones.
    pub open: IntGauge,
    /// Number of idle connections to origins.
    pub idle: IntGauge,
    /// Number of bytes sent in bodies and over sockets.
    pub sent: IntCounter,
    /// Number of bytes received in bodies and over sockets.
    pub received: IntCounter,
}

impl EgressMetrics {
    /// Counts a request that got a response, or a socket that was opened; with `failure`, counts
    /// one that failed at this stage.
    pub fn ended(&self, failure: Option<Stage>) {
        failure.map_or(&self.ok, |stage| self.failed.get(stage)).inc();
    }
}

impl Default for EgressMetrics {
    /// Creates metrics that are not registered anywhere.
    fn default() -> Self {
        let counter = || IntCounter::new("unused", "Not exported.").expect("invalid metric name");
        let gauge = || IntGauge::new("unused", "Not exported.").expect("invalid metric name");
        Self {
            ok: counter(),
            failed: EnumMap::from_fn(|_| counter()),
            open: gauge(),
            idle: gauge(),
            sent: counter(),
            received: counter(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_is_counted_under_its_own_name() {
        let families = EgressFamilies::register(&Registry::new()).unwrap();
        let shard = families.shard(ShardId(0));
        for stage in Stage::ALL {
            shard.ended(Some(stage));
            assert_eq!(
                families.requests.with_label_values(&["0", stage.as_str()]).get(),
                1,
                "{stage}"
            );
        }
    }
}
