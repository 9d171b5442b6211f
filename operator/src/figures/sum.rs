//! Decides how a Worker's status changes with the figures of its rollout. This module is pure.

use tenon_crds::{RevisionFigures, RolloutFigures, WorkerStatus};
use tenon_proto::figures::Figures;

use super::backlog::Pending;
use crate::measurement::{counts, measurement};

/// The change of a status.
#[derive(Debug, PartialEq)]
pub enum Change {
    Set(RolloutFigures),
    Remove,
}

/// Returns the change of a status, or `None` if no pending figures are about its current step and
/// nothing has to be removed.
pub fn change(status: &WorkerStatus, pending: Option<&Pending>) -> Option<Change> {
    let Some(rollout) = &status.rollout else {
        return status.rollout_figures.is_some().then_some(Change::Remove);
    };
    let current = measurement(status);
    let pending = pending.filter(|pending| pending.measurement == current && current != 0)?;
    let known = status.rollout_figures.as_ref();
    let known = known.filter(|known| known.since == rollout.step_started_at);
    let sum = |name: &String| {
        let mut known = known.into_iter().flat_map(|known| &known.revisions);
        let known = known.find(|known| known.revision == *name);
        let mut sum = known.map(counts).unwrap_or_default();
        pending.by_revision.get(name).into_iter().for_each(|added| sum.add(added));
        of_revision(name, &sum)
    };
    let names = || rollout.stable.iter().chain([&rollout.revision]);
    let is_about_rollout = names().any(|name| pending.by_revision.contains_key(name));
    is_about_rollout.then(|| {
        let since = rollout.step_started_at.clone();
        Change::Set(RolloutFigures { since, revisions: names().map(sum).collect() })
    })
}

fn of_revision(name: &str, sum: &Figures) -> RevisionFigures {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    RevisionFigures {
        revision: name.to_owned(),
        requests: count(sum.requests),
        failed: count(sum.failed),
        latencies: sum.latencies.counts().iter().copied().map(count).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use tenon_proto::figures::Latencies;

    use super::*;

    fn status(phase: &str, figures: Option<i64>) -> WorkerStatus {
        let time = |second: i64| format!("1970-01-01T00:00:{second:02}Z");
        let figures = figures.map(|since| {
            let of_revision =
                json!({"revision": "cart-2", "requests": 5, "failed": 2, "latencies": [0, 4]});
            json!({"since": time(since), "revisions": [of_revision]})
        });
        serde_json::from_value(json!({
            "rollout": {
                "revision": "cart-2", "stable": "cart-1", "phase": phase, "step": 0, "percent": 10,
                "stepStartedAt": time(30), "message": "",
            },
            "rolloutFigures": figures,
        }))
        .unwrap()
    }

    fn pending(measurement: u64, revision: &str) -> Pending {
        let latencies = Latencies::of([1, 2]);
        let figures = Figures { requests: 3, failed: 1, latencies };
        Pending { measurement, by_revision: BTreeMap::from([(revision.to_owned(), figures)]) }
    }

    #[test]
    fn figures_are_added_to_those_of_the_same_step() {
        let same = change(&status("Progressing", Some(30)), Some(&pending(30, "cart-2")));
        let Some(Change::Set(RolloutFigures { revisions, .. })) = same else { panic!("no change") };
        assert_eq!(
            revisions[0],
            RevisionFigures { revision: "cart-1".to_owned(), ..Default::default() }
        );
        assert_eq!((revisions[1].requests, revisions[1].failed), (8, 3));
        assert_eq!(revisions[1].latencies, [1, 6]);
        let earlier = change(&status("Progressing", Some(20)), Some(&pending(30, "cart-2")));
        let Some(Change::Set(figures)) = earlier else { panic!("no change") };
        assert_eq!(figures.since.0.as_second(), 30);
        assert_eq!((figures.revisions[1].requests, figures.revisions.len()), (3, 2));
    }

    #[test]
    fn figures_of_another_step_or_revision_change_nothing() {
        let progressing = status("Progressing", Some(30));
        for late in [pending(29, "cart-2"), pending(31, "cart-2"), pending(30, "cart-0")] {
            assert_eq!(change(&progressing, Some(&late)), None);
        }
        for phase in ["Completed", "TakenBack"] {
            assert_eq!(change(&status(phase, Some(30)), Some(&pending(30, "cart-2"))), None);
            assert_eq!(change(&status(phase, Some(30)), Some(&pending(0, "cart-2"))), None);
        }
        assert_eq!(change(&progressing, None), None);
    }

    #[test]
    fn figures_stay_until_the_worker_has_no_rollout() {
        let without = WorkerStatus { rollout: None, ..status("Completed", Some(30)) };
        assert_eq!(change(&without, Some(&pending(30, "cart-2"))), Some(Change::Remove));
        assert_eq!(change(&WorkerStatus::default(), None), None);
    }

    #[test]
    fn figures_survive_the_conversion_to_a_status() {
        let Figures { requests, failed, latencies } =
            pending(1, "cart-1").by_revision.remove("cart-1").unwrap();
        let figures = Figures { requests, failed, latencies };
        assert_eq!(counts(&of_revision("cart-1", &figures)), figures);
        let most = Figures { requests: u64::MAX, ..Figures::default() };
        assert_eq!(of_revision("cart-1", &most).requests, i64::MAX);
    }
}
