//! `WorkerRevision`: what a Worker was at one time; what a rollback goes back to.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::worker::schema;
use crate::{Limits, Secret};

/// An immutable snapshot of a Worker's code and configuration. It is made by the operator and owned by its Worker.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "WorkerRevision",
    namespaced,
    derive = "PartialEq",
    shortname = "wkrev",
    category = "tenon",
    doc = "An immutable snapshot of a Worker's code and configuration, made by the operator.",
    printcolumn(name = "Worker", type_ = "string", json_path = ".spec.worker"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.spec == oldSelf.spec")
        .message("spec: a WorkerRevision is immutable; change the Worker instead"),
)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRevisionSpec {
    /// Name of the Worker.
    #[schemars(length(min = 1, max = 63))]
    pub worker: String,
    /// SHA-256 of what follows, in hexadecimal.
    #[schemars(length(min = 64, max = 64))]
    pub digest: String,
    #[schemars(length(min = 1, max = 253))]
    pub entrypoint: String,
    #[schemars(schema_with = "schema::modules")]
    pub modules: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::vars")]
    pub vars: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub secrets: Vec<Secret>,
    #[serde(default)]
    pub limits: Limits,
}
