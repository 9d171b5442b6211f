//! Tests how rules are translated, and which values are refused.

use serde_json::{Value, json};

use super::*;

fn route(rules: Value) -> HttpRoute {
    serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"rules": rules},
    }))
    .unwrap()
}

fn compiled(rules: Value) -> Compiled {
    compile(&route(rules), &ReferenceGrants::default()).unwrap()
}

fn refused(rule: Value) -> String {
    compile(&route(json!([rule])), &ReferenceGrants::default()).unwrap_err().to_string()
}

fn worker(name: &str) -> Value {
    json!({"group": "tenon.dev", "kind": "Worker", "name": name})
}

#[test]
fn a_rule_without_matches_takes_every_path() {
    let compiled = compiled(json!([{"backendRefs": [worker("cart")]}]));
    assert_eq!(compiled.matches[0].path, Some(rule_match::Path::Prefix("/".into())));
    assert_eq!(compiled.actions[0].backends[0], Backend { worker: "web/cart".into(), weight: 1 });
    assert_eq!((compiled.workers.len(), compiled.invalid), (1, None));
}

#[test]
fn matches_keep_their_conditions_and_share_the_action_of_their_rule() {
    let compiled = compiled(json!([
        {"backendRefs": [worker("first")]},
        {
            "matches": [
                {"path": {"type": "Exact", "value": "/one"}, "method": "POST"},
                {
                    "headers": [
                        {"name": "X-Color", "value": "blue"},
                        {"name": "x-color", "value": "red"},
                    ],
                    "queryParams": [{"type": "Exact", "name": "a", "value": "b"}],
                },
            ],
            "backendRefs": [worker("second")],
        },
    ]));
    let of = |name: &str, value: &str| Variable { name: name.into(), value: value.into() };
    let expected = [
        RuleMatch {
            path: Some(rule_match::Path::Exact("/one".into())),
            method: "POST".into(),
            action: 1,
            ..Default::default()
        },
        RuleMatch {
            path: Some(rule_match::Path::Prefix("/".into())),
            // Of two entries with one name, the first counts.
            headers: vec![of("x-color", "blue")],
            query: vec![of("a", "b")],
            action: 1,
            ..Default::default()
        },
    ];
    assert_eq!(compiled.matches[1..], expected);
}

#[test]
fn an_invalid_backend_keeps_its_weight_and_has_a_reason() {
    let service = json!({"name": "api", "port": 80, "weight": 3});
    let foreign =
        json!({"group": "tenon.dev", "kind": "Worker", "name": "x", "namespace": "other"});
    let of = |backend: Value| compiled(json!([{"backendRefs": [backend, worker("cart")]}]));
    let with_service = of(service);
    let backends = &with_service.actions[0].backends;
    assert_eq!(backends[0], Backend { worker: String::new(), weight: 3 });
    let invalid = with_service.invalid.unwrap();
    assert_eq!(invalid.reason(), "InvalidKind");
    assert!(invalid.to_string().contains("attach the route to another Gateway"), "{invalid}");
    assert_eq!(of(foreign).invalid.unwrap().reason(), "RefNotPermitted");
}

#[test]
fn filters_are_translated() {
    let compiled = compiled(json!([{
        "filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {
                "set": [{"name": "X-A", "value": "1"}], "remove": ["x-b"],
            }},
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": {
                "add": [{"name": "x-c", "value": "2"}],
            }},
            {"type": "URLRewrite", "urlRewrite": {
                "hostname": "b.io",
                "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"},
            }},
        ],
        "backendRefs": [worker("cart")],
    }]));
    let action = &compiled.actions[0];
    let request = action.request_headers.as_ref().unwrap();
    assert_eq!((request.set[0].name.as_str(), request.remove[0].as_str()), ("x-a", "x-b"));
    assert_eq!(action.response_headers.as_ref().unwrap().add[0].value, "2");
    assert_eq!(action.rewrite_host, "b.io");
    let path = action.rewrite_path.as_ref().unwrap().change.clone();
    assert_eq!(path, Some(path_change::Change::Prefix("/new".into())));
}

#[test]
fn a_redirect_has_the_status_302_by_default() {
    let redirect = |redirect: Value| {
        let filter = json!({"type": "RequestRedirect", "requestRedirect": redirect});
        compiled(json!([{"filters": [filter]}])).actions.remove(0).redirect.unwrap()
    };
    assert_eq!(redirect(json!({"scheme": "https"})).status, 302);
    let other = redirect(json!({"hostname": "b.io", "port": 8443, "statusCode": 301}));
    assert_eq!((other.host.as_str(), other.port, other.status), ("b.io", 8443, 301));
}

#[test]
fn a_value_that_is_not_supported_is_refused_with_its_field_and_a_remedy() {
    let regex = json!({"type": "RegularExpression", "value": "/.*"});
    let filter = |filter: Value| json!({"filters": [filter]});
    for (rule, expected) in [
        (
            json!({"matches": [{"path": regex}]}),
            "spec.rules[0].matches[0].path.type: RegularExpression is not supported; use Exact",
        ),
        (
            json!({"matches": [{"headers": [
                {"type": "RegularExpression", "name": "a", "value": "b"},
            ]}]}),
            "spec.rules[0].matches[0].headers[0].type: RegularExpression",
        ),
        (
            json!({"matches": [{"queryParams": [
                {"type": "RegularExpression", "name": "a", "value": "b"},
            ]}]}),
            "spec.rules[0].matches[0].queryParams[0].type",
        ),
        (
            json!({"timeouts": {"request": "1s"}}),
            "spec.rules[0].timeouts: not supported; remove it",
        ),
        (
            filter(json!({"type": "RequestMirror"})),
            "spec.rules[0].filters[0].type: RequestMirror is not supported",
        ),
        (
            filter(json!({"type": "RequestRedirect", "requestRedirect": {"statusCode": 200}})),
            "spec.rules[0].filters[0].requestRedirect.statusCode: not supported",
        ),
        (
            filter(json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {
                "set": [{"name": "Content-Length", "value": "1"}],
            }})),
            "spec.rules[0].filters[0].responseHeaderModifier.set: the routers set content-length",
        ),
        (
            json!({"backendRefs": [{"name": "x", "filters": [{"type": "RequestMirror"}]}]}),
            "spec.rules[0].backendRefs[0].filters: not supported; use the filters of the rule",
        ),
    ] {
        let error = refused(rule);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_size_of_a_route_is_bounded() {
    let headers: Vec<_> =
        (0..16).map(|at| json!({"name": format!("x-{at}"), "value": "v".repeat(4096)})).collect();
    let filter =
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": headers}});
    let error = refused(json!({"filters": [filter]}));
    assert!(error.contains("divide them among routes"), "{error}");
}
