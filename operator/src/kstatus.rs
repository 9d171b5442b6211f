//! The conditions from which tools decide whether an object matches its spec. They are the
//! conditions of kstatus, which Flux and `helm --wait` follow. This module is pure.
//!
//! ```text
//!  observedGeneration is not metadata.generation ─► in progress
//!  Reconciling=True ──────────────────────────────► in progress
//!  Stalled=True ──────────────────────────────────► failed
//!  Ready, otherwise ──────────────────────────────► current if True, else in progress
//! ```
//!
//! At most one of `Reconciling` and `Stalled` is set, and only while it is true. An object that no
//! operator has seen has the `observedGeneration` -1, by a default of its schema.

use k8s_openapi::jiff::Timestamp;
use tenon_crds::{Condition, condition};

pub const RECONCILING: &str = "Reconciling";
pub const STALLED: &str = "Stalled";

/// The state of an object that does not match its spec yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The operator continues by itself once the condition that it waits for holds.
    Reconciling,
    /// A person must change the object, or remove the cause of the failure. A tool that waits may
    /// stop waiting.
    Stalled,
}

/// Returns the condition for an object that is not `Ready`. The condition has the reason and the
/// message of `ready`.
pub fn progress(
    before: &[Condition],
    progress: Progress,
    ready: &Condition,
    now: Timestamp,
) -> Condition {
    let type_ = match progress {
        Progress::Reconciling => RECONCILING,
        Progress::Stalled => STALLED,
    };
    let Condition { reason, message, observed_generation, .. } = ready;
    condition(before, type_, true, reason, message, *observed_generation, now)
}

/// The computation of kstatus (`status.Compute` in sigs.k8s.io/cli-utils), restated for tests.
#[cfg(test)]
pub mod tests {
    use std::path::Path;

    use serde_json::{Value, json};
    use tenon_crds::ConditionStatus;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Computed {
        Current,
        InProgress,
        Failed,
    }

    /// Computes the state of an object that is not being deleted.
    pub fn compute(
        generation: Option<i64>,
        observed: Option<i64>,
        conditions: &[Condition],
    ) -> Computed {
        if generation.is_some() && observed.is_some() && observed != generation {
            return Computed::InProgress;
        }
        let holds = |condition: &Condition| condition.status == ConditionStatus::True;
        for condition in conditions.iter().filter(|condition| holds(condition)) {
            match condition.type_.as_str() {
                RECONCILING => return Computed::InProgress,
                STALLED => return Computed::Failed,
                _ => {}
            }
        }
        match conditions.iter().find(|condition| condition.type_ == "Ready") {
            Some(ready) if !holds(ready) => Computed::InProgress,
            _ => Computed::Current,
        }
    }

    /// Returns an object's state for the charts' tests, which compare it with kstatus itself.
    pub fn state(
        kind: &str,
        name: &str,
        expected: Computed,
        generation: Option<i64>,
        observed: Option<i64>,
        conditions: &[Condition],
    ) -> Value {
        let condition =
            |condition: &Condition| json!({"type": condition.type_, "status": condition.status});
        let conditions: Vec<_> = conditions.iter().map(condition).collect();
        json!({
            "state": name,
            "expected": format!("{expected:?}"),
            "object": {
                "apiVersion": "tenon.dev/v1alpha1",
                "kind": kind,
                "metadata": {"name": "it", "generation": generation},
                "status": {"observedGeneration": observed, "conditions": conditions},
            },
        })
    }

    /// Checks that the charts' tests have these states.
    pub fn check_golden(file: &str, states: &[Value]) {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/tests/testdata").join(file);
        let made = format!("{}\n", serde_json::to_string_pretty(states).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &made).unwrap();
        }
        let known = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(known == made, "{file} is stale: run this test with UPDATE_GOLDEN=1");
    }

    /// Returns whether the conditions keep the contract: an object that is not ready has exactly
    /// one of `Reconciling` and `Stalled`, which is true, and a ready object has neither.
    pub fn keeps_contract(conditions: &[Condition]) -> bool {
        let both = [RECONCILING, STALLED];
        let set: Vec<_> = conditions
            .iter()
            .filter(|condition| both.contains(&condition.type_.as_str()))
            .collect();
        let holds = |condition: &Condition| condition.status == ConditionStatus::True;
        let is_ready =
            conditions.iter().any(|condition| condition.type_ == "Ready" && holds(condition));
        set.iter().all(|condition| holds(condition)) && set.len() == usize::from(!is_ready)
    }
}
