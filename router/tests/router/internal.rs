//! Tests calls at the internal listener, from Workers and from schedules.

use bytes::Bytes;
use futures::stream;
use http::Method;
use tenon_proto::catalog::{WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::{
    Entry, INVOKE_PATH, InvokeHead, MAX_DEPTH, ResponseHead, Rpc, Scheduled, Service,
};

use crate::harness::{
    Behavior, Client, InternalCaller, Node, Scenario, eventually, full, head, worker,
};

fn header_value(answer: &ResponseHead, name: &str) -> String {
    let header = answer.headers.iter().find(|header| header.name == name);
    String::from_utf8(header.unwrap_or_else(|| panic!("no {name}: {answer:?}")).value.to_vec())
        .unwrap()
}

#[tokio::test]
async fn a_worker_is_called_by_name_and_the_router_adds_the_revision() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let called = InvokeHead { method: "POST".into(), body: "small".into(), ..head("shop/cart") };
    let answer = caller.call(called, stream::empty()).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"small"[..]));
    assert_eq!(header_value(&answer, "observed-worker"), "shop/cart");
    assert_eq!(header_value(&answer, "observed-request-id"), "call-1");
    assert_eq!(header_value(&answer, "observed-depth"), "1");
    assert_eq!(node.last_head().digest, vec![7; 32]);
    eventually("the result to be counted", || {
        scenario.metric("tenon_router_requests_total", Some("2xx")) == 1.0
    })
    .await;
}

#[tokio::test]
async fn only_grpc_is_served_at_the_internal_listener() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = Client::http2(scenario.internal_addr()).await;
    for content_type in ["text/plain", "application/grpc-web", "application/grpc+json"] {
        let request = client.request(Method::POST, INVOKE_PATH);
        let request = request.header("content-type", content_type).body(full("")).unwrap();
        assert_eq!(client.send(request).await.unwrap().status, 415, "{content_type}");
    }
}

#[tokio::test]
async fn the_entry_of_a_call_is_passed_on() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    for rpc in [None, Some(Rpc { method: "add".into() })] {
        let entry = Some(Entry { export: "Admin".into(), rpc });
        let called = InvokeHead { entry: entry.clone(), body: "text".into(), ..head("shop/cart") };
        let answer = caller.call(called, stream::empty()).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"text"[..]));
        assert_eq!(node.last_head().entry, entry);
    }
    caller.call(head("shop/cart"), stream::empty()).await.unwrap();
    assert_eq!(node.last_head().entry, None);
}

#[tokio::test]
async fn a_body_of_many_pieces_is_forwarded_in_both_directions() {
    let node = Node::start("n1", Behavior::EchoStream);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let called = InvokeHead {
        method: "POST".into(),
        body: "first ".into(),
        more_body: true,
        ..head("shop/cart")
    };
    let pieces = (0..40).map(|i| Bytes::from(vec![b'a' + i % 26; 50_000]));
    let answer =
        caller.call(called, stream::iter(pieces.clone().collect::<Vec<_>>())).await.unwrap();
    let expected: Vec<u8> = b"first ".iter().copied().chain(pieces.flatten()).collect();
    assert!(answer.body == expected, "{} of {} bytes came back", answer.body.len(), expected.len());
}

#[tokio::test]
async fn a_body_over_the_workers_limit_is_refused_at_the_internal_listener() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let small = Worker { request_body_bytes: 1_000, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![small], ..Default::default() });
    let caller = InternalCaller::of(scenario.internal_addr());
    loop {
        let called = InvokeHead { more_body: true, body: vec![0; 600].into(), ..head("shop/cart") };
        let answer = caller.call(called, stream::iter([Bytes::from(vec![0; 600])])).await;
        match answer {
            Ok(_) => tokio::task::yield_now().await,
            Err(failure) => break assert_eq!(failure.code, FailureCode::RequestTooLarge),
        }
    }
}

#[tokio::test]
async fn a_call_is_retried_like_a_request() {
    let nodes = [
        Node::start("n1", Behavior::Refuse(FailureCode::Draining)),
        Node::start("n2", Behavior::Echo),
    ];
    let scenario = Scenario::with(&nodes.each_ref()).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    for _ in 0..5 {
        let called = InvokeHead { method: "POST".into(), ..head("shop/cart") };
        assert_eq!(
            header_value(&caller.call(called, stream::empty()).await.unwrap(), "observed-node"),
            "n2"
        );
    }
}

#[tokio::test]
async fn a_failure_of_the_node_is_passed_on_unchanged() {
    let node = Node::start("n1", Behavior::Fail(FailureCode::CpuLimitExceeded));
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let failure = caller.call(head("shop/cart"), stream::empty()).await.unwrap_err();
    assert_eq!(
        (failure.code, failure.message.as_str()),
        (FailureCode::CpuLimitExceeded, "The Worker failed.")
    );
    eventually("the result to be counted", || {
        scenario.metric("tenon_router_requests_total", Some("cpu_limit_exceeded")) == 1.0
    })
    .await;
}

#[tokio::test]
async fn a_truncated_reply_is_a_failure() {
    let mut node = Node::start("n1", Behavior::HalfAnswer);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    // A POST is not repeated, regardless of how much of its response has arrived.
    let called = InvokeHead { method: "POST".into(), ..head("shop/cart") };
    let call = tokio::spawn(async move { caller.call(called, stream::empty()).await });
    eventually("the invocation to begin", || node.invocations() == 1).await;
    node.kill();
    assert_eq!(call.await.unwrap().unwrap_err().code, FailureCode::NodeLost);
}

#[tokio::test]
async fn the_failure_for_an_unknown_worker_names_the_worker() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    for unknown in ["shop/none", "none", ""] {
        let failure = caller.call(head(unknown), stream::empty()).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::WorkerNotFound);
        assert!(failure.message.contains(unknown), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_loop_of_calls_is_refused_and_the_failure_names_both_workers() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let at = |depth| InvokeHead { depth, ..head("shop/cart") };
    assert!(caller.call(at(MAX_DEPTH), stream::empty()).await.is_ok());
    let failure = caller.call(at(MAX_DEPTH + 1), stream::empty()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::LoopDetected);
    assert!(failure.message.contains("shop/front calls shop/cart"), "{}", failure.message);
    assert_eq!(node.invocations(), 1);
}

#[tokio::test]
async fn a_scheduled_event_is_forwarded_unchanged_and_not_repeated() {
    let mut node = Node::start("n1", Behavior::Echo);
    let other_node = Node::start("n2", Behavior::Echo);
    let scenario = Scenario::with(&[&node, &other_node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let scheduled = Some(Scheduled { cron: "*/5 * * * *".into(), time_ms: 1_700_000_000_000 });
    let event = || InvokeHead {
        worker: "shop/cart".into(),
        scheduled: scheduled.clone(),
        ..InvokeHead::default()
    };
    let other = loop {
        let answer = caller.call(event(), stream::empty()).await.unwrap();
        if header_value(&answer, "observed-node") == "n1" {
            break node.invocations();
        }
        // The Worker is pinned to n2, so n1 becomes the only node.
        let removal = WatchResponse { removed_nodes: vec!["n2".into()], ..Default::default() };
        scenario.catalog.change(removal);
    };
    assert_eq!(other, 1);
    assert_eq!(node.last_head().scheduled, scheduled);
    assert!(!node.last_head().request_id.is_empty(), "the request has no id for the logs");

    node.behave(Behavior::Hang);
    let call = tokio::spawn({
        let event = event();
        async move { caller.call(event, stream::empty()).await }
    });
    eventually("the second invocation", || node.invocations() == 2).await;
    node.kill();
    assert_eq!(call.await.unwrap().unwrap_err().code, FailureCode::NodeLost);
}

#[tokio::test]
async fn an_invocation_carries_the_revisions_of_its_services() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let calling = Worker {
        services: vec!["shop/auth".into(), "shop/none".into()],
        ..worker("shop/cart", "shop")
    };
    let auth = Worker { digest: vec![9; 32], ..worker("shop/auth", "auth") };
    scenario.catalog.change(WatchResponse { workers: vec![calling, auth], ..Default::default() });
    let caller = InternalCaller::of(scenario.internal_addr());
    let mut client = scenario.client().await;
    let expected = [Service { worker: "shop/auth".into(), digest: vec![9; 32].into() }];
    while node.invocations() == 0 || node.last_head().services.is_empty() {
        client.get("/").await;
    }
    assert_eq!(node.last_head().services, expected, "in a request of a client");
    caller
        .call(InvokeHead { services: Vec::new(), ..head("shop/cart") }, stream::empty())
        .await
        .unwrap();
    assert_eq!(node.last_head().services, expected, "in a call of a Worker");
}

#[tokio::test]
async fn a_draining_router_finishes_its_calls() {
    let node = Node::start("n1", Behavior::Hang);
    let mut scenario = Scenario::with(&[&node]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let call = tokio::spawn(async move { caller.call(head("shop/cart"), stream::empty()).await });
    eventually("the call to begin", || node.invocations() == 1).await;
    let draining = tokio::spawn(scenario.signal().drain());
    tokio::task::yield_now().await;
    assert!(!draining.is_finished(), "the drain ended during a call");
    call.abort();
    draining.await.unwrap();
    scenario.join().await;
}
