//! Tests of pools that allow only some namespaces, and of hosts that are granted.

use super::*;

fn namespace(name: &str, labels: &[(&str, &str)]) -> Change {
    let metadata = json!({"name": name, "labels": BTreeMap::from_iter(labels.iter().copied())});
    Change::Namespace(applied(serde_json::from_value(json!({"metadata": metadata})).unwrap()))
}

fn gold_pool() -> RuntimePool {
    let selector = json!({"matchLabels": {"tier": "gold"}});
    serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "RuntimePool",
        "metadata": {"name": "default", "uid": "u-1"},
        "spec": {"allowedNamespaces": {"from": "Selector", "selector": selector}},
    }))
    .unwrap()
}

fn grant(hosts: &[&str], namespaces: serde_json::Value) -> Change {
    Change::Grant(applied(
        serde_json::from_value(json!({
            "apiVersion": "tenon.dev/v1alpha1",
            "kind": "HostGrant",
            "metadata": {"name": "grant"},
            "spec": {"hosts": hosts, "namespaces": namespaces},
        }))
        .unwrap(),
    ))
}

/// Returns a Worker of the namespace `shop` with a route.
fn with_host(name: &str, host: &str) -> Worker {
    worker(name, json!({"source": {"modules": {"worker.js": ""}}, "routes": [{"host": host}]}))
}

#[test]
fn the_labels_of_a_namespace_decide_whether_its_workers_may_choose_a_pool() {
    let mut index = Index::new("localhost");
    index.apply(Change::Worker(applied(with_host("cart", "cart.example.com"))));
    let access = |index: &Index| index.candidate(&id("cart")).unwrap().access;
    let touched = index.apply(Change::Pool(applied(gold_pool())));
    assert_eq!(touched.workers, BTreeSet::from([id("cart")]));
    assert_eq!(touched.pools.unwrap()["default"].uid, "u-1");
    assert_eq!(access(&index), Access::Unknown);

    let touched = index.apply(namespace("shop", &[("tier", "gold")]));
    assert_eq!((touched.workers, access(&index)), (BTreeSet::from([id("cart")]), Access::Allowed));
    assert_eq!(index.apply(namespace("shop", &[("tier", "gold")])), Touched::default());
    assert_eq!(index.apply(namespace("blog", &[])), Touched::default());
    let touched = index.apply(namespace("shop", &[]));
    assert_eq!((touched.workers, access(&index)), (BTreeSet::from([id("cart")]), Access::Refused));
    index.apply(Change::Worker(Watched::Deleted(("shop".to_owned(), "cart".to_owned()))));
    assert_eq!(index.apply(namespace("shop", &[("tier", "gold")])), Touched::default());
}

#[test]
fn a_pool_that_no_longer_allows_a_namespace_still_serves_what_was_accepted() {
    let mut index = Index::new("localhost");
    let mut cart = with_host("cart", "cart.example.com");
    cart.status = Some(accepted("default", "cart.example.com"));
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    index.apply(Change::Worker(applied(cart)));
    index.apply(namespace("shop", &[]));
    index.apply(Change::Pool(applied(gold_pool())));
    assert_eq!(index.candidate(&id("cart")).unwrap().access, Access::Refused);
    let ServingState::Serving(serving) = index.serving(&id("cart")) else { panic!("not served") };
    assert_eq!((serving.pool.as_str(), serving.routes.len()), ("default", 1));
}

#[test]
fn a_deleted_pool_is_not_among_the_pools() {
    let mut index = Index::new("localhost");
    index.apply(Change::Pool(applied(gold_pool())));
    let mut deleted = gold_pool();
    deleted.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2030-01-01T00:00:00Z")).unwrap());
    let pools = index.apply(Change::Pool(applied(deleted))).pools;
    assert_eq!(pools.map(|pools| pools.len()), Some(0));
    let gone = Watched::Deleted((String::new(), "default".to_owned()));
    assert_eq!(index.apply(Change::Pool(gone)), Touched::default());
}

#[test]
fn the_pools_with_a_front_are_announced_when_one_gets_or_loses_it() {
    let mut index = Index::new("localhost");
    let fronts = |index: &mut Index, change| index.apply(Change::Pool(change)).fronts;
    assert_eq!(fronts(&mut index, applied(gold_pool())), None);
    let mut with_front = gold_pool();
    with_front.spec.front = Some(serde_json::from_value(json!({})).unwrap());
    let announced = Some(BTreeSet::from(["default".to_owned()]));
    assert_eq!(fronts(&mut index, applied(with_front.clone())), announced);
    assert_eq!(fronts(&mut index, applied(with_front.clone())), None);
    assert_eq!(fronts(&mut index, applied(gold_pool())), Some(BTreeSet::new()));
    fronts(&mut index, applied(with_front));
    let gone = Watched::Deleted((String::new(), "default".to_owned()));
    assert_eq!(fronts(&mut index, gone), Some(BTreeSet::new()));
}

#[test]
fn a_withdrawn_grant_takes_the_host_from_what_was_accepted() {
    let mut index = Index::new("localhost");
    let mut cart = with_host("cart", "cart.example.com");
    cart.status = Some(accepted("default", "cart.example.com"));
    index.apply(Change::Revision(applied(snapshot_of(&cart, "cart-1"))));
    index.apply(Change::Worker(applied(cart)));
    index.apply(Change::Worker(applied(with_host("else", "example.org"))));
    let hosts = |index: &Index| match index.serving(&id("cart")) {
        ServingState::Serving(serving) => serving.routes.len(),
        _ => panic!("not served"),
    };
    let holder = |index: &Index| index.candidate(&id("cart")).unwrap().routes[0].1.clone();
    let own = BTreeSet::from([id("cart")]);
    for (change, expected) in [
        (grant(&["*.example.com"], json!({"names": ["shop"]})), Holder::Claimant),
        (grant(&["*.example.com"], json!({"names": ["other"]})), Holder::NotGranted),
        (grant(&["cart.example.com"], json!({"names": ["shop"]})), Holder::Claimant),
        (grant(&["cart.example.com"], json!({"names": ["other"]})), Holder::NotGranted),
        (Change::Grant(Watched::Deleted((String::new(), "grant".to_owned()))), Holder::Claimant),
    ] {
        assert_eq!(index.apply(change).workers, own);
        let serves = usize::from(expected == Holder::Claimant);
        assert_eq!((holder(&index), hosts(&index)), (expected, serves));
    }
}

#[test]
fn a_grant_by_label_follows_the_labels_of_namespaces() {
    let mut index = Index::new("localhost");
    index.apply(Change::Worker(applied(with_host("cart", "cart.example.com"))));
    let selector = json!({"selector": {"matchLabels": {"tier": "gold"}}});
    index.apply(grant(&["cart.example.com"], selector));
    let holder = |index: &Index| index.candidate(&id("cart")).unwrap().routes[0].1.clone();
    assert_eq!(holder(&index), Holder::NotGranted);
    let touched = index.apply(namespace("shop", &[("tier", "gold")]));
    assert_eq!((touched.workers, holder(&index)), (BTreeSet::from([id("cart")]), Holder::Claimant));
}

#[test]
fn a_platform_can_require_a_grant_for_every_host_outside_of_its_domain() {
    let (domain, namespace) = ("tenon.example".to_owned(), "tenon-system".to_owned());
    let mut index = Index::of(Platform { domain, namespace, requires_grants: true });
    let own = worker("own", json!({"source": {"modules": {"worker.js": ""}}}));
    for worker in [own, with_host("cart", "cart.example.com")] {
        index.apply(Change::Worker(applied(worker)));
    }
    let holder = |name: &str| index.candidate(&id(name)).unwrap().routes[0].1.clone();
    assert_eq!((holder("own"), holder("cart")), (Holder::Claimant, Holder::NotGranted));
}
