//! Tests snapshots, their digests, and their resolution.

use super::*;

fn modules(names: &[&str]) -> BTreeMap<String, Bytes> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), Bytes::from_static(b"export default {}")))
        .collect()
}

fn worker(names: &[&str]) -> Worker {
    let mut worker =
        Worker::new("cart", WorkerSpec::with_modules(split_modules(&modules(names)).0));
    worker.metadata.namespace = Some("shop".to_owned());
    worker
}

#[test]
fn the_only_module_is_the_entrypoint() {
    assert_eq!(
        snapshot(&worker(&["main.js"]), &modules(&["main.js"])).unwrap().entrypoint,
        "main.js"
    );
}

#[test]
fn worker_js_is_the_entrypoint_of_several_modules() {
    let names = ["a.js", "worker.js"];
    assert_eq!(snapshot(&worker(&names), &modules(&names)).unwrap().entrypoint, "worker.js");
    let names = ["a.js", "b.js"];
    assert_eq!(
        snapshot(&worker(&names), &modules(&names)),
        Err(SnapshotError::AmbiguousEntrypoint)
    );
}

#[test]
fn the_error_names_an_entrypoint_that_is_not_among_the_modules() {
    let mut worker = worker(&["a.js"]);
    worker.spec.entrypoint = Some("b.js".to_owned());
    assert_eq!(
        snapshot(&worker, &modules(&["a.js"])),
        Err(SnapshotError::UnknownEntrypoint("b.js".to_owned()))
    );
}

#[test]
fn a_change_of_configuration_changes_the_name() {
    let base = snapshot(&worker(&["a.js"]), &modules(&["a.js"])).unwrap();
    assert_eq!(base, snapshot(&worker(&["a.js"]), &modules(&["a.js"])).unwrap());

    let mut changed = worker(&["a.js"]);
    changed.spec.vars.insert("GREETING".to_owned(), "hi".to_owned());
    assert_ne!(
        revision_name(&snapshot(&changed, &modules(&["a.js"])).unwrap()),
        revision_name(&base)
    );
}

/// If digests changed, an upgrade of the operator would create a new revision of every Worker.
#[test]
fn digests_of_snapshots_do_not_change_from_version_to_version() {
    let plain = snapshot(&worker(&["a.js"]), &modules(&["a.js"])).unwrap();
    assert_eq!(plain.digest, "c4cf6fb53c53fd620b8e7a8b0c0cec2bb70b880000aa52615cbcbc6ac46d91c6");

    let mut full = worker(&["main.js"]);
    full.spec = serde_json::from_value(serde_json::json!({
        "source": {"configMapRef": {"name": "code"}},
        "entrypoint": "main.js",
        "pool": "fast",
        "routes": [{"host": "shop.example.com"}],
        "vars": {"GREETING": "hello"},
        "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "api"}}],
        "services": [{"name": "AUTH", "worker": "auth"}],
        "schedules": [{"cron": "0 0 * * *"}],
        "egress": {"allow": ["*.example.com:8443"]},
        "compatibilityFlags": ["nodejs_compat"],
        "limits": {"cpuMs": 20, "memoryMiB": 64},
        "state": "Reset",
        "revisionHistoryLimit": 3,
    }))
    .unwrap();
    let mut modules = modules(&["a.js", "main.js"]);
    modules.insert("data.bin".to_owned(), Bytes::from_static(&[0xff]));
    let full = snapshot(&full, &modules).unwrap();
    assert_eq!(full.digest, "a6e62db3123f2b7e7083b43e84a7867b7dfa91cf3774f6c7567b209c76322389");
}

#[test]
fn a_changed_secret_changes_the_digest_but_not_the_revision() {
    let mut worker = worker(&["a.js"]);
    let reference = SecretKeyRef { name: "keys".to_owned(), key: "api".to_owned() };
    worker.spec.secrets.push(Secret { name: "KEY".to_owned(), secret_key_ref: reference.clone() });
    let spec = snapshot(&worker, &modules(&["a.js"])).unwrap();
    let id = worker_id(&worker);
    let with = |value: &str| {
        resolve(&id, "cart-1", &spec, &PoolLimits::default(), |_| Some(value.to_owned())).unwrap()
    };
    assert_ne!(with("old").digest(), with("new").digest());
    let without = resolve(&id, "cart-1", &spec, &PoolLimits::default(), |_| None);
    assert_eq!(without, Err(MissingSecret { name: "KEY".to_owned(), reference }.into()));
}

#[test]
fn the_entrypoint_of_a_service_is_an_export_and_default_is_the_default_export() {
    for (entrypoint, bound) in [("Admin", Some("Admin")), ("default", None)] {
        let mut worker = worker(&["a.js"]);
        worker.spec.services.push(ServiceBinding {
            name: "AUTH".to_owned(),
            worker: "auth".to_owned(),
            entrypoint: Some(entrypoint.to_owned()),
        });
        let spec = snapshot(&worker, &modules(&["a.js"])).unwrap();
        let revision =
            resolve(&worker_id(&worker), "cart-1", &spec, &PoolLimits::default(), |_| None)
                .unwrap();
        let expected = BoundService {
            worker: WorkerId::new("shop", "auth"),
            entrypoint: bound.map(str::to_owned),
        };
        assert_eq!(revision.bindings["AUTH"], Binding::Service(expected));
    }
}

#[test]
fn a_service_is_a_worker_of_the_same_namespace() {
    let mut worker = worker(&["a.js"]);
    let (name, service) = ("AUTH".to_owned(), "auth".to_owned());
    worker.spec.services.push(ServiceBinding { name, worker: service, entrypoint: None });
    worker.spec.egress.allow = Some(vec!["*.example.com".to_owned()]);
    let spec = snapshot(&worker, &modules(&["a.js"])).unwrap();
    let revision =
        resolve(&worker_id(&worker), "cart-1", &spec, &PoolLimits::default(), |_| None).unwrap();
    assert_eq!(revision.bindings["AUTH"], Binding::Service(WorkerId::new("shop", "auth").into()));
    assert!(
        revision.egress.allows("api.example.com", 443)
            && !revision.egress.allows("example.net", 443)
    );
}

#[test]
fn static_files_belong_to_the_namespace_of_their_worker() {
    let mut worker = worker(&["a.js"]);
    worker.spec.assets = Some(Assets {
        binding: Some("FILES".to_owned()),
        html_handling: HtmlHandling::None,
        not_found_handling: NotFoundHandling::SinglePageApplication,
        run_worker_first: vec!["/api/*".to_owned()],
    });
    let layer = format!("sha256:{}", "1".repeat(64));
    let artifact = Artifact {
        image: "ghcr.io/acme/cart:v1".to_owned(),
        digest: format!("sha256:{}", "2".repeat(64)),
        assets: Some(layer),
        pull_secret_ref: None,
    };
    let spec = snapshot_of_artifact(&worker, artifact, "a.js".to_owned());
    let resolved = |namespace| {
        let id = WorkerId::new(namespace, "cart");
        resolve(&id, "cart-1", &spec, &PoolLimits::default(), |_| None).unwrap()
    };
    let (revision, other) = (resolved("shop"), resolved("other"));
    assert_eq!(revision.bindings["FILES"], Binding::Assets);
    let assets = revision.assets.unwrap();
    assert_eq!(assets.html_handling(), catalog::HtmlHandling::None);
    assert_eq!(assets.not_found_handling(), catalog::NotFoundHandling::SinglePageApplication);
    assert_eq!(assets.run_worker_first, ["/api/*"]);
    assert_ne!(assets.site, other.assets.unwrap().site);
}

#[test]
fn a_field_that_a_worker_does_not_set_is_not_in_its_snapshot() {
    let spec = snapshot(&worker(&["a.js"]), &modules(&["a.js"])).unwrap();
    let spec = serde_json::to_value(spec).unwrap();
    for field in ["services", "assets", "egress", "compatibilityFlags", "state"] {
        assert!(spec.get(field).is_none(), "{field} changes the digests of existing revisions");
    }
}

#[test]
fn a_worker_without_routes_answers_to_its_own_name() {
    let route = &routes(&worker(&["a.js"]), "example.com")[0];
    assert_eq!((route.host.as_str(), route.path.as_str()), ("cart.shop.example.com", "/"));
}
