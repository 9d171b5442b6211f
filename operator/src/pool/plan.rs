//! What a RuntimePool becomes. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, TopologySpreadConstraint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;
use tenon_crds::{RuntimePool, RuntimePoolStatus, TopologySpread, WhenUnsatisfiable, condition};

use crate::endpoints::POOL_LABEL;

/// Selects what pools become.
pub const SELECTOR: &str = "app.kubernetes.io/component=runtime-node";

const FIRST_SHARD_PORT: i32 = 7100;
const ADMIN_PORT: i32 = 9090;

/// How long a Pod keeps serving after it was told to end, in seconds: until every router has heard.
const PRE_STOP_SECONDS: i64 = 5;
/// How long its invocations may go on after that.
const DRAIN_GRACE_SECONDS: i64 = 30;

/// Where a Pod's volume for compiled code is.
const CACHE_MOUNT: &str = "/var/cache/tenon";
/// A directory in it that the node makes for itself alone.
const CODE_CACHE_DIR: &str = "/var/cache/tenon/code";
/// A Pod whose volume is larger is evicted, and a node keeps files of 1 GiB there: this leaves room for the blocks that
/// they round up to and for what is being written.
const CACHE_SIZE_LIMIT: &str = "2Gi";

/// What is the same for all pools.
#[derive(Clone, Debug)]
pub struct Settings {
    pub image: String,
    /// URL of the catalog, as nodes reach it.
    pub catalog: String,
    /// URL of the routers' inner door, as nodes reach it.
    pub router: String,
}

/// The objects of one pool.
pub struct Children {
    pub deployment: Deployment,
    pub service: Service,
    pub budget: PodDisruptionBudget,
}

pub fn children(pool: &RuntimePool, namespace: &str, settings: &Settings) -> Children {
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
    let ports: Vec<_> = (0..pool.spec.shards_per_node)
        .map(|i| json!({"name": format!("shard-{i}"), "port": FIRST_SHARD_PORT + i, "protocol": "TCP"}))
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
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector}},
    });
    let deployment = json!({
        "metadata": metadata,
        "spec": {
            "replicas": pool.spec.replicas,
            "selector": {"matchLabels": selector},
            // A new node is there before an old one goes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": pod(pool, settings, &selector)},
        },
    });
    let is_one = "the plan is an object of its kind";
    Children {
        deployment: serde_json::from_value(deployment).expect(is_one),
        service: serde_json::from_value(service).expect(is_one),
        budget: serde_json::from_value(budget).expect(is_one),
    }
}

fn pod(pool: &RuntimePool, settings: &Settings, selector: &BTreeMap<String, String>) -> serde_json::Value {
    let spec = &pool.spec;
    let ports: Vec<_> = (0..spec.shards_per_node)
        .map(|i| json!({"name": format!("shard-{i}"), "containerPort": FIRST_SHARD_PORT + i}))
        .chain([json!({"name": "admin", "containerPort": ADMIN_PORT})])
        .collect();
    let args: Vec<_> = [
        format!("--catalog={}", settings.catalog),
        format!("--router={}", settings.router),
        format!("--shards={}", spec.shards_per_node),
        format!("--shard-port={FIRST_SHARD_PORT}"),
        format!("--isolates-per-shard={}", spec.isolates_per_shard),
        format!("--drain-grace={DRAIN_GRACE_SECONDS}s"),
        format!("--code-cache-dir={CODE_CACHE_DIR}"),
    ]
    .into_iter()
    .chain(spec.egress.allow_cidrs.iter().map(|network| format!("--egress-allow={network}")))
    .collect();
    let probe = |path| json!({"httpGet": {"path": path, "port": "admin"}, "periodSeconds": 5});
    json!({
        // Nodes hold no Kubernetes credentials.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "runtimeClassName": spec.runtime_class_name,
        "nodeSelector": spec.node_selector,
        "tolerations": spec.tolerations,
        "topologySpreadConstraints": spread(pool, selector),
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + DRAIN_GRACE_SECONDS + 5,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "runtime-node",
            "image": settings.image,
            "args": args,
            "env": [{"name": "TENON_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": ports,
            "volumeMounts": [{"name": "cache", "mountPath": CACHE_MOUNT}],
            "resources": {"requests": spec.resources.requests, "limits": spec.resources.limits},
            "livenessProbe": probe("/livez"),
            "readinessProbe": probe("/readyz"),
            // Routers hear of the end before the node does.
            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
        // Compiled code outlives the container, and so a crash; it ends with the Pod.
        "volumes": [{"name": "cache", "emptyDir": {"sizeLimit": CACHE_SIZE_LIMIT}}],
    })
}

fn selector(pool: &RuntimePool) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "tenon-runtime-node".to_owned()),
        (POOL_LABEL.to_owned(), pool.name_any()),
    ])
}

/// As the pool says, or over Kubernetes nodes and zones as far as possible.
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

/// # Arguments
/// * `deployment` - as the API server has it.
/// * `now` - the transition time of conditions that change.
pub fn status(pool: &RuntimePool, deployment: &Deployment, now: Timestamp) -> RuntimePoolStatus {
    let before = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let counts = deployment.status.clone().unwrap_or_default();
    let ready = counts.ready_replicas.unwrap_or(0);
    let (holds, reason) = if ready >= pool.spec.replicas { (true, "Serving") } else { (false, "Progressing") };
    let message = format!("{ready} of {} nodes are ready", pool.spec.replicas);
    let labels: Vec<_> = selector(pool).iter().map(|(key, value)| format!("{key}={value}")).collect();
    RuntimePoolStatus {
        observed_generation: pool.metadata.generation,
        replicas: counts.replicas.unwrap_or(0),
        ready_replicas: ready,
        selector: Some(labels.join(",")),
        conditions: vec![condition(before, "Ready", holds, reason, message, pool.metadata.generation, now)],
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tenon_crds::ConditionStatus;

    use super::*;

    fn pool() -> RuntimePool {
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "RuntimePool",
            "metadata": {"name": "default", "uid": "u-1"},
            "spec": {"replicas": 3, "shardsPerNode": 2, "resources": {"limits": {"memory": "1Gi"}}},
        }))
        .unwrap()
    }

    fn settings() -> Settings {
        Settings {
            image: "node:1".to_owned(),
            catalog: "http://operator:7070".to_owned(),
            router: "http://router:8081".to_owned(),
        }
    }

    fn planned() -> Children {
        children(&pool(), "tenon-system", &settings())
    }

    #[test]
    fn the_service_is_headless_and_has_a_port_for_each_shard() {
        let service = planned().service.spec.unwrap();
        assert_eq!(service.cluster_ip.as_deref(), Some("None"));
        let ports: Vec<_> = service.ports.unwrap().into_iter().map(|p| (p.name.unwrap(), p.port)).collect();
        assert_eq!(ports, [("shard-0".to_owned(), 7100), ("shard-1".to_owned(), 7101)]);
    }

    #[test]
    fn its_slices_will_be_found_as_the_pools() {
        assert_eq!(planned().service.labels().get(POOL_LABEL).map(String::as_str), Some("default"));
    }

    #[test]
    fn a_pod_passes_the_restricted_standard_and_has_no_credentials() {
        let pod = planned().deployment.spec.template.spec.unwrap();
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
        let container = pod.containers[0].security_context.clone().unwrap();
        assert_eq!(container.allow_privilege_escalation, Some(false));
        assert_eq!(container.read_only_root_filesystem, Some(true));
        assert_eq!(container.capabilities.unwrap().drop.unwrap(), ["ALL"]);
    }

    #[test]
    fn compiled_code_is_kept_where_a_read_only_root_lets_it() {
        let pod = planned().deployment.spec.template.spec.unwrap();
        let container = &pod.containers[0];
        let args = container.args.clone().unwrap();
        let dir = args.iter().find_map(|arg| arg.strip_prefix("--code-cache-dir=")).unwrap();
        let mounts = container.volume_mounts.clone().unwrap();
        let mount = mounts.iter().find(|mount| Path::new(dir).starts_with(&mount.mount_path)).unwrap();
        assert_ne!(mount.read_only, Some(true));
        let volumes = pod.volumes.unwrap();
        let volume = volumes.iter().find(|volume| volume.name == mount.name).unwrap();
        assert_eq!(volume.empty_dir.clone().unwrap().size_limit.unwrap().0, CACHE_SIZE_LIMIT);
    }

    #[test]
    fn nodes_are_told_which_networks_are_open() {
        let mut pool = pool();
        pool.spec.egress.allow_cidrs = vec!["10.1.0.0/16".to_owned(), "fd00:1::/32".to_owned()];
        let pod = children(&pool, "tenon-system", &settings()).deployment.spec.template.spec.unwrap();
        let args = pod.containers[0].args.clone().unwrap();
        let allowed: Vec<_> = args.iter().filter(|arg| arg.starts_with("--egress-allow")).collect();
        assert_eq!(allowed, ["--egress-allow=10.1.0.0/16", "--egress-allow=fd00:1::/32"]);
    }

    #[test]
    fn everything_goes_with_its_pool() {
        let planned = planned();
        for owners in [
            planned.deployment.owner_references(),
            planned.service.owner_references(),
            planned.budget.owner_references(),
        ] {
            assert_eq!(owners[0].uid, "u-1");
        }
    }

    #[test]
    fn a_pool_is_ready_when_all_its_nodes_are() {
        let at = Timestamp::from_second(1).unwrap();
        let mut deployment = planned().deployment;
        assert_eq!(status(&pool(), &deployment, at).conditions[0].status, ConditionStatus::False);
        deployment.status = Some(serde_json::from_value(json!({"replicas": 3, "readyReplicas": 3})).unwrap());
        assert_eq!(status(&pool(), &deployment, at).conditions[0].status, ConditionStatus::True);
    }
}
