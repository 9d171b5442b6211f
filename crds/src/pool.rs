//! `RuntimePool`: the nodes that run Workers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// A set of alike nodes. It becomes a Deployment, a PodDisruptionBudget and a headless Service.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "RuntimePool",
    status = "RuntimePoolStatus",
    derive = "PartialEq",
    shortname = "rp",
    category = "tenon",
    doc = "A set of alike nodes that run Workers.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Shards", type_ = "integer", json_path = ".spec.shardsPerNode", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$')")
        .message("metadata.name: must be a DNS label of at most 42 characters, because Services and Pods are named after it"),
)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePoolSpec {
    /// How many nodes.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: i32,

    /// Pinned threads of a node. Give a node as many CPUs.
    #[serde(default = "default_shards_per_node")]
    #[schemars(range(min = 1, max = 64))]
    pub shards_per_node: i32,

    /// Isolates that a shard keeps.
    #[serde(default = "default_isolates_per_shard")]
    #[schemars(range(min = 1, max = 10_000))]
    pub isolates_per_shard: i32,

    /// What a node's container asks for and may use.
    #[serde(default)]
    pub resources: ResourceSettings,

    /// The RuntimeClass of the Pods, such as one of gVisor or Kata for tenants that are trusted less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class_name: Option<String>,

    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,

    /// How Pods are spread. By default over Kubernetes nodes and zones, as far as possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub topology_spread: Vec<TopologySpreadConstraint>,
}

/// `ResourceRequirements` of one container, without claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSettings {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePoolStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes that there are.
    #[serde(default)]
    pub replicas: i32,
    /// Nodes that serve.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Labels of the Pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

fn default_replicas() -> i32 {
    2
}

fn default_shards_per_node() -> i32 {
    2
}

fn default_isolates_per_shard() -> i32 {
    200
}
