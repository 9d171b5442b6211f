//! Computes the status of a RuntimePool from its Deployment and the objects to which it refers.
//! This module is pure.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::jiff::Timestamp;
use tenon_crds::{RuntimePool, RuntimePoolStatus, condition};

use super::plan::selector;
use super::references::Missing;
use crate::kstatus::{Progress, progress};
use crate::refusal::Refusal;

/// The reason why the objects of a pool do not match its spec.
pub enum Obstacle {
    Missing(Missing),
    /// The Secret with the certificate of the nodes does not exist.
    NoCertificate {
        secret: String,
    },
    Refused(Refusal),
    /// The pool has a front, and the operator admits none.
    Front,
}

/// Returns the status of a pool.
///
/// # Arguments
/// * `deployment` - the stored Deployment, if there is one.
/// * `obstacle` - the reason why the objects of the pool do not match its spec, if there is one.
/// * `now` - the transition time of conditions that change.
pub fn status(
    pool: &RuntimePool,
    deployment: Option<&Deployment>,
    obstacle: Option<&Obstacle>,
    now: Timestamp,
) -> RuntimePoolStatus {
    let before =
        pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let counts = deployment.and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    let ready = counts.ready_replicas.unwrap_or(0);
    let ready_of = format!("{ready} of {} nodes are ready", pool.spec.replicas);
    use Progress::{Reconciling, Stalled};
    let (not_ready, reason, message) = match (obstacle, deployment) {
        (Some(Obstacle::Missing(missing)), _) => {
            (Some(Reconciling), "ReferenceMissing", missing.to_string())
        }
        (Some(Obstacle::NoCertificate { secret }), _) => (
            Some(Reconciling),
            "CertificateMissing",
            format!(
                "Secret {secret} with the certificate of the nodes does not exist; wait until the \
                 operator has issued it, or create it if the operator does not issue certificates"
            ),
        ),
        (Some(Obstacle::Refused(refusal)), _) => {
            (Some(refusal.progress), refusal.reason, refusal.message.clone())
        }
        (Some(Obstacle::Front), _) => {
            let why = "spec.front: the operator admits no fronts; set --admit-fronts (the chart's \
                       runtimeNode.fronts), or remove the field";
            (Some(Stalled), "FrontNotAdmitted", why.to_owned())
        }
        (None, Some(deployment)) if is_rolled_out(deployment) && ready >= pool.spec.replicas => {
            (None, "Serving", ready_of)
        }
        (None, deployment) => match deployment.and_then(stalled) {
            Some(why) => (Some(Stalled), "Stalled", format!("{ready_of}; {why}")),
            None => (Some(Reconciling), "Progressing", ready_of),
        },
    };
    let generation = pool.metadata.generation;
    let summary = condition(before, "Ready", not_ready.is_none(), reason, message, generation, now);
    let not_ready = not_ready.map(|kind| progress(before, kind, &summary, now));
    let labels: Vec<_> =
        selector(pool).iter().map(|(key, value)| format!("{key}={value}")).collect();
    RuntimePoolStatus {
        observed_generation: generation,
        replicas: counts.replicas.unwrap_or(0),
        ready_replicas: ready,
        selector: Some(labels.join(",")),
        conditions: std::iter::once(summary).chain(not_ready).collect(),
    }
}

/// Returns the Deployment's status, if Kubernetes has observed the current spec.
fn observed(deployment: &Deployment) -> Option<&DeploymentStatus> {
    deployment
        .status
        .as_ref()
        .filter(|status| status.observed_generation >= deployment.metadata.generation)
}

/// Returns whether all Pods are of the current template. Until then, ready Pods may be of the
/// previous template and say nothing about the current template.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    observed(deployment).is_some_and(|counts| {
        let updated = counts.updated_replicas.unwrap_or(0);
        updated >= replicas && counts.replicas.unwrap_or(0) <= updated
    })
}

/// Returns Kubernetes' message if the rollout of the Deployment has stalled. Kubernetes continues
/// the rollout nevertheless.
fn stalled(deployment: &Deployment) -> Option<&str> {
    let is_stalled = |condition: &&DeploymentCondition| {
        let pair = (condition.type_.as_deref(), condition.status.as_deref());
        // `Progressing` becomes false after ten minutes; `ReplicaFailure` means that Pods cannot be
        // created at all.
        [(Some("Progressing"), Some("False")), (Some("ReplicaFailure"), Some("True"))]
            .contains(&pair)
    };
    let condition = observed(deployment)?.conditions.iter().flatten().find(is_stalled)?;
    Some(condition.message.as_deref().unwrap_or("the rollout makes no progress"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tenon_crds::ConditionStatus;

    use super::super::references::{Kind, Reference};
    use super::*;
    use crate::kstatus::tests::{Computed, check_golden, compute, keeps_contract, state};

    fn pool(replicas: i32) -> RuntimePool {
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "RuntimePool",
            "metadata": {"name": "default"},
            "spec": {"replicas": replicas},
        }))
        .unwrap()
    }

    fn deployment(replicas: i32, status: serde_json::Value) -> Deployment {
        let mut deployment = Deployment::default();
        deployment.spec.replicas = Some(replicas);
        deployment.status = Some(serde_json::from_value(status).unwrap());
        deployment
    }

    /// Returns the status, the reason and the message of the condition `Ready` of a pool of three
    /// nodes, for a status of its Deployment.
    fn ready(status_of_deployment: serde_json::Value) -> (ConditionStatus, String, String) {
        let mut deployment = deployment(3, status_of_deployment);
        deployment.metadata.generation = Some(2);
        let at = Timestamp::from_second(1).unwrap();
        let condition = status(&pool(3), Some(&deployment), None, at).conditions.remove(0);
        (condition.status, condition.reason, condition.message)
    }

    /// Returns the status of a Deployment that Kubernetes has observed at a generation.
    fn counts(generation: i64, replicas: i32, updated: i32, ready: i32) -> serde_json::Value {
        json!({
            "observedGeneration": generation, "replicas": replicas,
            "updatedReplicas": updated, "readyReplicas": ready,
        })
    }

    #[test]
    fn a_pool_is_ready_when_all_its_nodes_are_updated_and_ready() {
        let (holds, reason, message) = ready(counts(2, 3, 3, 3));
        assert_eq!((holds, reason.as_str()), (ConditionStatus::True, "Serving"));
        assert_eq!(message, "3 of 3 nodes are ready");

        for not_yet in [
            json!({}),
            counts(2, 3, 3, 2),
            // Kubernetes has not observed the current generation.
            counts(1, 3, 3, 3),
            // The ready Pods are of the previous template.
            counts(2, 4, 1, 3),
            counts(2, 4, 3, 4),
        ] {
            let (holds, reason, _) = ready(not_yet.clone());
            assert_eq!(
                (holds, reason.as_str()),
                (ConditionStatus::False, "Progressing"),
                "{not_yet}"
            );
        }
    }

    #[test]
    fn a_stalled_pool_has_the_message_of_kubernetes() {
        let why = "ReplicaSet \"tenon-pool-default-5d\" has timed out progressing.";
        let (holds, reason, message) = ready(json!({
            "observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3,
            "conditions": [
                {"type": "Available", "status": "False", "message": "another"},
                {"type": "Progressing", "status": "False", "message": why},
            ],
        }));
        assert_eq!((holds, reason.as_str()), (ConditionStatus::False, "Stalled"));
        assert_eq!(message, format!("3 of 3 nodes are ready; {why}"));

        let refused =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]);
        let (_, reason, message) = ready(json!({"observedGeneration": 2, "conditions": refused}));
        assert_eq!(
            (reason.as_str(), message.as_str()),
            ("Stalled", "0 of 3 nodes are ready; exceeded quota")
        );
        // This condition is about the Deployment's previous generation.
        let (_, reason, _) = ready(json!({"observedGeneration": 1, "conditions": refused}));
        assert_eq!(reason, "Progressing");
    }

    #[test]
    fn tools_distinguish_pools_that_are_current_in_progress_or_failed() {
        let rolled_out = json!({"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3});
        let quota =
            json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "no"}]});
        let refused = |progress| {
            let message = "denied".to_owned();
            Obstacle::Refused(Refusal { reason: "AdmissionDenied", message, progress })
        };
        let (stalled, reconciling) = (refused(Progress::Stalled), refused(Progress::Reconciling));
        let (field, name, key) = ("spec.egress.proxy".to_owned(), "proxy".to_owned(), "username");
        let reference = Reference { field, kind: Kind::Secret, name, key: key.to_owned() };
        let missing = Obstacle::Missing(Missing { reference, namespace: "system".to_owned() });
        let no_certificate =
            Obstacle::NoCertificate { secret: "tenon-pool-default-tls".to_owned() };
        let at = Timestamp::from_second(1).unwrap();
        let mut states = Vec::new();
        for (expected, status_of_deployment, obstacle) in [
            (Computed::InProgress, json!({}), None),
            (Computed::Current, rolled_out.clone(), None),
            (Computed::Failed, quota, None),
            (Computed::InProgress, rolled_out.clone(), Some(&missing)),
            (Computed::InProgress, rolled_out.clone(), Some(&no_certificate)),
            (Computed::Failed, rolled_out.clone(), Some(&stalled)),
            (Computed::InProgress, rolled_out, Some(&reconciling)),
        ] {
            let mut pool = pool(3);
            pool.metadata.generation = Some(1);
            let deployment = deployment(3, status_of_deployment);
            let after = status(&pool, Some(&deployment), obstacle, at);
            assert!(keeps_contract(&after.conditions), "{:?}", after.conditions);
            let computed = compute(Some(1), after.observed_generation, &after.conditions);
            assert_eq!(computed, expected, "{:?}", after.conditions);
            let (reason, observed) = (&after.conditions[0].reason, after.observed_generation);
            let conditions = &after.conditions;
            states.push(state("RuntimePool", reason, expected, Some(1), observed, conditions));
            assert_eq!(compute(Some(2), after.observed_generation, &[]), Computed::InProgress);
        }
        check_golden("kstatus-pool.json", &states);
    }

    #[test]
    fn a_pool_scaled_to_zero_is_ready_once_its_nodes_are_gone() {
        let at = Timestamp::from_second(1).unwrap();
        let reason = |deployment: Option<Deployment>| {
            status(&pool(0), deployment.as_ref(), None, at).conditions.remove(0).reason
        };
        assert_eq!(reason(None), "Progressing");
        assert_eq!(
            reason(Some(deployment(0, json!({"replicas": 1, "readyReplicas": 1})))),
            "Progressing"
        );
        assert_eq!(reason(Some(deployment(0, json!({})))), "Serving");
    }
}
