//! Tests every field of the objects that are applied for a pool.

use super::*;

/// Server-side apply makes the operator the owner of exactly the fields that an object contains, so
/// an additional empty field is a change too.
#[test]
fn the_applied_objects_have_these_fields_and_no_others() {
    let pool: RuntimePool = serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": "fast", "uid": "u-2"},
        "spec": {
            "replicas": 4,
            "shardsPerNode": 1,
            "lanes": 1,
            "isolatesPerShard": 50,
            "drainGraceSeconds": 60,
            "maxSurge": "25%",
            "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
            "egress": {
                "caCertificates": [{"configMapKeyRef": {"name": "authorities", "key": "all.pem"}}],
                "proxy": {
                    "url": "http://proxy.test:3128", "credentialsSecretRef": {"name": "proxy"},
                },
            },
            "runtimeClassName": "gvisor",
            "nodeSelector": {"disk": "fast"},
            "tolerations": [
                {
                    "key": "tenants", "operator": "Equal", "value": "a", "effect": "NoExecute",
                    "tolerationSeconds": 30,
                },
                {"operator": "Exists"},
            ],
            "topologySpread": [{
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 2,
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 3,
            }],
        },
    }))
    .unwrap();
    let settings = Settings {
        image_pull_policy: Some("IfNotPresent".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        service_account: Some("node".to_owned()),
        priority_class: Some("high".to_owned()),
        pod_labels: BTreeMap::from([("team".to_owned(), "platform".to_owned())]),
        pod_annotations: BTreeMap::from([("an".to_owned(), "annotation".to_owned())]),
        architectures: vec!["amd64".to_owned(), "arm64".to_owned()],
        listen_ip: Some("::".parse().unwrap()),
        tls_secret: Some("node-tls".to_owned()),
        ..settings()
    };
    let Children { deployment, service, budget, .. } =
        children(&pool, "tenon-system", &settings, Some("d1"));

    let selector =
        json!({"app.kubernetes.io/name": "tenon-runtime-node", "tenon.dev/pool": "fast"});
    let labels = json!({
        "app.kubernetes.io/name": "tenon-runtime-node",
        "app.kubernetes.io/managed-by": "tenon",
        "app.kubernetes.io/component": "runtime-node",
        "tenon.dev/pool": "fast",
    });
    let mut labels_of_pods = labels.clone();
    labels_of_pods["team"] = json!("platform");
    let owner = json!({
        "apiVersion": "tenon.dev/v1alpha1", "kind": "RuntimePool", "name": "fast", "uid": "u-2",
        "controller": true, "blockOwnerDeletion": true,
    });
    let metadata = json!({
        "name": "tenon-pool-fast", "namespace": "tenon-system", "labels": labels,
        "ownerReferences": [owner],
    });
    assert_eq!(
        serde_json::to_value(service).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "clusterIP": "None",
                "selector": selector,
                "ports": [
                    {"name": "shard-0", "port": 7100, "targetPort": "shard-0", "protocol": "TCP"},
                    {"name": "lane-0", "port": 7101, "targetPort": "lane-0", "protocol": "TCP"},
                ],
            },
        })
    );
    assert_eq!(
        serde_json::to_value(budget).unwrap(),
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": selector},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        })
    );
    let secret = |name: &str, key: &str| {
        let reference = json!({"name": "proxy", "key": key});
        json!({"name": name, "valueFrom": {"secretKeyRef": reference}})
    };
    let container = json!({
        "name": "runtime-node",
        "image": "node:1",
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "--catalog=http://operator:7070",
            "--starting-catalog=http://operator-starting:7070",
            "--router=http://router:8081",
            "--shards=1",
            "--lanes=1",
            "--shard-port=7100",
            "--profile-port=9091",
            "--isolates-per-shard=50",
            "--drain-grace=60s",
            "--code-cache-dir=/var/cache/tenon/code",
            "--tls-dir=/etc/tenon/tls",
            "--listen-ip=::",
            "--admin-listen=[::]:9090",
            "--egress-ca-file=/etc/tenon/authorities/0.pem",
            "--egress-proxy=http://proxy.test:3128",
            "--egress-proxy-resolver=node",
            "--log-level=warn",
        ],
        "env": [
            {"name": "TENON_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            secret("TENON_EGRESS_PROXY_USERNAME", "username"),
            secret("TENON_EGRESS_PROXY_PASSWORD", "password"),
        ],
        "ports": [
            {"name": "shard-0", "containerPort": 7100},
            {"name": "lane-0", "containerPort": 7101},
            {"name": "admin", "containerPort": 9090},
        ],
        "volumeMounts": [
            {"name": "cache", "mountPath": "/var/cache/tenon"},
            {"name": "tls", "mountPath": "/etc/tenon/tls", "readOnly": true},
            {"name": "authorities", "mountPath": "/etc/tenon/authorities", "readOnly": true},
        ],
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "admin"}, "periodSeconds": 5},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "admin"}, "periodSeconds": 5},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let authorities =
        json!({"name": "authorities", "items": [{"key": "all.pem", "path": "0.pem"}]});
    let architectures = json!([{"matchExpressions": [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
    ]}]);
    let pod = json!({
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": architectures,
        }}},
        "automountServiceAccountToken": false,
        "serviceAccountName": "node",
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "enableServiceLinks": false,
        "runtimeClassName": "gvisor",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [
            {
                "key": "tenants", "operator": "Equal", "value": "a", "effect": "NoExecute",
                "tolerationSeconds": 30,
            },
            {"operator": "Exists"},
        ],
        "topologySpreadConstraints": [{
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 2,
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 3,
            "labelSelector": {"matchLabels": selector},
        }],
        "terminationGracePeriodSeconds": 70,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "cache", "emptyDir": {"sizeLimit": "2Gi"}},
            {"name": "tls", "secret": {"secretName": "node-tls"}},
            {"name": "authorities", "projected": {"sources": [{"configMap": authorities}]}},
        ],
    });
    assert_eq!(
        serde_json::to_value(deployment).unwrap(),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 4,
                "revisionHistoryLimit": 1,
                "selector": {"matchLabels": selector},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
                },
                "template": {
                    "metadata": {
                        "labels": labels_of_pods,
                        "annotations": {"an": "annotation", "tenon.dev/references": "d1"},
                    },
                    "spec": pod,
                },
            },
        })
    );
}

#[test]
fn a_plain_pool_is_applied_with_empty_lists_and_maps() {
    let pod = plan_pool().deployment.spec.template.spec.unwrap();
    assert_eq!((pod.node_selector, pod.tolerations), (Some(BTreeMap::new()), Some(Vec::new())));
    assert_eq!(pod.containers[0].resources.clone().unwrap().requests, Some(BTreeMap::new()));
    assert_eq!(plan_pool().deployment.spec.template.metadata.unwrap().annotations, None);
    assert_eq!(pod.affinity, None);
}
