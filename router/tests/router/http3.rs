//! Tests clients that speak HTTP/3.

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use prometheus::Registry;
use rcgen::{CertifiedKey, KeyPair};
use tenon_proto::catalog::{GatewayCertificate, WatchResponse};
use tenon_router::{Https, HttpsSettings};
use tokio::net::TcpStream;

use crate::harness::{
    Behavior, DEADLINE, Http3Client, Node, Options, Scenario, Secured, eventually, http3_answer,
    http3_body, http3_head, http3_trailers, issue,
};

const VERSIONS: &str = "tenon_router_version_requests_total";
const HANDED_OVER: &str = "tenon_router_http3_datagrams_handed_over_total";

fn options() -> Options {
    Options { http3: Some(443), ..Options::default() }
}

async fn with(options: Options) -> (Secured, CertifiedKey<KeyPair>) {
    let (secured, issued) =
        Secured::with_options(&["shop"], HttpsSettings::default(), options).await;
    (secured, issued.into_iter().next().unwrap())
}

fn get(path: &str) -> http::Request<()> {
    Http3Client::request(Method::GET, path).body(()).unwrap()
}

fn post(path: &str) -> http::Request<()> {
    Http3Client::request(Method::POST, path).body(()).unwrap()
}

/// Returns bytes that identify their position.
fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[tokio::test]
async fn a_worker_is_served_as_with_the_other_versions() {
    let (secured, issued) = with(options()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    let answer = client.get("/a?b").await;
    assert_eq!(answer.status, StatusCode::OK);
    for (name, value) in [
        ("observed-url", "https://shop/a?b"),
        ("echo-x-forwarded-proto", "https"),
        ("echo-x-forwarded-for", "127.0.0.1"),
        ("content-length", "0"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    assert!(answer.headers.contains_key("date") && !answer.headers.contains_key("alt-svc"));
    let last = secured.node.last_head();
    assert!(!last.more_body, "a request without a body was streamed");

    let head = Http3Client::request(Method::HEAD, "/").body(()).unwrap();
    assert!(client.send(head, "").await.unwrap().body.is_empty());
    eventually("the metrics", || secured.scenario.metric(VERSIONS, Some("3")) == 2.0).await;
    let connected = secured.scenario.metric("tenon_router_http3_attempts_total", Some("connected"));
    assert_eq!(connected, 1.0);
}

#[tokio::test]
async fn bodies_of_every_size_arrive_as_they_were_sent() {
    let (secured, issued) = with(options()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    for len in [0, 1, 1000, 64 * 1024 - 1, 64 * 1024 + 1, 300_000, 3_000_000] {
        let answer = client.post("/", pattern(len)).await;
        assert!(answer.body == pattern(len), "{len} bytes");
        let request = Http3Client::request(Method::POST, "/").header("content-length", len);
        let answer = client.send(request.body(()).unwrap(), pattern(len)).await.unwrap();
        assert!(answer.body == pattern(len), "{len} bytes with a length");
    }
}

#[tokio::test]
async fn a_body_streams_in_both_directions_with_trailers() {
    let (secured, issued) = with(options()).await;
    secured.node.behave(Behavior::EchoStream);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut stream = client.start(post("/")).await.unwrap();
    assert_eq!(http3_head(&mut stream).await.unwrap().status(), StatusCode::OK);
    let (mut sending, mut receiving) = stream.split();
    let upload = async {
        for _ in 0..40 {
            sending.send_data(pattern(100_000)).await.unwrap();
        }
        let trailer = (HeaderName::from_static("grpc-status"), "0".parse().unwrap());
        sending.send_trailers(HeaderMap::from_iter([trailer])).await.unwrap();
        sending.finish().await.unwrap();
    };
    let download = async {
        let mut received = 0;
        while let Some(piece) = receiving.recv_data().await.unwrap() {
            received += bytes::Buf::remaining(&piece);
        }
        let trailers = receiving.recv_trailers().await.unwrap();
        (received, trailers.map(|trailers| trailers["grpc-status"].clone()))
    };
    let both = async { tokio::join!(upload, download) };
    let ((), (received, status)) = tokio::time::timeout(DEADLINE, both).await.unwrap();
    assert_eq!((received, status.unwrap()), (4_000_000, "0".parse().unwrap()));

    let mut empty = client.start(post("/")).await.unwrap();
    empty.finish().await.unwrap();
    assert!(http3_answer(&mut empty).await.unwrap().body.is_empty());
    assert!(http3_trailers(&mut empty).await.is_none());
}

#[tokio::test]
async fn a_hundred_requests_are_served_at_the_same_time() {
    let (secured, issued) = with(options()).await;
    secured.node.behave(Behavior::EchoStream);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(client.start(post("/")).await.unwrap());
    }
    // Every request has been answered before the first ends.
    for stream in &mut streams {
        assert_eq!(http3_head(stream).await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(secured.node.invocations(), 100);
    let ended = streams.into_iter().enumerate().map(|(i, mut stream)| async move {
        stream.send_data(pattern(10_000 + i)).await.unwrap();
        stream.finish().await.unwrap();
        http3_body(&mut stream).await.unwrap() == pattern(10_000 + i)
    });
    assert!(join_all(ended).await.into_iter().all(|is_same| is_same));
}

#[tokio::test]
async fn a_client_that_changes_its_address_stays_connected() {
    let threads = NonZeroUsize::new(4).unwrap();
    let (secured, issued) = with(Options { threads, ..options() }).await;
    secured.node.behave(Behavior::EchoStream);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut upload = client.start(post("/")).await.unwrap();
    http3_head(&mut upload).await.unwrap();
    let handed_over = || secured.scenario.metric(HANDED_OVER, None);
    let mut moves = 0;
    // Each move reaches another thread with a probability of three quarters.
    while handed_over() == 0.0 || moves < 8 {
        assert!(moves < 64, "no datagram has reached another thread");
        moves += 1;
        client.move_to(Ipv4Addr::LOCALHOST);
        upload.send_data(pattern(1000)).await.unwrap();
        secured.node.behave(Behavior::Echo);
        assert_eq!(client.get("/").await.status, StatusCode::OK);
    }
    upload.finish().await.unwrap();
    assert_eq!(http3_body(&mut upload).await.unwrap().len(), 1000 * moves);
    assert_eq!(secured.scenario.metric("tenon_router_http3_datagrams_lost_total", None), 0.0);
}

#[tokio::test]
async fn a_client_keeps_the_address_that_it_has_proven() {
    let (secured, issued) = with(options()).await;
    let client = Http3Client::connect(&secured, &issued).await;
    assert_eq!(client.get("/").await.header("echo-x-forwarded-for"), "127.0.0.1");
    client.move_to(Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(client.get("/").await.header("echo-x-forwarded-for"), "127.0.0.1");
}

#[tokio::test]
async fn a_renewed_certificate_is_presented_to_new_connections() {
    let (secured, issued) = with(options()).await;
    let before = Http3Client::connect(&secured, &issued).await;
    let renewed = issue(&secured.folders.path().join("shop"), "shop");
    let started = Instant::now();
    let after = loop {
        let connected =
            Http3Client::connect_from(Ipv4Addr::LOCALHOST, secured.addr(), &renewed).await;
        match connected {
            Ok(client) => break client,
            Err(_) => assert!(started.elapsed() < DEADLINE, "the certificate is not presented"),
        }
    };
    for client in [before, after] {
        assert_eq!(client.get("/").await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_client_gets_the_certificate_of_a_gateways_listener() {
    let folder = tempfile::tempdir().unwrap();
    let issued = issue(folder.path(), "shop");
    let https = Https::of_gateways(HttpsSettings::default(), &Registry::new()).unwrap();
    let node = Node::start("n", Behavior::Echo);
    let scenario =
        Scenario::with_options(&[&node], Options { https: Some(https), ..options() }).await;
    let certificates = vec![GatewayCertificate {
        host: "shop".into(),
        certificate: issued.cert.pem().into_bytes(),
        key: issued.signing_key.serialize_pem().into_bytes(),
    }];
    scenario.catalog.change(WatchResponse { certificates, ..Default::default() });
    let (addr, started) = (scenario.router().https_addr().unwrap(), Instant::now());
    let client = loop {
        match Http3Client::connect_from(Ipv4Addr::LOCALHOST, addr, &issued).await {
            Ok(client) => break client,
            Err(_) => assert!(started.elapsed() < DEADLINE, "the certificate is not presented"),
        }
    };
    assert_eq!(client.get("/").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_drain_finishes_requests_and_refuses_new_connections() {
    let (mut secured, issued) = with(options()).await;
    secured.node.behave(Behavior::EchoStream);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut stream = client.start(post("/")).await.unwrap();
    http3_head(&mut stream).await.unwrap();
    let addr = secured.addr();
    let signal = secured.scenario.signal();
    let drain = tokio::spawn(async move { signal.drain().await });
    let refused = || Http3Client::connect_from(Ipv4Addr::LOCALHOST, addr, &issued);
    let started = Instant::now();
    while refused().await.is_ok() {
        assert!(started.elapsed() < DEADLINE, "new connections are still accepted");
    }
    // The request still streams.
    stream.send_data(pattern(500_000)).await.unwrap();
    stream.finish().await.unwrap();
    assert_eq!(http3_body(&mut stream).await.unwrap(), pattern(500_000));
    // The client has been told not to send more, and then the connection ends.
    let closed = client.closed().await;
    assert!(matches!(closed, quinn::ConnectionError::ApplicationClosed(_)), "{closed}");
    tokio::time::timeout(DEADLINE, drain).await.unwrap().unwrap();
    secured.scenario.join().await;
}

#[tokio::test]
async fn a_client_that_cancels_a_request_aborts_the_invocation() {
    let (secured, issued) = with(options()).await;
    secured.node.behave(Behavior::Hang);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut stream = client.start(get("/")).await.unwrap();
    stream.finish().await.unwrap();
    eventually("the invocation", || secured.node.invocations() == 1).await;
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    eventually("the abort", || secured.node.dropped() == 1).await;

    secured.node.behave(Behavior::HalfAnswer);
    let mut stream = client.start(get("/")).await.unwrap();
    stream.finish().await.unwrap();
    http3_head(&mut stream).await.unwrap();
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    eventually("the abort of a response", || secured.node.dropped() == 2).await;
    secured.node.behave(Behavior::Echo);
    assert_eq!(client.get("/").await.status, StatusCode::OK, "the connection has ended");
}

#[tokio::test]
async fn a_client_that_disconnects_aborts_its_invocations() {
    let (secured, issued) = with(options()).await;
    secured.node.behave(Behavior::Hang);
    let client = Http3Client::connect(&secured, &issued).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = client.start(get("/")).await.unwrap();
        stream.finish().await.unwrap();
        streams.push(stream);
    }
    eventually("the invocations", || secured.node.invocations() == 3).await;
    client.connection.close(0_u32.into(), b"");
    eventually("the aborts", || secured.node.dropped() == 3).await;
    eventually("the end of the connection", || {
        secured.scenario.metric("tenon_router_client_memory_bytes", None) == 0.0
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let idle_timeout = Duration::from_millis(300);
    let (secured, issued) = with(Options { idle_timeout, ..options() }).await;
    let client = Http3Client::connect(&secured, &issued).await;
    assert_eq!(client.get("/").await.status, StatusCode::OK);
    client.closed().await;
}

#[tokio::test]
async fn responses_over_tls_name_http3_only_if_the_router_speaks_it() {
    for (http3, expected) in [(Some(8443), Some("h3=\":8443\"; ma=86400")), (None, None)] {
        let (secured, issued) = with(Options { http3, ..Options::default() }).await;
        for protocol in ["h2", "http/1.1"] {
            let mut client = crate::https::client(&issued, secured.addr(), protocol).await;
            let answer = client.get("/").await;
            let stated = answer.headers.get("alt-svc").map(|value| value.to_str().unwrap());
            assert_eq!(stated, expected, "{protocol}");
        }
        let plain = secured.scenario.client().await.get("/").await;
        assert!(!plain.headers.contains_key("alt-svc"));
        // The port stays open for TCP.
        TcpStream::connect(secured.addr()).await.unwrap();
    }
}
