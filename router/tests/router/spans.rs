//! Tests the spans of requests, which a collector receives.

use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, stream};
use http::Method;
use http_body_util::BodyExt;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::{Entry, Header, InvokeHead, Rpc, Scheduled};
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{
    Behavior, Client, Collector, FullResponse, InternalCaller, Node, Options, Reaction, Scenario,
    attribute, eventually, full, head, spans_config, streamed,
};

const EVERY: &str = "--trace-ratio=1";
const NONE: &str = "--trace-ratio=0";

const STATED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

async fn start(node: &Node, collector: &Collector, args: &[&str]) -> Scenario {
    let options =
        Options { spans: collector.config(args), debug_headers: false, ..Options::default() };
    Scenario::with_options(&[node], options).await
}

/// Starts a router that trusts the test as a proxy.
async fn start_behind_proxy(node: &Node, collector: &Collector, args: &[&str]) -> Scenario {
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let options = Options {
        spans: collector.config(args),
        debug_headers: false,
        trusted_proxies,
        ..Options::default()
    };
    Scenario::with_options(&[node], options).await
}

async fn get(scenario: &Scenario, headers: &[(&str, &str)]) -> FullResponse {
    let mut client = scenario.client().await;
    let mut request = client.request(Method::GET, "/cart?secret=1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request.body(full("")).unwrap()).await.unwrap()
}

fn text(span: &Span, key: &str) -> String {
    attribute(&span.attributes, key).unwrap_or_else(|| panic!("no {key}: {span:?}"))
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a span's context as `traceparent` states it.
fn context(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

fn fate(scenario: &Scenario, fate: &str) -> f64 {
    scenario.metric("tenon_router_spans_total", Some(fate))
}

#[tokio::test]
async fn a_span_describes_its_request() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let args = [EVERY, "--otlp-headers=api-key=a%20b", "--otlp-resource=k8s.cluster.name=east"];
    let scenario = start(&node, &collector, &args).await;
    let request_id = [("x-request-id", "request-7")];
    let answer = get(&scenario, &request_id).await;
    let spans = collector.spans(1).await;
    assert_eq!(spans.len(), 1);
    let span = &spans[0];
    assert_eq!((span.name.as_str(), span.kind), ("GET", 2));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("url.scheme", "http"),
        ("url.path", "/cart"),
        ("server.address", "shop"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("faas.coldstart", "false"),
        ("tenon.request_id", "request-7"),
        ("tenon.worker", "shop/cart"),
        ("tenon.node", "n1"),
        ("tenon.shard", "0"),
        ("tenon.attempts", "1"),
    ] {
        assert_eq!(text(span, key), value, "{key}");
    }
    assert!(span.status.is_none() && span.parent_span_id.is_empty() && span.links.is_empty());
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    // The Worker continues the trace.
    assert_eq!(answer.header("echo-traceparent"), context(span));
    assert_eq!(node.last_head().trace, context(span));
    assert_eq!(collector.resource("service.name").unwrap(), "tenon-router");
    assert_eq!(collector.resource("service.instance.id").unwrap(), "router-1");
    assert_eq!(collector.resource("k8s.cluster.name").unwrap(), "east");
    assert_eq!(collector.header("api-key").unwrap(), "a b");
    eventually("the span to be counted", || fate(&scenario, "exported") == 1.0).await;
}

#[tokio::test]
async fn a_client_cannot_add_spans_to_a_trace() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    let answer = get(&scenario, &[("traceparent", STATED), ("tracestate", "a=b")]).await;
    let span = collector.spans(1).await.remove(0);
    assert_ne!(hex(&span.trace_id), STATED[3..35]);
    assert!(span.parent_span_id.is_empty());
    // A link leads to the client's trace.
    assert_eq!(hex(&span.links[0].trace_id), STATED[3..35]);
    assert_eq!(answer.header("echo-traceparent"), context(&span));
    assert!(!answer.headers.contains_key("echo-tracestate"));
}

#[tokio::test]
async fn the_trace_of_a_trusted_proxy_is_continued_if_it_is_sampled() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start_behind_proxy(&node, &collector, &[NONE]).await;
    for stated in [UNSAMPLED, STATED] {
        let answer = get(&scenario, &[("traceparent", stated), ("tracestate", "a=b")]).await;
        assert_eq!(answer.header("echo-tracestate"), "a=b");
        assert_eq!(answer.header("echo-traceparent")[3..35], stated[3..35]);
        // The Worker of a request without a span gets the proxy's context.
        assert_eq!(answer.header("echo-traceparent") == stated, stated == UNSAMPLED);
    }
    let spans = collector.spans(1).await;
    assert_eq!(spans.len(), 1);
    assert_eq!(hex(&spans[0].trace_id), STATED[3..35]);
    assert_eq!(hex(&spans[0].parent_span_id), STATED[36..52]);
}

#[tokio::test]
async fn the_sampled_flag_of_a_client_has_no_effect() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[NONE]).await;
    let answer = get(&scenario, &[("traceparent", STATED)]).await;
    assert_eq!(answer.header("echo-traceparent"), STATED);
    assert_eq!(node.last_head().trace, "");
    // The span of a later failure arrives alone.
    node.behave(Behavior::Fail(FailureCode::WorkerException));
    get(&scenario, &[]).await;
    assert_eq!(collector.spans(1).await.len(), 1);
}

#[tokio::test]
async fn a_request_that_fails_has_a_span_even_if_it_is_not_sampled() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[NONE]).await;
    for (number, (behavior, error)) in [
        (Behavior::Fail(FailureCode::WorkerException), "worker_exception"),
        (Behavior::Refuse(FailureCode::Overloaded), "overloaded"),
        (Behavior::Status(503), "503"),
    ]
    .into_iter()
    .enumerate()
    {
        node.behave(behavior);
        assert!(get(&scenario, &[]).await.status.is_server_error());
        let span = collector.spans(number + 1).await.remove(number);
        assert_eq!(span.status.as_ref().unwrap().code(), StatusCode::Error, "{error}");
        assert_eq!(text(&span, "error.type"), error);
        assert_eq!(text(&span, "tenon.worker"), "shop/cart", "{error}");
        assert_eq!(text(&span, "tenon.node"), "n1", "{error}");
    }
    // A request that fails because of its client has no span.
    node.behave(Behavior::Status(404));
    get(&scenario, &[]).await;
    node.behave(Behavior::Status(500));
    get(&scenario, &[]).await;
    assert_eq!(collector.spans(4).await.len(), 4);
}

#[tokio::test]
async fn failures_have_no_span_if_spans_of_failures_are_disabled() {
    let node = Node::start("n1", Behavior::Status(500));
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start_behind_proxy(&node, &collector, &[NONE, "--trace-errors=false"]).await;
    get(&scenario, &[]).await;
    get(&scenario, &[("traceparent", STATED)]).await;
    assert_eq!(collector.spans(1).await.len(), 1);
}

#[tokio::test]
async fn a_call_between_workers_continues_the_trace_of_its_request() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    let caller = InternalCaller::of(scenario.internal_addr());
    let header = |value: &str| Header {
        name: "traceparent".into(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    // The calling Worker has a span of its own in the trace.
    let own = STATED.replace("00f067aa0ba902b7", "00000000000000aa");
    let foreign = STATED.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"ab".repeat(16));
    for (number, (stated, parent)) in [
        (None, "00f067aa0ba902b7"),
        (Some(own), "00000000000000aa"),
        (Some(foreign), "00f067aa0ba902b7"),
    ]
    .into_iter()
    .enumerate()
    {
        let headers = stated.iter().map(|stated| header(stated)).collect();
        let call = InvokeHead { trace: STATED.into(), headers, ..head("shop/cart") };
        caller.call(call, stream::empty()).await.unwrap();
        let span = collector.spans(number + 1).await.remove(number);
        assert_eq!(hex(&span.trace_id), STATED[3..35]);
        assert_eq!(hex(&span.parent_span_id), parent);
        assert_eq!(text(&span, "tenon.caller"), "shop/front");
        let called = node.last_head();
        assert_eq!(called.trace, context(&span));
        let stated: Vec<_> =
            called.headers.iter().filter(|header| header.name == "traceparent").collect();
        assert_eq!(stated.len(), 1);
        assert_eq!(stated[0].value, context(&span));
    }
    // A Worker cannot begin a trace, or have a request sampled.
    let call = InvokeHead { headers: vec![header(STATED)], ..head("shop/cart") };
    caller.call(call, stream::empty()).await.unwrap();
    // An event of a schedule begins a trace.
    let scheduled = Some(Scheduled { cron: "* * * * *".into(), time_ms: 1 });
    let event = InvokeHead { scheduled, depth: 0, ..head("shop/cart") };
    caller.call(event, stream::empty()).await.unwrap();
    let spans = collector.spans(4).await;
    assert_eq!(spans.len(), 4);
    assert_eq!(spans[3].name, "SCHEDULED");
    assert!(spans[3].parent_span_id.is_empty());
    let entry = Some(Entry { export: "Admin".into(), rpc: Some(Rpc { method: "add".into() }) });
    let call = InvokeHead { trace: STATED.into(), entry, ..head("shop/cart") };
    caller.call(call, stream::empty()).await.unwrap();
    let span = collector.spans(5).await.remove(4);
    assert_eq!(span.name, "RPC");
    assert_eq!(text(&span, "http.request.method"), "RPC");
}

#[tokio::test]
async fn a_span_ends_with_the_response() {
    let node = Node::start("n1", Behavior::EchoStream);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    for (ended, mut client) in
        [(0, Client::http1(scenario.addr()).await), (2, Client::http2(scenario.addr()).await)]
    {
        let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
        let request = client.request(Method::POST, "/").body(streamed(pieces_rx)).unwrap();
        let response = client.open(request).await.unwrap();
        // Another request, which begins later, ends first.
        assert_eq!(scenario.client().await.get("/").await.status, 200);
        pieces_tx.send("late".into()).await.unwrap();
        drop(pieces_tx);
        response.into_body().collect().await.unwrap();
        let spans = collector.spans(ended + 2).await.split_off(ended);
        let [short, long] =
            ["GET", "POST"].map(|name| spans.iter().find(|span| span.name == name).unwrap());
        assert!(long.end_time_unix_nano > short.end_time_unix_nano);
        assert_eq!(text(long, "http.response.body.size"), "4");
        assert!(long.status.is_none());
    }
}

#[tokio::test]
async fn the_span_of_a_request_whose_client_disconnects_reports_it() {
    let node = Node::start("n1", Behavior::HalfAnswer);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    let mut client = scenario.client().await;
    let request = client.request(Method::GET, "/").body(full("")).unwrap();
    let mut body = client.open(request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop((body, client));
    let span = collector.spans(1).await.remove(0);
    assert_eq!(text(&span, "error.type"), "client_disconnected");
    assert_eq!(text(&span, "http.response.body.size"), "4");
}

#[tokio::test]
async fn a_request_whose_client_leaves_before_the_answer_has_a_complete_span() {
    let node = Node::start("n1", Behavior::Hang);
    let collector = Collector::start(Reaction::Accept).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: shop\r\n\r\n").await.unwrap();
    eventually("the request to arrive", || node.invocations() == 1).await;
    drop(stream);
    let span = collector.spans(1).await.remove(0);
    assert_eq!((span.name.as_str(), text(&span, "url.path").as_str()), ("GET", "/slow"));
    assert_eq!(text(&span, "error.type"), "client_disconnected");
}

#[tokio::test]
async fn a_collector_that_hangs_delays_no_request_and_its_spans_are_dropped() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Hang).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    let clients = (0..8).map(|_| async {
        let mut client = Client::http2(scenario.addr()).await;
        // Each thread has room for one batch, and the channel for four.
        while fate(&scenario, "dropped") == 0.0 {
            assert_eq!(client.get("/").await.status, 200);
        }
    });
    futures::future::join_all(clients).await;
    assert_eq!(fate(&scenario, "exported"), 0.0);
}

#[tokio::test]
async fn a_batch_is_sent_again_if_the_collector_may_accept_it_later() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Unavailable).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    get(&scenario, &[]).await;
    eventually("a second attempt", || collector.batches() >= 2).await;
    collector.react(Reaction::Accept);
    assert_eq!(collector.spans(1).await.len(), 1);
    eventually("the span to be counted", || fate(&scenario, "exported") == 1.0).await;
    assert_eq!(fate(&scenario, "failed"), 0.0);
}

#[tokio::test]
async fn spans_that_the_collector_refuses_are_counted() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Refuse).await;
    let scenario = start(&node, &collector, &[EVERY]).await;
    get(&scenario, &[]).await;
    eventually("the span to be counted", || fate(&scenario, "failed") == 1.0).await;
    collector.react(Reaction::RejectOne);
    get(&scenario, &[]).await;
    eventually("the span to be counted", || fate(&scenario, "failed") == 2.0).await;
    assert_eq!(fate(&scenario, "exported"), 0.0);
}

#[tokio::test]
async fn a_drain_exports_the_last_spans() {
    let node = Node::start("n1", Behavior::Echo);
    let collector = Collector::start(Reaction::Accept).await;
    let mut scenario = start(&node, &collector, &[EVERY]).await;
    get(&scenario, &[]).await;
    scenario.signal().drain().await;
    scenario.join().await;
    assert_eq!(collector.spans(1).await.len(), 1);
}

#[tokio::test]
async fn spans_are_exported_with_tls_to_a_collector_that_is_trusted() {
    let collector = Collector::start(Reaction::Accept).await;
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![issued.cert.der().clone()],
        issued.signing_key.serialize_der().try_into().unwrap(),
    )
    .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (port, behind) = (listener.local_addr().unwrap().port(), collector.addr());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut near) = acceptor.accept(stream).await else { continue };
            let mut far = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await.is_ok() });
        }
    });

    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), issued.cert.pem()).unwrap();
    let certificate = format!("--otlp-certificate={}", authority.path().display());
    let url = format!("https://localhost:{port}");
    let node = Node::start("n1", Behavior::Echo);
    let spans = spans_config(&url, &[EVERY, &certificate]);
    let options = Options { spans, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    get(&scenario, &[]).await;
    assert_eq!(collector.spans(1).await.len(), 1);
}
