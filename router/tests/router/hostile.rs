//! Tests clients that exhaust resources: endless heads and bodies, idle connections, and unread
//! responses.
//!
//! The tests measure the memory that the router charges to clients, not that of the process.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use http::{Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Behavior, Client, DEADLINE, Node, Options, Scenario, eventually, full, raw};

/// The memory for clients, in bytes, which a few hundred connections exhaust.
const MEMORY: u64 = 4 << 20;

/// A handshake for a WebSocket.
const WEB_SOCKET: &[u8] =
    b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

async fn small(node: &Node) -> Scenario {
    Scenario::with_options(&[node], Options { client_memory: MEMORY, ..Default::default() }).await
}

/// Connects from the address `127.0.0.last`. Other clients use 127.0.0.1.
async fn connect_from(last: u8, addr: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    socket.connect(addr).await.unwrap()
}

fn memory(scenario: &Scenario) -> f64 {
    scenario.metric("tenon_router_client_memory_bytes", None)
}

#[tokio::test]
async fn an_ambiguous_request_is_refused() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let post = |headers: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nhost: shop\r\n{headers}\r\n\r\n{body}")
    };
    for (bytes, status, reason) in [
        (post("transfer-encoding: gzip, chunked", "0\r\n\r\n"), 400, "Transfer-Encoding"),
        (
            post("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
            400,
            "Transfer-Encoding",
        ),
        (
            post("transfer-encoding: chunked\r\ncontent-length: 5", "0\r\n\r\n"),
            400,
            "Content-Length",
        ),
        (
            post("content-length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
            400,
            "Content-Length",
        ),
        (post("content-length: 18446744073709551615", "a"), 413, "Content-Length"),
        (post("content-length: 99999999999999999999", "a"), 413, "Content-Length"),
        (post("content-length: 1\r\ncontent-length: 1", "a"), 400, "Content-Length"),
        (post("x: y\r\n z", ""), 400, "continues"),
        ("GET / HTTP/1.1\nhost: shop\n\n".into(), 400, "carriage return"),
        ("GET / HTTP/1.1\r\nhost: shop\n\r\n".into(), 400, "carriage return"),
        ("GET / HTTP/1.1\r\nhost: shop:99999\r\nconnection: close\r\n\r\n".into(), 400, "port"),
        ("GET / HTTP/1.1\r\nhost: shop:abc\r\nconnection: close\r\n\r\n".into(), 400, "port"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\x7f\x03\x03".into(), 400, "begin"),
    ] {
        let answer = raw(scenario.addr(), bytes.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(reason),
            "{bytes:?}: {answer}"
        );
    }
    assert_eq!(node.invocations(), 0);
}

#[tokio::test]
async fn a_refused_request_does_not_suppress_the_response_to_the_previous_request() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let both = "POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\nhost: shop\n\n";
    let answer = raw(scenario.addr(), both.as_bytes()).await;
    let (first, second) = answer.split_once("abc").unwrap_or_else(|| panic!("{answer}"));
    assert!(first.starts_with("HTTP/1.1 200") && second.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn pipelined_requests_are_all_answered() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let one = "POST / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n";
    let answer = raw(scenario.addr(), (one.repeat(20) + last).as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 21, "{answer}");
    assert_eq!(node.invocations(), 21);
}

#[tokio::test]
async fn the_path_that_is_matched_is_the_one_that_the_worker_sees() {
    use tenon_proto::catalog::{Route, WatchResponse, Worker};
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let route = Route { host: "shop".into(), path: "/admin".into() };
    let admin = Worker { routes: vec![route], ..crate::harness::worker("shop/admin", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![admin], ..Default::default() });
    eventually("two routes", || scenario.metric("tenon_router_routes", None) == 2.0).await;
    for mut client in [Client::http1(scenario.addr()).await, Client::http2(scenario.addr()).await] {
        for path in [
            "/x/../admin/secret",
            "/%2e/admin/secret",
            "/x/%2e%2e/admin/secret",
            "/x/.%2E/admin/secret",
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.header("observed-worker"), "shop/admin", "{path}");
            assert_eq!(answer.header("observed-url"), "http://shop/admin/secret", "{path}");
        }
    }
}

#[tokio::test]
async fn headers_of_the_router_cannot_be_forged_by_clients() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    let request = client
        .request(Method::GET, "/")
        .header("tenon-worker", "bank/vault")
        .header("tenon-debug", "1");
    client.send(request.body(full("")).unwrap()).await.unwrap();
    assert!(node.last_head().headers.iter().all(|header| !header.name.starts_with("tenon-")));
}

#[tokio::test]
async fn heads_that_never_end_take_bounded_memory_and_other_requests_are_served() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = small(&node).await;
    let unended = format!("GET / HTTP/1.1\r\nhost: shop\r\nx: {}", "y".repeat(60_000));
    let mut crowd = Vec::new();
    // The client connects from the same address as the crowd.
    let mut client = scenario.client().await;
    for _ in 0..300 {
        let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
        // The connection may have been closed.
        let _ = stream.write_all(unended.as_bytes()).await;
        crowd.push(stream);
        assert_eq!(scenario.client().await.get("/").await.status, 200);
    }
    eventually("the crowd to be counted", || memory(&scenario) > 0.0).await;
    assert!(memory(&scenario) <= MEMORY as f64, "{} bytes are taken", memory(&scenario));
    eventually("some connections to be closed", || {
        scenario.metric("tenon_router_connections_shed_total", None) > 0.0
    })
    .await;
    // A connection from before the crowd continues, or can be replaced.
    if client.send(Request::get("/").header("host", "shop").body(full("")).unwrap()).await.is_err()
    {
        client = scenario.client().await;
        assert_eq!(client.get("/").await.status, 200);
    }
    drop(crowd);
    eventually("the crowd's memory to be free", || memory(&scenario) < 200_000.0).await;
}

#[tokio::test]
async fn a_resting_connection_is_resumed() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = small(&node).await;
    let mut client = scenario.client().await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status, 200);
        // The thresholds separate an active connection from an idle one.
        eventually("the connection to work", || memory(&scenario) > 10_000.0).await;
        eventually("the connection to rest", || (1.0..10_000.0).contains(&memory(&scenario))).await;
    }
    assert_eq!(client.post("/", "abc").await.body, "abc");
    assert_eq!(
        scenario.metric("tenon_router_connections", None),
        1.0,
        "the client has opened another connection"
    );
}

#[tokio::test]
async fn bodies_that_never_arrive_hold_no_permits() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut crowd = Vec::new();
    for _ in 0..8 {
        let client = Client::http2(scenario.addr()).await;
        let Client::Http2(sender) = client else { unreachable!() };
        for _ in 0..100 {
            let mut sender = sender.clone();
            crowd.push(tokio::spawn(async move {
                let silent = http_body_util::StreamBody::new(futures::stream::pending());
                let request = Request::post("http://shop/").header("content-length", "100");
                let request = request.body(http_body_util::BodyExt::boxed(silent)).unwrap();
                let _ = sender.send_request(request).await;
            }));
        }
    }
    eventually("the crowd to arrive", || memory(&scenario) > 800.0 * 8_000.0).await;
    for _ in 0..50 {
        assert_eq!(scenario.client().await.post("/", "abc").await.body, "abc");
    }
    assert_eq!(scenario.metric("tenon_router_inflight", None), 0.0);
    assert_eq!(node.invocations(), 50);
    crowd.iter().for_each(|request| request.abort());
}

#[tokio::test]
async fn one_address_leaves_memory_for_the_next() {
    let node = Node::start("n1", Behavior::Hang);
    let scenario = small(&node).await;
    // Each connection has a request in flight, and cannot be ended to make room for another.
    let mut crowd = Vec::new();
    for _ in 0..300 {
        let mut stream = connect_from(2, scenario.addr()).await;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
        crowd.push(stream);
    }
    eventually("a connection or a request to be refused", || {
        scenario.metric("tenon_router_connections_shed_total", None) > 0.0
            || scenario.metric("tenon_router_requests_total", Some("overloaded")) > 0.0
    })
    .await;
    node.behave(Behavior::Echo);
    for last in 10..20 {
        let mut client = Client::http1_on(connect_from(last, scenario.addr()).await).await;
        assert_eq!(client.get("/").await.status, 200, "127.0.0.{last}");
    }
}

#[tokio::test]
async fn idle_connections_leave_descriptors_for_the_next_client() {
    let node = Node::start("n1", Behavior::Echo);
    let options =
        Options { client_connections: 64, threads: NonZeroUsize::MIN, ..Default::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut kept = scenario.client().await;
    let mut crowd = Vec::new();
    for i in 0..300 {
        crowd.push(connect_from(2, scenario.addr()).await);
        if i % 10 == 0 {
            assert_eq!(kept.get("/").await.status, 200);
            assert_eq!(scenario.client().await.get("/").await.status, 200);
        }
    }
    eventually("the crowd to be bounded", || {
        scenario.metric("tenon_router_connections", None) <= 64.0
    })
    .await;
    eventually("the closed connections to be counted", || {
        scenario.metric("tenon_router_connections_shed_total", None) >= 200.0
    })
    .await;
}

#[tokio::test]
async fn idle_tunnels_leave_descriptors_for_the_next_client() {
    let node = Node::start("n1", Behavior::Tunnel);
    let options =
        Options { client_connections: 64, threads: NonZeroUsize::MIN, ..Default::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut stream = connect_from(2, scenario.addr()).await;
        let _ = stream.write_all(WEB_SOCKET).await;
        crowd.push(stream);
    }
    eventually("some connections to be refused", || {
        scenario.metric("tenon_router_connections_shed_total", None) > 0.0
    })
    .await;
    for last in 10..20 {
        let mut stream = connect_from(last, scenario.addr()).await;
        stream.write_all(WEB_SOCKET).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 101", "127.0.0.{last}");
        crowd.push(stream);
    }
    assert!(scenario.metric("tenon_router_tunnels", None) <= 64.0);
}

#[tokio::test]
async fn the_memory_of_an_unread_response_is_bounded() {
    let node = Node::start("n1", Behavior::Endless);
    let scenario = small(&node).await;
    let mut crowd = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
        crowd.push(stream);
    }
    eventually("responses to wait", || memory(&scenario) > 1_000_000.0).await;
    assert!(memory(&scenario) <= MEMORY as f64);
    node.behave(Behavior::Echo);
    for last in 10..30 {
        let mut client = Client::http1_on(connect_from(last, scenario.addr()).await).await;
        assert_eq!(client.get("/").await.status, 200);
    }
    drop(crowd);
    eventually("the crowd's memory to be free", || memory(&scenario) < 1_000_000.0).await;
}

#[tokio::test]
async fn responses_that_many_addresses_do_not_read_leave_memory_for_the_next() {
    let node = Node::start("n1", Behavior::Endless);
    let scenario = small(&node).await;
    let mut crowd = Vec::new();
    for last in 100..=250 {
        let mut stream = connect_from(last, scenario.addr()).await;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
        crowd.push(stream);
    }
    eventually("memory to be short", || {
        scenario.metric("tenon_router_connections_shed_total", None) > 0.0
    })
    .await;
    node.behave(Behavior::Echo);
    for last in 10..30 {
        let served = async {
            while !is_served(last, scenario.addr()).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(DEADLINE, served)
            .await
            .expect("the client was not served before the deadline");
    }
    assert!(memory(&scenario) <= MEMORY as f64);
}

/// Returns whether a client at an address gets a response with status 200.
async fn is_served(last: u8, addr: SocketAddr) -> bool {
    let mut stream = connect_from(last, addr).await;
    let response =
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").await;
    let mut answer = Vec::new();
    response.is_ok()
        && stream.read_to_end(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}

#[tokio::test]
async fn the_memory_of_an_unread_web_socket_is_bounded() {
    let node = Node::start("n1", Behavior::Flood);
    let scenario = small(&node).await;
    let mut crowd = Vec::new();
    for _ in 0..60 {
        let mut stream = connect_from(2, scenario.addr()).await;
        let _ = stream.write_all(WEB_SOCKET).await;
        crowd.push(stream);
    }
    // Without unread data, each connection is charged only for its base memory.
    eventually("unread data to be counted", || memory(&scenario) > 2_000_000.0).await;
    assert!(memory(&scenario) <= MEMORY as f64);
    eventually("some tunnels to end", || scenario.metric("tenon_router_tunnels", None) < 40.0)
        .await;
    node.behave(Behavior::Echo);
    for last in 10..20 {
        let mut client = Client::http1_on(connect_from(last, scenario.addr()).await).await;
        assert_eq!(client.get("/").await.status, 200);
    }
    drop(crowd);
    eventually("the crowd's memory to be free", || memory(&scenario) < 1_000_000.0).await;
}

#[tokio::test]
async fn a_head_that_arrives_in_pieces_is_accepted_for_every_request_of_a_connection() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for _ in 0..3 {
        for piece in
            ["GET / HTTP/1.1\r\nho", "st: shop\r\nx: ", &"y".repeat(30_000), "\r\n", "\r\n"]
        {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, b"HTTP/1.1 200");
        // Read the rest of the head. The response has no body.
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
    }
}
