//! Plans the objects of a RuntimePool, and its status. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::api::core::v1::{Service, TopologySpreadConstraint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;
use tenon_crds::{
    PoolEgress, ProxyResolver, RuntimePool, RuntimePoolStatus, TopologySpread, WhenUnsatisfiable, condition,
};

use super::references::{self, CREDENTIALS, Kind, Missing};
use crate::endpoints::POOL_LABEL;

/// Label selector of the objects that pools become.
pub const SELECTOR: &str = "app.kubernetes.io/component=runtime-node";

const FIRST_SHARD_PORT: i32 = 7100;
const ADMIN_PORT: i32 = 9090;

/// Time for which a Pod keeps serving after it was told to end, in seconds, until every router
/// knows that it is draining.
const PRE_STOP_SECONDS: i64 = 5;
/// Time in which a node ends after that and after its pool's drain grace, in seconds.
const END_SECONDS: i64 = 5;

/// Mount path of a Pod's volume for compiled code.
const CACHE_MOUNT: &str = "/var/cache/tenon";
/// The node's private directory in that volume.
const CODE_CACHE_DIR: &str = "/var/cache/tenon/code";
/// Size limit of the volume. A Pod that exceeds it is evicted, and a node keeps files of up to 1
/// GiB there; the rest is for the rounding to blocks and for files being written.
const CACHE_SIZE_LIMIT: &str = "2Gi";

/// Mount path of the volume with the certificate that a Pod presents to other processes of the
/// platform.
const TLS_MOUNT: &str = "/etc/tenon/tls";

/// Mount path of the volume with the authorities that its Workers' connections trust.
const AUTHORITIES_MOUNT: &str = "/etc/tenon/authorities";

/// Annotation on the Pod template: the digest of the referenced objects that Pods read when they
/// start.
const REFERENCES_ANNOTATION: &str = "tenon.dev/references";

/// Settings that all pools share.
#[derive(Clone, Debug)]
pub struct Settings {
    pub image: String,
    /// If `None`, Kubernetes' default for the image applies.
    pub image_pull_policy: Option<String>,
    /// Names of Secrets.
    pub image_pull_secrets: Vec<String>,
    pub service_account: Option<String>,
    pub priority_class: Option<String>,
    /// The Secret with the nodes' certificate, if processes use TLS.
    pub tls_secret: Option<String>,
    /// URL at which nodes reach the catalog.
    pub catalog: String,
    /// URL at which nodes reach the routers' internal listener.
    pub router: String,
    /// The nodes' logging arguments.
    pub log: Vec<String>,
}

/// The objects of one pool.
pub struct Children {
    pub deployment: Deployment,
    pub service: Service,
    pub budget: PodDisruptionBudget,
}

/// Plans the objects of a pool.
///
/// # Arguments
/// * `referred` - the digest of the referenced objects, if the pool refers to any.
pub fn children(pool: &RuntimePool, namespace: &str, settings: &Settings, referred: Option<&str>) -> Children {
    let name = format!("tenon-pool-{}", pool.name_any());
    let selector = selector(pool);
    let mut labels = selector.clone();
    labels.insert("app.kubernetes.io/managed-by".to_owned(), "tenon".to_owned());
    labels.insert("app.kubernetes.io/component".to_owned(), "runtime-node".to_owned());
    let metadata = json!({
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": owner(pool),
    });
    let ports: Vec<_> = ports(pool)
        // By name: a Pod from before an increase of the shards has no such port, and its endpoint
        // does not list it.
        .map(|(name, port)| json!({"name": name, "port": port, "targetPort": name, "protocol": "TCP"}))
        .collect();
    let service = json!({
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "ports": ports,
        },
    });
    let budget = json!({
        "metadata": metadata,
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector},
            // A Pod that is not ready must not keep a Kubernetes node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    });
    let deployment = json!({
        "metadata": metadata,
        "spec": {
            "replicas": pool.spec.replicas,
            "selector": {"matchLabels": selector},
            // A new node is ready before an old one is deleted.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": referred.map(|digest| BTreeMap::from([(REFERENCES_ANNOTATION, digest)])),
                },
                "spec": pod(pool, settings, &selector),
            },
        },
    });
    let is_one = "the plan is an object of its kind";
    Children {
        deployment: serde_json::from_value(deployment).expect(is_one),
        service: serde_json::from_value(service).expect(is_one),
        budget: serde_json::from_value(budget).expect(is_one),
    }
}

/// Returns a node's ports by name: those of its shards, then those of its lanes.
fn ports(pool: &RuntimePool) -> impl Iterator<Item = (String, i32)> + use<> {
    let (shards, lanes) = (pool.spec.shards_per_node, pool.spec.lanes);
    let shard = |i| (format!("shard-{i}"), FIRST_SHARD_PORT + i);
    let lane = move |i| (format!("lane-{i}"), FIRST_SHARD_PORT + shards + i);
    (0..shards).map(shard).chain((0..lanes).map(lane))
}

fn pod(pool: &RuntimePool, settings: &Settings, selector: &BTreeMap<String, String>) -> serde_json::Value {
    let spec = &pool.spec;
    let ports: Vec<_> = ports(pool)
        .chain([("admin".to_owned(), ADMIN_PORT)])
        .map(|(name, port)| json!({"name": name, "containerPort": port}))
        .collect();
    let args: Vec<_> = [
        format!("--catalog={}", settings.catalog),
        format!("--router={}", settings.router),
        format!("--shards={}", spec.shards_per_node),
        format!("--lanes={}", spec.lanes),
        format!("--shard-port={FIRST_SHARD_PORT}"),
        format!("--isolates-per-shard={}", spec.isolates_per_shard),
        format!("--drain-grace={}s", spec.drain_grace_seconds),
        format!("--code-cache-dir={CODE_CACHE_DIR}"),
    ]
    .into_iter()
    .chain(settings.tls_secret.as_ref().map(|_| format!("--tls-dir={TLS_MOUNT}")))
    .chain(egress_args(&spec.egress))
    .chain(settings.log.iter().cloned())
    .collect();
    let name = json!({"name": "TENON_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let env: Vec<_> = [name].into_iter().chain(credentials(&spec.egress)).collect();
    // Compiled code survives restarts of the container, also after a crash, and is deleted with the
    // Pod.
    let cache = (
        json!({"name": "cache", "emptyDir": {"sizeLimit": CACHE_SIZE_LIMIT}}),
        json!({"name": "cache", "mountPath": CACHE_MOUNT}),
    );
    // Nodes reload a changed certificate, so a change does not replace them.
    let tls = settings.tls_secret.as_ref().map(|secret| {
        (
            json!({"name": "tls", "secret": {"secretName": secret}}),
            json!({"name": "tls", "mountPath": TLS_MOUNT, "readOnly": true}),
        )
    });
    let (volumes, mounts): (Vec<_>, Vec<_>) = [cache].into_iter().chain(tls).chain(authorities(&spec.egress)).unzip();
    let pull_secrets: Vec<_> = settings.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
    let probe = |path| json!({"httpGet": {"path": path, "port": "admin"}, "periodSeconds": 5});
    json!({
        // Nodes hold no Kubernetes credentials.
        "automountServiceAccountToken": false,
        "serviceAccountName": settings.service_account,
        "imagePullSecrets": (!pull_secrets.is_empty()).then_some(pull_secrets),
        "priorityClassName": settings.priority_class,
        "enableServiceLinks": false,
        "runtimeClassName": spec.runtime_class_name,
        "nodeSelector": spec.node_selector,
        "tolerations": spec.tolerations,
        "topologySpreadConstraints": spread(pool, selector),
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + i64::from(spec.drain_grace_seconds) + END_SECONDS,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "runtime-node",
            "image": settings.image,
            "imagePullPolicy": settings.image_pull_policy,
            "args": args,
            "env": env,
            "ports": ports,
            "volumeMounts": mounts,
            "resources": {"requests": spec.resources.requests, "limits": spec.resources.limits},
            "livenessProbe": probe("/livez"),
            "readinessProbe": probe("/readyz"),
            // The sleep gives routers time to see that the Pod is terminating before the node is
            // told.
            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
        "volumes": volumes,
    })
}

fn egress_args(egress: &PoolEgress) -> Vec<String> {
    let allow = egress.allow_cidrs.iter().map(|network| format!("--egress-allow={network}"));
    let deny = egress.deny_cidrs.iter().map(|network| format!("--egress-deny={network}"));
    let files = (0..egress.ca_certificates.len()).map(|i| format!("--egress-ca-file={AUTHORITIES_MOUNT}/{i}.pem"));
    let proxy = egress.proxy.iter().flat_map(|proxy| {
        let resolver = match proxy.resolver {
            ProxyResolver::Node => "node",
            ProxyResolver::Proxy => "proxy",
        };
        [format!("--egress-proxy={}", proxy.url), format!("--egress-proxy-resolver={resolver}")]
    });
    allow.chain(deny).chain(files).chain(proxy).collect()
}

/// Returns the volume with the authorities, and its mount. Only the named key of each object is
/// mounted, because an authority's private key may be stored beside its certificate.
fn authorities(egress: &PoolEgress) -> Option<(serde_json::Value, serde_json::Value)> {
    let sources: Vec<_> = (egress.ca_certificates.iter().enumerate())
        .filter_map(|(i, certificates)| {
            let (kind, reference) = references::authority(certificates)?;
            let items = json!([{"key": reference.key, "path": format!("{i}.pem")}]);
            Some(match kind {
                Kind::ConfigMap => json!({"configMap": {"name": reference.name, "items": items}}),
                Kind::Secret => json!({"secret": {"name": reference.name, "items": items}}),
            })
        })
        .collect();
    (!sources.is_empty()).then(|| {
        (
            json!({"name": "authorities", "projected": {"sources": sources}}),
            json!({"name": "authorities", "mountPath": AUTHORITIES_MOUNT, "readOnly": true}),
        )
    })
}

/// Returns the environment variables with the proxy's credentials, which must not appear in
/// arguments.
fn credentials(egress: &PoolEgress) -> Vec<serde_json::Value> {
    let Some(secret) = egress.proxy.as_ref().and_then(|proxy| proxy.credentials_secret_ref.as_ref()) else {
        return Vec::new();
    };
    let variable =
        |(key, name)| json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key}}});
    CREDENTIALS.map(variable).into()
}

fn selector(pool: &RuntimePool) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "tenon-runtime-node".to_owned()),
        (POOL_LABEL.to_owned(), pool.name_any()),
    ])
}

/// Returns the pool's topology spread, by default over Kubernetes nodes and zones as far as
/// possible.
fn spread(pool: &RuntimePool, selector: &BTreeMap<String, String>) -> Vec<TopologySpreadConstraint> {
    if !pool.spec.topology_spread.is_empty() {
        return pool.spec.topology_spread.iter().map(|spread| spread.over(selector)).collect();
    }
    let as_far_as_possible = |key: &str| TopologySpread {
        topology_key: key.to_owned(),
        max_skew: 1,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        min_domains: None,
    };
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map(|key| as_far_as_possible(key).over(selector)).into()
}

fn owner(pool: &RuntimePool) -> Vec<OwnerReference> {
    pool.controller_owner_ref(&()).into_iter().collect()
}

/// Returns the status of a pool.
///
/// # Arguments
/// * `deployment` - the stored Deployment, if there is one.
/// * `missing` - a referenced object that does not exist.
/// * `now` - the transition time of conditions that change.
pub fn status(
    pool: &RuntimePool,
    deployment: Option<&Deployment>,
    missing: Option<&Missing>,
    now: Timestamp,
) -> RuntimePoolStatus {
    let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let counts = deployment.and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    let ready = counts.ready_replicas.unwrap_or(0);
    let ready_of = format!("{ready} of {} nodes are ready", pool.spec.replicas);
    let (holds, reason, message) = match (missing, deployment) {
        (Some(missing), _) => (false, "ReferenceMissing", missing.to_string()),
        (None, Some(deployment)) if is_rolled_out(deployment) && ready >= pool.spec.replicas => {
            (true, "Serving", ready_of)
        }
        (None, deployment) => match deployment.and_then(stalled) {
            Some(why) => (false, "Stalled", format!("{ready_of}; {why}")),
            None => (false, "Progressing", ready_of),
        },
    };
    let labels: Vec<_> = selector(pool).iter().map(|(key, value)| format!("{key}={value}")).collect();
    RuntimePoolStatus {
        observed_generation: pool.metadata.generation,
        replicas: counts.replicas.unwrap_or(0),
        ready_replicas: ready,
        selector: Some(labels.join(",")),
        conditions: vec![condition(before, "Ready", holds, reason, message, pool.metadata.generation, now)],
    }
}

/// Returns the Deployment's status, if Kubernetes has observed the current spec.
fn observed(deployment: &Deployment) -> Option<&DeploymentStatus> {
    deployment.status.as_ref().filter(|status| status.observed_generation >= deployment.metadata.generation)
}

/// Returns whether all Pods are of the current template. Until then, Pods of the previous one are
/// ready and say nothing about the new one.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    observed(deployment).is_some_and(|counts| {
        let updated = counts.updated_replicas.unwrap_or(0);
        updated >= wanted && counts.replicas.unwrap_or(0) <= updated
    })
}

/// Returns Kubernetes' message if the rollout has stalled. Kubernetes keeps trying.
fn stalled(deployment: &Deployment) -> Option<&str> {
    let is_stalled = |condition: &&DeploymentCondition| {
        let says = (condition.type_.as_deref(), condition.status.as_deref());
        // `Progressing` becomes false after ten minutes; `ReplicaFailure` means that Pods cannot be
        // created at all.
        [(Some("Progressing"), Some("False")), (Some("ReplicaFailure"), Some("True"))].contains(&says)
    };
    let condition = observed(deployment)?.conditions.iter().flatten().find(is_stalled)?;
    Some(condition.message.as_deref().unwrap_or("the rollout makes no progress"))
}

#[cfg(test)]
mod tests;
