//! Tests which listeners a route attaches to.

use serde_json::{Value, json};

use super::*;
use crate::listeners::{Ports, listeners};
use crate::references::ReferenceGrants;

/// Attaches a route of the namespace `web` with these hostnames to a Gateway of the namespace
/// `infra`, and returns the hosts.
fn attached(
    listener_specs: Value,
    reference: Value,
    hostnames: &[&str],
) -> Result<Vec<String>, NotAttached> {
    let gateway: Gateway = serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "gate", "namespace": "infra"},
        "spec": {"gatewayClassName": "tenon", "listeners": listener_specs},
    }))
    .unwrap();
    let route: HttpRoute = serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"parentRefs": [reference], "hostnames": hostnames},
    }))
    .unwrap();
    let labels = Labels::from([("tier".to_owned(), "gold".to_owned())]);
    let labels_of = |name: &str| (name == "web").then_some(&labels);
    let states = listeners(&gateway, Ports::default(), &ReferenceGrants::default(), &|_| None);
    let reference = &route.spec.parent_refs[0];
    let attached = attach(&route, reference, &gateway, &states, &labels_of)?;
    Ok(attached.hosts.into_keys().collect())
}

fn listener(name: &str, host: &str, from: Value) -> Value {
    json!({
        "name": name, "port": 80, "protocol": "HTTP", "hostname": host,
        "allowedRoutes": {"namespaces": from},
    })
}

fn gate() -> Value {
    json!({"name": "gate", "namespace": "infra"})
}

#[test]
fn a_reference_to_a_section_or_port_that_does_not_exist_matches_no_parent() {
    let list = || json!([listener("a", "a.io", json!({"from": "All"}))]);
    let to = |more: Value| {
        let mut reference = gate();
        reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        attached(list(), reference, &[])
    };
    assert_eq!(to(json!({})).unwrap(), ["a.io"]);
    assert_eq!(to(json!({"sectionName": "a", "port": 80})).unwrap(), ["a.io"]);
    assert_eq!(to(json!({"sectionName": "b"})), Err(NotAttached::NoMatchingParent));
    assert_eq!(to(json!({"port": 81})), Err(NotAttached::NoMatchingParent));
}

#[test]
fn a_listener_allows_the_namespaces_that_it_selects() {
    let of = |from: Value| attached(json!([listener("a", "a.io", from)]), gate(), &[]);
    let refused = Err(NotAttached::NotAllowedByListeners);
    assert_eq!(of(json!({})), refused.clone());
    assert_eq!(of(json!({"from": "Same"})), refused.clone());
    assert_eq!(of(json!({"from": "None"})), refused.clone());
    assert!(of(json!({"from": "All"})).is_ok());
    let selector =
        |tier: &str| json!({"from": "Selector", "selector": {"matchLabels": {"tier": tier}}});
    assert!(of(selector("gold")).is_ok());
    assert_eq!(of(selector("lead")), refused.clone());
    assert_eq!(of(json!({"from": "Selector"})), refused);
}

#[test]
fn a_route_attaches_to_each_listener_with_a_common_hostname() {
    let all = || json!({"from": "All"});
    let list = || {
        json!([
            listener("exact", "very.specific.com", all()),
            listener("wild", "*.wildcard.io", all()),
        ])
    };
    let of = |hostnames: &[&str]| attached(list(), gate(), hostnames);
    assert_eq!(of(&[]).unwrap(), ["*.wildcard.io", "very.specific.com"]);
    assert_eq!(of(&["a.wildcard.io", "x.org"]).unwrap(), ["a.wildcard.io"]);
    assert_eq!(of(&["x.org"]), Err(NotAttached::NoMatchingListenerHostname));
}

#[test]
fn a_route_attaches_to_a_listener_that_cannot_be_served_and_has_no_host_there() {
    let mut list = json!([listener("a", "a.io", json!({"from": "All"}))]);
    list[0]["port"] = json!(8080);
    assert_eq!(attached(list, gate(), &[]), Ok(Vec::new()));
}

#[test]
fn only_a_reference_to_a_gateway_has_the_key_of_one() {
    let of = |reference: Value| gateway_key(&serde_json::from_value(reference).unwrap(), "web");
    let key = |namespace: &str| Some((namespace.to_owned(), "gate".to_owned()));
    assert_eq!(of(json!({"name": "gate"})), key("web"));
    assert_eq!(of(json!({"name": "gate", "namespace": "infra", "kind": "Gateway"})), key("infra"));
    assert_eq!(of(json!({"name": "gate", "group": "", "kind": "Service"})), None);
}
