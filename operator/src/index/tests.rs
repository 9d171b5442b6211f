//! Tests which Workers a changed object affects, and what is served of them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use tenon_crds::{Accepted, RuntimePool, SessionAffinity, WorkerStatus};
use tenon_proto::catalog::session_affinity::Part;

use super::*;

mod boundaries;

fn worker(name: &str, spec: serde_json::Value) -> Worker {
    serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
    }))
    .unwrap()
}

/// Returns the status of a Worker whose revision `cart-1` serves.
fn accepted(pool: &str, host: &str) -> WorkerStatus {
    let routes = vec![tenon_crds::AcceptedRoute { host: host.to_owned(), path: "/".to_owned() }];
    WorkerStatus {
        latest_revision: Some("cart-1".to_owned()),
        accepted: Some(Accepted { pool: pool.to_owned(), routes, ..Accepted::default() }),
        ..WorkerStatus::default()
    }
}

fn applied<K>(object: K) -> Watched<K> {
    Watched::Applied(Arc::new(object))
}

fn id(name: &str) -> WorkerId {
    WorkerId::new("shop", name)
}

fn secret(value: &str) -> Secret {
    let data = BTreeMap::from([("api".to_owned(), ByteString(value.into()))]);
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some("keys".to_owned());
    secret.metadata.namespace = Some("shop".to_owned());
    secret.metadata.uid = Some("17a5f3c0".to_owned());
    secret
}

fn snapshot_of(worker: &Worker, name: &str) -> WorkerRevision {
    let modules =
        BTreeMap::from([("worker.js".to_owned(), Bytes::from_static(b"export default {}"))]);
    let mut revision = WorkerRevision::new(name, revision::snapshot(worker, &modules).unwrap());
    revision.metadata.namespace = Some("shop".to_owned());
    revision
}

#[test]
fn a_pull_secret_affects_the_workers_that_name_it() {
    let mut index = Index::new("localhost");
    let oci = json!({"image": "ghcr.io/acme/cart:v1", "pullSecretRef": {"name": "keys"}});
    index.apply(Change::Worker(applied(worker("cart", json!({"source": {"oci": oci}})))));
    let pull_secret = |index: &Index| match index.candidate(&id("cart")).unwrap().source {
        SourceState::Artifact { pull_secret, .. } => pull_secret,
        other => panic!("{other:?}"),
    };
    assert!(pull_secret(&index).is_none());
    let touched = index.apply(Change::Secret(applied(secret("a"))));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    assert!(pull_secret(&index).is_some());
}

#[test]
fn a_config_map_affects_the_workers_that_name_it() {
    let mut index = Index::new("localhost");
    index.apply(Change::Worker(applied(worker(
        "cart",
        json!({"source": {"configMapRef": {"name": "code"}}}),
    ))));
    index.apply(Change::Worker(applied(worker(
        "other",
        json!({"source": {"modules": {"a.js": ""}}}),
    ))));
    assert_eq!(
        index.candidate(&id("cart")).unwrap().source,
        SourceState::MissingConfigMap("code".to_owned())
    );

    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some("code".to_owned());
    config_map.metadata.namespace = Some("shop".to_owned());
    config_map.data = Some(BTreeMap::from([("worker.js".to_owned(), "1".to_owned())]));
    let touched = index.apply(Change::ConfigMap(applied(config_map)));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    let source = index.candidate(&id("cart")).unwrap().source;
    assert_eq!(source.modules().map(BTreeMap::len), Some(1));
}

#[test]
fn a_worker_is_served_once_its_status_names_an_existing_revision() {
    let mut index = Index::new("localhost");
    let mut cart = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    index.apply(Change::Worker(applied(cart.clone())));
    assert!(matches!(index.serving(&id("cart")), ServingState::None));

    cart.status = Some(accepted("default", "cart.shop.localhost"));
    index.apply(Change::Worker(applied(cart.clone())));
    assert!(matches!(index.serving(&id("cart")), ServingState::Unresolved));

    let touched = index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    assert_eq!(serving.routes[0].host, "cart.shop.localhost");
}

#[test]
fn a_changed_secret_changes_the_digest_and_a_deleted_one_leaves_it_unresolved() {
    let mut index = Index::new("localhost");
    let mut cart = worker(
        "cart",
        json!({
            "source": {"modules": {"worker.js": ""}},
            "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "api"}}],
        }),
    );
    cart.status = Some(accepted("default", "cart.shop.localhost"));
    index.apply(Change::Worker(applied(cart.clone())));
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    assert!(matches!(index.serving(&id("cart")), ServingState::Unresolved));

    let digest = |index: &Index| match index.serving(&id("cart")) {
        ServingState::Serving(serving) => serving.shares[0].digest.get(),
        _ => panic!("not served"),
    };
    assert_eq!(
        index.apply(Change::Secret(applied(secret("old")))).workers,
        BTreeSet::from([id("cart")])
    );
    let old = digest(&index);
    index.apply(Change::Secret(applied(secret("new"))));
    assert_ne!(digest(&index), old);
    index.apply(Change::Secret(Watched::Deleted(("shop".to_owned(), "keys".to_owned()))));
    assert!(matches!(index.serving(&id("cart")), ServingState::Unresolved));
}

#[test]
fn a_worker_without_its_secret_keeps_the_recorded_digest() {
    let mut index = Index::new("localhost");
    let mut cart = worker(
        "cart",
        json!({
            "source": {"modules": {"worker.js": ""}},
            "secrets": [{"name": "KEY", "secretKeyRef": {"name": "keys", "key": "api"}}],
        }),
    );
    cart.status = Some(accepted("default", "cart.shop.localhost"));
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    index.apply(Change::Worker(applied(cart.clone())));
    index.apply(Change::Secret(applied(secret("value"))));
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    let unsalted = Revision { salt: Bytes::new(), ..(*serving.shares[0].revision).clone() };
    let digest = serving.shares[0].digest.get();
    assert_ne!(
        digest,
        unsalted.digest(),
        "the digest is not salted, so secrets can be guessed from it"
    );

    cart.status.as_mut().unwrap().accepted.as_mut().unwrap().digest = Some(digest.to_string());
    let mut restarted = Index::new("localhost");
    restarted.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    restarted.apply(Change::Worker(applied(cart)));
    let ServingState::Serving(held) = restarted.serving(&id("cart")) else { panic!("not served") };
    assert_eq!((held.shares[0].digest, &held.routes), (Digest::Held(digest), &serving.routes));
    restarted.apply(Change::Secret(applied(secret("value"))));
    let ServingState::Serving(again) = restarted.serving(&id("cart")) else { panic!("not served") };
    assert_eq!(again.shares[0].digest, Digest::Resolved(digest));
}

fn pool(max_cpu_ms: Option<i32>, ready: i32) -> RuntimePool {
    serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": "default"},
        "spec": {"limits": {"max": {"cpuMs": max_cpu_ms}}},
        "status": {"replicas": 2, "readyReplicas": ready},
    }))
    .unwrap()
}

#[test]
fn the_limits_of_a_pool_affect_its_workers_and_its_status_does_not() {
    let mut index = Index::new("localhost");
    let mut cart = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    cart.status = Some(accepted("default", "cart.shop.localhost"));
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    index.apply(Change::Worker(applied(cart)));
    let elsewhere = json!({"source": {"modules": {"worker.js": ""}}, "pool": "other"});
    index.apply(Change::Worker(applied(worker("elsewhere", elsewhere))));
    let granted = |index: &Index| match index.serving(&id("cart")) {
        ServingState::Serving(serving) => serving.shares[0].revision.limits.cpu_ms,
        _ => panic!("not served"),
    };
    assert_eq!(granted(&index), 1000);

    let touched = index.apply(Change::Pool(applied(pool(Some(20), 0))));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    assert_eq!(granted(&index), 20);
    assert_eq!(index.apply(Change::Pool(applied(pool(Some(20), 1)))), Touched::default());
    let touched =
        index.apply(Change::Pool(Watched::Deleted((String::new(), "default".to_owned()))));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    assert_eq!(granted(&index), 1000);
}

#[test]
fn a_quarantine_is_returned_only_for_a_revision_that_serves() {
    let mut index = Index::new("localhost");
    let mut cart = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    let status = |latest: &str| {
        let quarantine = json!({
            "revision": "cart-1", "cause": "Hung", "node": "node-a", "times": 2,
            "since": "2030-01-01T00:00:00Z", "until": "2030-01-01T00:00:20Z",
        });
        serde_json::from_value(json!({"latestRevision": latest, "quarantine": quarantine})).unwrap()
    };
    cart.status = Some(status("cart-1"));
    index.apply(Change::Worker(applied(cart.clone())));
    assert!(index.is_unhealthy(&id("cart")));
    assert_eq!(index.quarantine(&id("cart")).map(|quarantine| quarantine.times), Some(2));
    cart.status = Some(status("cart-2"));
    index.apply(Change::Worker(applied(cart)));
    // The entry still has to be removed from the status.
    assert!(index.is_unhealthy(&id("cart")) && index.quarantine(&id("cart")).is_none());
}

#[test]
fn the_route_of_a_deleted_worker_passes_to_the_next() {
    let mut index = Index::new("localhost");
    let spec =
        json!({"source": {"modules": {"a.js": ""}}, "routes": [{"host": "shop.example.com"}]});
    index.apply(Change::Worker(applied(worker("a", spec.clone()))));
    index.apply(Change::Worker(applied(worker("b", spec))));
    assert_eq!(index.candidate(&id("b")).unwrap().routes[0].1, Holder::Worker(id("a")));
    let touched =
        index.apply(Change::Worker(Watched::Deleted(("shop".to_owned(), "a".to_owned()))));
    assert_eq!(touched.workers, BTreeSet::from([id("a"), id("b")]));
    assert_eq!(index.candidate(&id("b")).unwrap().routes[0].1, Holder::Claimant);
}

#[test]
fn the_accepted_revision_serves_regardless_of_the_spec() {
    let mut index = Index::new("localhost");
    let spec = json!({
        "source": {"modules": {"worker.js": "broken("}},
        "pool": "defualt",
        "routes": [{"host": "new.example.com"}],
        "secrets": [{"name": "KEY", "secretKeyRef": {"name": "missing", "key": "k"}}],
    });
    let good = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    let mut asks = worker("cart", spec);
    asks.status = Some(accepted("default", "old.example.com"));
    index.apply(Change::Worker(applied(asks)));
    index.apply(Change::Revision(applied(snapshot_of(&good, "cart-1"))));
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    assert_eq!(serving.pool, "default");
    let hosts: Vec<_> = serving.routes.iter().map(|route| route.host.as_str()).collect();
    assert_eq!(hosts, ["old.example.com"]);
}

#[test]
fn a_new_or_deleted_pool_affects_the_workers_that_request_it_and_those_in_it() {
    let mut index = Index::new("localhost");
    let mut leaves =
        worker("leaves", json!({"source": {"modules": {"a.js": ""}}, "pool": "other"}));
    leaves.status = Some(accepted("default", "leaves.shop.localhost"));
    index.apply(Change::Worker(applied(leaves)));
    let asks = json!({"source": {"modules": {"a.js": ""}}});
    index.apply(Change::Worker(applied(worker("asks", asks.clone()))));
    index.apply(Change::Worker(applied(worker(
        "third",
        json!({"source": {"modules": {"a.js": ""}}, "pool": "third"}),
    ))));
    assert!(index.candidate(&id("asks")).unwrap().pool.is_none());

    let both = BTreeSet::from([id("asks"), id("leaves")]);
    assert_eq!(index.apply(Change::Pool(applied(pool(None, 0)))).workers, both);
    assert!(index.candidate(&id("asks")).unwrap().pool.is_some());
    assert_eq!(index.apply(Change::Pool(applied(pool(None, 1)))), Touched::default());
    let gone = || Change::Pool(Watched::Deleted((String::new(), "default".to_owned())));
    assert_eq!(index.apply(gone()).workers, both);
    assert_eq!(index.apply(gone()), Touched::default());
}

#[test]
fn a_node_that_no_slice_lists_is_removed() {
    let slice = |name: &str, pods: &[&str]| -> EndpointSlice {
        let endpoints: Vec<_> =
            pods.iter().map(|pod| json!({"addresses": ["10.0.0.1"], "hostname": pod})).collect();
        let labels = json!({"tenon.dev/pool": "default"});
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "tenon", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "shard-0", "port": 7100}],
            "endpoints": endpoints,
        }))
        .unwrap()
    };
    let mut index = Index::new("localhost");
    let touched = index.apply(Change::Slice(applied(slice("one", &["a", "b"]))));
    assert_eq!(touched.nodes.len(), 2);
    assert_eq!(index.apply(Change::Slice(applied(slice("one", &["a", "b"])))), Touched::default());
    index.apply(Change::Slice(applied(slice("two", &["b"]))));
    let touched = index.apply(Change::Slice(applied(slice("one", &[]))));
    assert_eq!(touched.removed_nodes, ["a"]);
}

fn target(revision: &str, percent: i32, host: Option<&str>) -> AcceptedTarget {
    AcceptedTarget {
        revision: revision.to_owned(),
        percent,
        tag: host.map(|_| "next".to_owned()),
        host: host.map(str::to_owned),
        digest: None,
    }
}

#[test]
fn the_accepted_traffic_divides_the_requests() {
    let mut index = Index::new("localhost");
    let mut cart = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    let mut status = accepted("default", "cart.shop.localhost");
    let preview = "next--cart.shop.localhost";
    let accepted = status.accepted.as_mut().unwrap();
    accepted.traffic = vec![
        target("cart-0", 0, None),
        target("cart-1", 90, None),
        target("cart-2", 10, Some(preview)),
    ];
    accepted.session_affinity =
        Some(SessionAffinity { cookie: None, header: Some("X-User".to_owned()) });
    cart.status = Some(status);
    index.apply(Change::Worker(applied(cart.clone())));
    for (name, code) in [("cart-0", "0"), ("cart-1", "1")] {
        let cart = worker("cart", json!({"source": {"modules": {}}, "vars": {"V": code}}));
        index.apply(Change::Revision(applied(snapshot_of(&cart, name))));
    }
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    assert_eq!(serving.shares.len(), 2, "cart-2, which the index does not have, stops the others");
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-2"))));
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    let shares = serving.shares.iter();
    let shares: Vec<_> = shares.map(|share| (&*share.revision.name, share.percent)).collect();
    assert_eq!(shares, [("cart-1", 90), ("cart-2", 10), ("cart-0", 0)]);
    assert_eq!(serving.shares[1].routes, [revision::preview(preview)]);
    let entry = serving.entry().unwrap();
    assert_eq!(entry.digest, serving.shares[0].digest.get().as_bytes());
    assert_eq!(entry.variants.len(), 2);
    let part = Some(Part::Header("x-user".to_owned()));
    assert_eq!(entry.session_affinity, Some(tenon_proto::catalog::SessionAffinity { part }));
}

#[test]
fn two_targets_of_one_revision_are_one_share() {
    let mut index = Index::new("localhost");
    let mut cart = worker("cart", json!({"source": {"modules": {"worker.js": ""}}}));
    let mut status = accepted("default", "cart.shop.localhost");
    status.accepted.as_mut().unwrap().traffic =
        vec![target("cart-1", 90, None), target("cart-1", 10, Some("next--cart.shop.localhost"))];
    cart.status = Some(status);
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    index.apply(Change::Worker(applied(cart)));
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    assert_eq!((serving.shares.len(), serving.shares[0].percent), (1, 100));
    let entry = serving.entry().unwrap();
    assert_eq!(entry.variants[0].routes.len(), 1, "the preview is lost");
    assert_eq!(entry.variants[0].percent, 0);
}

#[test]
fn a_preview_cannot_take_the_host_of_another_worker() {
    let mut index = Index::new("localhost");
    let source = json!({"modules": {"worker.js": ""}});
    index.apply(Change::Worker(applied(worker("a--cart", json!({"source": source})))));
    let traffic = json!([{"percent": 100, "tag": "a"}]);
    let spec = json!({"source": source, "traffic": traffic});
    index.apply(Change::Worker(applied(worker("cart", spec))));
    let previews = index.candidate(&id("cart")).unwrap().previews;
    let route = revision::preview("a--cart.shop.localhost");
    assert_eq!(previews, [(route, Holder::Worker(id("a--cart")))]);
}
