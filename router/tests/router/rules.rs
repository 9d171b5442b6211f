//! Tests requests for hosts that have rules of HTTPRoutes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Method;
use tenon_proto::catalog::{
    Backend, HeaderChanges, HostRules, PathChange, Redirect, RuleAction, RuleMatch, Variable,
    WatchResponse, path_change, rule_match,
};

use crate::harness::{Behavior, Client, FullResponse, Node, Scenario, eventually, full, worker};

/// A router whose host `routed` has rules, beside the host `shop` of the Worker `shop/cart`.
struct Routed {
    scenario: Scenario,
    _node: Node,
}

fn prefix(path: &str, action: u32) -> RuleMatch {
    let path = Some(rule_match::Path::Prefix(path.into()));
    RuleMatch { path, http: true, https: true, action, ..Default::default() }
}

fn to(worker: &str) -> RuleAction {
    let backends = vec![Backend { worker: worker.into(), weight: 1 }];
    RuleAction { backends, ..Default::default() }
}

fn variable(name: &str, value: &str) -> Variable {
    Variable { name: name.into(), value: value.into() }
}

impl Routed {
    async fn with(matches: Vec<RuleMatch>, actions: Vec<RuleAction>) -> Self {
        let node = Node::start("n1", Behavior::Echo);
        let scenario = Scenario::with(&[&node]).await;
        let routed = Self { scenario, _node: node };
        routed.change(matches, actions);
        let workers = ["one", "two"].map(|name| worker(&format!("shop/{name}"), name));
        let change = WatchResponse { workers: workers.into(), ..Default::default() };
        routed.scenario.catalog.change(change);
        let metric = || routed.scenario.metric("tenon_router_workers", None);
        eventually("three Workers", || metric() == 3.0).await;
        routed
    }

    fn change(&self, matches: Vec<RuleMatch>, actions: Vec<RuleAction>) {
        let hosts = vec![HostRules { host: "routed".into(), matches, actions }];
        self.scenario.catalog.change(WatchResponse { hosts, ..Default::default() });
    }

    fn addr(&self) -> SocketAddr {
        self.scenario.addr()
    }

    async fn get(&self, target: &str, headers: &[(&str, &str)]) -> FullResponse {
        send(&mut Client::http1(self.addr()).await, Method::GET, "routed", target, headers).await
    }
}

async fn send(
    client: &mut Client,
    method: Method,
    host: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> FullResponse {
    let mut request = http::Request::builder().method(method).uri(target).header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request.body(full("")).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_request_reaches_the_worker_of_its_rule() {
    let with_header = RuleMatch { headers: vec![variable("color", "blue")], ..prefix("/", 1) };
    let posts = RuleMatch { method: "POST".into(), ..prefix("/two", 1) };
    let routed = Routed::with(
        vec![posts, prefix("/two/deep", 1), with_header, prefix("/", 0)],
        vec![to("shop/one"), to("shop/two")],
    )
    .await;
    for (target, headers, expected) in [
        ("/", &[][..], "shop/one"),
        ("/two", &[], "shop/one"),
        ("/two/deep/x?y", &[], "shop/two"),
        ("/x/../two/deep", &[], "shop/two"),
        ("/", &[("color", "blue")], "shop/two"),
        ("/", &[("color", "red")], "shop/one"),
    ] {
        let answer = routed.get(target, headers).await;
        assert_eq!(answer.header("observed-worker"), expected, "{target} {headers:?}");
    }
    let mut client = Client::http1(routed.addr()).await;
    let posted = send(&mut client, Method::POST, "routed", "/two", &[]).await;
    assert_eq!(posted.header("observed-worker"), "shop/two");
    // The rules of one host do not concern another.
    let other = send(&mut client, Method::GET, "shop", "/two/deep", &[]).await;
    assert_eq!(other.header("observed-worker"), "shop/cart");
}

#[tokio::test]
async fn requests_are_divided_among_workers_by_weight() {
    let backends = [("shop/one", 3), ("shop/two", 1), ("shop/cart", 0)];
    let backends =
        backends.map(|(worker, weight)| Backend { worker: worker.to_owned(), weight }).to_vec();
    let action = RuleAction { backends, ..Default::default() };
    let routed = Routed::with(vec![prefix("/", 0)], vec![action]).await;
    let mut counts = BTreeMap::<_, u32>::new();
    let mut client = Client::http1(routed.addr()).await;
    for _ in 0..400 {
        let answer = send(&mut client, Method::GET, "routed", "/", &[]).await;
        *counts.entry(answer.header("observed-worker").to_owned()).or_default() += 1;
    }
    assert_eq!(counts.len(), 2, "{counts:?}");
    // A quarter of 400 requests is 100, and a deviation of 50 is beyond five standard deviations.
    assert!((50..150).contains(&counts["shop/two"]), "{counts:?}");
}

#[tokio::test]
async fn a_rule_without_a_worker_that_exists_answers_500() {
    let routed = Routed::with(
        vec![prefix("/", 0), prefix("/invalid", 1), prefix("/none", 2)],
        vec![to("shop/unknown"), to(""), RuleAction::default()],
    )
    .await;
    for target in ["/", "/invalid", "/none"] {
        let answer = routed.get(target, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (500, "no_backend".into()), "{target}");
    }
    routed.change(Vec::new(), Vec::new());
    let mut client = Client::http1(routed.addr()).await;
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while send(&mut client, Method::GET, "routed", "/", &[]).await.status != 404 {
        assert!(std::time::Instant::now() < deadline, "the rules are still in use");
    }
}

#[tokio::test]
async fn a_worker_sees_the_rewritten_request_and_the_client_the_changed_response() {
    let change = path_change::Change::Prefix("/inner".into());
    let action = RuleAction {
        request_headers: Some(HeaderChanges {
            set: vec![variable("x-set", "new")],
            add: vec![variable("x-add", "more")],
            remove: vec!["x-remove".into()],
        }),
        response_headers: Some(HeaderChanges {
            set: vec![variable("cache-control", "no-store"), variable("content-length", "1")],
            add: Vec::new(),
            remove: vec!["observed-depth".into()],
        }),
        rewrite_host: "inner.example".into(),
        rewrite_path: Some(PathChange { change: Some(change) }),
        ..to("shop/one")
    };
    let routed = Routed::with(vec![prefix("/outer", 0)], vec![action]).await;
    let sent = [("x-set", "old"), ("x-add", "one"), ("x-remove", "gone")];
    let answer = routed.get("/outer/a?b=c", &sent).await;
    for (name, value) in [
        ("observed-url", "http://inner.example/inner/a?b=c"),
        ("echo-host", "inner.example"),
        ("echo-x-forwarded-host", "routed"),
        ("echo-x-set", "new"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let added: Vec<_> = answer.headers.get_all("echo-x-add").iter().collect();
    assert_eq!(added, ["one", "more"]);
    for absent in ["echo-x-remove", "observed-depth"] {
        assert!(!answer.headers.contains_key(absent), "{absent}");
    }
    // The rule cannot break the framing of the response.
    assert_eq!(answer.header("content-length"), "0");
}

#[tokio::test]
async fn a_redirect_is_answered_without_a_worker() {
    let redirect = Redirect { scheme: "https".into(), status: 301, ..Default::default() };
    let action = RuleAction { redirect: Some(redirect), ..Default::default() };
    let routed = Routed::with(vec![prefix("/", 0)], vec![action]).await;
    let answer = routed.get("/a?b=c", &[]).await;
    assert_eq!(answer.status.as_u16(), 301);
    assert_eq!(answer.header("location"), "https://routed/a?b=c");
}

#[tokio::test]
async fn rules_of_listeners_with_tls_do_not_serve_requests_without_tls() {
    let only_https = RuleMatch { http: false, ..prefix("/", 0) };
    let routed = Routed::with(vec![only_https], vec![to("shop/one")]).await;
    assert_eq!(routed.get("/", &[]).await.code(), "worker_not_found");
}

#[tokio::test]
async fn the_host_that_covers_all_others_serves_what_no_other_host_serves() {
    let routed = Routed::with(vec![prefix("/here", 0)], vec![to("shop/one")]).await;
    let anywhere = HostRules {
        host: "*".into(),
        matches: vec![prefix("/", 0)],
        actions: vec![to("shop/two")],
    };
    let hosts = vec![anywhere];
    routed.scenario.catalog.change(WatchResponse { hosts, ..Default::default() });
    let mut client = Client::http1(routed.addr()).await;
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while send(&mut client, Method::GET, "any.example", "/", &[]).await.status != 200 {
        assert!(std::time::Instant::now() < deadline, "the rules are not in use");
    }
    for (host, path, expected) in [
        ("any.example", "/", "shop/two"),
        ("routed", "/here", "shop/one"),
        ("routed", "/else", "shop/two"),
        ("shop", "/", "shop/cart"),
    ] {
        let answer = send(&mut client, Method::GET, host, path, &[]).await;
        assert_eq!(answer.header("observed-worker"), expected, "{host}{path}");
    }
}

#[tokio::test]
async fn an_invalid_entry_does_not_replace_the_rules_of_a_host() {
    let routed = Routed::with(vec![prefix("/", 0)], vec![to("shop/one")]).await;
    routed.change(vec![prefix("/", 7)], Vec::new());
    let workers = vec![worker("shop/three", "three")];
    routed.scenario.catalog.change(WatchResponse { workers, ..Default::default() });
    let metric = || routed.scenario.metric("tenon_router_workers", None);
    eventually("four Workers", || metric() == 4.0).await;
    assert_eq!(routed.get("/", &[]).await.header("observed-worker"), "shop/one");
}
