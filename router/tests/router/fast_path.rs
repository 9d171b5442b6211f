//! Tests the fast path of HTTP/1.1, and connections that change between the fast path and hyper.
//!
//! All other tests with plain requests of HTTP/1.1 use the fast path too.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{
    Behavior, Client, DEADLINE, Node, Options, Scenario, WELCOME, eventually, full, raw,
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n";

/// A client that writes and reads bytes.
struct Raw(TcpStream);

impl Raw {
    async fn connect(scenario: &Scenario) -> Self {
        Self(TcpStream::connect(scenario.addr()).await.unwrap())
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until the bytes end with a text.
    async fn read_to(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let byte = tokio::time::timeout(DEADLINE, self.0.read_u8()).await;
            let so_far = || String::from_utf8_lossy(&read).into_owned();
            let byte = byte.unwrap_or_else(|_| panic!("no {end:?} after {:?}", so_far()));
            read.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", so_far())));
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads until the router closes the connection.
    async fn read_to_close(&mut self) -> String {
        let mut read = String::new();
        tokio::time::timeout(DEADLINE, self.0.read_to_string(&mut read)).await.unwrap().unwrap();
        read
    }
}

/// Returns how many times connections have left the fast path.
fn exits(scenario: &Scenario) -> f64 {
    scenario.metric("tenon_router_fast_path_exits_total", None)
}

#[tokio::test]
async fn only_a_request_that_is_not_plain_leaves_the_fast_path() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    for path in ["/", "/a?b=c", "/x/../y"] {
        assert_eq!(client.get(path).await.status, 200);
        let head = client.request(Method::HEAD, path).body(full("")).unwrap();
        assert_eq!(client.send(head).await.unwrap().status, 200);
    }
    assert_eq!(exits(&scenario), 0.0);
    assert_eq!(client.post("/", "abc").await.body, "abc");
    assert_eq!(exits(&scenario), 1.0);
    // The connection stays with hyper.
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.post("/", "def").await.body, "def");
    assert_eq!(exits(&scenario), 1.0);
}

#[tokio::test]
async fn a_connection_returns_to_the_fast_path_after_it_has_been_idle() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = scenario.client().await;
    for round in 1..=2 {
        assert_eq!(client.get("/").await.status, 200);
        assert_eq!(client.post("/", "abc").await.body, "abc");
        assert_eq!(exits(&scenario), f64::from(round));
        // The thresholds separate an active connection from an idle one.
        let memory = || scenario.metric("tenon_router_client_memory_bytes", None);
        eventually("the connection to work", || memory() > 10_000.0).await;
        eventually("the connection to rest", || (1.0..10_000.0).contains(&memory())).await;
    }
}

/// Sends pipelined requests for `/0`, `/1` and so on, in pieces, and checks that all responses
/// arrive in order.
async fn assert_answered_in_order(scenario: &Scenario, requests: &[String], piece: usize) {
    let last =
        format!("GET /{} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n", requests.len());
    let sent = requests.concat() + &last;
    let mut client = Raw::connect(scenario).await;
    client.0.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = client.0.split();
    let write = async {
        for piece in sent.as_bytes().chunks(piece) {
            writer.write_all(piece).await.unwrap();
        }
    };
    let mut answer = String::new();
    let read = tokio::time::timeout(DEADLINE, reader.read_to_string(&mut answer));
    tokio::join!(write, async { read.await.unwrap().unwrap() });
    let urls: Vec<_> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("observed-url: http://shop/")?.parse::<usize>().ok())
        .collect();
    assert!(urls.into_iter().eq(0..=requests.len()), "in pieces of {piece} bytes: {answer}");
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), requests.len() + 1);
}

#[tokio::test]
async fn pipelined_requests_of_all_kinds_are_answered_in_order() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let plain = |i: usize| match i % 3 {
        0 => format!("HEAD /{i} HTTP/1.1\r\nhost: shop\r\n\r\n"),
        _ => format!("GET /{i} HTTP/1.1\r\nhost: shop\r\nx: {}\r\n\r\n", "y".repeat(i)),
    };
    let any = |i: usize| match i % 5 {
        2 => format!("\r\nGET /{i} HTTP/1.1\r\nhost: shop\r\n\r\n"),
        3 => format!("POST /{i} HTTP/1.1\r\nhost: shop\r\ncontent-length: 2\r\n\r\nab"),
        4 => format!(
            "PUT /{i} HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        ),
        _ => plain(i),
    };
    for piece in [100_000, 1_000, 7] {
        assert_answered_in_order(&scenario, &(0..100).map(plain).collect::<Vec<_>>(), piece).await;
        assert_answered_in_order(&scenario, &(0..40).map(any).collect::<Vec<_>>(), piece).await;
    }
}

#[tokio::test]
async fn the_response_to_head_has_the_length_of_the_response_to_get_and_no_body() {
    const HEADERS: &[(&str, &str)] = &[("x-a", "1")];
    let node = Node::start("n1", Behavior::Answer(HEADERS, Bytes::from_static(b"hello")));
    let options = Options { debug_headers: false, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(b"HEAD / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
    client.send(GET).await;
    let heads = [client.read_to("\r\n\r\n").await, client.read_to("\r\n\r\n").await];
    assert_eq!(client.read_to("hello").await, "hello");
    for head in heads {
        let mut lines: Vec<_> = head.lines().collect();
        let date = lines.iter().position(|line| line.starts_with("date: ")).unwrap();
        assert!(lines.remove(date).ends_with(" GMT"));
        lines.sort_unstable();
        assert_eq!(lines, ["", "HTTP/1.1 200 OK", "content-length: 5", "x-a: 1"]);
    }
    assert_eq!(exits(&scenario), 0.0);
}

#[tokio::test]
async fn a_body_of_unknown_length_arrives_in_chunks_as_its_worker_sends_it() {
    let node = Node::start("n1", Behavior::HalfAnswer);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(GET).await;
    let head = client.read_to("\r\n\r\n").await;
    assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
    assert_eq!(client.read_to("half\r\n").await, "4\r\nhalf\r\n");
    // The client disconnects while it waits for the other half.
    drop(client);
    eventually("the invocation to end", || node.dropped() == 1).await;

    node.behave(Behavior::EchoStream);
    let mut client = Raw::connect(&scenario).await;
    for _ in 0..2 {
        client.send(GET).await;
        let head = client.read_to("\r\n\r\n").await;
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
        assert_eq!(client.read_to("\r\n\r\n").await, "0\r\n\r\n");
    }
    assert_eq!(exits(&scenario), 0.0);
}

#[tokio::test]
async fn a_body_that_breaks_off_ends_the_connection() {
    let mut node = Node::start("n1", Behavior::HalfAnswer);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(GET).await;
    client.read_to("half\r\n").await;
    node.kill();
    assert_eq!(client.read_to_close().await, "");
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_invocation() {
    let node = Node::start("n1", Behavior::Hang);
    let scenario = Scenario::with(&[&node]).await;
    // The second client only closes its sending half. The third has sent part of another request.
    for (round, more) in [(1, None), (2, Some(&b""[..])), (3, Some(b"GET / HTT"))] {
        let mut client = Raw::connect(&scenario).await;
        client.send(GET).await;
        eventually("the invocation to begin", || node.invocations() == round).await;
        match more {
            None => drop(client),
            Some(more) => {
                client.send(more).await;
                client.0.shutdown().await.unwrap();
                assert_eq!(client.read_to_close().await, "");
            }
        }
        eventually("the invocation to end", || node.dropped() == round).await;
    }
    eventually("the requests to be over", || scenario.metric("tenon_router_inflight", None) == 0.0)
        .await;
    assert_eq!(exits(&scenario), 0.0);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_the_whole_response() {
    let body: Bytes = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let node = Node::start("n1", Behavior::Answer(&[], body.clone()));
    let scenario = Scenario::with(&[&node]).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Raw(socket.connect(scenario.addr()).await.unwrap());
    for _ in 0..2 {
        client.send(GET).await;
        // The response waits in the router, and is charged to the client.
        let memory = || scenario.metric("tenon_router_client_memory_bytes", None);
        eventually("the response to wait", || memory() > 2_000_000.0).await;
        client.read_to("\r\n\r\n").await;
        let mut read = vec![0; body.len()];
        for piece in read.chunks_mut(10_000) {
            client.0.read_exact(piece).await.unwrap();
        }
        assert!(read == body, "the body differs");
        eventually("the memory to be free", || memory() < 100_000.0).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_not_read_takes_bounded_memory() {
    let node = Node::start("n1", Behavior::Endless);
    let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(GET).await;
    let memory = || scenario.metric("tenon_router_client_memory_bytes", None);
    eventually("the response to wait", || memory() > 200_000.0).await;
    // Each mebibyte that is read makes room for more.
    let mut read = vec![0; 1 << 20];
    for _ in 0..16 {
        tokio::time::timeout(DEADLINE, client.0.read_exact(&mut read)).await.unwrap().unwrap();
        assert!(memory() < 1_000_000.0, "{} bytes are taken", memory());
    }
    drop(client);
    eventually("the memory to be free", || memory() == 0.0).await;
}

#[tokio::test]
async fn a_web_socket_opens_after_plain_requests_on_the_same_connection() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(GET).await;
    client.read_to("\r\n\r\n").await;
    node.behave(Behavior::Tunnel);
    client
        .send(
            "GET / HTTP/1.1\r\nhost: shop\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
    assert!(client.read_to("\r\n\r\n").await.starts_with("HTTP/1.1 101 "));
    let mut welcome = vec![0; WELCOME.len()];
    client.0.read_exact(&mut welcome).await.unwrap();
    assert_eq!(welcome, WELCOME);
}

#[tokio::test]
async fn a_drain_finishes_a_plain_request_and_closes_idle_connections() {
    let mut node = Node::start("n1", Behavior::Echo);
    let mut scenario = Scenario::with(&[&node]).await;
    let [mut busy, mut idle] = [Raw::connect(&scenario).await, Raw::connect(&scenario).await];
    for client in [&mut busy, &mut idle] {
        client.send(GET).await;
        let head = client.read_to("\r\n\r\n").await;
        assert!(!head.contains("connection: close"), "{head}");
    }
    node.stop();
    busy.send(GET).await;
    eventually("the request to be in flight", || {
        scenario.metric("tenon_router_inflight", None) == 1.0
    })
    .await;
    let drained = tokio::spawn(scenario.signal().drain());
    assert_eq!(idle.read_to_close().await, "");
    node.resume();
    let answer = busy.read_to_close().await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
        "{answer}"
    );
    drained.await.unwrap();
    scenario.join().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_its_time_is_over() {
    let node = Node::start("n1", Behavior::Echo);
    let options = Options { idle_timeout: Duration::from_millis(100), ..Options::default() };
    let scenario = Scenario::with_options(&[&node], options).await;
    let mut client = Raw::connect(&scenario).await;
    client.send(GET).await;
    assert!(client.read_to("\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(client.read_to_close().await, "");
    eventually("the connection to be over", || {
        scenario.metric("tenon_router_connections", None) == 0.0
    })
    .await;
}

#[tokio::test]
async fn a_head_has_the_same_limits_with_and_without_the_fast_path() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let with = |headers: usize, length: usize| {
        let header = format!("x: {}\r\n", "y".repeat(length));
        format!("GET / HTTP/1.1\r\nhost: shop\r\n{}\r\n", header.repeat(headers))
    };
    // 60 headers are few enough for the fast path, 90 for hyper.
    for (request, status) in [
        (with(60, 10), 200),
        (with(90, 10), 200),
        (with(120, 10), 431),
        (with(1, 60_000), 200),
        (with(1, 70_000), 431),
    ] {
        let mut client = Raw::connect(&scenario).await;
        client.send(request).await;
        let head = client.read_to("\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head:.200}");
    }
}

#[tokio::test]
async fn a_smuggled_request_is_never_served() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: shop\r\n\r\n";
    for head in [
        "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length: 38\r\ncontent-length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding : chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ntransfer-encoding: xchunked\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\nx: y\r\n content-length: 38\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\nx: y\ncontent-length: 38\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\nx: y\rcontent-length: 38\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length : 38\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length: +38\r\n\r\n",
        "GET / HTTP/1.1\nhost: shop\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: shop\r\ncontent-length: 38\r\nconnection: close\r\n\r\n",
    ] {
        let answer = raw(scenario.addr(), format!("{head}{smuggled}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{head:?}: {answer}");
        assert!(!answer.contains("observed-url: http://shop/smuggled"), "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn a_request_that_no_worker_serves_is_refused_on_the_fast_path_and_the_connection_stays() {
    let node = Node::start("n1", Behavior::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = Client::http1(scenario.addr()).await;
    for _ in 0..3 {
        let request = http::Request::get("/").header("host", "nowhere").body(full("")).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(
            (answer.status, answer.code()),
            (StatusCode::NOT_FOUND, "worker_not_found".into())
        );
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(exits(&scenario), 0.0);
}
