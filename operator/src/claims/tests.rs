//! Tests which Worker or HTTPRoute holds a route or host that several of them claim.

use super::*;

fn at(second: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(second).unwrap())
}

fn route(route: &str) -> Route {
    let (host, path) = route.split_once('/').unwrap();
    Route { host: host.to_owned(), path: format!("/{path}") }
}

/// Returns claims of Workers with one route each, each Worker a second younger than the
/// previous one.
fn claims(all: &[(&str, &str)]) -> Claims {
    let mut claims = Claims::new("tenon.example");
    for (second, (worker, claimed)) in (0..).zip(all) {
        claims.set(&id(worker), at(second), Vec::new(), vec![route(claimed)]);
    }
    claims
}

fn id(worker: &str) -> WorkerId {
    let (namespace, name) = worker.split_once('/').unwrap();
    WorkerId::new(namespace, name)
}

fn claimant(worker: &str) -> Claimant {
    Claimant::Worker(id(worker))
}

fn holder(claims: &Claims, worker: &str, claimed: &str) -> Holder {
    claims.holder(&id(worker), &route(claimed), &|_, _| true)
}

#[test]
fn the_oldest_claimant_holds_a_route() {
    let mut claims = claims(&[("a/new", "shop/")]);
    assert_eq!(holder(&claims, "a/new", "shop/"), Holder::Claimant);
    assert_eq!(
        claims.set(&id("a/old"), at(-1), Vec::new(), vec![route("shop/")]),
        BTreeSet::from([claimant("a/new")])
    );
    assert_eq!(holder(&claims, "a/new", "shop/"), Holder::Worker(id("a/old")));
    assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Claimant);
}

#[test]
fn an_accepted_claim_precedes_an_older_requested_one() {
    let mut claims = claims(&[("a/old", "old/"), ("b/new", "shop/"), ("b/wide", "x.org/")]);
    claims.set(&id("b/new"), at(1), vec![route("shop/")], vec![route("shop/")]);
    claims.set(&id("b/wide"), at(2), vec![route("*.org/")], vec![route("*.org/")]);
    let requested = ["shop/", "below.org/"].map(route).to_vec();
    assert_eq!(claims.set(&id("a/old"), at(0), Vec::new(), requested).len(), 1);
    for (worker, claimed, expected) in [
        ("a/old", "shop/", Holder::Worker(id("b/new"))),
        ("a/old", "below.org/", Holder::Worker(id("b/wide"))),
        ("b/new", "shop/", Holder::Claimant),
    ] {
        assert_eq!(holder(&claims, worker, claimed), expected, "{worker} {claimed}");
    }
    // A spec that is not accepted releases no route.
    claims.set(&id("b/new"), at(1), vec![route("shop/")], vec![route("other/")]);
    assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Worker(id("b/new")));
    claims.set(&id("b/new"), at(1), vec![route("other/")], vec![route("other/")]);
    assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Claimant);
}

#[test]
fn a_released_route_passes_to_the_next_claimant() {
    let mut claims = claims(&[("a/old", "shop/"), ("b/new", "shop/")]);
    assert_eq!(holder(&claims, "b/new", "shop/"), Holder::Worker(id("a/old")));
    assert_eq!(
        claims.set(&id("a/old"), None, Vec::new(), Vec::new()),
        BTreeSet::from([claimant("b/new")])
    );
    assert_eq!(holder(&claims, "b/new", "shop/"), Holder::Claimant);
}

#[test]
fn a_repeated_claim_affects_no_worker() {
    let mut claims = claims(&[("a/one", "shop/"), ("a/two", "shop/")]);
    assert!(claims.set(&id("a/two"), at(1), Vec::new(), vec![route("shop/")]).is_empty());
}

#[test]
fn a_tenant_cannot_claim_a_path_under_the_host_of_another_tenant() {
    let claims =
        claims(&[("victim/shop", "shop.example.com/"), ("evil/x", "shop.example.com/checkout")]);
    assert_eq!(
        holder(&claims, "evil/x", "shop.example.com/checkout"),
        Holder::Worker(id("victim/shop"))
    );
    assert_eq!(holder(&claims, "victim/more", "shop.example.com/checkout"), Holder::Claimant);
}

#[test]
fn the_hosts_of_a_wildcard_belong_to_its_namespace_except_those_claimed_before() {
    let claims = claims(&[
        ("b/had", "old.example.com/"),
        ("a/all", "*.example.com/"),
        ("b/late", "x.example.com/"),
    ]);
    assert_eq!(holder(&claims, "b/had", "old.example.com/"), Holder::Claimant);
    assert_eq!(holder(&claims, "b/late", "x.example.com/"), Holder::Worker(id("a/all")));
    assert_eq!(holder(&claims, "a/all", "*.example.com/"), Holder::Claimant);
    assert_eq!(holder(&claims, "a/other", "x.example.com/"), Holder::Claimant);
}

#[test]
fn a_new_wildcard_affects_the_claims_below_it() {
    let mut claims = claims(&[("b/had", "old.example.com/"), ("b/else", "example.org/")]);
    let affected = claims.set(&id("a/all"), at(9), Vec::new(), vec![route("*.example.com/")]);
    assert_eq!(affected, BTreeSet::from([claimant("b/had")]));
}

#[test]
fn each_namespace_has_its_own_part_of_the_platforms_domain() {
    let claims = claims(&[]);
    for (worker, route, expected) in [
        ("a/cart", "cart.a.tenon.example/", Holder::Claimant),
        ("a/cart", "*.a.tenon.example/", Holder::Claimant),
        ("a/cart", "deep.cart.a.tenon.example/x", Holder::Claimant),
        ("evil/x", "cart.a.tenon.example/login", Holder::Platform),
        ("evil/x", "*.a.tenon.example/", Holder::Platform),
        ("evil/x", "*.tenon.example/", Holder::Platform),
        ("evil/x", "tenon.example/", Holder::Platform),
        ("evil/x", "nottenon.example/", Holder::Claimant),
    ] {
        assert_eq!(holder(&claims, worker, route), expected, "{worker} {route}");
    }
}

#[test]
fn only_claims_of_namespaces_that_may_have_a_host_count() {
    let claims = claims(&[
        ("squat/old", "shop.example.com/"),
        ("squat/wide", "*.example.com/"),
        ("a/first", "shop.example.com/"),
        ("b/second", "shop.example.com/"),
    ]);
    let permits =
        |host: &str, namespace: &str| host != "shop.example.com" || ["a", "b"].contains(&namespace);
    let holder =
        |worker: &str, claimed: &str| claims.holder(&id(worker), &route(claimed), &permits);
    for (worker, claimed, expected) in [
        ("squat/old", "shop.example.com/", Holder::NotGranted),
        ("a/first", "shop.example.com/", Holder::Claimant),
        ("b/second", "shop.example.com/", Holder::Worker(id("a/first"))),
        ("squat/wide", "*.example.com/", Holder::Claimant),
        ("b/other", "b.example.com/", Holder::Worker(id("squat/wide"))),
    ] {
        assert_eq!(holder(worker, claimed), expected, "{worker} {claimed}");
    }
    let permits_none = |_: &str, _: &str| false;
    let own = claims.holder(&id("a/cart"), &route("cart.a.tenon.example/"), &permits_none);
    assert_eq!(own, Holder::Claimant, "a grant concerns the platform's domain");
}

#[test]
fn a_changed_grant_affects_the_claims_below_and_above_its_host() {
    let claims = claims(&[
        ("a/exact", "shop.example.com/"),
        ("a/wide", "*.example.com/"),
        ("a/below", "x.shop.example.com/"),
        ("a/else", "example.org/"),
    ]);
    let affected = |host: &str| claims.affected_by_grants_of(host);
    assert_eq!(
        affected("shop.example.com"),
        BTreeSet::from([claimant("a/exact"), claimant("a/wide")])
    );
    assert_eq!(
        affected("*.shop.example.com"),
        BTreeSet::from([claimant("a/below"), claimant("a/wide")])
    );
    assert_eq!(claims.rivals_of(&claimant("a/wide")).len(), 3);
}

/// A restarted operator, or one on a restored cluster, sees the Workers in any order.
#[test]
fn every_order_of_the_same_workers_gives_the_same_holders() {
    let hosts = ["shop.example.com/", "*.example.com/", "x.shop.example.com/a", "example.org/"];
    let mut rng = fastrand::Rng::with_seed(7);
    let mut workers: Vec<_> = (0..40)
        .map(|i| {
            let namespace = ["a", "b", "c"][i % 3];
            let requested: Vec<_> =
                (0..3).map(|_| route(hosts[rng.usize(..hosts.len())])).collect();
            let accepted = if i % 4 == 0 { vec![requested[0].clone()] } else { Vec::new() };
            // Kubernetes' timestamps have a resolution of one second, so many are equal.
            (id(&format!("{namespace}/worker-{i}")), at(i as i64 / 8), accepted, requested)
        })
        .collect();
    let permits = |host: &str, namespace: &str| host != "shop.example.com" || namespace != "a";
    let mut first = None;
    for _ in 0..1_000 {
        rng.shuffle(&mut workers);
        let mut claims = Claims::new("tenon.example");
        for (id, since, accepted, requested) in &workers {
            claims.set(id, *since, accepted.clone(), requested.clone());
        }
        let holders: BTreeMap<_, Vec<_>> = workers
            .iter()
            .map(|(id, _, _, routes)| {
                let holders = routes.iter().map(|route| claims.holder(id, route, &permits));
                (id.clone(), holders.collect())
            })
            .collect();
        let expected = first.get_or_insert_with(|| holders.clone());
        assert_eq!(&holders, expected);
    }
}

fn http_route(name: &str) -> Claimant {
    let (namespace, name) = name.split_once('/').unwrap();
    Claimant::HttpRoute((namespace.to_owned(), name.to_owned()))
}

#[test]
fn the_first_claim_decides_whether_workers_or_http_routes_hold_a_host() {
    let mut claims = claims(&[("a/cart", "shop.org/api")]);
    let shop = || vec![route("shop.org/")];
    let affected = claims.set(http_route("a/new"), at(9), Vec::new(), shop());
    assert_eq!(affected, BTreeSet::from([claimant("a/cart")]));
    let of = |claims: &Claims, claimant: Claimant, claimed: &str| {
        claims.holder(claimant, &route(claimed), &|_, _| true)
    };
    assert_eq!(of(&claims, http_route("a/new"), "shop.org/"), Holder::Worker(id("a/cart")));
    assert_eq!(holder(&claims, "a/cart", "shop.org/api"), Holder::Claimant);

    claims.set(http_route("a/old"), at(-9), Vec::new(), shop());
    let old = Holder::HttpRoute(("a".to_owned(), "old".to_owned()));
    assert_eq!(holder(&claims, "a/cart", "shop.org/api"), old);
    for name in ["a/old", "a/new"] {
        assert_eq!(of(&claims, http_route(name), "shop.org/"), Holder::Claimant, "{name}");
    }
    assert_eq!(of(&claims, http_route("b/else"), "shop.org/"), old);
    // A claim that was accepted precedes an older one.
    claims.set(&id("a/cart"), at(0), vec![route("shop.org/api")], vec![route("shop.org/api")]);
    assert_eq!(holder(&claims, "a/cart", "shop.org/api"), Holder::Claimant);
    assert_eq!(of(&claims, http_route("a/old"), "shop.org/"), Holder::Worker(id("a/cart")));
}

#[test]
fn the_host_that_covers_all_others_takes_none_from_other_namespaces() {
    let mut claims = claims(&[("b/cart", "shop.org/")]);
    assert!(claims.set(http_route("a/all"), at(-1), Vec::new(), vec![route("*/")]).is_empty());
    assert_eq!(holder(&claims, "b/cart", "shop.org/"), Holder::Claimant);
    let all = |claimant| claims.holder(claimant, &route("*/"), &|_, _| true);
    assert_eq!(all(http_route("a/all")), Holder::Claimant);
    let first = Holder::HttpRoute(("a".to_owned(), "all".to_owned()));
    assert_eq!(all(http_route("b/other")), first);
    assert_eq!(claims.affected_by_grants_of("shop.org").len(), 2);
}
