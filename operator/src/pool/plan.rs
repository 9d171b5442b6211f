//! Plans the objects of a RuntimePool. This module is pure.
//!
//! ```text
//!  RuntimePool, Settings ─┬─► Service: a named port for each shard and lane
//!                         ├─► PodDisruptionBudget: one node at a time
//!                         ├─► with a front: a Service for clients
//!                         └─► Deployment ─► `pod`: the node's container, its volumes and placement
//! ```
//!
//! The objects are typed. Their serialization skips absent fields. This matters because the
//! operator owns every field of an object that it applies.

mod front;
mod pod;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use tenon_certificates::subject::POOL;
use tenon_crds::{POOL_LABEL, RuntimePool};

use crate::owner;
pub use front::front_name;
use pod::pod;

/// Label selector of the objects that are created for pools.
pub const SELECTOR: &str = "app.kubernetes.io/component=runtime-node";

/// Number of ReplicaSets of former Pods that a Deployment keeps. The operator never rolls back to
/// one.
const REVISION_HISTORY: i32 = 1;

const FIRST_SHARD_PORT: i32 = 7100;

/// Port on which a node serves profiles. It is on the Pod's loopback interface, which only a
/// port-forward reaches, so it is not a port of the container.
pub const PROFILE_PORT: u16 = 9091;

/// The annotation of the Pod template that contains the digest of the referenced objects. Pods read
/// these objects only when they start.
const REFERENCES_ANNOTATION: &str = "tenon.dev/references";

/// Settings that all pools share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub image: String,
    /// If `None`, Kubernetes' default for the image applies.
    pub image_pull_policy: Option<String>,
    /// Names of the Secrets for pulling the image.
    pub image_pull_secrets: Vec<String>,
    pub service_account: Option<String>,
    pub priority_class: Option<String>,
    /// Additional labels of the Pods, which do not replace the platform's own.
    pub pod_labels: BTreeMap<String, String>,
    /// Additional annotations of the Pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// The architectures of the image, as in the label `kubernetes.io/arch`. If empty, the Pods run
    /// on Kubernetes nodes of every architecture.
    pub architectures: Vec<String>,
    /// Whether the cluster assigns a user and a group to the Pods, as OpenShift does.
    pub user_assigned: bool,
    /// Address on which nodes listen. If `None`, nodes listen on all IPv4 addresses.
    pub listen_ip: Option<IpAddr>,
    /// The families of the Services for clients.
    pub front_families: Families,
    /// The Secret with the nodes' certificate, if processes use TLS. [`POOL`] in it stands for the
    /// name of the pool.
    pub tls_secret: Option<String>,
    /// Whether pools may have fronts. If so, the nodes of all pools accept requests from fronts.
    pub admit_fronts: bool,
    /// URL at which nodes reach the catalog.
    pub catalog: String,
    /// URL at which nodes reach all operators, including those that are not ready.
    pub starting_catalog: Option<String>,
    /// URL at which nodes reach the routers' internal listener.
    pub router: String,
    /// The nodes' logging arguments.
    pub log: Vec<String>,
}

/// The IP families of a Service. The cluster chooses what is not set.
#[derive(Clone, Debug, Default)]
pub struct Families {
    pub policy: Option<String>,
    pub families: Vec<String>,
}

/// The objects of one pool.
pub struct Children {
    pub deployment: Deployment,
    pub service: Service,
    pub budget: PodDisruptionBudget,
    /// The Service for clients, if the pool has a front.
    pub front: Option<Service>,
}

/// Plans the objects of a pool.
///
/// # Arguments
/// * `referred` - the digest of the referenced objects, if the pool refers to any.
pub fn children(
    pool: &RuntimePool,
    namespace: &str,
    settings: &Settings,
    referred: Option<&str>,
) -> Children {
    let selector = selector(pool);
    let metadata = ObjectMeta {
        name: Some(child_name(pool)),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels(&selector)),
        owner_references: Some(owner::controller(pool)),
        ..ObjectMeta::default()
    };
    let spec = deployment(pool, settings, referred, &selector);
    Children {
        deployment: Deployment { metadata: metadata.clone(), spec, status: None },
        service: Service {
            metadata: metadata.clone(),
            spec: Some(service(pool, &selector)),
            status: None,
        },
        front: front::service(pool, settings, &metadata, &selector),
        budget: PodDisruptionBudget { metadata, spec: Some(budget(&selector)), status: None },
    }
}

/// Returns the name of a pool's objects, except the Service for clients ([`front_name`]).
pub fn child_name(pool: &RuntimePool) -> String {
    format!("tenon-pool-{}", pool.name_any())
}

/// Returns the name of the Secret with the certificate of a pool's nodes, if processes use TLS.
pub fn certificate(pool: &RuntimePool, settings: &Settings) -> Option<String> {
    Some(settings.tls_secret.as_ref()?.replace(POOL, &pool.name_any()))
}

fn service(pool: &RuntimePool, selector: &BTreeMap<String, String>) -> ServiceSpec {
    let ports = ports(pool).map(|(name, port)| ServicePort {
        port,
        // The target is a name, because a Pod that was created before the number of shards was
        // increased has no such port, and its endpoint then does not list the port.
        target_port: Some(IntOrString::String(name.clone())),
        name: Some(name),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    });
    ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        selector: Some(selector.clone()),
        ports: Some(ports.collect()),
        ..ServiceSpec::default()
    }
}

fn budget(selector: &BTreeMap<String, String>) -> PodDisruptionBudgetSpec {
    PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(matching(selector)),
        // A Pod that is not ready must not keep a Kubernetes node from being drained.
        unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        ..PodDisruptionBudgetSpec::default()
    }
}

fn deployment(
    pool: &RuntimePool,
    settings: &Settings,
    referred: Option<&str>,
    selector: &BTreeMap<String, String>,
) -> DeploymentSpec {
    // A new node is ready before an old one is deleted.
    let rolling_update = RollingUpdateDeployment {
        max_surge: Some(pool.spec.max_surge.clone()),
        max_unavailable: Some(IntOrString::Int(0)),
    };
    let mut annotations = settings.pod_annotations.clone();
    annotations
        .extend(referred.map(|digest| (REFERENCES_ANNOTATION.to_owned(), digest.to_owned())));
    let mut pod_labels = settings.pod_labels.clone();
    pod_labels.extend(labels(selector));
    DeploymentSpec {
        replicas: Some(pool.spec.replicas),
        revision_history_limit: Some(REVISION_HISTORY),
        selector: matching(selector),
        strategy: Some(DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(rolling_update),
        }),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(pod_labels),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            }),
            spec: Some(pod(pool, settings, selector)),
        },
        ..DeploymentSpec::default()
    }
}

/// Returns the name and number of each port of a node: first the shards, then the lanes.
fn ports(pool: &RuntimePool) -> impl Iterator<Item = (String, i32)> + use<> {
    let (shards, lanes) = (pool.spec.shards_per_node, pool.spec.lanes);
    let shard = |i| (format!("shard-{i}"), FIRST_SHARD_PORT + i);
    let lane = move |i| (format!("lane-{i}"), FIRST_SHARD_PORT + shards + i);
    (0..shards).map(shard).chain((0..lanes).map(lane))
}

/// Returns the labels that select a pool's Pods.
pub(super) fn selector(pool: &RuntimePool) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "tenon-runtime-node".to_owned()),
        (POOL_LABEL.to_owned(), pool.name_any()),
    ])
}

/// Returns the labels of a pool's objects: the labels that select its Pods, and recommended ones.
fn labels(selector: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let recommended = [("managed-by", "tenon"), ("component", "runtime-node")];
    let recommended =
        recommended.map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()));
    selector.clone().into_iter().chain(recommended).collect()
}

fn matching(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() }
}

#[cfg(test)]
mod tests;
