//! `spec.source` of a Worker.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use crate::name;

/// Source of the code. Exactly one of the fields must be set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.modules), has(self.configMapRef), has(self.oci)].exists_one(is, is)")
    .message("spec.source: needs exactly one source; set modules, configMapRef or oci"))]
pub struct Source {
    /// Source text by module name, a relative path such as `worker.js` or `lib/greet.ts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::inline_modules")]
    #[x_kube(validation = Rule::new(format!("self.all(name, size(name) <= 253 && name.matches('{}'))", name::MODULE))
        .message("spec.source.modules: invalid name; use a relative path of at most 253 letters, digits, dots, dashes and underscores, without . or .. segments"))]
    #[x_kube(validation = Rule::new("self.all(name, !name.matches('[.](wasm|bin|cjs|cts)$'))")
        .message("spec.source.modules: a module is binary or CommonJS; use the binaryData of a ConfigMap for .wasm and .bin, and bundle .cjs and .cts"))]
    pub modules: Option<BTreeMap<String, String>>,

    /// ConfigMap in the same namespace with the modules by name: text in its `data`, and other
    /// modules in its `binaryData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapRef>,

    /// OCI artifact in a registry, as `tenon deploy --registry` pushes it. It may be far larger
    /// than an object of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<OciSource>,
}

/// An OCI artifact with the modules of a Worker.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// Reference to the artifact, with a tag or a digest: `ghcr.io/acme/shop:v1` or
    /// `ghcr.io/acme/shop@sha256:…`. A tag is resolved once, and again when the reference changes.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new(format!("self.matches('{}')", name::IMAGE))
        .message("spec.source.oci.image: invalid reference; use REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST"))]
    pub image: String,

    /// Secret of type `kubernetes.io/dockerconfigjson` in the same namespace, with the credentials
    /// of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<PullSecretRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullSecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapRef {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = name::DNS_SUBDOMAIN))]
    pub name: String,
}
