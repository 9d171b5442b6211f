//! Tests what a change affects, and the rules of hosts.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::Labels;

/// A cluster without Secrets, in which the namespace `web` has the label `tier: gold` if `is_gold`.
struct Cluster {
    gateways: Gateways,
    labels: Labels,
    is_gold: bool,
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn object<K: serde::de::DeserializeOwned>(kind: &str, key: &Key, at: i64, spec: Value) -> Arc<K> {
    let (group, version) =
        ("gateway.networking.k8s.io", if kind == "ReferenceGrant" { "v1beta1" } else { "v1" });
    let created = Timestamp::from_second(at).unwrap();
    Arc::new(
        serde_json::from_value(json!({
            "apiVersion": format!("{group}/{version}"),
            "kind": kind,
            "metadata": {
                "name": key.1, "namespace": key.0, "generation": 1,
                "creationTimestamp": created.to_string(),
            },
            "spec": spec,
        }))
        .unwrap(),
    )
}

impl Cluster {
    fn new() -> Self {
        let labels = Labels::from([("tier".to_owned(), "gold".to_owned())]);
        let mut cluster = Self { gateways: Gateways::default(), labels, is_gold: true };
        let class = json!({"controllerName": CONTROLLER});
        let class = object("GatewayClass", &key("", "tenon"), 0, class);
        cluster.apply(Changed::Class("tenon", Some(class)));
        cluster
    }

    fn apply(&mut self, changed: Changed<'_>) -> Effects {
        let (labels, is_gold) = (&self.labels, self.is_gold);
        let lookups = Lookups {
            labels: &|name| (is_gold && name == "web").then_some(labels),
            secret: &|_| None,
        };
        self.gateways.apply(changed, &lookups)
    }

    /// Sets the Gateway `infra/gate` with one listener.
    fn gateway(&mut self, class: &str, host: &str, namespaces: Value) -> Effects {
        let spec = json!({"gatewayClassName": class, "listeners": [{
            "name": "http", "port": 80, "protocol": "HTTP", "hostname": host,
            "allowedRoutes": {"namespaces": namespaces},
        }]});
        let key = key("infra", "gate");
        let gateway = object("Gateway", &key, 0, spec);
        self.apply(Changed::Gateway(&key, Some(gateway)))
    }

    /// Sets a route in the namespace `web`, to the Worker with the same name as the route.
    fn route(&mut self, name: &str, at: i64, hostnames: &[&str]) -> Effects {
        let key = key("web", name);
        let backend = json!({"group": "tenon.dev", "kind": "Worker", "name": name});
        let spec = json!({
            "parentRefs": [{"name": "gate", "namespace": "infra"}],
            "hostnames": hostnames,
            "rules": [{"backendRefs": [backend]}],
        });
        let route = object("HTTPRoute", &key, at, spec);
        self.apply(Changed::Route(&key, Some(route)))
    }

    /// Returns the Workers of a host's rules.
    fn workers(&self, host: &str) -> Vec<String> {
        let rules = self.gateways.rules(host, &|_| true).unwrap_or_default();
        let backends = rules.actions.iter().flat_map(|action| &action.backends);
        backends.map(|backend| backend.worker.clone()).collect()
    }

    fn attached(&self) -> Option<i32> {
        self.gateways.served.get(&key("infra", "gate"))?.attached.get("http").copied()
    }
}

fn all() -> Value {
    json!({"from": "All"})
}

fn hosts(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|host| (*host).to_owned()).collect()
}

#[test]
fn a_route_has_rules_at_the_hosts_of_its_gateway_in_any_order_of_arrival() {
    let mut cluster = Cluster::new();
    cluster.route("cart", 1, &["shop.io"]);
    assert!(cluster.workers("shop.io").is_empty());
    let effects = cluster.gateway("tenon", "", all());
    assert_eq!(effects.hosts, hosts(&["shop.io"]));
    assert_eq!(cluster.workers("shop.io"), ["web/cart"]);
    assert_eq!(cluster.attached(), Some(1));

    let effects = cluster.route("cart", 1, &["menu.io"]);
    assert_eq!(effects.hosts, hosts(&["menu.io", "shop.io"]));
    assert_eq!((cluster.workers("shop.io").len(), cluster.workers("menu.io").len()), (0, 1));
    assert_eq!(cluster.attached(), Some(1));
    cluster.apply(Changed::Route(&key("web", "cart"), None));
    assert!(cluster.workers("menu.io").is_empty());
    assert_eq!(cluster.attached(), Some(0));
}

#[test]
fn routes_of_one_host_share_its_rules_from_the_oldest_to_the_newest() {
    let mut cluster = Cluster::new();
    cluster.gateway("tenon", "", all());
    cluster.route("new", 2, &["shop.io"]);
    cluster.route("old", 1, &["shop.io"]);
    assert_eq!(cluster.workers("shop.io"), ["web/old", "web/new"]);
    let only_new = |key: &Key| key.1 == "new";
    let rules = cluster.gateways.rules("shop.io", &only_new).unwrap();
    assert_eq!(rules.actions.len(), 1);
}

#[test]
fn a_gateway_of_another_class_has_no_routes() {
    let mut cluster = Cluster::new();
    cluster.gateway("other", "", all());
    cluster.route("cart", 1, &["shop.io"]);
    assert!(cluster.workers("shop.io").is_empty());
    cluster.gateway("tenon", "", all());
    assert_eq!(cluster.workers("shop.io").len(), 1);
    let foreign = object("GatewayClass", &key("", "tenon"), 0, json!({"controllerName": "x/y"}));
    cluster.apply(Changed::Class("tenon", Some(foreign)));
    assert!(cluster.workers("shop.io").is_empty());
}

#[test]
fn changed_labels_of_a_namespace_attach_and_detach_its_routes() {
    let mut cluster = Cluster::new();
    let gold = json!({"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}});
    cluster.gateway("tenon", "", gold);
    cluster.route("cart", 1, &["shop.io"]);
    assert_eq!(cluster.attached(), Some(1));
    cluster.is_gold = false;
    let effects = cluster.apply(Changed::Namespace("web"));
    assert_eq!(effects.hosts, hosts(&["shop.io"]));
    assert_eq!(cluster.attached(), Some(0));
    assert!(cluster.workers("shop.io").is_empty());
}

#[test]
fn the_number_of_hosts_of_a_route_is_bounded() {
    let mut cluster = Cluster::new();
    let listener = |at: usize| {
        json!({
            "name": format!("l{at}"), "port": 80, "protocol": "HTTP",
            "hostname": format!("h{at}.shop.io"), "allowedRoutes": {"namespaces": all()},
        })
    };
    let listeners: Vec<_> = (0..MAX_HOSTS + 1).map(listener).collect();
    let spec = json!({"gatewayClassName": "tenon", "listeners": listeners});
    let gate = key("infra", "gate");
    let gateway = object("Gateway", &gate, 0, spec);
    cluster.apply(Changed::Gateway(&gate, Some(gateway)));
    cluster.route("cart", 1, &["*.shop.io"]);
    let route = &cluster.gateways.routes[&key("web", "cart")];
    assert_eq!((route.hosts.len(), route.has_more_hosts), (MAX_HOSTS, true));
}

#[test]
fn a_worker_of_another_namespace_needs_a_grant_there() {
    let mut cluster = Cluster::new();
    cluster.gateway("tenon", "", all());
    let route = key("web", "cart");
    let backend =
        json!({"group": "tenon.dev", "kind": "Worker", "name": "cart", "namespace": "api"});
    let spec = json!({
        "parentRefs": [{"name": "gate", "namespace": "infra"}],
        "hostnames": ["shop.io"],
        "rules": [{"backendRefs": [backend]}],
    });
    let with_backend = object("HTTPRoute", &route, 1, spec);
    cluster.apply(Changed::Route(&route, Some(with_backend)));
    assert_eq!(cluster.workers("shop.io"), [""]);
    let grant = key("api", "from-web");
    let spec = json!({
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"}],
        "to": [{"group": "tenon.dev", "kind": "Worker"}],
    });
    let effects =
        cluster.apply(Changed::Grant(&grant, Some(object("ReferenceGrant", &grant, 0, spec))));
    assert_eq!(effects.hosts, hosts(&["shop.io"]));
    assert_eq!(cluster.workers("shop.io"), ["api/cart"]);
    cluster.apply(Changed::Grant(&grant, None));
    assert_eq!(cluster.workers("shop.io"), [""]);
}

#[test]
fn no_host_has_rules_once_the_kinds_no_longer_exist() {
    let mut cluster = Cluster::new();
    cluster.gateway("tenon", "", all());
    cluster.route("cart", 1, &["shop.io"]);
    let effects = cluster.apply(Changed::NoGatewayApi);
    assert_eq!((effects.hosts.len(), effects.claims.len()), (1, 1));
    assert!(cluster.workers("shop.io").is_empty() && cluster.gateways.subjects().is_empty());
}

#[test]
fn a_change_affects_only_the_objects_that_refer_to_it() {
    let mut cluster = Cluster::new();
    cluster.gateway("tenon", "", all());
    cluster.route("cart", 1, &["shop.io"]);
    cluster.route("menu", 2, &["menu.io"]);
    let effects = cluster.apply(Changed::Worker(&WorkerId::new("web", "cart")));
    assert_eq!(effects.subjects, BTreeSet::from([Subject::Route(key("web", "cart"))]));
    assert!(effects.hosts.is_empty());
    assert_eq!(cluster.apply(Changed::Secret(&key("infra", "x"))), Effects::default());
    assert_eq!(cluster.apply(Changed::Namespace("other")), Effects::default());
}
