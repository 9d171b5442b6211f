//! `WorkerRevision`: a snapshot of a Worker at one point in time, and the target of a rollback.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::worker::{ASSETS_NAME_IS_UNIQUE, SERVICE_NAMES_ARE_UNIQUE, schema};
use crate::{
    Assets, CompatibilityFlag, Egress, Limits, PullSecretRef, Secret, ServiceBinding, StatePolicy,
    name,
};

/// An immutable snapshot of a Worker's code and configuration, created by the operator and owned by
/// its Worker.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "WorkerRevision",
    namespaced,
    derive = "PartialEq",
    shortname = "wkrev",
    category = "tenon",
    doc = "An immutable snapshot of a Worker's code and configuration, created by the operator.",
    printcolumn(name = "Worker", type_ = "string", json_path = ".spec.worker"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name == self.spec.worker + '-' + self.spec.digest.substring(0, 10)")
        .message("metadata.name: does not match the spec; set it to spec.worker, a dash and the first ten digits of spec.digest"),
    validation = Rule::new("self.spec == oldSelf.spec")
        .message("spec: a WorkerRevision is immutable; change the Worker instead"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.artifact) != has(self.modules)")
        .message("spec: needs exactly one of modules and artifact; set one of them"),
    validation = Rule::new("!has(self.modules) || self.entrypoint in self.modules")
        .message("spec.entrypoint: not in spec.modules; set it to the name of one of them"),
    validation = Rule::new("!has(self.vars) || !has(self.secrets) || self.secrets.all(s, !(s.name in self.vars))")
        .message("spec.secrets: a name is also in spec.vars; use each binding name once"),
    validation = Rule::new(SERVICE_NAMES_ARE_UNIQUE)
        .message("spec.services: a name is also in spec.vars or spec.secrets; use each binding name once"),
    validation = Rule::new(ASSETS_NAME_IS_UNIQUE)
        .message("spec.assets.binding: another binding has that name; use each binding name once"),
    validation = Rule::new("!has(self.assets) || has(self.artifact) && has(self.artifact.assets)")
        .message("spec.assets: needs the files; set spec.artifact.assets"),
)]
pub struct WorkerRevisionSpec {
    /// Name of the Worker.
    #[schemars(length(min = 1, max = 63))]
    pub worker: String,
    /// SHA-256 of the spec, with the modules as their author wrote them, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub digest: String,
    /// Name of the module whose default export handles events.
    #[schemars(length(min = 1, max = 253))]
    pub entrypoint: String,
    /// OCI artifact with the modules. Operators pull and compile it when a node needs the modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Modules as a node runs them: TypeScript is compiled to JavaScript under the same name, with
    /// a source map beside it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::modules")]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^[-._/A-Za-z0-9]{1,253}$'))")
        .message("spec.modules: invalid name; use 1 to 253 letters, digits, dots, dashes, underscores and slashes"))]
    pub modules: BTreeMap<String, String>,
    /// Modules that are not text, such as WebAssembly, in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::binary_modules")]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^[-._/A-Za-z0-9]{1,253}$'))")
        .message("spec.binaryModules: invalid name; use 1 to 253 letters, digits, dots, dashes, underscores and slashes"))]
    pub binary_modules: BTreeMap<String, ByteString>,
    /// Variables, in the handler's `env`: text by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::vars")]
    #[x_kube(validation = Rule::new(schema::all_names(name::BINDING))
        .message("spec.vars: invalid name; use an identifier of at most 63 letters, digits and underscores"))]
    pub vars: BTreeMap<String, String>,
    /// References to Secrets whose values are in the handler's `env`. The values are not part of
    /// the revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.secrets: duplicate name; use each binding name once"))]
    pub secrets: Vec<Secret>,
    /// Other Workers, in the handler's `env`, to call by `env.NAME.fetch(request)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(t, t.name == s.name))")
        .message("spec.services: duplicate name; use each binding name once"))]
    pub services: Vec<ServiceBinding>,
    /// Static files, which routers serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<Assets>,
    /// Hosts that the Worker may connect to.
    #[serde(default, skip_serializing_if = "Egress::is_empty")]
    pub egress: Egress,
    /// Features that the Worker needs beyond the web standards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(f, self.exists_one(g, g == f))")
        .message("spec.compatibilityFlags: duplicate flag; keep one of them"))]
    pub compatibility_flags: Vec<CompatibilityFlag>,
    /// Limits that the Worker sets. A limit that is not set defaults to that of the RuntimePool, or
    /// else to the platform's.
    #[serde(default)]
    pub limits: Limits,
    /// Lifetime of global variables: that of the isolate (`Persist`), or one invocation (`Reset`).
    /// Absent for `Persist`, the default, so that older snapshots keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StatePolicy>,
}

/// An OCI artifact at the time at which a Worker was accepted.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Reference to the artifact as the Worker names it.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", name::IMAGE))
        .message("spec.artifact.image: invalid reference; use REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST"))]
    pub image: String,
    /// Digest of the artifact's manifest, to which the reference was resolved.
    #[schemars(length(min = 71, max = 71), regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Digest of the layer with the static files, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 71, max = 71), regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub assets: Option<String>,
    /// Secret with the credentials of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<PullSecretRef>,
}
