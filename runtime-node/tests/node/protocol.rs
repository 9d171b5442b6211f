//! Tests of the wire protocol, without a gRPC client.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::frame;
use tenon_proto::runtime::{INVOKE_PATH, InvokeHead, InvokeRequest, invoke_request};
use tonic::Status;

use crate::harness::client::{Client, head};
use crate::harness::{TestNode, trials};

trials! {
    only_grpc_is_served,
    an_unknown_method_is_unimplemented,
    a_failure_is_a_trailers_only_response,
    a_malformed_invoke_request_is_refused,
    a_callers_deadline_ends_the_invocation,
}

/// The response of a call. The gRPC status is in the trailers, or in the headers if there are none.
struct Exchange {
    status: StatusCode,
    body: Bytes,
    headers: HeaderMap,
    trailers: Option<HeaderMap>,
}

async fn exchange(
    client: &Client,
    path: &str,
    content_type: &str,
    timeout: Option<&str>,
    body: Bytes,
) -> Exchange {
    let stream = tokio::net::TcpStream::connect(client.address()).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{}{path}", client.address()))
        .header(CONTENT_TYPE, content_type);
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let (parts, body) =
        sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    Exchange { status: parts.status, body: body.to_bytes(), headers: parts.headers, trailers }
}

fn message(head: InvokeHead) -> Bytes {
    frame::encode(&InvokeRequest { part: Some(invoke_request::Part::Head(head)) })
}

fn failure(headers: &HeaderMap) -> Failure {
    Failure::from(&Status::from_header_map(headers).expect("the headers have no gRPC status"))
}

async fn only_grpc_is_served(name: &'static str) {
    let node = TestNode::start(name).await;
    for content_type in
        ["text/plain", "application/json", "application/grpc-web", "application/grpc+json"]
    {
        let answer = exchange(node.client(), INVOKE_PATH, content_type, None, Bytes::new()).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{content_type}");
    }
}

async fn an_unknown_method_is_unimplemented(name: &'static str) {
    let node = TestNode::start(name).await;
    let answer = exchange(
        node.client(),
        "/tenon.runtime.v1.Runtime/Other",
        "application/grpc",
        None,
        Bytes::new(),
    )
    .await;
    assert_eq!(answer.status, StatusCode::OK);
    let status = Status::from_header_map(&answer.headers).unwrap();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}

async fn a_failure_is_a_trailers_only_response(name: &'static str) {
    let node = TestNode::start(name).await;
    let throws = node.handler("throws", "throw 1");
    let content_type = "application/grpc+proto";
    let answer =
        exchange(node.client(), INVOKE_PATH, content_type, None, message(head(&throws))).await;
    assert_eq!((answer.status, answer.body.len(), answer.trailers), (StatusCode::OK, 0, None));
    assert_eq!(failure(&answer.headers).code, FailureCode::WorkerException);

    let answers = node.handler("answers", "return new Response('well')");
    let answer =
        exchange(node.client(), INVOKE_PATH, content_type, None, message(head(&answers))).await;
    assert_eq!(answer.trailers.unwrap().get("grpc-status").unwrap(), "0");
    assert_eq!(answer.headers.get(CONTENT_TYPE).unwrap(), "application/grpc");
}

async fn a_malformed_invoke_request_is_refused(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler("worker", "return new Response()");
    let body_first =
        frame::encode(&InvokeRequest { part: Some(invoke_request::Part::Body(Bytes::new())) });
    let short_digest =
        message(InvokeHead { digest: Bytes::from_static(b"short"), ..head(&worker) });
    let truncated = message(head(&worker)).slice(..20);
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 2, 0xff, 0xff]);
    for (what, body) in [
        ("nothing", Bytes::new()),
        ("a body before its head", body_first),
        ("a short digest", short_digest),
        ("half a message", truncated),
        ("garbage", garbage),
    ] {
        let answer = exchange(node.client(), INVOKE_PATH, "application/grpc", None, body).await;
        let failure = failure(&answer.headers);
        assert_eq!(
            (failure.code, failure.phase),
            (FailureCode::BadRequest, Phase::Admission),
            "{what}: {failure}"
        );
    }
}

async fn a_callers_deadline_ends_the_invocation(name: &'static str) {
    let node = TestNode::start(name).await;
    let waits = node.handler("waits", "await new Promise((resolve) => setTimeout(resolve, 1e6))");
    let answer = exchange(
        node.client(),
        INVOKE_PATH,
        "application/grpc",
        Some("200m"),
        message(head(&waits)),
    );
    let answer = tokio::time::timeout(Duration::from_secs(20), answer)
        .await
        .expect("the invocation outlived its caller's deadline");
    assert_eq!(failure(&answer.headers).code, FailureCode::WallLimitExceeded);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}
