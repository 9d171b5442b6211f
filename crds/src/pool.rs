//! `RuntimePool`: the nodes that run Workers.

mod egress;
mod front;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Condition;
use crate::name::DNS_SUBDOMAIN;
use crate::namespaces::{self, NamespaceSelector};
use crate::placement::{self, Toleration, TopologySpread, label_key};
use crate::{Limits, RateLimit};

pub use egress::{CaCertificates, KeyRef, PoolEgress, PoolProxy, ProxyResolver, SecretRef};
pub use front::{FrontServiceType, PoolFront};

/// Maximum number of shards per node. The ports of shards and lanes are consecutive, and
/// NetworkPolicies name the whole range.
pub const MAX_SHARDS: i32 = 64;
/// Maximum number of lanes per node.
pub const MAX_LANES: i32 = 8;

/// The label with a pool's name. The operator sets it on the pool's objects, including the Pods,
/// and on the Secret with the certificate of the nodes. Kubernetes copies the labels of a Service
/// to its EndpointSlices.
pub const POOL_LABEL: &str = "tenon.dev/pool";

/// A set of identical nodes. The operator creates a Deployment, a PodDisruptionBudget and a
/// headless Service for each RuntimePool.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "tenon.dev",
    version = "v1alpha1",
    kind = "RuntimePool",
    status = "RuntimePoolStatus",
    derive = "PartialEq",
    shortname = "rp",
    category = "tenon",
    doc = "A set of identical nodes that run Workers.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(
        name = "Shards",
        type_ = "integer",
        json_path = ".spec.shardsPerNode",
        priority = "1"
    ),
    printcolumn(name = "Lanes", type_ = "integer", json_path = ".spec.lanes", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$')")
        .message("metadata.name: invalid name; use a DNS label of at most 42 characters, because Services and Pods are named after it"),
)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePoolSpec {
    /// Number of nodes. The scale subresource serves autoscalers.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: i32,

    /// Number of shards per node. A shard is a process with one pinned thread; give each node as
    /// many CPUs as shards.
    #[serde(default = "default_shards_per_node")]
    #[schemars(range(min = 1, max = MAX_SHARDS))]
    pub shards_per_node: i32,

    /// Number of lanes per node, in addition to its shards. A lane is a shard that the kernel
    /// schedules last, on any CPU. Lanes run revisions that are new or heavy, and requests that are
    /// repeated after a shard was lost, so that none of these blocks a shard that other Workers
    /// use. Without lanes, these revisions and requests run on the shards.
    #[serde(default = "default_lanes")]
    #[schemars(range(min = 0, max = MAX_LANES))]
    pub lanes: i32,

    /// Maximum number of isolates that each shard and each lane keeps.
    #[serde(default = "default_isolates_per_shard")]
    #[schemars(range(min = 1, max = 10_000))]
    pub isolates_per_shard: i32,

    /// Time, in seconds, that in-flight requests have to finish when a node terminates, including
    /// WebSockets and streamed responses. Set it to the longest `limits.wallMs` of the pool's
    /// Workers.
    #[serde(default = "default_drain_grace_seconds")]
    #[schemars(range(min = 0, max = 3_600))]
    pub drain_grace_seconds: i32,

    /// Number of nodes that an update starts at once, or their percentage of `replicas`, rounded
    /// up. The same number of old nodes is removed once the new ones are ready.
    #[serde(default = "default_max_surge")]
    #[schemars(schema_with = "surge")]
    pub max_surge: IntOrString,

    /// Resource requests and limits of each node's container.
    #[serde(default)]
    pub resources: ResourceSettings,

    /// Limits of the pool's Workers.
    #[serde(default, skip_serializing_if = "PoolLimits::is_empty")]
    pub limits: PoolLimits,

    /// Limits on the rates of clients' requests for the pool's Workers.
    #[serde(default, skip_serializing_if = "PoolRateLimits::is_empty")]
    pub rate_limits: PoolRateLimits,

    /// Outbound connections of the pool's Workers. By default, the Workers connect directly, and
    /// only to public addresses.
    #[serde(default, skip_serializing_if = "PoolEgress::is_empty")]
    pub egress: PoolEgress,

    /// Namespaces whose Workers may choose this pool. By default, Workers of all namespaces may. A
    /// Worker that was accepted before stays in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,

    /// Serve clients at the nodes, without routers, with the operator's `--admit-fronts`. Set this
    /// only if all Workers of the pool are trusted: the HTTPS keys and the requests of all
    /// tenants are then in the processes that run the Workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<PoolFront>,

    /// RuntimeClass of the Pods, such as one for gVisor or Kata if tenants are less trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub runtime_class_name: Option<String>,

    /// Labels that a Kubernetes node must have to run the Pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "placement::labels")]
    #[x_kube(validation = Rule::new(format!("self.all(key, {})", label_key("key")))
        .message("spec.nodeSelector: invalid key; use a label key such as disk or example.com/disk"))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the Pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,

    /// Topology spread of the Pods. By default, the Pods are spread over Kubernetes nodes and zones
    /// as far as possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new(
        "self.all(s, self.exists_one(t, t.topologyKey == s.topologyKey && t.whenUnsatisfiable == s.whenUnsatisfiable))"
    ).message("spec.topologySpread: duplicate topologyKey and whenUnsatisfiable; keep one of them"))]
    pub topology_spread: Vec<TopologySpread>,
}

/// Namespaces whose Workers may choose a pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("(has(self.from) && self.from == 'Selector') == has(self.selector)")
        .message("spec.allowedNamespaces.selector: missing for Selector, or not allowed with another value of from; set it together with Selector only"),
    validation = Rule::new(namespaces::match_labels_rule())
        .message("spec.allowedNamespaces.selector.matchLabels: invalid key; use a label key such as team or example.com/team"),
    validation = Rule::new(namespaces::expression_keys_rule())
        .message("spec.allowedNamespaces.selector.matchExpressions.key: invalid key; use a label key such as team or example.com/team"),
    validation = Rule::new(namespaces::EXPRESSION_VALUES)
        .message("spec.allowedNamespaces.selector.matchExpressions.values: missing for In or NotIn, or not allowed with another operator; set them with In and NotIn only"),
)]
pub struct AllowedNamespaces {
    /// `All` for every namespace, `Same` for the namespace in which the nodes of the pool run, and
    /// `Selector` for the namespaces that `selector` matches.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NamespaceSelector>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    #[default]
    All,
    Same,
    Selector,
}

/// Limits of a pool's Workers.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new(defaults_are_allowed())
    .message("spec.limits.default: a limit is above its spec.limits.max; set it to the maximum or less"))]
pub struct PoolLimits {
    /// Limits of Workers that do not set their own. Each defaults to the platform's limit, capped
    /// at `max`.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub default: Limits,
    /// Highest limits that a Worker may set. Each defaults to the maximum in the schema of Workers.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub max: Limits,
}

impl PoolLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits on the rates of clients' requests for a pool's Workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRateLimits {
    /// Rate of all Workers of a namespace together, for each namespace. Workers may set lower rates
    /// of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<RateLimit>,
}

impl PoolRateLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn defaults_are_allowed() -> String {
    let names = [
        "cpuMs",
        "wallMs",
        "memoryMiB",
        "startupMs",
        "concurrency",
        "requestBodyMiB",
        "subrequests",
    ];
    let allowed = names.map(|name| {
        format!(
            "(!has(self.default.{name}) || !has(self.max.{name}) || \
             self.default.{name} <= self.max.{name})"
        )
    });
    format!("!has(self.default) || !has(self.max) || ({})", allowed.join(" && "))
}

/// `ResourceRequirements` of a container, restricted to the resources that a node uses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new(
    "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || \
     !quantity(string(self.requests[name])).isGreaterThan(quantity(string(self.limits[name]))))"
).message("spec.resources.requests: a request is above its spec.resources.limits; set it to the limit or less"))]
pub struct ResourceSettings {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    #[x_kube(validation = Rule::new(RESOURCE_NAMES)
        .message("spec.resources.requests: unknown resource; use cpu, memory or ephemeral-storage"))]
    pub requests: BTreeMap<String, Quantity>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    #[x_kube(validation = Rule::new(RESOURCE_NAMES)
        .message("spec.resources.limits: unknown resource; use cpu, memory or ephemeral-storage"))]
    pub limits: BTreeMap<String, Quantity>,
}

const RESOURCE_NAMES: &str = "self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'])";

fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Quantities of cpu, memory and ephemeral-storage, such as `500m` or `1Gi`.",
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maxLength": 20,
            "pattern": "^[0-9]+([.][0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
        },
    })
}

fn surge(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        // The API server replaces null with the default.
        "nullable": false,
        "minimum": 1,
        "maximum": 10_000,
        "maxLength": 4,
        "pattern": "^([1-9][0-9]?|100)%$",
    })
}

/// State of the pool, as the operator last observed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePoolStatus {
    /// The `metadata.generation` that the rest of the status describes; initially -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of nodes.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready nodes.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Label selector of the Pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// `Ready`: whether the nodes that the spec requests are ready, and if not, why. A pool that is
    /// not ready also has `Reconciling` if the operator continues by itself, or `Stalled` if
    /// something must be changed first.
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

fn default_lanes() -> i32 {
    2
}

fn default_isolates_per_shard() -> i32 {
    200
}

fn default_max_surge() -> IntOrString {
    IntOrString::Int(1)
}

fn default_drain_grace_seconds() -> i32 {
    30
}
