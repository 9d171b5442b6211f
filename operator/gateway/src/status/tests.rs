//! Tests the conditions of the objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::objects::{Gateway, StatusAddress};
use crate::{Changed, Lookups, Ports};

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn apply(gateways: &mut Gateways, changed: Changed<'_>) {
    gateways.apply(changed, &Lookups { labels: &|_| None, secret: &|_| None });
}

fn now() -> Timestamp {
    Timestamp::from_second(100).unwrap()
}

fn object<K: serde::de::DeserializeOwned>(
    kind: &str,
    key: &Key,
    spec: Value,
    status: Value,
) -> Arc<K> {
    Arc::new(
        serde_json::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": key.1, "namespace": key.0, "generation": 7},
            "spec": spec,
            "status": status,
        }))
        .unwrap(),
    )
}

/// Returns the Gateway `web/gate` with these listeners, and a Service with an address.
fn gateways(listeners: Value) -> Gateways {
    let mut gateways = Gateways::default();
    let class =
        object("GatewayClass", &key("", "tenon"), json!({"controllerName": CONTROLLER}), json!({}));
    apply(&mut gateways, Changed::Class("tenon", Some(class)));
    let address = StatusAddress { type_: Some("IPAddress".into()), value: "10.0.0.1".into() };
    apply(&mut gateways, Changed::Service(Ports { http: 80, https: Some(443) }, vec![address]));
    let spec = json!({"gatewayClassName": "tenon", "listeners": listeners});
    let gateway = object::<Gateway>("Gateway", &key("web", "gate"), spec, json!({}));
    apply(&mut gateways, Changed::Gateway(&key("web", "gate"), Some(gateway)));
    gateways
}

fn http() -> Value {
    json!([{"name": "http", "port": 80, "protocol": "HTTP"}])
}

fn conditions(list: &[Condition]) -> Vec<(&str, bool, &str)> {
    assert!(list.iter().all(|condition| condition.observed_generation == Some(7)));
    let holds = |condition: &Condition| condition.status == ConditionStatus::True;
    list.iter().map(|condition| (&*condition.type_, holds(condition), &*condition.reason)).collect()
}

#[test]
fn a_class_of_the_platform_is_accepted_and_no_other() {
    let mut gateways = gateways(http());
    let (_, status) = gateways.class_status("tenon", now()).unwrap();
    assert_eq!(conditions(&status.conditions), [("Accepted", true, "Accepted")]);
    let other =
        object("GatewayClass", &key("", "other"), json!({"controllerName": "x/y"}), json!({}));
    apply(&mut gateways, Changed::Class("other", Some(other)));
    assert!(gateways.class_status("other", now()).is_none());
}

#[test]
fn a_gateway_with_valid_listeners_is_programmed() {
    let mut gateways = gateways(http());
    let (_, status) = gateways.gateway_status(&key("web", "gate"), now()).unwrap();
    assert_eq!(
        conditions(&status.conditions),
        [("Accepted", true, "Accepted"), ("Programmed", true, "Programmed")]
    );
    assert_eq!(status.addresses[0].value, "10.0.0.1");
    let listener = &status.listeners[0];
    assert_eq!(
        conditions(&listener.conditions),
        [
            ("Accepted", true, "Accepted"),
            ("Conflicted", false, "NoConflicts"),
            ("ResolvedRefs", true, "ResolvedRefs"),
            ("Programmed", true, "Programmed"),
        ]
    );
    assert_eq!((listener.supported_kinds.len(), listener.attached_routes), (1, 0));
    apply(&mut gateways, Changed::Service(Ports { http: 80, https: None }, Vec::new()));
    let (_, status) = gateways.gateway_status(&key("web", "gate"), now()).unwrap();
    assert_eq!(conditions(&status.conditions)[1], ("Programmed", false, "AddressNotAssigned"));
}

#[test]
fn an_invalid_listener_does_not_take_the_others_with_it() {
    let gateways = gateways(json!([
        {"name": "http", "port": 80, "protocol": "HTTP"},
        {"name": "tcp", "port": 99, "protocol": "TCP"},
    ]));
    let (_, status) = gateways.gateway_status(&key("web", "gate"), now()).unwrap();
    assert_eq!(
        conditions(&status.conditions),
        [("Accepted", true, "ListenersNotValid"), ("Programmed", true, "Programmed")]
    );
    let tcp = conditions(&status.listeners[1].conditions);
    assert_eq!(tcp[0], ("Accepted", false, "UnsupportedProtocol"));
    assert_eq!(tcp[3], ("Programmed", false, "Invalid"));
}

#[test]
fn a_gateway_without_a_valid_listener_is_not_accepted() {
    let gateways = gateways(json!([{"name": "tcp", "port": 99, "protocol": "TCP"}]));
    let (_, status) = gateways.gateway_status(&key("web", "gate"), now()).unwrap();
    assert_eq!(
        conditions(&status.conditions),
        [("Accepted", false, "ListenersNotValid"), ("Programmed", false, "Invalid")]
    );
}

/// Sets the route `web/cart` with the hosts `a.io` and `b.io`, and returns its status.
fn route_status(
    gateways: &mut Gateways,
    parent: Value,
    backend: Value,
    status: Value,
    lost: &[&str],
) -> Option<HttpRouteStatus> {
    let key = key("web", "cart");
    let spec = json!({
        "parentRefs": [parent],
        "hostnames": ["a.io", "b.io"],
        "rules": [{"backendRefs": [backend]}],
    });
    let route = object::<HttpRoute>("HTTPRoute", &key, spec, status);
    apply(gateways, Changed::Route(&key, Some(route)));
    let lost = |_: &Key, host: &str| {
        let message = format!("{host} is taken");
        lost.contains(&host).then_some(LostHost { reason: "HostConflict", message })
    };
    let exists = |id: &WorkerId| id.name() == "cart";
    let facts = RouteFacts { lost: &lost, exists: &exists };
    gateways.route_status(&key, &facts, now()).map(|(_, status)| status)
}

fn worker(name: &str) -> Value {
    json!({"group": "tenon.dev", "kind": "Worker", "name": name})
}

fn gate() -> Value {
    json!({"name": "gate"})
}

#[test]
fn an_accepted_route_records_its_hosts() {
    let mut gateways = gateways(http());
    let status = route_status(&mut gateways, gate(), worker("cart"), json!({}), &[]).unwrap();
    let parent = &status.parents[0];
    assert_eq!(parent.controller_name, CONTROLLER);
    assert_eq!(
        conditions(&parent.conditions),
        [
            ("Accepted", true, "Accepted"),
            ("ResolvedRefs", true, "ResolvedRefs"),
            ("tenon.dev/Hosts", true, "Held"),
        ]
    );
    let (_, gateway) = gateways.gateway_status(&key("web", "gate"), now()).unwrap();
    assert_eq!(gateway.listeners[0].attached_routes, 1);
    let route = HttpRoute { status: Some(status), ..HttpRoute::new("cart", Default::default()) };
    assert_eq!(recorded_hosts(&route), ["a.io", "b.io"].map(str::to_owned).into());
}

#[test]
fn a_host_that_another_object_holds_makes_the_route_partially_invalid_or_not_accepted() {
    let mut gateways = gateways(http());
    let mut of = |lost: &[&str]| {
        let status = route_status(&mut gateways, gate(), worker("cart"), json!({}), lost);
        status.unwrap().parents.remove(0).conditions
    };
    let partial = of(&["a.io"]);
    assert_eq!(
        conditions(&partial)[..2],
        [("Accepted", true, "Accepted"), ("PartiallyInvalid", true, "HostConflict")]
    );
    assert_eq!(partial[3].message, "b.io");
    let none = of(&["a.io", "b.io"]);
    assert_eq!(conditions(&none)[0], ("Accepted", false, "HostConflict"));
    assert!(none.iter().all(|condition| condition.type_ != HOSTS));
}

#[test]
fn an_unresolved_reference_has_the_reason() {
    let mut gateways = gateways(http());
    for (backend, reason) in [
        (worker("none"), "BackendNotFound"),
        (json!({"name": "api", "port": 80}), "InvalidKind"),
        (
            json!({"group": "tenon.dev", "kind": "Worker", "name": "x", "namespace": "other"}),
            "RefNotPermitted",
        ),
    ] {
        let status = route_status(&mut gateways, gate(), backend, json!({}), &[]).unwrap();
        let conditions = conditions(&status.parents[0].conditions);
        assert_eq!(
            conditions[..2],
            [("Accepted", true, "Accepted"), ("ResolvedRefs", false, reason)]
        );
    }
}

#[test]
fn a_route_that_does_not_attach_has_the_reason() {
    let mut gateways = gateways(http());
    let parent = json!({"name": "gate", "sectionName": "https"});
    let status = route_status(&mut gateways, parent, worker("cart"), json!({}), &[]).unwrap();
    let conditions = conditions(&status.parents[0].conditions);
    assert_eq!(conditions[0], ("Accepted", false, "NoMatchingParent"));
}

#[test]
fn entries_of_other_controllers_stay_and_obsolete_ones_of_the_platform_are_removed() {
    let mut gateways = gateways(http());
    let entry = |controller: &str, name: &str| {
        json!({
            "parentRef": {"name": name}, "controllerName": controller, "conditions": [],
        })
    };
    let before = json!({"parents": [
        entry(CONTROLLER, "former"), entry("x/y", "other"), entry(CONTROLLER, "gate"),
    ]});
    let status = route_status(&mut gateways, gate(), worker("cart"), before, &[]).unwrap();
    let entries: Vec<_> = status
        .parents
        .iter()
        .map(|entry| (&*entry.controller_name, &*entry.parent_ref.name, entry.conditions.len()))
        .collect();
    assert_eq!(entries, [("x/y", "other", 0), (CONTROLLER, "gate", 3)]);
    let elsewhere = json!({"name": "unknown"});
    assert!(route_status(&mut gateways, elsewhere, worker("cart"), json!({}), &[]).is_none());
}
