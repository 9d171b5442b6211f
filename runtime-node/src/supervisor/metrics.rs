//! Metrics of a supervisor.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use tenon_proto::id::ShardId;

use super::process::Cause;
use crate::metrics::register;

/// The metric families of a node's supervisor.
#[derive(Clone)]
pub(super) struct Metrics {
    exits: IntCounterVec,
    up: IntGaugeVec,
    memory: IntGaugeVec,
    memory_limit: IntGaugeVec,
    quarantines: IntCounterVec,
    pub(super) quarantined: IntGauge,
    pub(super) forgiven: IntCounter,
    placements: IntGaugeVec,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has them already.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter =
            |name, help, labels: &[&str]| register(registry, IntCounterVec::new(Opts::new(name, help), labels));
        let gauge = |name, help| register(registry, IntGaugeVec::new(Opts::new(name, help), &["process"]));
        let metrics = Self {
            exits: counter(
                "tenon_node_process_exits_total",
                "Unexpected ends of the processes of shards and lanes, by cause.",
                &["process", "cause"],
            )?,
            up: gauge("tenon_node_process_up", "1 while the process of a shard or lane serves, 0 otherwise.")?,
            memory: gauge("tenon_node_process_memory_bytes", "Resident memory of a shard's or lane's process.")?,
            memory_limit: gauge(
                "tenon_node_process_memory_limit_bytes",
                "Current limit on the private writable memory of a shard's or lane's process.",
            )?,
            quarantines: counter(
                "tenon_node_quarantines_total",
                "Quarantines of revisions whose code ended a process, by how the process ended.",
                &["cause"],
            )?,
            placements: register(
                registry,
                IntGaugeVec::new(
                    Opts::new("tenon_node_placements", "Revisions by placement: on a shard or in a lane."),
                    &["place"],
                ),
            )?,
            quarantined: register(
                registry,
                IntGauge::new("tenon_node_quarantined_revisions", "Revisions in quarantine."),
            )?,
            forgiven: register(
                registry,
                IntCounter::new(
                    "tenon_node_forgiven_exits_total",
                    "Ends of processes with little memory left, for which no revision was quarantined.",
                ),
            )?,
        };
        metrics.placed((0, 0));
        for cause in Cause::ALL {
            metrics.quarantines.with_label_values(&[cause.as_str()]);
        }
        Ok(metrics)
    }

    /// Creates the series of a process that is run from now on.
    pub(super) fn keeps(&self, id: ShardId) {
        for cause in Cause::ALL {
            self.exits.with_label_values(&[&process(id), cause.as_str()]);
        }
        self.serves(id, false);
    }

    pub(super) fn serves(&self, id: ShardId, serves: bool) {
        self.up.with_label_values(&[&process(id)]).set(i64::from(serves));
    }

    pub(super) fn ended(&self, id: ShardId, cause: Cause) {
        self.exits.with_label_values(&[&process(id), cause.as_str()]).inc();
    }

    /// Sets how many revisions run in lanes and on shards.
    pub(super) fn placed(&self, (in_lanes, on_shards): (usize, usize)) {
        self.placements.with_label_values(&["lane"]).set(in_lanes as i64);
        self.placements.with_label_values(&["shard"]).set(on_shards as i64);
    }

    pub(super) fn quarantined(&self, cause: Cause) {
        self.quarantines.with_label_values(&[cause.as_str()]).inc();
    }

    /// Sets a process's memory use and its limit, in bytes.
    pub(super) fn weighs(&self, id: ShardId, used: u64, limit: u64) {
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.memory.with_label_values(&[&process(id)]).set(bytes(used));
        self.memory_limit.with_label_values(&[&process(id)]).set(bytes(limit));
    }
}

/// Returns the name of a process in metrics and logs.
pub(super) fn process(id: ShardId) -> String {
    if id.is_lane() { id.to_string() } else { format!("shard-{id}") }
}
