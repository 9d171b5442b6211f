//! Tests which HTTPRoutes hold hosts that Workers claim too.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_crds::Worker;

use super::*;
use crate::index::Change;

const GROUP: &str = "gateway.networking.k8s.io/v1";

fn object<K: serde::de::DeserializeOwned>(
    version: &str,
    kind: &str,
    (namespace, name): (&str, &str),
    at: i64,
    spec_and_status: Value,
) -> Watched<K> {
    let created = Timestamp::from_second(at).unwrap().to_string();
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
    });
    object.as_object_mut().unwrap().extend(spec_and_status.as_object().unwrap().clone());
    Watched::Applied(Arc::new(serde_json::from_value(object).unwrap()))
}

/// Returns an index with the Gateway `infra/gate`, which allows all routes.
fn index() -> Index {
    let mut index = Index::new("tenon.example");
    let class = json!({"spec": {"controllerName": "tenon.dev/router"}});
    index.apply(Change::GatewayClass(object(GROUP, "GatewayClass", ("", "tenon"), 0, class)));
    let listener = json!({
        "name": "http", "port": 80, "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    let gateway = json!({"spec": {"gatewayClassName": "tenon", "listeners": [listener]}});
    index.apply(Change::Gateway(object(GROUP, "Gateway", ("infra", "gate"), 0, gateway)));
    index
}

/// Applies an HTTPRoute of the namespace `web`.
fn apply_route(index: &mut Index, name: &str, at: i64, host: &str, status: Value) -> Touched {
    let backend = json!({"group": "tenon.dev", "kind": "Worker", "name": "cart"});
    let spec_and_status = json!({
        "spec": {
            "parentRefs": [{"name": "gate", "namespace": "infra"}],
            "hostnames": [host],
            "rules": [{"backendRefs": [backend]}],
        },
        "status": status,
    });
    index.apply(Change::HttpRoute(object(GROUP, "HTTPRoute", ("web", name), at, spec_and_status)))
}

/// Applies a Worker that requests a route.
fn apply_worker(index: &mut Index, namespace: &str, at: i64, host: &str) -> Touched {
    let spec = json!({"source": {"modules": {"a.js": ""}}, "routes": [{"host": host}]});
    let version = "tenon.dev/v1alpha1";
    let spec = json!({"spec": spec});
    let worker: Watched<Worker> = object(version, "Worker", (namespace, "cart"), at, spec);
    index.apply(Change::Worker(worker))
}

fn status(index: &Index, name: &str) -> HttpRouteStatus {
    let subject = Subject::Route(("web".to_owned(), name.to_owned()));
    match index.gateway_status(&subject, Timestamp::from_second(9).unwrap()).unwrap() {
        GatewayStatusUpdate::Route { status, .. } => status,
        _ => unreachable!(),
    }
}

fn reason(index: &Index, name: &str, type_: &str) -> Option<String> {
    let conditions = status(index, name).parents.remove(0).conditions;
    let condition = conditions.into_iter().find(|condition| condition.type_ == type_);
    condition.map(|condition| condition.reason)
}

#[test]
fn an_older_worker_keeps_its_host_and_the_route_names_it() {
    let mut index = index();
    apply_worker(&mut index, "web", 1, "shop.io");
    let touched = apply_route(&mut index, "late", 2, "shop.io", json!({}));
    assert_eq!(touched.hosts.get("shop.io"), Some(&None));
    assert_eq!(reason(&index, "late", "Accepted").as_deref(), Some("HostConflict"));
    let condition = status(&index, "late").parents.remove(0).conditions.remove(0);
    assert!(condition.message.contains("Worker web/cart"), "{}", condition.message);

    // The route gets the host once the Worker is gone.
    let deleted = Watched::Deleted(("web".to_owned(), "cart".to_owned()));
    let touched = index.apply(Change::Worker(deleted));
    assert!(touched.hosts["shop.io"].is_some());
    assert_eq!(reason(&index, "late", "Accepted").as_deref(), Some("Accepted"));
    assert_eq!(reason(&index, "late", "ResolvedRefs").as_deref(), Some("BackendNotFound"));
}

#[test]
fn an_older_route_keeps_its_host_and_the_worker_has_a_fault() {
    let mut index = index();
    apply_route(&mut index, "early", 1, "shop.io", json!({}));
    apply_worker(&mut index, "web", 2, "shop.io");
    let candidate = index.candidate(&WorkerId::new("web", "cart")).unwrap();
    assert_eq!(candidate.routes[0].1, Holder::HttpRoute(("web".to_owned(), "early".to_owned())));
    assert_eq!(reason(&index, "early", "Accepted").as_deref(), Some("Accepted"));
    assert_eq!(reason(&index, "early", "ResolvedRefs").as_deref(), Some("ResolvedRefs"));
}

#[test]
fn a_host_that_the_status_records_is_not_lost_to_an_older_worker() {
    let mut index = index();
    apply_route(&mut index, "early", 5, "shop.io", json!({}));
    let accepted = serde_json::to_value(status(&index, "early")).unwrap();
    apply_route(&mut index, "early", 5, "shop.io", accepted);
    // The older Worker adds the host to its spec.
    let touched = apply_worker(&mut index, "other", 1, "shop.io");
    assert!(touched.hosts.get("shop.io").is_none_or(Option::is_some), "{touched:?}");
    let subject = Subject::Route(("web".to_owned(), "early".to_owned()));
    assert!(
        index.gateway_status(&subject, Timestamp::from_second(9).unwrap()).is_none(),
        "the status has changed"
    );
    let candidate = index.candidate(&WorkerId::new("other", "cart")).unwrap();
    assert!(matches!(candidate.routes[0].1, Holder::HttpRoute(_)));
}

#[test]
fn a_host_in_the_domain_of_another_namespace_is_refused() {
    let mut index = index();
    apply_route(&mut index, "own", 1, "x.web.tenon.example", json!({}));
    apply_route(&mut index, "foreign", 1, "x.other.tenon.example", json!({}));
    assert_eq!(reason(&index, "own", "Accepted").as_deref(), Some("Accepted"));
    assert_eq!(reason(&index, "foreign", "Accepted").as_deref(), Some("HostConflict"));
}

#[test]
fn the_ports_and_addresses_of_gateways_are_those_of_the_routers_service() {
    let mut index = index();
    let service = |ports: Value| {
        let spec = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": ports}});
        Change::RouterService(object("v1", "Service", ("tenon-system", "tenon-router"), 0, spec))
    };
    let gateway = |index: &Index| {
        let subject = Subject::Gateway(("infra".to_owned(), "gate".to_owned()));
        match index.gateway_status(&subject, Timestamp::from_second(9).unwrap()).unwrap() {
            GatewayStatusUpdate::Gateway { status, .. } => status,
            _ => unreachable!(),
        }
    };
    index.apply(service(json!([{"name": "http", "port": 80}])));
    let status = gateway(&index);
    assert_eq!(status.addresses[0].value, "10.0.0.7");
    assert_eq!(status.listeners[0].conditions[0].reason, "Accepted");
    apply_route(&mut index, "early", 1, "shop.io", json!({}));
    let touched = index.apply(service(json!([{"name": "http", "port": 8080}])));
    assert_eq!(touched.hosts.get("shop.io"), Some(&None));
    assert_eq!(gateway(&index).listeners[0].conditions[0].reason, "PortUnavailable");
}
