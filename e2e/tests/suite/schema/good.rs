//! Valid objects, which together set every field.

use serde_json::{Value, json};

pub fn workers() -> Vec<Value> {
    let full = json!({
        "source": {"modules": {"worker.js": "export default {}", "lib/greet.js": "export const x = 1"}},
        "entrypoint": "worker.js",
        "pool": "default",
        "routes": [{"host": "shop.example.com", "path": "/api/v1"}, {"host": "*.example.com"}],
        "traffic": [
            {"revision": "good-91bc03e7aa", "percent": 90, "tag": "old"}, {"percent": 10, "tag": "next"},
        ],
        "sessionAffinity": {"cookie": "session"},
        "affinity": "Strict",
        "rateLimits": {
            "worker": {"requestsPerSecond": 500, "burst": 1000}, "client": {"requestsPerSecond": 10},
        },
        "vars": {"GREETING": "Hello"},
        "secrets": [
            {"name": "KEY", "secretKeyRef": {"name": "keys", "key": "main"}},
            {"name": "OTHER", "secretKeyRef": {"name": "keys", "key": "other.pem"}},
        ],
        "services": [
            {"name": "AUTH", "worker": "auth", "entrypoint": "Admin"}, {"name": "SEARCH", "worker": "search.v2"},
        ],
        "schedules": [
            {"cron": "*/15 9-17 * * MON-FRI", "timeZone": "Europe/Berlin"}, {"cron": "0,30 0 1 JAN *"},
        ],
        "egress": {"allow": ["api.example.com", "*.example.com:8443"]},
        "compatibilityFlags": ["nodejs_compat"],
        "limits": {
            "cpuMs": 50, "wallMs": 1000, "memoryMiB": 64, "startupMs": 400, "concurrency": 10, "requestBodyMiB": 1,
            "subrequests": 20,
        },
        "state": "Reset",
        "revisionHistoryLimit": 3,
    });
    let rollout = json!({
        "steps": [{"percent": 1, "durationSeconds": 30}, {"percent": 50, "durationSeconds": 86400}],
        "analysis": {"minRequests": 200, "maxErrorPercent": 2, "maxP99Percent": 100},
    });
    let from_config_map = json!({"source": {"configMapRef": {"name": "code"}}, "entrypoint": "worker.js", "sessionAffinity": {"header": "X-User"}, "rollout": rollout});
    let without_entrypoint =
        json!({"source": {"modules": {"worker.js": "export default {}", "b.js": ""}}});
    let from_artifact = json!({
        "source": {"oci": {
            "image": "registry.example.com:5000/acme/shop:v1.2", "pullSecretRef": {"name": "registry"},
        }},
        "services": [{"name": "AUTH", "worker": "auth"}],
        "assets": {
            "binding": "ASSETS",
            "htmlHandling": "DropTrailingSlash",
            "notFoundHandling": "SinglePageApplication",
            "runWorkerFirst": ["/api/*", "!/api/docs/*"],
        },
    });
    let one_module = json!({"source": {"modules": {"worker.js": "export default {}"}}});
    vec![
        object("Worker", "good", full),
        object("Worker", "of-config-map", from_config_map),
        object("Worker", "of-artifact", from_artifact),
        object("Worker", "without-entrypoint", without_entrypoint),
        object("Worker", "of-one-module", one_module),
    ]
}

/// Returns a Worker whose lists, maps and names are as long as the schema allows. The values of
/// `modules` and `vars` are shorter, because the API server bounds the size of an object.
pub fn largest_worker() -> Value {
    let long = |i: usize, length: usize| format!("{:a<length$}", format!("n{i}-"));
    let names =
        |count: usize, length: usize| (0..count).map(move |i| long(i, length).replace('-', "_"));
    let modules = names(255, 253).map(|name| (name, json!("x".repeat(2_000))));
    let modules: serde_json::Map<_, _> =
        modules.chain([("worker.js".to_owned(), json!("export default {}"))]).collect();
    let vars: serde_json::Map<_, _> =
        names(128, 63).map(|name| (name, json!("x".repeat(2_000)))).collect();
    let secret = |name| json!({"name": name, "secretKeyRef": {"name": "a".repeat(253), "key": "a".repeat(253)}});
    let service =
        |name| json!({"name": name, "worker": "a".repeat(63), "entrypoint": "E".repeat(63)});
    let schedule = |i| {
        let cron = format!("{i}{} * * * *", ",59".repeat(39));
        json!({"cron": cron, "timeZone": "America/Argentina/ComodRivadavia"})
    };
    let host = |i| format!("*.{}.{0}.{0}.example", long(i, 63).trim_end_matches('-'));
    let routes: Vec<_> = (0..32)
        .map(|i| json!({"host": host(i), "path": format!("/{}", "a".repeat(1_023))}))
        .collect();
    let target = |i| json!({"revision": long(i, 253), "percent": if i == 0 { 100 } else { 0 }});
    let spec = json!({
        "source": {"modules": modules},
        "pool": "p".repeat(42),
        "routes": routes,
        "traffic": (0..8).map(target).collect::<Vec<_>>(),
        "sessionAffinity": {"header": "x".repeat(128)},
        "vars": vars,
        "secrets": names(64, 60).map(|name| secret(format!("SEC{name}"))).collect::<Vec<_>>(),
        "services": names(64, 60).map(|name| service(format!("SER{name}"))).collect::<Vec<_>>(),
        "schedules": (0..16).map(schedule).collect::<Vec<_>>(),
        "egress": {"allow": (0..128).map(|i| format!("{}:65535", host(i))).collect::<Vec<_>>()},
        "compatibilityFlags": ["nodejs_compat"],
    });
    object("Worker", &"w".repeat(63), spec)
}

pub fn revisions() -> [Value; 2] {
    let digest = "0".repeat(64);
    let from_artifact = json!({
        "worker": "good",
        "digest": "1".repeat(64),
        "entrypoint": "worker.js",
        "services": [{"name": "AUTH", "worker": "auth"}],
        "assets": {"binding": "ASSETS", "runWorkerFirst": ["/api/*"]},
        "artifact": {
            "image": "ghcr.io/acme/shop:v1",
            "digest": format!("sha256:{digest}"),
            "assets": format!("sha256:{digest}"),
            "pullSecretRef": {"name": "registry"},
        },
    });
    let spec = json!({
        "worker": "good",
        "digest": digest,
        "entrypoint": "worker.js",
        "modules": {"worker.js": "export default {}"},
        "binaryModules": {"lib/add.wasm": "AGFzbQEAAAA="},
        "vars": {"GREETING": "Hello"},
        "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "main"}}],
        "services": [{"name": "AUTH", "worker": "auth", "entrypoint": "Admin"}],
        "egress": {"allow": ["api.example.com", "*.example.com:8443"]},
        "compatibilityFlags": ["nodejs_compat"],
        "limits": {"cpuMs": 50},
        "state": "Persist",
    });
    [
        object("WorkerRevision", "good-0000000000", spec),
        object("WorkerRevision", "good-1111111111", from_artifact),
    ]
}

pub fn pool() -> Value {
    let spec = json!({
        "replicas": 3,
        "shardsPerNode": 2,
        "lanes": 2,
        "isolatesPerShard": 100,
        "drainGraceSeconds": 900,
        "maxSurge": "25%",
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": 3}},
        "limits": {"default": {"cpuMs": 50, "memoryMiB": 64}, "max": {"cpuMs": 50, "memoryMiB": 64}},
        "rateLimits": {"namespace": {"requestsPerSecond": 1000, "burst": 2000}},
        "egress": {
            "allowCidrs": ["10.1.0.0/16", "fd00:1::/32"],
            "denyCidrs": ["203.0.113.0/24"],
            "caCertificates": [
                {"configMapKeyRef": {"name": "authorities", "key": "ca.crt"}},
                {"secretKeyRef": {"name": "inner-ca", "key": "ca.crt"}},
            ],
            "proxy": {
                "url": "http://proxy.example.com:3128",
                "credentialsSecretRef": {"name": "proxy"},
                "resolver": "Node",
            },
        },
        "allowedNamespaces": {"from": "Selector", "selector": selector()},
        "front": {
            "serviceType": "NodePort",
            "tlsSecretRefs": [{"name": "shop"}, {"name": "blog"}],
            "trustedProxies": ["10.0.0.0/8"],
        },
        "runtimeClassName": "gvisor",
        "nodeSelector": {"example.com/disk": "fast"},
        "tolerations": [
            {"key": "tenants", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "example.com/busy", "operator": "Equal", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 9},
        ],
        "topologySpread": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
            {"maxSkew": 2, "topologyKey": "disk", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
        ],
    });
    object("RuntimePool", "good", spec)
}

/// Returns grants that together set every field.
pub fn grants() -> [Value; 2] {
    let hosts = ["shop.example.com", "*.example.org"];
    let by_label = json!({"hosts": hosts, "namespaces": {"names": ["shop", "shop-2"], "selector": selector()}});
    let by_name = json!({"hosts": ["www.example.com"], "namespaces": {"names": ["www"]}});
    [object("HostGrant", "good", by_label), object("HostGrant", "by-name", by_name)]
}

fn selector() -> Value {
    json!({
        "matchLabels": {"example.com/tier": "gold", "team": "shop"},
        "matchExpressions": [
            {"key": "example.com/region", "operator": "In", "values": ["eu", "us.east"]},
            {"key": "deprecated", "operator": "DoesNotExist"},
        ],
    })
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "tenon.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}
