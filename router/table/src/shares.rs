//! Exports metrics of how evenly the ring distributes Workers. The shares are computed from the
//! current table during a scrape, and only if nodes have changed since the last scrape. Neither the
//! serving threads nor the catalog's thread are involved.

use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};

use crate::{Published, Table};

/// The maximum number of shards of a pool for which each shard's share is exported. Each share is a
/// series of metrics in every router.
const MAX_REPORTED_SLOTS: usize = 1024;

/// The collector of the metrics.
pub struct Shares {
    published: Published,
    share: GaugeVec,
    imbalance: GaugeVec,
    slots: IntGaugeVec,
    /// The version of the nodes that the exported values describe.
    published_version: Mutex<Option<u64>>,
}

impl Shares {
    /// Creates the collector.
    ///
    /// # Errors
    /// Never fails in practice: the names are valid.
    pub fn new(published: Published) -> prometheus::Result<Self> {
        let share = Opts::new(
            "tenon_router_ring_share",
            "Expected share of all Workers that is pinned to a shard.",
        );
        let imbalance = Opts::new(
            "tenon_router_ring_imbalance",
            "Largest share of a shard in the pool, divided by the mean share.",
        );
        let slots = Opts::new("tenon_router_ring_slots", "Shards of a pool that take Workers.");
        Ok(Self {
            published,
            share: GaugeVec::new(share, &["pool", "node", "shard"])?,
            imbalance: GaugeVec::new(imbalance, &["pool"])?,
            slots: IntGaugeVec::new(slots, &["pool"])?,
            published_version: Mutex::default(),
        })
    }

    fn update(&self) {
        let table = self.published.load();
        let version = Some(table.nodes_version());
        // The value is a number, which a panic cannot leave half-written.
        let mut published_version =
            self.published_version.lock().unwrap_or_else(PoisonError::into_inner);
        if *published_version != version {
            self.set_values(&table);
            *published_version = version;
        }
    }

    fn set_values(&self, table: &Table) {
        self.share.reset();
        self.imbalance.reset();
        self.slots.reset();
        for (name, pool) in table.pools() {
            let shares = pool.ring.shares();
            let imbalance = shares.iter().copied().fold(0.0, f64::max) * shares.len() as f64;
            self.imbalance.with_label_values(&[&**name]).set(imbalance);
            self.slots.with_label_values(&[&**name]).set(shares.len() as i64);
            if shares.len() <= MAX_REPORTED_SLOTS {
                for (shard, share) in pool.shards.iter().zip(shares) {
                    let id = shard.id.to_string();
                    self.share.with_label_values(&[&**name, &*shard.node, &id]).set(share);
                }
            }
        }
    }
}

impl Collector for Shares {
    fn desc(&self) -> Vec<&Desc> {
        [self.share.desc(), self.imbalance.desc(), self.slots.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.update();
        [self.share.collect(), self.imbalance.collect(), self.slots.collect()].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use tenon_proto::catalog::{Node, WatchResponse, node::State};

    use super::*;

    fn node(name: &str, shards: u32) -> Node {
        let state = State::Ready.into();
        let address = "127.0.0.1".into();
        Node {
            name: name.into(),
            pool: "default".into(),
            address,
            shard_ports: (0..shards).collect(),
            state,
            ..Default::default()
        }
    }

    fn values(shares: &Shares, family: &str) -> Vec<f64> {
        let families = shares.collect();
        let family =
            families.iter().find(|found| found.name() == family).expect("no such metric family");
        family.get_metric().iter().map(|metric| metric.get_gauge().get_value()).collect()
    }

    #[test]
    fn the_shares_follow_the_nodes_of_the_table() {
        let published = Arc::new(ArcSwap::from_pointee(Table::default()));
        let shares = Shares::new(published.clone()).unwrap();
        assert!(values(&shares, "tenon_router_ring_share").is_empty());

        let mut table = Table::default();
        table.apply(WatchResponse {
            nodes: vec![node("one", 2), node("two", 2)],
            ..Default::default()
        });
        published.store(Arc::new(table.clone()));
        let shares_by_slot = values(&shares, "tenon_router_ring_share");
        assert_eq!(shares_by_slot.len(), 4);
        assert!((shares_by_slot.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares_by_slot:?}");
        assert_eq!(values(&shares, "tenon_router_ring_slots"), [4.0]);
        assert!((1.0..2.0).contains(&values(&shares, "tenon_router_ring_imbalance")[0]));

        table.apply(WatchResponse {
            removed_nodes: vec!["one".into(), "two".into()],
            ..Default::default()
        });
        published.store(Arc::new(table));
        assert!(values(&shares, "tenon_router_ring_slots").is_empty());
    }

    #[test]
    fn a_very_large_pool_is_reported_as_a_whole() {
        let mut table = Table::default();
        table.apply(WatchResponse {
            nodes: vec![node("large", 1 + MAX_REPORTED_SLOTS as u32)],
            ..Default::default()
        });
        let shares = Shares::new(Arc::new(ArcSwap::from_pointee(table))).unwrap();
        assert!(values(&shares, "tenon_router_ring_share").is_empty());
        assert_eq!(values(&shares, "tenon_router_ring_imbalance").len(), 1);
    }
}
