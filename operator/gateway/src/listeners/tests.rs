//! Tests which listeners routers serve, and why they do not serve the others.

use serde_json::{Value, json};

use super::*;
use crate::objects::ReferenceGrantSpec;

fn gateway(listeners: Value) -> Gateway {
    serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "web", "namespace": "infra"},
        "spec": {"gatewayClassName": "tenon", "listeners": listeners},
    }))
    .unwrap()
}

fn secret(type_: &str, certificate: &str) -> Secret {
    serde_json::from_value(json!({
        "metadata": {"name": "cert"},
        "type": type_,
        "data": {"tls.crt": certificate, "tls.key": ""},
    }))
    .unwrap()
}

fn states(listeners: Value) -> Vec<ListenerState> {
    super::listeners(&gateway(listeners), Ports::default(), &ReferenceGrants::default(), &|_| None)
}

fn https(reference: Value) -> Value {
    let tls = json!({"certificateRefs": [reference]});
    json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}])
}

#[test]
fn a_listener_needs_a_port_of_the_routers_service_and_a_supported_protocol() {
    for (listener, reason) in [
        (json!({"name": "a", "port": 80, "protocol": "HTTP"}), None),
        (json!({"name": "a", "port": 8080, "protocol": "HTTP"}), Some("PortUnavailable")),
        (json!({"name": "a", "port": 80, "protocol": "HTTPS"}), Some("PortUnavailable")),
        (json!({"name": "a", "port": 80, "protocol": "TCP"}), Some("UnsupportedProtocol")),
        (json!({"name": "a", "port": 443, "protocol": "TLS"}), Some("UnsupportedProtocol")),
        (
            json!({"name": "a", "port": 443, "protocol": "HTTPS", "tls": {"mode": "Passthrough"}}),
            Some("UnsupportedValue"),
        ),
    ] {
        let states = states(json!([listener]));
        let refused = states[0].accepted.as_ref().err();
        assert_eq!(refused.map(NotAccepted::reason), reason, "{listener}");
        assert_eq!(states[0].programmed().is_some(), reason.is_none(), "{listener}");
    }
    let without_tls = Ports { http: 80, https: None };
    let grants = ReferenceGrants::default();
    let listener = json!([{"name": "a", "port": 443, "protocol": "HTTPS"}]);
    let states = super::listeners(&gateway(listener), without_tls, &grants, &|_| None);
    let error = states[0].accepted.as_ref().unwrap_err().to_string();
    assert!(error.contains("router.https.gateways"), "{error}");
}

#[test]
fn a_gateway_that_verifies_its_clients_is_not_served() {
    let mut gateway = gateway(json!([{"name": "a", "port": 80, "protocol": "HTTP"}]));
    gateway.spec.tls = Some(json!({"frontend": {}}));
    let grants = ReferenceGrants::default();
    let states = super::listeners(&gateway, Ports::default(), &grants, &|_| None);
    assert_eq!(states[0].accepted, Err(NotAccepted::GatewayTls));
}

#[test]
fn listeners_of_one_port_need_one_protocol_and_different_hostnames() {
    let listener = |name: &str, host: &str, protocol: &str| {
        json!({
            "name": name, "port": 80, "protocol": protocol, "hostname": host,
        })
    };
    let conflicts = |list: Value| -> Vec<_> {
        let states = states(list);
        states.iter().map(|state| state.conflict.as_ref().map(Conflict::reason)).collect()
    };
    assert_eq!(
        conflicts(json!([listener("a", "a.io", "HTTP"), listener("b", "b.io", "HTTP")])),
        [None, None]
    );
    let same = json!([
        listener("a", "a.io", "HTTP"),
        listener("b", "A.io", "HTTP"),
        listener("c", "c.io", "HTTP"),
    ]);
    // Neither of the two wins.
    assert_eq!(conflicts(same), [Some("HostnameConflict"), Some("HostnameConflict"), None]);
    let mixed = json!([listener("a", "a.io", "HTTP"), listener("b", "b.io", "HTTPS")]);
    assert_eq!(conflicts(mixed), [Some("ProtocolConflict"); 2]);
}

#[test]
fn only_http_routes_may_attach() {
    let of = |kinds: Value| {
        let list = json!([{
            "name": "a", "port": 80, "protocol": "HTTP", "allowedRoutes": {"kinds": kinds},
        }]);
        let state = states(list).remove(0);
        (state.allows_http_routes, state.invalid_kind.clone(), state.programmed().is_some())
    };
    assert_eq!(of(json!([])), (true, None, true));
    assert_eq!(of(json!([{"kind": "HTTPRoute"}])), (true, None, true));
    let invalid = Some("TCPRoute".to_owned());
    assert_eq!(of(json!([{"kind": "TCPRoute"}])), (false, invalid.clone(), false));
    assert_eq!(of(json!([{"kind": "HTTPRoute"}, {"kind": "TCPRoute"}])), (true, invalid, true));
    let other = of(json!([{"group": "example.com", "kind": "HTTPRoute"}]));
    assert_eq!(other, (false, Some("HTTPRoute".to_owned()), false));
}

#[test]
fn a_listener_with_tls_needs_a_usable_secret() {
    let broken = secret("kubernetes.io/tls", "");
    let opaque = secret("Opaque", "");
    let grants = ReferenceGrants::default();
    let of = |list: Value, secret: Option<&Secret>| {
        let states = super::listeners(&gateway(list), Ports::default(), &grants, &|_| secret);
        let error = states[0].certificate.clone().unwrap_err();
        assert_eq!(states[0].programmed(), None);
        (error.reason(), error.to_string())
    };
    let none = json!([{"name": "https", "port": 443, "protocol": "HTTPS"}]);
    assert_eq!(of(none, None).0, "InvalidCertificateRef");
    let own = json!({"name": "cert"});
    assert!(of(https(own.clone()), None).1.contains("no Secret infra/cert"));
    assert!(of(https(own.clone()), Some(&opaque)).1.contains("kubernetes.io/tls"));
    assert!(of(https(own), Some(&broken)).1.contains("tls.crt"));
    let config_map = json!({"kind": "ConfigMap", "name": "cert"});
    assert_eq!(of(https(config_map), None).0, "InvalidCertificateRef");
}

#[test]
fn a_secret_of_another_namespace_needs_a_grant_there() {
    let foreign = || https(json!({"name": "cert", "namespace": "certs"}));
    let state = states(foreign()).remove(0);
    let error = state.certificate.unwrap_err();
    assert_eq!(error.reason(), "RefNotPermitted");
    let grant: ReferenceGrantSpec = serde_json::from_value(json!({
        "from": [{"group": GROUP, "kind": "Gateway", "namespace": "infra"}],
        "to": [{"group": "", "kind": "Secret"}],
    }))
    .unwrap();
    let mut grants = ReferenceGrants::default();
    grants.set("certs", "from-infra", Some(grant));
    let states = super::listeners(&gateway(foreign()), Ports::default(), &grants, &|_| None);
    // The reference is permitted, and the Secret does not exist.
    assert_eq!(states[0].certificate.as_ref().unwrap_err().reason(), "InvalidCertificateRef");
}
