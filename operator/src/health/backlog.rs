//! Nodes' reports about Workers, until they are in the Workers' statuses. The backlog is bounded
//! for any number of reports and any outage of the API server. This module is pure.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tenon_catalog::{Cause, HealthReport, WorkerHealth};
use tenon_crds::{Quarantine, QuarantineCause};
use tenon_proto::id::WorkerId;

use super::PendingReports;
use super::verdict::{NodeReport, ReportedCrashLoop, longer, whole_seconds};

/// Maximum number of Workers with pending reports. Reports about further Workers are dropped, and
/// nodes send them again.
const WORKERS: usize = 10_000;

/// Maximum number of nodes with pending reports about one Worker, several times as many as the
/// Worker's status can name.
const NODES: usize = 64;

#[derive(Default)]
pub struct Backlog {
    by_worker: HashMap<WorkerId, PendingReports>,
}

impl Backlog {
    /// Adds a node's report. Returns whether there was room.
    pub fn add(&mut self, report: HealthReport, now: Timestamp) -> bool {
        let HealthReport { worker, revision, node, health } = report;
        if !self.has_room(&worker) {
            return false;
        }
        let pending = self.by_worker.entry(worker).or_default();
        let crash_loop = match health {
            WorkerHealth::Recovered => None,
            WorkerHealth::CrashLoop { code, failures, age, place } => Some(ReportedCrashLoop {
                code,
                failures,
                place,
                since: now.checked_sub(signed(age)).unwrap_or(now),
            }),
            WorkerHealth::Quarantined { cause, duration, times } => {
                let until = now.checked_add(signed(duration)).unwrap_or(now);
                let cause = match cause {
                    Cause::Crashed => QuarantineCause::Crashed,
                    Cause::Hung => QuarantineCause::Hung,
                };
                let times = i32::try_from(times).unwrap_or(i32::MAX);
                let (since, until) = (whole_seconds(now), whole_seconds(until));
                pending.add(Quarantine { revision, cause, node, times, since, until });
                return true;
            }
        };
        if pending.by_node.len() >= NODES && !pending.by_node.contains_key(&node) {
            return false;
        }
        pending.by_node.insert(node, NodeReport { revision, crash_loop });
        true
    }

    /// Records that a Worker was redeployed, and discards all earlier reports about it. Does
    /// nothing if there is no room for another Worker.
    pub fn mark_redeployed(&mut self, worker: &WorkerId, now: Timestamp) {
        if self.has_room(worker) {
            self.by_worker.insert(
                worker.clone(),
                PendingReports { redeployed_at: Some(now), ..PendingReports::default() },
            );
        }
    }

    pub fn take(&mut self, worker: &WorkerId) -> PendingReports {
        self.by_worker.remove(worker).unwrap_or_default()
    }

    /// Puts back reports that could not be written. Newer reports take precedence, and a
    /// redeployment since then discards the older ones.
    pub fn put_back(&mut self, worker: WorkerId, older: PendingReports) {
        if !self.has_room(&worker) {
            return;
        }
        let pending = self.by_worker.entry(worker).or_default();
        if pending.redeployed_at.is_some() {
            return;
        }
        pending.redeployed_at = older.redeployed_at;
        for (node, report) in older.by_node {
            pending.by_node.entry(node).or_insert(report);
        }
        if let Some(newer) = pending.quarantine.take() {
            pending.quarantine = older.quarantine;
            pending.add(newer);
        } else {
            pending.quarantine = older.quarantine;
        }
    }

    fn has_room(&self, worker: &WorkerId) -> bool {
        self.by_worker.len() < WORKERS || self.by_worker.contains_key(worker)
    }
}

impl PendingReports {
    /// Adds a quarantine. A status names only the one that ends last.
    fn add(&mut self, reported: Quarantine) {
        self.quarantine = Some(match self.quarantine.take() {
            Some(known) => longer(known, reported),
            None => reported,
        });
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use tenon_proto::failure::FailureCode;

    use super::*;

    fn report(worker: &str, node: &str, health: WorkerHealth) -> HealthReport {
        let worker = WorkerId::new("shop", worker);
        HealthReport { worker, revision: "cart-1".to_owned(), node: node.to_owned(), health }
    }

    fn crash_loop(seconds: u64) -> WorkerHealth {
        WorkerHealth::CrashLoop {
            code: FailureCode::Internal,
            failures: 2,
            age: Duration::from_secs(seconds),
            place: None,
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    #[test]
    fn the_latest_report_of_a_node_is_kept() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        assert!(backlog.add(report("cart", "node-a", crash_loop(10)), now()));
        let older = backlog.take(&cart);
        assert_eq!(
            older.by_node["node-a"].crash_loop.as_ref().map(|reported| reported.since.as_second()),
            Some(990)
        );
        assert!(backlog.add(report("cart", "node-a", WorkerHealth::Recovered), now()));
        backlog.put_back(cart.clone(), older);
        assert_eq!(backlog.take(&cart).by_node["node-a"].crash_loop, None);
        assert_eq!(backlog.take(&cart), PendingReports::default());
    }

    #[test]
    fn reports_before_a_redeployment_are_discarded() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        backlog.add(report("cart", "node-a", crash_loop(10)), now());
        let older = backlog.take(&cart);
        backlog.add(report("cart", "node-b", crash_loop(10)), now());
        backlog.mark_redeployed(&cart, now());
        backlog.add(report("cart", "node-c", crash_loop(10)), now());
        backlog.put_back(cart.clone(), older);
        let pending = backlog.take(&cart);
        assert_eq!((pending.redeployed_at, pending.by_node.len()), (Some(now()), 1));
        assert!(pending.by_node.contains_key("node-c"));
    }

    fn quarantined(seconds: u64, times: u32) -> WorkerHealth {
        WorkerHealth::Quarantined {
            cause: Cause::Crashed,
            duration: Duration::from_secs(seconds),
            times,
        }
    }

    #[test]
    fn the_longest_quarantine_is_kept_with_the_highest_count() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        backlog.add(report("cart", "node-a", quarantined(10, 3)), now());
        let older = backlog.take(&cart);
        backlog.add(report("cart", "node-b", quarantined(20, 2)), now());
        backlog.put_back(cart.clone(), older);
        backlog.add(report("cart", "node-c", quarantined(5, 1)), now());
        let reported = backlog.take(&cart).quarantine.unwrap();
        assert_eq!(
            (reported.node.as_str(), reported.times, reported.until.0.as_second()),
            ("node-b", 3, 1_020)
        );
    }

    #[test]
    fn a_quarantine_is_accepted_from_any_number_of_nodes() {
        let (mut backlog, cart) = (Backlog::default(), WorkerId::new("shop", "cart"));
        (0..NODES).for_each(|i| {
            assert!(backlog.add(report("cart", &format!("node-{i}"), crash_loop(0)), now()))
        });
        assert!(backlog.add(report("cart", "one-more", quarantined(10, 1)), now()));
        assert!(backlog.take(&cart).quarantine.is_some());
    }

    #[test]
    fn the_size_of_the_backlog_is_bounded() {
        let mut backlog = Backlog::default();
        let nodes = (0..10_000)
            .filter(|i| backlog.add(report("cart", &format!("node-{i}"), crash_loop(0)), now()));
        assert_eq!(nodes.count(), NODES);
        let workers = (0..20_000)
            .filter(|i| backlog.add(report(&format!("w-{i}"), "node-a", crash_loop(0)), now()));
        assert_eq!(workers.count(), WORKERS - 1);
    }

    #[test]
    fn an_impossible_age_counts_as_zero() {
        let mut backlog = Backlog::default();
        backlog.add(report("cart", "node-a", crash_loop(u64::MAX)), now());
        let reported = backlog.take(&WorkerId::new("shop", "cart")).by_node["node-a"]
            .crash_loop
            .clone()
            .unwrap();
        assert_eq!(reported.since, now());
    }
}
