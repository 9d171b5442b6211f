//! Tests how the Worker of a request is found, and which information the client gets.

use http::Method;
use tenon_proto::catalog::WatchResponse;
use tenon_proto::failure::FailureCode;
use tenon_proto::id::WorkerId;

use crate::harness::{Behavior, Client, Node, Options, Scenario, eventually, full, worker};

#[tokio::test]
async fn a_worker_receives_the_request_and_answers_it() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        let request = client
            .request(Method::POST, "/a/b?c=d")
            .header("x-own", "1")
            .header("x-request-id", "r-7");
        let answer = client.send(request.body(full("hello")).unwrap()).await.unwrap();
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"hello"[..]));
        for (name, value) in [
            ("observed-worker", "shop/cart"),
            ("observed-method", "POST"),
            ("observed-url", "http://shop/a/b?c=d"),
            ("observed-request-id", "r-7"),
            ("echo-x-request-id", "r-7"),
            ("echo-host", "shop"),
            ("echo-x-own", "1"),
            ("echo-x-forwarded-for", "127.0.0.1"),
            ("echo-x-forwarded-proto", "http"),
            ("content-length", "5"),
        ] {
            assert_eq!(answer.header(name), value, "{name}");
        }
        assert!(
            !answer.headers.contains_key("connection"),
            "a header of the node's connection was forwarded"
        );
    }
}

#[tokio::test]
async fn a_host_without_a_worker_gets_a_404_in_the_requested_format() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let mut ask = async |accept: &str| {
        let request =
            http::Request::builder().uri("/").header("host", "nobody").header("accept", accept);
        client.send(request.body(full("")).unwrap()).await.unwrap()
    };
    let json = ask("application/json").await;
    assert_eq!((json.status.as_u16(), json.code()), (404, "worker_not_found".into()));
    let text = ask("text/plain").await;
    assert!(text.body.starts_with(b"worker_not_found: "), "{text:?}");
    eventually("both responses to be counted", || {
        scenario.metric("tenon_router_requests_total", Some("worker_not_found")) == 2.0
    })
    .await;
}

#[tokio::test]
async fn a_workers_failure_has_its_own_code() {
    let node = Node::start("n1", Behavior::Fail(FailureCode::CpuLimitExceeded));
    let scenario = Scenario::with(&[&node]).await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, "cpu_limit_exceeded".into()));
    assert_eq!(node.invocations(), 1, "a failed invocation was repeated");
}

#[tokio::test]
async fn only_a_request_for_debug_headers_gets_the_name_of_the_node() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario =
        Scenario::with_options(&[&node], Options { debug_headers: false, ..Default::default() })
            .await;
    let mut client = scenario.client().await;
    let plain = client.get("/").await;
    assert!(plain.headers.keys().all(|name| !name.as_str().starts_with("tenon-")), "{plain:?}");
    let request =
        client.request(Method::GET, "/").header("tenon-debug", "1").body(full("")).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.header("tenon-worker"), "shop/cart");
    assert_eq!(answer.header("tenon-node"), "n1");
    assert_eq!(answer.header("tenon-shard"), "0");
    assert_eq!(answer.header("tenon-request-id"), answer.header("observed-request-id"));
}

#[tokio::test]
async fn a_worker_stays_where_it_is_pinned() {
    let nodes = [1, 2, 3, 4].map(|i| Node::start(&format!("n{i}"), Behavior::Echo));
    let scenario = Scenario::with(&nodes.each_ref()).await;
    let pin = scenario.router().pinned(&WorkerId::new("shop", "cart")).unwrap();
    for _ in 0..20 {
        assert_eq!(scenario.client().await.get("/").await.header("tenon-node"), &*pin.node);
    }
    assert_eq!(scenario.router().pinned(&WorkerId::new("shop", "nothing")), None);
}

#[tokio::test]
async fn a_change_of_the_catalog_changes_the_routes() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let workers = vec![worker("shop/till", "till")];
    scenario.catalog.change(WatchResponse { workers, ..Default::default() });
    eventually("two routes", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    let request =
        http::Request::builder().uri("/").header("host", "TILL:80").body(full("")).unwrap();
    assert_eq!(client.send(request).await.unwrap().header("observed-worker"), "shop/till");
    let removed_workers = vec!["shop/cart".into()];
    scenario.catalog.change(WatchResponse { removed_workers, ..Default::default() });
    eventually("one route", || scenario.metric("tenon_router_routes", None) == 1.0).await;
    assert_eq!(client.get("/").await.code(), "worker_not_found");
}

#[tokio::test]
async fn a_head_request_is_answered_without_the_body_but_with_its_length() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        let request = client.request(Method::HEAD, "/").body(full("12345")).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!((answer.header("content-length"), answer.body.len()), ("5", 0));
        assert_eq!(client.get("/").await.status, 200, "the connection cannot be used again");
    }
}

#[tokio::test]
async fn a_response_with_status_204_has_no_body_and_an_invalid_status_is_a_failure() {
    let node = Node::start("n1", Behavior::Status(204));
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let answer = client.post("/", "ignored").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    assert!(!answer.headers.contains_key("content-length"), "{answer:?}");
    node.behave(Behavior::Status(99));
    assert_eq!(client.get("/").await.code(), "internal");
}
