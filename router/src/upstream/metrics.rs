//! The metrics of the requests and connections to shards.

use std::rc::Rc;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};

use crate::upstream::placement::Move;

/// The frequent reasons for a retry. They are exported from the start, so that the first retry
/// appears as an increase and not as a new series.
const RETRIES: [&str; 7] = [
    "unreachable",
    "not_begun",
    "node_lost",
    "unresponsive",
    "draining",
    "overloaded",
    "revision_unavailable",
];

label_values! {
    /// The reason why requests avoid a shard.
    pub(crate) enum Ejection {
        /// The shard cannot be connected to, or has disappeared while it drained.
        Unreachable = "unreachable",
        /// The shard has a connection and sends nothing.
        Silent = "silent",
    }
}

label_values! {
    /// The reason why a request is not sent to the shard that its Worker is pinned to.
    pub(crate) enum Spill {
        /// The shard is known to be unavailable.
        Ejected = "ejected",
        Draining = "draining",
        /// The shard has no capacity.
        Overloaded = "overloaded",
        /// The shard has failed this request.
        Failed = "failed",
        /// The Worker needs more than one shard.
        Hot = "hot",
    }
}

/// The metrics of all threads.
#[derive(Clone)]
pub(crate) struct UpstreamFamilies {
    retries: IntCounterVec,
    spills: EnumCounters<Spill>,
    ejections: EnumCounters<Ejection>,
    to_lane: IntCounter,
    to_shard: IntCounter,
    links: IntGaugeVec,
    ejected: IntGaugeVec,
}

/// The metrics of one thread. No other thread writes the gauges. All threads share the counters,
/// because the counted events are rare.
pub(crate) struct UpstreamMetrics {
    retries: IntCounterVec,
    pub(crate) spills: EnumCounters<Spill>,
    /// The number of times that requests have begun to avoid a shard.
    pub(crate) ejections: EnumCounters<Ejection>,
    to_lane: IntCounter,
    to_shard: IntCounter,
    /// The number of open connections to shards.
    pub(crate) links: IntGauge,
    /// The number of shards that are ejected now.
    pub(crate) ejected: IntGauge,
}

impl UpstreamFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry already has metrics of these names.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let retries = registry.counters(
            "tenon_router_retries_total",
            "Retries, by the reason why the previous attempt failed.",
            &["reason"],
        )?;
        RETRIES.iter().for_each(|reason| _ = retries.with_label_values(&[reason]));
        let moves = registry.counters(
            "tenon_router_moves_total",
            "Requests redirected within a node, by destination: a shard or a lane.",
            &["to"],
        )?;
        Ok(Self {
            retries,
            spills: registry.counters_by(
                "tenon_router_spills_total",
                "Requests sent to a shard other than their Worker's, by reason.",
                "reason",
            )?,
            ejections: registry.counters_by(
                "tenon_router_ejections_total",
                "Ejections of shards and lanes by reason, counted once for each thread.",
                "reason",
            )?,
            to_lane: moves.with_label_values(&["lane"]),
            to_shard: moves.with_label_values(&["shard"]),
            links: registry.gauges(
                "tenon_router_shard_connections",
                "Open connections to shards.",
                &["thread"],
            )?,
            ejected: registry.gauges(
                "tenon_router_ejected_shards",
                "Shards and lanes that are ejected now.",
                &["thread"],
            )?,
        })
    }

    /// Returns the metrics of one thread.
    ///
    /// # Arguments
    /// * `thread` - identifies the thread.
    pub(crate) fn thread(&self, thread: &str) -> Rc<UpstreamMetrics> {
        Rc::new(UpstreamMetrics {
            retries: self.retries.clone(),
            spills: self.spills.clone(),
            ejections: self.ejections.clone(),
            to_lane: self.to_lane.clone(),
            to_shard: self.to_shard.clone(),
            links: self.links.with_label_values(&[thread]),
            ejected: self.ejected.with_label_values(&[thread]),
        })
    }
}

impl UpstreamMetrics {
    /// Counts a retry.
    pub(crate) fn count_retry(&self, reason: &str) {
        self.retries.with_label_values(&[reason]).inc();
    }

    /// Counts a redirect within a node.
    pub(crate) fn count_move(&self, to: Move) {
        match to {
            Move::Lane | Move::Stay => &self.to_lane,
            Move::Shard => &self.to_shard,
        }
        .inc();
    }
}
