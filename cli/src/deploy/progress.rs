//! What a Worker's status says of its spec, as kstatus reads it. This module is pure.

use tenon_crds::{Condition, ConditionStatus, Worker};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Routers serve what was applied.
    Serving { revision: String, url: String },
    /// The Worker has to be changed before it serves, for this reason.
    Stalled(String),
    /// The operator goes on by itself once this is over.
    Waiting(String),
}

/// Returns the progress of a Worker.
///
/// # Arguments
/// * `generation`: what was applied; an older status says nothing of it.
pub(super) fn of(worker: &Worker, generation: i64) -> Progress {
    let Some(status) = &worker.status else { return unseen() };
    if status.observed_generation.is_none_or(|observed| observed < generation) {
        return unseen();
    }
    let holds = |type_: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == type_);
        found.filter(|condition| condition.status == ConditionStatus::True)
    };
    if let Some(stalled) = holds("Stalled") {
        return Progress::Stalled(because(stalled));
    }
    if holds("Ready").is_some() {
        return Progress::Serving {
            revision: status.latest_revision.clone().unwrap_or_default(),
            url: status.url.clone().unwrap_or_default(),
        };
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map_or_else(unseen, |ready| Progress::Waiting(because(ready)))
}

fn unseen() -> Progress {
    Progress::Waiting("no operator has seen it; check that Tenon is installed and runs".to_owned())
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

    #[test]
    fn an_older_status_says_nothing_of_what_was_applied() {
        for observed in [-1, 1] {
            assert_eq!(of(&worker(observed, &[("Ready", "True")]), 2), unseen());
        }
    }

    #[test]
    fn a_worker_serves_once_it_is_ready() {
        let serving = Progress::Serving { revision: "hello-1".into(), url: "http://hello".into() };
        assert_eq!(of(&worker(2, &[("Ready", "True")]), 2), serving);
        assert_eq!(of(&worker(3, &[("Ready", "True")]), 2), serving);
    }

    #[test]
    fn a_refusal_ends_the_wait_and_anything_else_does_not() {
        let refused = worker(2, &[("Ready", "False"), ("Stalled", "True")]);
        assert_eq!(of(&refused, 2), Progress::Stalled("Why: so".into()));
        let pending = worker(2, &[("Ready", "False"), ("Reconciling", "True")]);
        assert_eq!(of(&pending, 2), Progress::Waiting("Why: so".into()));
    }
}
