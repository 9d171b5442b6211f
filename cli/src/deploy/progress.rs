//! The progress of a deployment, read from a Worker's status by the rules of kstatus. This module
//! is pure.

use tenon_crds::{Condition, ConditionStatus, RolloutPhase, Worker};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Routers serve what was applied.
    Serving { revision: String, url: String },
    /// The Worker must be changed before it can serve. The text states the reason.
    Stalled(String),
    /// The operator has not finished. The text states what it waits for.
    Waiting(String),
}

/// The state that was applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    /// The Worker's `metadata.generation`. A status of an older generation does not describe the
    /// applied spec.
    pub(super) generation: i64,
    /// Name of the Worker's revision, as this program computes it. Empty if the Worker's code is in
    /// an artifact.
    pub(super) revision: String,
    /// The revision that served before, if the modules in the ConfigMap have changed. Such a change
    /// does not increase the Worker's generation.
    pub(super) outdated: Option<String>,
    /// Whether the Worker's spec has changed as well. Meaningful only if `outdated` is set.
    pub(super) has_new_spec: bool,
}

impl Applied {
    /// Returns whether the revision of this name has the modules that were applied. An operator of
    /// another version may give the revision a different name from the one that this program
    /// computes.
    fn matches(&self, revision: &str) -> bool {
        let Some(outdated) = &self.outdated else { return true };
        revision == self.revision || (!self.has_new_spec && revision != outdated)
    }
}

/// Returns the progress of a Worker.
pub(super) fn of(worker: &Worker, applied: &Applied) -> Progress {
    let Some(status) = &worker.status else { return unseen() };
    if status.observed_generation.is_none_or(|observed| observed < applied.generation) {
        return unseen();
    }
    let true_condition = |type_: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == type_);
        found.filter(|condition| condition.status == ConditionStatus::True)
    };
    if let Some(stalled) = true_condition("Stalled") {
        return Progress::Stalled(because(stalled));
    }
    if true_condition("Ready").is_some() {
        let revision = status.latest_revision.clone().unwrap_or_default();
        return if applied.matches(&revision) {
            Progress::Serving { revision, url: status.url.clone().unwrap_or_default() }
        } else {
            Progress::Waiting(format!("revision {revision} serves instead of {}", applied.revision))
        };
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map_or_else(unseen, |ready| Progress::Waiting(because(ready)))
}

/// Describes the share of the requests that a revision gets, if that is not all of them.
pub(super) fn share(worker: &Worker, revision: &str) -> String {
    let status = worker.status.clone().unwrap_or_default();
    let targets = status.targets();
    let shares = targets.iter().filter(|target| target.revision == revision);
    let percent = match shares.map(|target| target.percent).sum() {
        100 => return String::new(),
        percent => format!("{percent} % of the requests"),
    };
    let rollout = status.rollout.as_ref().filter(|rollout| rollout.revision == revision);
    match rollout.map(|rollout| rollout.phase) {
        Some(RolloutPhase::TakenBack) => {
            format!("  ({percent}, because its rollout took it back; change the code)")
        }
        Some(_) => format!("  ({percent}, and more as spec.rollout proceeds)"),
        None => format!("  ({percent}, as spec.traffic divides them)"),
    }
}

fn unseen() -> Progress {
    Progress::Waiting(
        "no operator has reconciled the Worker; check that Tenon is installed and running"
            .to_owned(),
    )
}

fn because(condition: &Condition) -> String {
    format!("{}: {}", condition.reason, condition.message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn worker(observed: i64, conditions: &[(&str, &str)]) -> Worker {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(type_, status)| {
                json!({
                    "type": type_, "status": status, "reason": "Why", "message": "so",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "Worker",
            "metadata": { "name": "hello" },
            "spec": { "source": { "modules": {} } },
            "status": {
                "observedGeneration": observed, "conditions": conditions,
                "url": "http://hello", "latestRevision": "hello-1",
            },
        }))
        .unwrap()
    }

    fn at(generation: i64) -> Applied {
        Applied { generation, ..Applied::default() }
    }

    #[test]
    fn a_status_older_than_the_applied_generation_is_ignored() {
        for observed in [-1, 1] {
            assert_eq!(of(&worker(observed, &[("Ready", "True")]), &at(2)), unseen());
        }
    }

    #[test]
    fn the_share_of_a_revision_that_does_not_serve_all_requests_is_stated() {
        let mut worker = worker(2, &[("Ready", "True")]);
        assert_eq!(share(&worker, "hello-1"), "");
        let accepted = json!({
            "pool": "default", "routes": [],
            "traffic": [{"revision": "hello-0", "percent": 100}],
        });
        worker.status.as_mut().unwrap().accepted = serde_json::from_value(accepted).unwrap();
        assert!(share(&worker, "hello-1").contains("0 %"));
    }

    #[test]
    fn the_share_of_a_revision_that_is_rolled_out_is_stated_with_its_rollout() {
        let mut worker = worker(2, &[("Ready", "True")]);
        let mut stated = |phase: &str, percent: i32| {
            let status = worker.status.as_mut().unwrap();
            let accepted = json!({
                "pool": "default", "routes": [],
                "traffic": [
                    {"revision": "hello-0", "percent": 100 - percent},
                    {"revision": "hello-1", "percent": percent},
                ],
            });
            status.accepted = serde_json::from_value(accepted).unwrap();
            let rollout = json!({
                "revision": "hello-1", "stable": "hello-0", "phase": phase, "step": 0,
                "percent": percent, "stepStartedAt": "2026-01-01T00:00:00Z", "message": "",
            });
            status.rollout = serde_json::from_value(rollout).unwrap();
            share(&worker, "hello-1")
        };
        let progressing = stated("Progressing", 10);
        assert_eq!(progressing, "  (10 % of the requests, and more as spec.rollout proceeds)");
        let taken_back = stated("TakenBack", 0);
        assert!(taken_back.starts_with("  (0 % of the requests, because "), "{taken_back}");
        assert_eq!(stated("Completed", 100), "");
    }

    #[test]
    fn a_worker_serves_once_it_is_ready() {
        let serving = Progress::Serving { revision: "hello-1".into(), url: "http://hello".into() };
        assert_eq!(of(&worker(2, &[("Ready", "True")]), &at(2)), serving);
        assert_eq!(of(&worker(3, &[("Ready", "True")]), &at(2)), serving);
    }

    #[test]
    fn a_stalled_worker_ends_the_wait_and_a_reconciling_one_does_not() {
        let refused = worker(2, &[("Ready", "False"), ("Stalled", "True")]);
        assert_eq!(of(&refused, &at(2)), Progress::Stalled("Why: so".into()));
        let pending = worker(2, &[("Ready", "False"), ("Reconciling", "True")]);
        assert_eq!(of(&pending, &at(2)), Progress::Waiting("Why: so".into()));
    }

    #[test]
    fn new_modules_are_serving_once_their_revision_is_the_latest() {
        let ready = worker(2, &[("Ready", "True")]);
        let serves = |revision: &str, outdated: &str, has_new_spec| {
            let (revision, outdated) = (revision.to_owned(), Some(outdated.to_owned()));
            let applied = Applied { generation: 2, revision, outdated, has_new_spec };
            matches!(of(&ready, &applied), Progress::Serving { .. })
        };
        assert!(serves("hello-1", "hello-0", true));
        assert!(!serves("hello-2", "hello-1", false));
        // An operator of another version has named the revision.
        assert!(serves("hello-2", "hello-0", false));
        assert!(!serves("hello-2", "hello-0", true));
    }
}
