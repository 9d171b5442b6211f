//! Tests the objects that are planned for pools.

use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use serde_json::json;
use tenon_crds::{MAX_LANES, MAX_SHARDS};

use super::pod::{CACHE_SIZE_LIMIT, PRE_STOP_SECONDS};
use super::*;

mod applied;

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
        image_pull_policy: None,
        image_pull_secrets: Vec::new(),
        service_account: None,
        priority_class: None,
        pod_labels: BTreeMap::new(),
        pod_annotations: BTreeMap::new(),
        architectures: Vec::new(),
        user_assigned: false,
        listen_ip: None,
        front_families: Families::default(),
        tls_secret: None,
        admit_fronts: false,
        catalog: "http://operator:7070".to_owned(),
        starting_catalog: Some("http://operator-starting:7070".to_owned()),
        router: "http://router:8081".to_owned(),
        log: vec!["--log-level=warn".to_owned()],
    }
}

fn node(pool: &RuntimePool) -> Container {
    let children = children(pool, "tenon-system", &settings(), None);
    children.deployment.spec.template.spec.unwrap().containers.swap_remove(0)
}

fn plan_pool() -> Children {
    children(&pool(), "tenon-system", &settings(), None)
}

#[test]
fn the_service_is_headless_and_has_a_port_for_each_shard_and_lane() {
    let service = plan_pool().service.spec.unwrap();
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    let ports: Vec<_> =
        service.ports.unwrap().into_iter().map(|p| (p.name.unwrap(), p.port)).collect();
    let expected = [("shard-0", 7100), ("shard-1", 7101), ("lane-0", 7102), ("lane-1", 7103)];
    assert_eq!(ports, expected.map(|(name, port)| (name.to_owned(), port)));
}

#[test]
fn ports_of_lanes_follow_those_of_shards_and_lanes_are_optional() {
    let mut pool = pool();
    let lanes_and_ports = |pool: &RuntimePool| {
        let node = node(pool);
        let lanes = node.args.unwrap().into_iter().find(|arg| arg.starts_with("--lanes"));
        let ports =
            node.ports.unwrap().into_iter().map(|port| (port.name.unwrap(), port.container_port));
        (lanes.unwrap(), ports.filter(|(name, _)| name.starts_with("lane-")).collect::<Vec<_>>())
    };
    assert_eq!(
        lanes_and_ports(&pool),
        ("--lanes=2".to_owned(), vec![("lane-0".to_owned(), 7102), ("lane-1".to_owned(), 7103)])
    );
    (pool.spec.shards_per_node, pool.spec.lanes) = (MAX_SHARDS, MAX_LANES);
    let (lanes, ports) = lanes_and_ports(&pool);
    assert_eq!(
        (lanes.as_str(), ports.first(), ports.last()),
        (
            "--lanes=8",
            Some(&("lane-0".to_owned(), 7164)),
            // This is the last port that the chart's NetworkPolicy opens to routers.
            Some(&("lane-7".to_owned(), 7171)),
        )
    );
    pool.spec.lanes = 0;
    assert_eq!(lanes_and_ports(&pool), ("--lanes=0".to_owned(), Vec::new()));
}

/// The supervisor starts and stops the processes of its shards, and must not see the processes of
/// other containers.
#[test]
fn a_nodes_supervisor_is_the_first_process_of_its_container_and_answers_the_probes() {
    let pod = plan_pool().deployment.spec.template.spec.unwrap();
    assert_eq!((pod.share_process_namespace, pod.host_pid), (None, None));
    let container = &pod.containers[0];
    for probe in [&container.liveness_probe, &container.readiness_probe] {
        let port = probe.clone().unwrap().http_get.unwrap().port;
        assert_eq!(port, IntOrString::String("admin".to_owned()));
    }
}

#[test]
fn a_service_port_targets_the_named_port_of_its_shard() {
    let service = plan_pool().service.spec.unwrap();
    let named = service
        .ports
        .unwrap()
        .into_iter()
        .map(|port| (port.target_port.unwrap(), port.name.unwrap()));
    let pod_ports: Vec<_> =
        node(&pool()).ports.unwrap().into_iter().filter_map(|port| port.name).collect();
    for (target, name) in named {
        assert_eq!(target, IntOrString::String(name.clone()));
        assert!(pod_ports.contains(&name), "{pod_ports:?}");
    }
}

#[test]
fn the_service_carries_the_label_of_its_pool() {
    assert_eq!(plan_pool().service.labels().get(POOL_LABEL).map(String::as_str), Some("default"));
}

#[test]
fn a_pod_passes_the_restricted_standard_and_has_no_credentials() {
    let pod = plan_pool().deployment.spec.template.spec.unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    let container = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(container.allow_privilege_escalation, Some(false));
    assert_eq!(container.read_only_root_filesystem, Some(true));
    assert_eq!(container.capabilities.unwrap().drop.unwrap(), ["ALL"]);
}

#[test]
fn a_node_presents_the_mounted_certificate() {
    let pod = |settings: &Settings| {
        children(&pool(), "tenon-system", settings, None).deployment.spec.template.spec.unwrap()
    };
    let plain = pod(&settings());
    assert!(!plain.containers[0].args.iter().flatten().any(|arg| arg.starts_with("--tls-dir")));
    assert!(!plain.volumes.unwrap().iter().any(|volume| volume.name == "tls"));

    let pod = pod(&Settings { tls_secret: Some("tls-{pool}".to_owned()), ..settings() });
    let container = &pod.containers[0];
    let dir =
        container.args.iter().flatten().find_map(|arg| arg.strip_prefix("--tls-dir=")).unwrap();
    let mount =
        container.volume_mounts.iter().flatten().find(|mount| mount.mount_path == dir).unwrap();
    assert_eq!(mount.read_only, Some(true));
    let volume =
        pod.volumes.as_ref().unwrap().iter().find(|volume| volume.name == mount.name).unwrap();
    assert_eq!(volume.secret.as_ref().unwrap().secret_name.as_deref(), Some("tls-default"));
}

#[test]
fn pods_follow_the_arguments_of_the_operator() {
    let plain = plan_pool().deployment.spec.template.spec.unwrap();
    assert_eq!(
        (plain.service_account_name, plain.priority_class_name, plain.image_pull_secrets),
        (None, None, None)
    );
    assert_eq!(plain.containers[0].image_pull_policy, None);

    let settings = Settings {
        image_pull_policy: Some("IfNotPresent".to_owned()),
        image_pull_secrets: vec!["registry".to_owned(), "mirror".to_owned()],
        service_account: Some("node".to_owned()),
        priority_class: Some("high".to_owned()),
        ..settings()
    };
    let pod =
        children(&pool(), "tenon-system", &settings, None).deployment.spec.template.spec.unwrap();
    assert_eq!(pod.containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(pod.service_account_name.as_deref(), Some("node"));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.priority_class_name.as_deref(), Some("high"));
    let secrets: Vec<_> =
        pod.image_pull_secrets.unwrap().into_iter().map(|secret| secret.name).collect();
    assert_eq!(secrets, ["registry", "mirror"]);
}

#[test]
fn a_cluster_that_assigns_users_gets_pods_without_one() {
    let settings = Settings { user_assigned: true, ..settings() };
    let planned = children(&pool(), "tenon-system", &settings, None);
    let context = planned.deployment.spec.template.spec.unwrap().security_context.unwrap();
    assert_eq!((context.run_as_user, context.run_as_group), (None, None));
    assert_eq!(context.run_as_non_root, Some(true));
}

#[test]
fn custom_labels_do_not_replace_those_that_select_pods() {
    let own = ("app.kubernetes.io/name".to_owned(), "another".to_owned());
    let settings = Settings { pod_labels: BTreeMap::from([own]), ..settings() };
    let planned = children(&pool(), "tenon-system", &settings, None);
    let labels = planned.deployment.spec.template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["app.kubernetes.io/name"], "tenon-runtime-node");
}

#[test]
fn the_code_cache_is_in_a_writable_volume_of_bounded_size() {
    let pod = plan_pool().deployment.spec.template.spec.unwrap();
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

/// The chart's NetworkPolicies and PodMonitor select these labels and ports, and the chart's tests
/// read the golden file.
#[test]
fn the_golden_file_lists_the_labels_and_ports_of_the_largest_node() {
    let mut pool = pool();
    (pool.spec.shards_per_node, pool.spec.lanes) = (MAX_SHARDS, MAX_LANES);
    let pod = children(&pool, "tenon-system", &settings(), None).deployment.spec.template;
    let labels = pod.metadata.unwrap().labels.unwrap().into_iter();
    let labels = labels.map(|(label, value)| format!("label {label} {value}\n"));
    let ports = node(&pool).ports.unwrap().into_iter();
    let ports = ports.map(|port| format!("port {} {}\n", port.name.unwrap(), port.container_port));
    let planned: String = labels.chain(ports).collect();

    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/tests/testdata/node-pod.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &planned).unwrap();
    }
    let known = std::fs::read_to_string(&golden).unwrap();
    assert!(known == planned, "node-pod.txt is stale: run this test with UPDATE_GOLDEN=1");
}

#[test]
fn nodes_log_as_their_operator_does() {
    assert!(node(&pool()).args.unwrap().iter().any(|arg| arg == "--log-level=warn"));
}

#[test]
fn unhealthy_pods_do_not_block_the_drain_of_a_kubernetes_node() {
    let budget = plan_pool().budget.spec.unwrap();
    assert_eq!(budget.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"));
}

#[test]
fn the_termination_grace_of_a_pod_covers_the_drain_grace() {
    let mut pool = pool();
    pool.spec.drain_grace_seconds = 900;
    assert!(node(&pool).args.unwrap().iter().any(|arg| arg == "--drain-grace=900s"));
    let pod =
        children(&pool, "tenon-system", &settings(), None).deployment.spec.template.spec.unwrap();
    assert!(pod.termination_grace_period_seconds > Some(900 + PRE_STOP_SECONDS));
}

#[test]
fn allowed_and_denied_networks_are_arguments_of_nodes() {
    let mut pool = pool();
    pool.spec.egress.allow_cidrs = vec!["10.1.0.0/16".to_owned(), "fd00:1::/32".to_owned()];
    pool.spec.egress.deny_cidrs = vec!["203.0.113.0/24".to_owned()];
    let args = node(&pool).args.unwrap();
    let networks: Vec<_> = args.iter().filter(|arg| arg.starts_with("--egress")).collect();
    assert_eq!(
        networks,
        [
            "--egress-allow=10.1.0.0/16",
            "--egress-allow=fd00:1::/32",
            "--egress-deny=203.0.113.0/24"
        ]
    );
}

#[test]
fn certificates_of_authorities_are_mounted_key_by_key() {
    let mut pool = pool();
    pool.spec.egress = serde_json::from_value(json!({"caCertificates": [
        {"configMapKeyRef": {"name": "authorities", "key": "all.pem"}},
        {"secretKeyRef": {"name": "inner", "key": "ca.crt"}},
    ]}))
    .unwrap();
    let template =
        children(&pool, "tenon-system", &settings(), Some("d1")).deployment.spec.template;
    assert_eq!(template.metadata.unwrap().annotations.unwrap()[REFERENCES_ANNOTATION], "d1");
    let pod = template.spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    let files: Vec<_> =
        args.iter().filter_map(|arg| arg.strip_prefix("--egress-ca-file=")).collect();
    assert_eq!(files, ["/etc/tenon/authorities/0.pem", "/etc/tenon/authorities/1.pem"]);
    let mounts = pod.containers[0].volume_mounts.clone().unwrap();
    let mount =
        mounts.iter().find(|mount| Path::new(files[0]).starts_with(&mount.mount_path)).unwrap();
    assert_eq!(mount.read_only, Some(true));
    let volumes = pod.volumes.unwrap();
    let volume = volumes.iter().find(|volume| volume.name == mount.name).unwrap();
    let sources = serde_json::to_value(volume.projected.clone().unwrap().sources).unwrap();
    assert_eq!(
        sources,
        json!([
            {"configMap": {"name": "authorities", "items": [{"key": "all.pem", "path": "0.pem"}]}},
            {"secret": {"name": "inner", "items": [{"key": "ca.crt", "path": "1.pem"}]}},
        ])
    );
}

#[test]
fn a_proxys_credentials_are_not_in_arguments() {
    let mut pool = pool();
    let proxy = json!({
        "url": "http://proxy.test:3128",
        "credentialsSecretRef": {"name": "proxy"},
        "resolver": "Proxy",
    });
    pool.spec.egress.proxy = Some(serde_json::from_value(proxy).unwrap());
    let node = node(&pool);
    let args = node.args.unwrap();
    let egress_args: Vec<_> = args.iter().filter(|arg| arg.starts_with("--egress")).collect();
    assert_eq!(
        egress_args,
        ["--egress-proxy=http://proxy.test:3128", "--egress-proxy-resolver=proxy"]
    );
    let secret = |variable: &str| {
        let env = node.env.as_ref().unwrap().iter().find(|env| env.name == variable).unwrap();
        env.value_from.clone().unwrap().secret_key_ref.unwrap()
    };
    assert_eq!(secret("TENON_EGRESS_PROXY_USERNAME").key, "username");
    assert_eq!(secret("TENON_EGRESS_PROXY_PASSWORD").name, "proxy");
}

fn pool_with_front() -> RuntimePool {
    let mut pool = pool();
    pool.spec.front = Some(
        serde_json::from_value(json!({
            "serviceType": "LoadBalancer",
            "tlsSecretRefs": [{"name": "shop"}, {"name": "blog"}],
            "trustedProxies": ["10.0.0.0/8", "fd00:1::/32"],
        }))
        .unwrap(),
    );
    pool
}

#[test]
fn clients_reach_the_nodes_of_a_pool_with_a_front_through_a_service_of_their_own() {
    let families = ["IPv6".to_owned(), "IPv4".to_owned()].into();
    let front_families = Families { policy: Some("PreferDualStack".to_owned()), families };
    let settings = Settings { admit_fronts: true, front_families, ..settings() };
    let planned = children(&pool_with_front(), "tenon-system", &settings, None);
    // The headless Service, through which routers find nodes, keeps the cluster's default.
    assert_eq!(planned.service.spec.unwrap().ip_family_policy, None);
    let service = planned.front.unwrap();
    assert_eq!(service.name_any(), "tenon-pool-default-front");
    assert_eq!(service.owner_references()[0].uid, "u-1");
    let spec = service.spec.unwrap();
    assert_eq!(spec.type_.as_deref(), Some("LoadBalancer"));
    assert_eq!(spec.ip_family_policy.as_deref(), Some("PreferDualStack"));
    assert_eq!(spec.ip_families.unwrap(), ["IPv6", "IPv4"]);
    let pod = planned.deployment.spec.template.spec.unwrap();
    let container = &pod.containers[0];
    let open = container.ports.iter().flatten();
    let open: Vec<_> = open.map(|port| (port.name.clone().unwrap(), port.container_port)).collect();
    for (name, port, target) in [("http", 80, 8080), ("https", 443, 8443)] {
        let ports = spec.ports.as_ref().unwrap();
        let of_service = ports.iter().find(|of_service| of_service.port == port).unwrap();
        assert_eq!(of_service.target_port, Some(IntOrString::String(name.to_owned())));
        assert!(open.contains(&(name.to_owned(), target)), "{open:?}");
    }
    let args = container.args.as_ref().unwrap();
    for arg in [
        "--front=0.0.0.0:8080",
        "--admit-fronts",
        "--https-certificates=/etc/tenon/https",
        "--trusted-proxies=10.0.0.0/8,fd00:1::/32",
    ] {
        assert!(args.iter().any(|found| found == arg), "{args:?}");
    }
    let mounts: Vec<_> =
        container.volume_mounts.iter().flatten().map(|mount| mount.mount_path.as_str()).collect();
    for path in ["/etc/tenon/https/00-shop", "/etc/tenon/https/01-blog", "/var/cache/tenon-sites"] {
        assert!(mounts.contains(&path), "{mounts:?}");
    }
}

#[test]
fn a_front_that_the_operator_does_not_admit_changes_nothing() {
    let plain = plan_pool();
    let planned = children(&pool_with_front(), "tenon-system", &settings(), None);
    assert!(planned.front.is_none());
    assert_eq!(planned.deployment, plain.deployment);
}

#[test]
fn every_node_accepts_requests_from_fronts_if_the_operator_admits_them() {
    let settings = Settings { admit_fronts: true, ..settings() };
    let planned = children(&pool(), "tenon-system", &settings, None);
    let args = planned.deployment.spec.template.spec.unwrap().containers.swap_remove(0).args;
    assert!(args.unwrap().iter().any(|arg| arg == "--admit-fronts"));
    assert!(planned.front.is_none());
}

#[test]
fn every_child_is_owned_by_its_pool() {
    let planned = plan_pool();
    for owners in [
        planned.deployment.owner_references(),
        planned.service.owner_references(),
        planned.budget.owner_references(),
    ] {
        assert_eq!(owners[0].uid, "u-1");
    }
}
