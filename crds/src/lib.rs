//! Tenon's custom resources, `tenon.dev/v1alpha1`.
//!
//! The Rust types are the truth: `crdgen` writes the YAML in `charts/tenon-crds` from them. What can be checked
//! from an object alone is checked by the API server, by the schema's bounds and CEL rules; each rule has a
//! message that names the field and the remedy. Lists, maps and strings are bounded, so that the cost of a rule
//! is.
//!
//! A field that nothing acts on is not in the schema: the API server warns of it instead of Tenon ignoring it.

mod condition;
mod name;
mod placement;
mod pool;
mod revision;
mod worker;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use condition::{Condition, ConditionStatus, condition};
pub use placement::{TaintEffect, Toleration, TolerationOperator, TopologySpread, WhenUnsatisfiable};
pub use pool::{
    CaCertificates, KeyRef, PoolEgress, PoolLimits, PoolProxy, ProxyResolver, ResourceSettings, RuntimePool,
    RuntimePoolSpec, RuntimePoolStatus, SecretRef,
};
pub use revision::{WorkerRevision, WorkerRevisionSpec};
pub use worker::{
    Address, CRASH_LOOPS, CompatibilityFlag, ConfigMapRef, CrashLoop, Egress, Limits, Route, Schedule, ScheduleStatus,
    Secret, SecretKeyRef, ServiceBinding, Source, StatePolicy, Worker, WorkerSpec, WorkerStatus,
};

/// The API group.
pub const GROUP: &str = "tenon.dev";

/// Every CRD, in the order in which they are applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![Worker::crd(), WorkerRevision::crd(), RuntimePool::crd()]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_rule_names_a_field_that_there_is_and_says_what_to_do() {
        for crd in all() {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
            let root = &schema["openAPIV3Schema"];
            for message in messages(root) {
                let (field, remedy) = message.split_once(": ").unwrap_or_else(|| panic!("names no field: {message}"));
                assert!(field == "metadata.name" || leads_to(root, field), "there is no {field}: {message}");
                let tells = ["must", "set", "is required", "keep", "change"].iter().any(|word| remedy.contains(word));
                assert!(tells, "what is to be done? {message}");
            }
        }
    }

    /// What the rules of a schema and of all below it say.
    fn messages(schema: &Value) -> Vec<String> {
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        let own = rules.map(|rule| rule["message"].as_str().expect("each rule has a message").to_owned());
        let fields = schema["properties"].as_object().into_iter().flat_map(|fields| fields.values());
        let below = fields.chain([&schema["items"], &schema["additionalProperties"]]).filter(|below| below.is_object());
        own.chain(below.flat_map(messages)).collect()
    }

    fn leads_to(schema: &Value, path: &str) -> bool {
        let step = |schema, name: &str| -> &Value {
            let schema: &Value = schema;
            let holder = if schema["items"].is_object() { &schema["items"] } else { schema };
            &holder["properties"][name]
        };
        path.split('.').fold(schema, step).is_object()
    }
}
