//! Tests which keys of a configuration are translated, and which get a note.

use tenon_crds::Worker;

use super::*;

fn worker_and_notes(config: Value) -> (Value, Vec<String>) {
    let translation = translate(&config, None, "folder", &[]).unwrap();
    // Fails if the manifest is not a valid Worker.
    serde_json::from_value::<Worker>(translation.worker.clone()).unwrap();
    (translation.worker, translation.notes.iter().map(ToString::to_string).collect())
}

#[test]
fn keys_with_a_counterpart_are_carried_over_without_a_note() {
    let (worker, notes) = worker_and_notes(json!({
        "name": "shop",
        "main": "src/index.ts",
        "routes": ["shop.example.com/*", { "pattern": "api.example.com", "custom_domain": true }],
        "vars": { "GREETING": "hello" },
        "services": [{ "binding": "AUTH", "service": "auth", "entrypoint": "Admin" }],
        "triggers": { "crons": ["*/5 * * * *"] },
        "limits": { "cpu_ms": 50, "subrequests": 200 },
        "compatibility_flags": ["nodejs_compat"],
    }));
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(worker["metadata"]["name"], "shop");
    assert_eq!(
        worker["spec"],
        json!({
            "entrypoint": "index.js",
            "source": { "configMapRef": { "name": "shop" } },
            "routes": [
                { "host": "shop.example.com", "path": "/" },
                { "host": "api.example.com", "path": "/" },
            ],
            "vars": { "GREETING": "hello" },
            "services": [{ "name": "AUTH", "worker": "auth", "entrypoint": "Admin" }],
            "schedules": [{ "cron": "*/5 * * * *" }],
            "limits": { "cpuMs": 50, "subrequests": 200 },
            "compatibilityFlags": ["nodejs_compat"],
        })
    );
}

#[test]
fn no_key_is_dropped_silently() {
    let keys = ["kv_namespaces", "compatibility_date", "site", "workers_dev", "frobnicate"];
    for key in keys {
        let (_, notes) = worker_and_notes(json!({ "name": "shop", key: ["a"] }));
        assert_eq!(notes.len(), 1, "{key}: {notes:?}");
        assert!(notes[0].starts_with(key), "{notes:?}");
    }
}

#[test]
fn secrets_of_the_configuration_and_of_the_machine_are_bound_once() {
    let config = json!({ "name": "shop", "secrets": { "required": ["API_KEY", "OTHER"] } });
    let local = ["API_KEY".to_owned(), "LOCAL".to_owned()];
    let Translation { worker, notes, .. } = translate(&config, None, "", &local).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let bound = worker["spec"]["secrets"].as_array().unwrap();
    let names: Vec<_> = bound.iter().map(|secret| secret["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["API_KEY", "LOCAL", "OTHER"]);
}

#[test]
fn a_limit_above_the_maximum_becomes_the_maximum() {
    let (worker, notes) = worker_and_notes(json!({ "limits": { "subrequests": 10_000_000 } }));
    assert_eq!(worker["spec"]["limits"], json!({ "subrequests": 10_000 }));
    assert_eq!(notes, ["limits.subrequests: becomes 10000, the maximum"]);
}

#[test]
fn a_recent_compatibility_date_implies_the_modules_of_node_js() {
    for (date, flags, expected) in [
        ("2026-01-01", json!([]), json!(null)),
        ("2026-08-04", json!([]), json!(["nodejs_compat"])),
        ("2027-01-01", json!(["no_nodejs_compat_v2"]), json!(["nodejs_compat"])),
        ("2027-01-01", json!(["no_nodejs_compat"]), json!(null)),
    ] {
        let config = json!({ "compatibility_date": date, "compatibility_flags": flags });
        let (worker, _) = worker_and_notes(config);
        assert_eq!(worker["spec"]["compatibilityFlags"], expected, "{date} {flags}");
    }
}

#[test]
fn a_key_without_content_needs_no_note() {
    let queues = json!({ "producers": [], "consumers": [] });
    let (_, notes) = worker_and_notes(
        json!({ "name": "shop", "queues": queues, "kv_namespaces": [], "triggers": {} }),
    );
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn static_files_are_carried_over_with_their_settings() {
    let (worker, notes) = worker_and_notes(json!({
        "name": "shop",
        "main": "src/index.ts",
        "assets": {
            "directory": "./dist",
            "binding": "FILES",
            "html_handling": "none",
            "not_found_handling": "single-page-application",
            "run_worker_first": ["/api/*", "!/api/docs/*"],
        },
    }));
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(
        worker["metadata"]["annotations"],
        json!({ "tenon.dev/assets": "./dist", "tenon.dev/main": "src/index.ts" })
    );
    assert_eq!(
        worker["spec"]["assets"],
        json!({
            "binding": "FILES",
            "htmlHandling": "None",
            "notFoundHandling": "SinglePageApplication",
            "runWorkerFirst": ["/api/*", "!/api/docs/*"],
        })
    );
}

#[test]
fn static_files_without_code_get_code_that_serves_them() {
    let config = json!({ "name": "site", "assets": { "directory": "public" } });
    let Translation { worker, steps, .. } = translate(&config, None, "", &[]).unwrap();
    assert_eq!(worker["spec"]["assets"], json!({ "binding": "ASSETS" }));
    assert_eq!(worker["spec"]["source"]["modules"]["worker.js"], ONLY_ASSETS);
    assert_eq!(steps, ["tenon dev worker.yaml, or tenon deploy worker.yaml --registry PREFIX"]);
}

#[test]
fn a_malformed_value_gets_a_note() {
    for (key, value) in [
        ("main", json!(1)),
        ("vars", json!([])),
        ("routes", json!([{}])),
        ("services", json!([{ "binding": "A" }])),
        ("triggers", json!({ "crons": 1 })),
    ] {
        let (_, notes) = worker_and_notes(json!({ "name": "shop", key: value }));
        assert!(notes[0].contains("form"), "{key}: {notes:?}");
    }
}

#[test]
fn names_and_variables_that_change_are_noted() {
    let (worker, notes) =
        worker_and_notes(json!({ "name": "My_Shop", "vars": { "LIMIT": 3, "ON": { "a": true } } }));
    assert_eq!(worker["metadata"]["name"], "my-shop");
    assert_eq!(worker["spec"]["vars"], json!({ "LIMIT": "3", "ON": "{\"a\":true}" }));
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(worker_and_notes(json!({})).0["metadata"]["name"], "folder");
}

#[test]
fn an_environment_inherits_routes_and_not_vars() {
    let config = json!({
        "name": "shop",
        "main": "a.js",
        "vars": { "TOP": "level" },
        "route": "example.com/*",
        "env": { "staging": { "vars": { "STAGE": "yes" } } },
    });
    let translation = translate(&config, Some("staging"), "", &[]).unwrap();
    assert_eq!(translation.worker["metadata"]["name"], "shop-staging");
    assert_eq!(translation.worker["spec"]["vars"], json!({ "STAGE": "yes" }));
    assert_eq!(translation.worker["spec"]["routes"][0]["host"], "example.com");
    let error = translate(&config, Some("prod"), "", &[]).unwrap_err();
    assert_eq!(error, TranslateError::NoEnvironment("prod".into(), "staging".into()));
}

#[test]
fn the_command_and_the_main_module_become_annotations() {
    let config =
        json!({ "name": "a", "main": "src/i.ts", "build": { "command": "npm run build" } });
    let Translation { worker, steps, .. } = translate(&config, None, "", &[]).unwrap();
    let annotations = json!({ "tenon.dev/build": "npm run build", "tenon.dev/main": "src/i.ts" });
    assert_eq!(worker["metadata"]["annotations"], annotations);
    assert_eq!(steps, ["tenon dev worker.yaml, or tenon deploy worker.yaml"]);
}

#[test]
fn secrets_are_bound_to_keys_of_a_secret_of_the_worker_unless_they_are_variables() {
    let config = json!({ "name": "a", "main": "a.js", "vars": { "MODE": "test" } });
    let secrets = ["API_KEY".to_owned(), "MODE".to_owned()];
    let Translation { worker, steps, .. } = translate(&config, None, "", &secrets).unwrap();
    let bound = json!([{ "name": "API_KEY", "secretKeyRef": { "name": "a", "key": "API_KEY" } }]);
    assert_eq!(worker["spec"]["secrets"], bound);
    assert!(steps[1].starts_with("tenon secret put a API_KEY"), "{steps:?}");
}
