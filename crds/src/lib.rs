//! Tenon's custom resources, `tenon.dev/v1alpha1`.
//!
//! The Rust types are the truth: `crdgen` writes the YAML in `charts/tenon-crds` from them. What can be checked
//! from an object alone is checked by the API server, by the schema's bounds and CEL rules; each rule has a
//! message that names the field and the remedy. Lists, maps and strings are bounded, so that the cost of a rule
//! is.
//!
//! A field that nothing acts on is not in the schema: the API server warns of it instead of Tenon ignoring it.

mod condition;
mod pool;
mod revision;
mod worker;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use condition::{Condition, ConditionStatus, condition};
pub use pool::{ResourceSettings, RuntimePool, RuntimePoolSpec, RuntimePoolStatus};
pub use revision::{WorkerRevision, WorkerRevisionSpec};
pub use worker::{
    Address, ConfigMapRef, Limits, Route, Secret, SecretKeyRef, Source, Worker, WorkerSpec, WorkerStatus,
};

/// The API group.
pub const GROUP: &str = "tenon.dev";

/// Every CRD, in the order in which they are applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![Worker::crd(), WorkerRevision::crd(), RuntimePool::crd()]
}
