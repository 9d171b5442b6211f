//! Advice about the keys of wrangler's configuration that correspond to no field of a Worker.

/// Returns advice about a key, or `None` if the key is not known.
pub(super) fn about(key: &str) -> Option<&'static str> {
    let found = ADVICE.iter().find(|(keys, _)| keys.contains(&key));
    found.map(|(_, advice)| *advice)
}

/// Returns whether environments inherit a key from the top level of the configuration.
pub(super) fn is_inherited(key: &str) -> bool {
    !NOT_INHERITED.contains(&key)
}

const NOT_INHERITED: &[&str] = &[
    "ai",
    "ai_search",
    "ai_search_namespaces",
    "analytics_engine_datasets",
    "artifacts",
    "browser",
    "cloudchamber",
    "containers",
    "d1_databases",
    "define",
    "dispatch_namespaces",
    "durable_objects",
    "flagship",
    "hyperdrive",
    "images",
    "kv_namespaces",
    "media",
    "mtls_certificates",
    "pipelines",
    "queues",
    "r2_buckets",
    "ratelimits",
    "secrets",
    "secrets_store_secrets",
    "send_email",
    "services",
    "stream",
    "streaming_tail_consumers",
    "tail_consumers",
    "unsafe",
    "unsafe_hello_world",
    "vars",
    "vectorize",
    "vpc_networks",
    "vpc_services",
    "worker_loaders",
    "workflows",
];

const BUNDLER: &str = "is an option of the bundler; if the code needs it, bundle with a command of \
                       your own in the annotation tenon.dev/build";
const NO_EFFECT: &str = "has no counterpart and needs none";
const STORE: &str = "there is no such storage; use a service with an HTTP interface through fetch, \
                     such as one in the cluster that the pool's egress allows";

const ADVICE: &[(&[&str], &str)] = &[
    (
        &[
            "$schema",
            "account_id",
            "first_party_worker",
            "keep_vars",
            "legacy_env",
            "logfwdr",
            "send_metrics",
            "unsafe_hello_world",
            "zone_id",
        ],
        NO_EFFECT,
    ),
    (&["compatibility_date"], "there are no dated changes of behavior"),
    (
        &[
            "alias",
            "base_dir",
            "define",
            "find_additional_modules",
            "jsx_factory",
            "jsx_fragment",
            "keep_names",
            "minify",
            "no_bundle",
            "preserve_file_names",
            "rules",
            "tsconfig",
        ],
        BUNDLER,
    ),
    (
        &["upload_source_maps"],
        "put the source map beside the module, in the same folder: stack traces then name the lines of the source",
    ),
    (&["dev"], "pass --listen to tenon dev"),
    (
        &["workers_dev", "preview_urls"],
        "a Worker without routes answers at <name>.<namespace>.<domain>",
    ),
    (&["d1_databases", "hyperdrive", "kv_namespaces", "r2_buckets", "vectorize"], STORE),
    (
        &["durable_objects", "migrations"],
        "there are no Durable Objects; keep state in a service in the cluster",
    ),
    (
        &["pipelines", "queues", "workflows"],
        "there are no queues or workflows; call a service in the cluster, or use spec.schedules",
    ),
    (
        &["pages_build_output_dir"],
        "marks a Pages project; name the folder in assets.directory, and the module in main",
    ),
    (&["previews"], "a tag in spec.traffic gives a revision a host of its own, for a preview"),
    (&["python_modules"], "there is no Python; write the Worker in JavaScript or TypeScript"),
    (
        &["ratelimits"],
        "there is no such binding; set spec.rateLimits, or count in a store such as Redis",
    ),
    (
        &["vpc_networks", "vpc_services"],
        "fetch the service by its host; the pool's egress opens networks that are not public",
    ),
    (
        &["worker_loaders"],
        "code cannot be loaded at run time; deploy the code as a Worker, and bind it in spec.services",
    ),
    (&["site"], "is replaced by the key assets, which tenon import translates; use assets instead"),
    (&["secrets_store_secrets"], "create a Kubernetes Secret, and bind its key in spec.secrets"),
    (
        &["logpush", "observability", "streaming_tail_consumers", "tail_consumers"],
        "nodes write each line of a Worker's log as JSON with the Worker's name; collect the lines with the cluster's log agent",
    ),
    (
        &["mtls_certificates"],
        "outgoing requests have no client certificates; send the requests through a service that adds a certificate",
    ),
    (
        &[
            "ai",
            "ai_search",
            "ai_search_namespaces",
            "analytics_engine_datasets",
            "artifacts",
            "browser",
            "cloudchamber",
            "containers",
            "flagship",
            "images",
            "media",
            "send_email",
            "stream",
        ],
        "there is no such binding; call a service with an HTTP interface through fetch",
    ),
    (
        &["dispatch_namespaces"],
        "route each tenant's hosts to a Worker of its own, in its own namespace",
    ),
    (&["compliance_region", "placement"], "spec.pool chooses the nodes that run the Worker"),
    (&["version_metadata"], "the name of the revision is in the Worker's status"),
    (
        &["unsafe", "wasm_modules", "text_blobs", "data_blobs"],
        "import the file as a module instead",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_piece_of_advice() {
        let mut keys: Vec<_> = ADVICE.iter().flat_map(|(keys, _)| keys.iter()).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }
}
