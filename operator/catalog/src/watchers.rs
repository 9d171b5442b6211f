//! The watchers of the catalog, and how far each of them lags behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntGauge, IntGaugeVec, Opts};
use tenon_proto::catalog::node::State;

use super::{Catalog, Progress};

/// Bucket boundaries in seconds. An isolated change is delivered in less than a millisecond, and
/// one among thousands of changes in seconds.
const BUCKETS: [f64; 10] = [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// All watchers of a catalog.
#[derive(Clone)]
pub(super) struct Watchers {
    positions: Arc<Mutex<Vec<Arc<Position>>>>,
    delivery: Histogram,
}

/// The version up to which a watcher knows all changes.
#[derive(Default)]
struct Position(AtomicU64);

/// The entry of one watcher; it is removed on drop.
pub(super) struct Registration {
    watchers: Watchers,
    position: Arc<Position>,
}

impl Watchers {
    pub(super) fn new() -> Self {
        let help = "Time from a change of the catalog until it is sent to a watcher, including \
                    back-pressure.";
        let delivery = HistogramOpts::new("tenon_operator_catalog_delivery_duration_seconds", help);
        let delivery =
            Histogram::with_opts(delivery.buckets(BUCKETS.to_vec())).expect("invalid name");
        Self { positions: Arc::default(), delivery }
    }

    pub(super) fn register(&self) -> Registration {
        let position = Arc::default();
        self.with(|positions| positions.push(Arc::clone(&position)));
        Registration { watchers: self.clone(), position }
    }

    /// Returns the number of watchers, and the version of the slowest watcher, if there is any.
    fn count_and_slowest(&self) -> (usize, Option<u64>) {
        self.with(|positions| {
            let known = positions.iter().map(|position| position.0.load(Ordering::Relaxed));
            (positions.len(), known.min())
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Vec<Arc<Position>>) -> T) -> T {
        // Each change of the list is one call, so a panic cannot leave it half changed.
        f(&mut self.positions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Registration {
    /// Records that the watcher has been sent all changes up to this version.
    ///
    /// # Arguments
    /// * `waited` - the time since the latest change, if the message was a delta and not part of a
    ///   snapshot.
    pub(super) fn record_delivery(&self, version: u64, waited: Option<Duration>) {
        self.position.0.store(version, Ordering::Relaxed);
        waited.into_iter().for_each(|waited| self.watchers.delivery.observe(waited.as_secs_f64()));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.watchers
            .with(|positions| positions.retain(|position| !Arc::ptr_eq(position, &self.position)));
    }
}

/// The metrics of a catalog.
pub struct CatalogMetrics {
    catalog: Catalog,
    version: IntGauge,
    watchers: IntGauge,
    lag: IntGauge,
    nodes: IntGaugeVec,
    quarantined: IntGauge,
}

impl CatalogMetrics {
    /// Creates the metrics of a catalog.
    ///
    /// # Errors
    /// Never fails in practice: the names are valid.
    pub(super) fn new(catalog: Catalog) -> prometheus::Result<Self> {
        let lag = "Versions that have not been sent to the slowest watcher.";
        let nodes = Opts::new("tenon_operator_nodes", "Nodes in the catalog, by pool and state.");
        let quarantined =
            "Revisions in quarantine, which nodes refuse because they ended processes.";
        Ok(Self {
            catalog,
            version: IntGauge::new(
                "tenon_operator_catalog_version",
                "Version of the catalog, which increases with each change.",
            )?,
            watchers: IntGauge::new(
                "tenon_operator_catalog_watchers",
                "Routers, and nodes with a front, that watch the catalog of this replica.",
            )?,
            lag: IntGauge::new("tenon_operator_catalog_lag_versions", lag)?,
            nodes: IntGaugeVec::new(nodes, &["pool", "state"])?,
            quarantined: IntGauge::new("tenon_operator_quarantined_revisions", quarantined)?,
        })
    }

    fn families(&self) -> [&dyn Collector; 7] {
        let delivery = &self.catalog.shared.watchers.delivery;
        let denied = &self.catalog.shared.denials.family;
        [&self.version, &self.watchers, &self.lag, &self.nodes, &self.quarantined, delivery, denied]
    }

    fn update(&self) {
        let Progress { version, .. } = *self.catalog.shared.progress_tx.borrow();
        let (watchers, slowest) = self.catalog.shared.watchers.count_and_slowest();
        self.version.set(version as i64);
        self.watchers.set(watchers as i64);
        // A watcher may have been sent a newer version since `version` was read.
        self.lag.set(slowest.map_or(0, |slowest| version.saturating_sub(slowest)) as i64);
        self.quarantined.set(self.catalog.quarantined() as i64);
        self.nodes.reset();
        for node in self.catalog.nodes() {
            let is_ready = node.state == i32::from(State::Ready);
            // Both series are set, so that a pool whose nodes all drain shows zero ready ones.
            self.nodes.with_label_values(&[node.pool.as_str(), "ready"]).add(is_ready.into());
            self.nodes.with_label_values(&[node.pool.as_str(), "draining"]).add((!is_ready).into());
        }
    }
}

impl Collector for CatalogMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.update();
        self.families().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;
    use tenon_proto::catalog::Node;

    use super::*;

    fn value(registry: &Registry, family: &str, label: Option<&str>) -> f64 {
        let families = registry.gather();
        let family =
            families.iter().find(|found| found.name() == family).expect("no such metric family");
        let has_label = |metric: &&prometheus::proto::Metric| {
            label.is_none_or(|label| metric.get_label().iter().any(|pair| pair.value() == label))
        };
        family
            .get_metric()
            .iter()
            .filter(has_label)
            .map(|metric| metric.get_gauge().get_value())
            .sum()
    }

    #[test]
    fn the_lag_is_that_of_the_slowest_watcher() {
        let (catalog, registry) = (Catalog::new(), Registry::new());
        registry.register(Box::new(catalog.metrics().unwrap())).unwrap();
        let lag = || value(&registry, "tenon_operator_catalog_lag_versions", None);
        let watchers = || value(&registry, "tenon_operator_catalog_watchers", None);
        let node = |name: &str, state: State| Node {
            name: name.into(),
            pool: "default".into(),
            state: state.into(),
            ..Node::default()
        };
        catalog.set_node(node("one", State::Ready));
        catalog.set_node(node("two", State::Ready));
        catalog.set_node(node("three", State::Draining));
        assert_eq!((lag(), watchers()), (0.0, 0.0), "there is a lag without watchers");

        let (quick, slow) =
            (catalog.shared.watchers.register(), catalog.shared.watchers.register());
        quick.record_delivery(3, Some(Duration::from_millis(1)));
        slow.record_delivery(1, None);
        assert_eq!((lag(), watchers()), (2.0, 2.0));
        drop(slow);
        assert_eq!((lag(), watchers()), (0.0, 1.0));
        assert_eq!(value(&registry, "tenon_operator_nodes", Some("ready")), 2.0);
        assert_eq!(value(&registry, "tenon_operator_nodes", Some("draining")), 1.0);
        catalog.remove_node("one");
        assert_eq!(value(&registry, "tenon_operator_nodes", Some("ready")), 1.0);
    }
}
