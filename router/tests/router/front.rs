//! Tests misbehaving clients, and routers that drain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, channel::mpsc};
use http::Method;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Behavior, Client, Node, Options, Scenario, eventually, full, raw, streamed};

#[tokio::test]
async fn a_malformed_request_is_refused_and_affects_no_other_request() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let long = format!("GET / HTTP/1.1\r\nhost: shop\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    for (bytes, expected) in [
        ("\0\x01\x02 nonsense\r\n\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n", "HTTP/1.1 400"),
        (
            "POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "HTTP/1.1 400",
        ),
        ("GET / HTTP/1.1\r\nconnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "HTTP/1.1 400"),
        (long.as_str(), "HTTP/1.1 431"),
    ] {
        let answer = raw(scenario.addr(), bytes.as_bytes()).await;
        assert!(answer.starts_with(expected), "{:.60?}: {answer:.200}", bytes);
        assert_eq!(client.get("/").await.status, 200);
    }
    let nothing =
        raw(scenario.addr(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nthis is not a frame").await;
    assert!(!nothing.contains("HTTP/1"), "an HTTP/2 connection got an HTTP/1 response");
    // Only the valid request after each malformed one reaches the node.
    assert_eq!(node.invocations(), 8);
}

#[tokio::test]
async fn a_request_may_arrive_one_byte_at_a_time() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in
        b"PUT /slow HTTP/1.1\r\nhost: shop\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc"
    {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nabc"), "{answer}");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_100_continue() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 3\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("abc"), "{answer}");
}

#[tokio::test]
async fn concurrent_requests_share_the_connections_to_the_node() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let clients = (0..16).map(|_| async {
        let mut client = Client::http2(scenario.addr()).await;
        for i in 0..20 {
            assert_eq!(client.post("/", format!("{i}")).await.body, format!("{i}"));
        }
    });
    futures::future::join_all(clients).await;
    eventually("all requests to be counted", || {
        scenario.metric("tenon_router_requests_total", Some("2xx")) == 320.0
    })
    .await;
}

#[tokio::test]
async fn a_drain_loses_no_request() {
    let node = Node::start("n1", Behavior::Echo);
    let options = Options { linger: Duration::from_secs(3), ..Default::default() };
    let mut scenario = Scenario::with_options(&[&node], options).await;
    let (addr, served, leaving) =
        (scenario.addr(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    // Half of the clients keep their connection for as long as possible, and half open new ones.
    let clients: Vec<_> = (0..8)
        .map(|i| {
            let (served, leaving) = (served.clone(), leaving.clone());
            tokio::spawn(async move {
                let mut client = Client::http1(addr).await;
                // Once the endpoint has been removed from the Service, no new connections arrive.
                while !leaving.load(Ordering::SeqCst) {
                    let answer = client.get("/").await;
                    assert_eq!(answer.status, 200);
                    served.fetch_add(1, Ordering::SeqCst);
                    let close =
                        answer.headers.get("connection").is_some_and(|value| value == "close");
                    if i % 2 == 0 || close {
                        client = Client::http1(addr).await;
                    }
                }
            })
        })
        .collect();
    eventually("some load", || served.load(Ordering::SeqCst) > 50).await;
    let drained = tokio::spawn(scenario.signal().drain());
    eventually("readiness to end", || !scenario.readiness.is_ready()).await;
    let before = served.load(Ordering::SeqCst);
    eventually("load while leaving", || served.load(Ordering::SeqCst) > before + 50).await;
    leaving.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    drained.await.unwrap();
    scenario.join().await;
    assert!(TcpStream::connect(addr).await.is_err(), "the listener is open");
}

#[tokio::test]
async fn a_client_connected_before_a_drain_may_still_send_a_request() {
    let node = Node::start("n1", Behavior::Echo);
    for http2 in [false, true] {
        let mut scenario = Scenario::with(&[&node]).await;
        let addr = scenario.addr();
        let stream = TcpStream::connect(addr).await.unwrap();
        let drained = tokio::spawn(scenario.signal().drain());
        eventually("the listener to close", || std::net::TcpStream::connect(addr).is_err()).await;
        let mut client =
            if http2 { Client::http2_on(stream).await } else { Client::http1_on(stream).await };
        assert_eq!(client.get("/").await.status, 200);
        drained.await.unwrap();
        scenario.join().await;
    }
}

#[tokio::test]
async fn a_drain_finishes_a_request_in_flight() {
    let node = Node::start("n1", Behavior::EchoStream);
    for http2 in [false, true] {
        let mut scenario = Scenario::with(&[&node]).await;
        let addr = scenario.addr();
        let mut client = if http2 { Client::http2(addr).await } else { Client::http1(addr).await };
        let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
        let request = client.request(Method::POST, "/").body(streamed(pieces_rx)).unwrap();
        let response = client.open(request).await.unwrap();
        let drained = tokio::spawn(scenario.signal().drain());
        eventually("readiness to end", || !scenario.readiness.is_ready()).await;
        pieces_tx.send("late".into()).await.unwrap();
        drop(pieces_tx);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "late");
        drained.await.unwrap();
        scenario.join().await;
    }
}

#[tokio::test]
async fn a_trusted_proxy_reports_the_address_and_the_scheme_of_its_client() {
    let node = Node::start("n", Behavior::Echo);
    let loopback = vec!["127.0.0.0/8".parse().unwrap()];
    for (trusted_proxies, url, forwarded_for) in [
        (loopback, "https://shop/", "192.0.2.7, 127.0.0.1"),
        (Vec::new(), "http://shop/", "127.0.0.1"),
    ] {
        let options = Options { trusted_proxies, ..Options::default() };
        let scenario = Scenario::with_options(&[&node], options).await;
        let mut client = scenario.client().await;
        let request = client
            .request(Method::GET, "/")
            .header("x-forwarded-for", "192.0.2.7")
            .header("x-forwarded-proto", "https")
            .body(full(""))
            .unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.header("observed-url"), url);
        assert_eq!(answer.header("echo-x-forwarded-for"), forwarded_for);
    }
}

#[tokio::test]
async fn a_load_balancer_names_its_client_by_the_proxy_protocol() {
    let node = Node::start("n1", Behavior::Echo);
    let trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let options = Options { trusted_proxies, proxy_protocol: true, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let request = "GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n";
    let header = "PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\n";
    let answer = raw(scenario.addr(), format!("{header}{request}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("echo-x-forwarded-for: 192.0.2.7\r\n"), "{answer}");
    assert_eq!(
        raw(scenario.addr(), request.as_bytes()).await,
        "",
        "a connection without a header was served"
    );
}
