//! Tests of revisions that are found among a few objects.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;
use tenon_crds::WorkerStatus;

use super::*;
use crate::revision;

fn id() -> WorkerId {
    WorkerId::new("shop", "cart")
}

fn object<K: DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Returns a Worker that binds a Secret, and whose revision `cart-1` is accepted into a pool.
fn worker(pool: &str) -> Worker {
    let secret = json!({"name": "KEY", "secretKeyRef": {"name": "keys", "key": "api"}});
    let mut worker: Worker = object(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"source": {"modules": {"worker.js": ""}}, "secrets": [secret]},
    }));
    worker.status = Some(WorkerStatus {
        latest_revision: Some("cart-1".to_owned()),
        accepted: Some(object(json!({"pool": pool, "routes": []}))),
        ..WorkerStatus::default()
    });
    worker
}

fn snapshot(worker: &Worker) -> WorkerRevision {
    let modules =
        BTreeMap::from([("worker.js".to_owned(), Bytes::from_static(b"export default {}"))]);
    let mut revision = WorkerRevision::new("cart-1", revision::snapshot(worker, &modules).unwrap());
    revision.metadata.namespace = Some("shop".to_owned());
    revision
}

fn secret(value: &str) -> Secret {
    object(json!({
        "metadata": {"name": "keys", "namespace": "shop", "uid": "17a5f3c0"},
        "data": {"api": k8s_openapi::ByteString(value.into())},
    }))
}

/// Returns the digest by which an index serves the Worker.
fn digest(index: &Index) -> RevisionDigest {
    let ServingState::Serving(deployment) = index.serving(&id()) else { panic!("not served") };
    deployment.shares[0].digest.get()
}

fn index(changes: impl IntoIterator<Item = Change>) -> Index {
    let mut index = Index::new("localhost");
    changes.into_iter().for_each(|change| drop(index.apply(change)));
    index
}

#[test]
fn a_revision_is_found_by_the_digest_that_the_whole_index_serves() {
    let cart = worker("edge");
    let own = || {
        [
            Change::Worker(applied(cart.clone())),
            Change::Secret(applied(secret("told"))),
            Change::Revision(applied(snapshot(&cart))),
        ]
    };
    let other: Worker = object(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "other", "namespace": "shop"},
        "spec": {"source": {"modules": {"worker.js": ""}}},
    }));
    let whole = index([Change::Worker(applied(other))].into_iter().chain(own()));
    let found = serving(&index(own()), &id(), &digest(&whole)).unwrap();
    assert_eq!((found.revision.worker.clone(), found.pool.as_str()), (id(), "edge"));
    assert_eq!(found.revision.digest(), digest(&whole));
    assert!(serving(&index(own()), &id(), &RevisionDigest::new([7; 32])).is_none());
}

#[test]
fn a_revision_whose_secret_is_missing_is_not_found() {
    let mut cart = worker("edge");
    let recorded = RevisionDigest::new([7; 32]);
    let accepted = cart.status.as_mut().unwrap().accepted.as_mut().unwrap();
    accepted.digest = Some(recorded.to_string());
    let index =
        index([Change::Worker(applied(cart.clone())), Change::Revision(applied(snapshot(&cart)))]);
    assert_eq!(digest(&index), recorded);
    assert!(serving(&index, &id(), &recorded).is_none(), "values of Secrets are made up");
}

#[test]
fn the_secrets_of_a_revision_are_those_that_it_binds_and_that_pull_its_artifact() {
    let mut revision = snapshot(&worker("edge"));
    let digest = format!("sha256:{}", "0".repeat(64));
    let pull = json!({"image": "r/i", "digest": digest, "pullSecretRef": {"name": "registry"}});
    revision.spec.artifact = Some(object(pull));
    assert_eq!(secrets(&revision).collect::<Vec<_>>(), ["keys", "registry"]);
}

#[test]
fn only_names_that_an_object_can_have_are_read() {
    for name in ["a", "cart", "cart-1.v2"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(254);
    for name in ["", "..", "a,b", "a=b", "a/b", "Cart", "a b", "é", "a%2f", long.as_str()] {
        assert!(!is_name(name), "{name}");
    }
}
