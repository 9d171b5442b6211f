//! Routers' figures, until they are in the Workers' statuses. This module is pure. The number of
//! figures is bounded for any number of reports and any outage of the API server.

use std::collections::{BTreeMap, HashMap};

use tenon_catalog::TrafficReport;
use tenon_proto::figures::Figures;
use tenon_proto::id::WorkerId;

/// Maximum number of Workers with pending figures. Figures of further Workers are dropped.
const WORKERS: usize = 10_000;

/// Maximum number of revisions of one Worker with pending figures. A rollout has two, and replaces
/// one of them when a new revision is accepted.
const REVISIONS: usize = 4;

#[derive(Default)]
pub struct Backlog {
    by_worker: HashMap<WorkerId, Pending>,
}

/// The figures of one Worker that are not in its status yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub measurement: u64,
    pub by_revision: BTreeMap<String, Figures>,
}

impl Backlog {
    /// Adds a router's figures. Returns `false` if there was no room, or if figures of a later
    /// measurement have arrived.
    pub fn add(&mut self, report: TrafficReport) -> bool {
        let TrafficReport { worker, measurement, revision, figures } = report;
        let pending = Pending { measurement, by_revision: BTreeMap::from([(revision, figures)]) };
        self.merge(worker, pending)
    }

    pub fn take(&mut self, worker: &WorkerId) -> Option<Pending> {
        self.by_worker.remove(worker)
    }

    /// Puts back figures that could not be written.
    pub fn put_back(&mut self, worker: WorkerId, pending: Pending) {
        self.merge(worker, pending);
    }

    fn merge(&mut self, worker: WorkerId, added: Pending) -> bool {
        if self.by_worker.len() >= WORKERS && !self.by_worker.contains_key(&worker) {
            return false;
        }
        let pending = self.by_worker.entry(worker).or_default();
        if added.measurement < pending.measurement {
            return false;
        }
        // Figures of an earlier measurement are useless.
        if added.measurement > pending.measurement {
            *pending = Pending { measurement: added.measurement, ..Pending::default() };
        }
        let mut has_room = true;
        for (revision, figures) in added.by_revision {
            if pending.by_revision.len() < REVISIONS || pending.by_revision.contains_key(&revision)
            {
                pending.by_revision.entry(revision).or_default().add(&figures);
            } else {
                has_room = false;
            }
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(worker: &str, measurement: u64, revision: &str, requests: u64) -> TrafficReport {
        TrafficReport {
            worker: WorkerId::new("shop", worker),
            measurement,
            revision: revision.to_owned(),
            figures: Figures { requests, ..Figures::default() },
        }
    }

    #[test]
    fn figures_of_one_measurement_are_added_up() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        assert!(backlog.add(report("cart", 5, "cart-1", 1)));
        let older = backlog.take(&cart).unwrap();
        assert!(backlog.add(report("cart", 5, "cart-1", 2)));
        assert!(backlog.add(report("cart", 5, "cart-2", 4)));
        backlog.put_back(cart.clone(), older);
        let pending = backlog.take(&cart).unwrap();
        let requests: Vec<_> =
            pending.by_revision.values().map(|figures| figures.requests).collect();
        assert_eq!((requests, backlog.take(&cart)), (vec![3, 4], None));
    }

    #[test]
    fn figures_of_an_earlier_measurement_are_dropped() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        backlog.add(report("cart", 5, "cart-1", 1));
        let older = backlog.take(&cart).unwrap();
        assert!(backlog.add(report("cart", 6, "cart-1", 2)));
        assert!(!backlog.add(report("cart", 5, "cart-1", 4)));
        backlog.put_back(cart.clone(), older);
        let pending = backlog.take(&cart).unwrap();
        assert_eq!((pending.measurement, pending.by_revision["cart-1"].requests), (6, 2));
    }

    #[test]
    fn the_size_of_the_backlog_is_bounded() {
        let mut backlog = Backlog::default();
        let revisions = |number: u64| format!("cart-{number}");
        let taken =
            (0..100).filter(|number| backlog.add(report("cart", 5, &revisions(*number), 1)));
        assert_eq!(taken.count(), REVISIONS);
        let workers =
            (0..20_000).filter(|number| backlog.add(report(&format!("w-{number}"), 5, "w-1", 1)));
        assert_eq!(workers.count(), WORKERS - 1);
    }
}
