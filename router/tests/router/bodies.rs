//! Tests bodies of every size, in both directions.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use futures::{SinkExt, channel::mpsc};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tenon_proto::catalog::{WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tenon_router::Pace;

use crate::harness::{
    Behavior, Client, Node, Options, Scenario, eventually, full, raw, streamed, worker,
};

/// Returns bytes that identify their position.
fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[tokio::test]
async fn bodies_of_every_size_arrive_as_they_were_sent() {
    bodies_of_every_size(Node::start("n1", Behavior::Echo)).await;
}

#[tokio::test]
async fn a_node_of_another_version_receives_the_same_bodies() {
    bodies_of_every_size(Node::of_another_version("n1", Behavior::Echo)).await;
}

async fn bodies_of_every_size(node: Node) {
    let scenario = Scenario::with(&[&node]).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        for len in [0, 1, 1000, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 300_000, 3_000_000] {
            let answer = client.post("/", pattern(len)).await;
            assert!(
                answer.status == 200 && answer.body == pattern(len),
                "{len} bytes: {}",
                answer.status
            );
        }
    }
}

#[tokio::test]
async fn large_bodies_stream_in_both_directions_concurrently() {
    large_bodies(Node::start("n1", Behavior::EchoStream)).await;
}

#[tokio::test]
async fn large_bodies_stream_through_a_node_of_another_version() {
    large_bodies(Node::of_another_version("n1", Behavior::EchoStream)).await;
}

async fn large_bodies(node: Node) {
    let scenario = Scenario::with(&[&node]).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        let answer = client.post("/", pattern(20_000_000)).await;
        assert!(answer.status == 200 && answer.body == pattern(20_000_000));
    }
}

#[tokio::test]
async fn a_piece_of_a_body_does_not_wait_for_the_next() {
    let node = Node::start("n1", Behavior::EchoStream);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let request = client.request(Method::POST, "/").body(streamed(pieces_rx)).unwrap();
    let mut response = client.open(request).await.unwrap().into_body();
    for piece in ["one", "two", "three"] {
        pieces_tx.send(piece.into()).await.unwrap();
        let frame = response.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece);
    }
    drop(pieces_tx);
    assert!(response.frame().await.is_none());
}

#[tokio::test]
async fn trailers_follow_their_body_in_both_directions() {
    trailers(Node::start("n1", Behavior::EchoStream)).await;
}

#[tokio::test]
async fn trailers_pass_through_a_node_of_another_version() {
    trailers(Node::of_another_version("n1", Behavior::EchoStream)).await;
}

async fn trailers(node: Node) {
    let scenario = Scenario::with(&[&node]).await;
    let field = |name| (HeaderName::from_static(name), HeaderValue::from_static("1"));
    let sent = HeaderMap::from_iter([field("grpc-status"), field("authorization")]);
    for len in [0, 1000, 300_000] {
        let mut client = Client::http2(scenario.addr()).await;
        let frames = [Frame::data(pattern(len)), Frame::trailers(sent.clone())];
        let body = StreamBody::new(stream::iter(frames.map(Ok)));
        let request = client.request(Method::POST, "/").body(BodyExt::boxed(body)).unwrap();
        let response = client.open(request).await.unwrap().into_body().collect().await.unwrap();
        let received = response.trailers().cloned();
        assert_eq!(received, Some(HeaderMap::from_iter([field("grpc-status")])), "{len} bytes");
        assert!(response.to_bytes() == pattern(len), "{len} bytes");
    }
    // A client of HTTP/1.1 gets the body without the trailers that it does not take.
    let chunked = b"POST / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\ngrpc-status: 1\r\n\r\n";
    let answer = raw(scenario.addr(), chunked).await;
    assert!(answer.contains("abc") && !answer.contains("grpc-status"), "{answer}");
}

/// Starts a scenario with a second Worker, at the host `small`, that accepts bodies of up to
/// 100,000 bytes.
async fn limited(node: &Node) -> Scenario {
    let scenario = Scenario::with(&[node]).await;
    let limited = Worker { request_body_bytes: 100_000, ..worker("shop/small", "small") };
    scenario.catalog.change(WatchResponse { workers: vec![limited], ..Default::default() });
    eventually("two routes", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    scenario
}

#[tokio::test]
async fn a_body_with_a_declared_length_over_the_limit_is_not_forwarded() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = limited(&node).await;
    let request =
        http::Request::post("/").header("host", "small").body(full(pattern(100_001))).unwrap();
    let answer = scenario.client().await.send(request).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (413, "request_too_large".into()));
    assert_eq!(node.invocations(), 0);
}

#[tokio::test]
async fn a_streamed_body_is_refused_when_it_exceeds_the_limit() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = limited(&node).await;
    let pieces = futures::stream::iter((0..5).map(|_| pattern(30_000)));
    let request = http::Request::post("/").header("host", "small").body(streamed(pieces)).unwrap();
    let answer = scenario.client().await.send(request).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (413, "request_too_large".into()));
}

#[tokio::test]
async fn a_streamed_body_is_sent_again_to_the_next_node_if_the_first_drains() {
    let nodes = [Node::start("n1", Behavior::Echo), Node::start("n2", Behavior::Echo)];
    let scenario = Scenario::with(&nodes.each_ref()).await;
    let pin = scenario.router().pinned(&"shop/cart".parse().unwrap()).unwrap();
    let pinned = nodes.iter().find(|node| node.name() == &*pin.node).unwrap();
    pinned.behave(Behavior::Refuse(FailureCode::Draining));
    let answer = scenario.client().await.post("/", pattern(200_000)).await;
    assert!(answer.status == 200 && answer.body == pattern(200_000), "{}", answer.status);
    assert_eq!(pinned.invocations(), 1);
}

/// Starts a scenario in which a client may pause for 0.5 s, and must send 100,000 bytes per second.
async fn impatient(node: &Node) -> Scenario {
    let pace = Pace { grace: Duration::from_millis(500), rate: NonZeroU32::new(100_000).unwrap() };
    Scenario::with_options(&[node], Options { pace, ..Options::default() }).await
}

/// Returns an endless stream of single bytes with pauses.
fn trickle() -> impl futures::Stream<Item = Bytes> + Send + Sync {
    stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((Bytes::from_static(b"x"), ()))
    })
}

#[tokio::test]
async fn a_trickling_body_is_refused_and_releases_its_permits() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = impatient(&node).await;
    for (length, name) in [(None, "streamed"), (Some(100), "short")] {
        for mut client in
            [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await]
        {
            let mut request = client.request(Method::POST, "/");
            if let Some(length) = length {
                request = request.header("content-length", length);
            }
            let trickles = streamed(trickle().take(length.unwrap_or(usize::MAX)));
            let answer = client.send(request.body(trickles).unwrap()).await.unwrap();
            assert_eq!(
                (answer.status.as_u16(), answer.code()),
                (408, "request_timeout".into()),
                "{name}"
            );
            let closes =
                answer.headers.get("connection").is_some_and(|connection| connection == "close");
            assert_eq!(closes, matches!(client, Client::Http1(_)), "{name}");
        }
    }
    eventually("the requests to be over", || scenario.metric("tenon_router_inflight", None) == 0.0)
        .await;
    assert_eq!(scenario.client().await.post("/", "abc").await.body, "abc");
}

#[tokio::test]
async fn a_body_that_keeps_its_pace_may_take_longer_than_the_grace() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = impatient(&node).await;
    let mut client = scenario.client().await;
    let pieces = stream::iter(0..10).then(|_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pattern(20_000)
    });
    let request = client.request(Method::POST, "/").body(streamed(pieces)).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 200_000));
}

#[tokio::test]
async fn a_client_may_pause_for_longer_once_its_worker_has_answered() {
    let node = Node::start("n1", Behavior::EchoStream);
    let scenario = impatient(&node).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
        let request = client.request(Method::POST, "/").body(streamed(pieces_rx)).unwrap();
        let mut response = client.open(request).await.unwrap().into_body();
        for piece in ["one", "two"] {
            tokio::time::sleep(Duration::from_millis(750)).await;
            pieces_tx.send(piece.into()).await.unwrap();
            let frame = response.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), piece);
        }
    }
}
