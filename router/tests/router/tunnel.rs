//! WebSockets over HTTP/1.1 and HTTP/2: the handshake, data in both directions, and every way in
//! which they end.
//!
//! The router does not interpret the data, so most of the data here is not WebSocket frames at all.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use hyper::ext::Protocol;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tenon_proto::catalog::WatchResponse;
use tenon_proto::catalog::Worker;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::{Header, InvokeHead};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{
    BYE, Behaviour, Client, DEADLINE, InternalCaller, Node, Options, Scenario, WELCOME, eventually,
    full, head, worker,
};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The client's side of a tunnel.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

fn handshake(extra: &str) -> String {
    format!(
        "GET /chat?x=1 HTTP/1.1\r\nhost: shop\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: \
         13\r\nsec-websocket-key: {KEY}\r\nsec-websocket-protocol: chat, talk\r\n{extra}\r\n"
    )
}

/// Reads a response's head, and none of the bytes after it.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(DEADLINE, stream.read_u8()).await.expect("a head in time");
        head.push(byte.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn open_http1(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(handshake("").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream
}

fn connect(protocol: &'static str) -> http::request::Builder {
    Request::builder()
        .method(Method::CONNECT)
        .version(Version::HTTP_2)
        .uri("http://shop/chat?x=1")
        .extension(Protocol::from_static(protocol))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat, talk")
}

/// Connects a client that has received the router's settings, without which it may not use extended
/// CONNECT.
async fn http2(addr: SocketAddr) -> Client {
    let mut client = Client::http2(addr).await;
    let request = Request::get("http://nobody/").body(full("")).unwrap();
    assert_eq!(client.send(request).await.unwrap().status, 404);
    client
}

async fn open_http2(client: &mut Client) -> (HeaderMap, TokioIo<Upgraded>) {
    let response = client.open(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let headers = response.headers().clone();
    (headers, TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

/// Opens a tunnel of each HTTP version to the same router.
async fn both(addr: SocketAddr) -> [(Box<dyn Socket>, Option<Client>); 2] {
    let mut client = http2(addr).await;
    let (_, over_http2) = open_http2(&mut client).await;
    [(Box::new(open_http1(addr).await), None), (Box::new(over_http2), Some(client))]
}

async fn read(socket: &mut (impl Socket + ?Sized), len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    tokio::time::timeout(DEADLINE, socket.read_exact(&mut bytes))
        .await
        .expect("bytes in time")
        .unwrap();
    bytes
}

async fn read_to_end(socket: &mut (impl Socket + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokio::time::timeout(DEADLINE, socket.read_to_end(&mut bytes))
        .await
        .expect("an end in time")
        .unwrap();
    bytes
}

fn told<'a>(head: &'a InvokeHead, name: &str) -> Vec<&'a [u8]> {
    head.headers
        .iter()
        .filter(|header| header.name == name)
        .map(|header| &header.value[..])
        .collect()
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Returns a Close frame as the router sends it.
fn close(code: u16, reason: &str) -> Vec<u8> {
    [&[0x88, 2 + reason.len() as u8][..], &code.to_be_bytes(), reason.as_bytes()].concat()
}

#[tokio::test]
async fn a_handshake_of_http1_reaches_the_node_as_a_get_and_its_101_the_client() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    // The client sends data before it has received the answer.
    stream.write_all(format!("{}early", handshake("tenon-debug: 1\r\n")).as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-protocol: chat",
        "tenon-node: n1",
    ] {
        assert_eq!(head.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {head}");
    }
    assert!(
        head.contains(&format!("sec-websocket-accept: {}\r\n", KEY.to_ascii_lowercase())),
        "{head}"
    );
    for name in ["content-length", "transfer-encoding"] {
        assert!(!head.contains(name), "{head}");
    }
    assert_eq!(read(&mut stream, WELCOME.len() + 5).await, [WELCOME, b"early"].concat());

    let asked = node.last_head();
    assert_eq!((asked.method.as_str(), asked.url.as_str()), ("GET", "http://shop/chat?x=1"));
    assert!(asked.more_body && asked.body.is_empty());
    assert_eq!(told(&asked, "upgrade"), [b"websocket"]);
    assert_eq!(told(&asked, "sec-websocket-key"), [KEY.as_bytes()]);
    assert_eq!(told(&asked, "sec-websocket-version"), [b"13"]);
    assert_eq!(told(&asked, "sec-websocket-protocol"), [b"chat, talk"]);
    assert!(told(&asked, "connection").is_empty());
}

#[tokio::test]
async fn an_extended_connect_of_http2_reaches_the_node_as_the_same_get() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut client = http2(scenario.addr()).await;
    let (headers, mut socket) = open_http2(&mut client).await;
    for gone in ["connection", "upgrade", "sec-websocket-accept", "content-length"] {
        assert!(!headers.contains_key(gone), "{headers:?}");
    }
    assert_eq!(headers["sec-websocket-protocol"], "chat");
    assert_eq!(read(&mut socket, WELCOME.len()).await, WELCOME);
    let asked = node.last_head();
    assert_eq!((asked.method.as_str(), asked.url.as_str()), ("GET", "http://shop/chat?x=1"));
    assert_eq!(told(&asked, "upgrade"), [b"websocket"]);
    let key = told(&asked, "sec-websocket-key");
    assert!(key.len() == 1 && key[0].len() == KEY.len() && key[0] != KEY.as_bytes(), "{key:?}");
    // Other requests use the same connection meanwhile.
    node.behave(Behaviour::Echo);
    assert_eq!(client.post("/", "beside").await.body, "beside");
    socket.write_all(b"on").await.unwrap();
    assert_eq!(read(&mut socket, 2).await, b"on");
}

#[tokio::test]
async fn bytes_go_both_ways_until_the_client_ends_its_half() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    for (mut socket, _client) in both(scenario.addr()).await {
        assert_eq!(read(&mut *socket, WELCOME.len()).await, WELCOME);
        for piece in ["one", "two", "three"] {
            socket.write_all(piece.as_bytes()).await.unwrap();
            assert_eq!(read(&mut *socket, piece.len()).await, piece.as_bytes());
        }
        let large = pattern(10 << 20);
        let (mut reading, mut writing) = tokio::io::split(socket);
        let sent = large.clone();
        let sender = tokio::spawn(async move {
            writing.write_all(&sent).await.unwrap();
            writing.shutdown().await.unwrap();
        });
        let mut back = Vec::new();
        tokio::time::timeout(DEADLINE, reading.read_to_end(&mut back)).await.unwrap().unwrap();
        sender.await.unwrap();
        assert!(
            back == [&large[..], BYE].concat(),
            "{} bytes came back of {}",
            back.len(),
            large.len()
        );
    }
    eventually("all to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0).await;
    let carried = |to| scenario.metric("tenon_router_tunnel_bytes_total", Some(to));
    let (sent, said) = (2 * ((10 << 20) + 11), 2 * (WELCOME.len() + BYE.len()));
    eventually("the count", || carried("node") == f64::from(sent)).await;
    eventually("the count", || carried("client") == f64::from(sent) + said as f64).await;
    assert_eq!(scenario.metric("tenon_router_requests_total", Some("1xx")), 1.0);
}

#[tokio::test]
async fn a_tunnel_is_not_within_the_limit_of_a_body() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let limited = Worker { request_body_bytes: 10, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![limited], ..Default::default() });
    let mut client = scenario.client().await;
    node.behave(Behaviour::Echo);
    while client.post("/", "more than ten").await.status != 413 {}
    node.behave(Behaviour::Tunnel);
    let mut socket = open_http1(scenario.addr()).await;
    socket.write_all(b"more than ten").await.unwrap();
    assert_eq!(read(&mut socket, WELCOME.len() + 13).await, [WELCOME, b"more than ten"].concat());
}

#[tokio::test]
async fn a_worker_that_does_not_agree_gets_an_empty_body_and_is_answered_for_as_ever() {
    let node = Node::start("n1", Behaviour::Echo);
    let scenario = Scenario::with(&[&node]).await;
    // `EchoStream` answers before it has read the body, which is pending until the answer.
    node.behave(Behaviour::EchoStream);
    let mut stream = TcpStream::connect(scenario.addr()).await.unwrap();
    stream.write_all(handshake("").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("echo-upgrade: websocket\r\n"),
        "{head}"
    );
    let mut end = [0; 5];
    stream.read_exact(&mut end).await.unwrap();
    assert_eq!(&end, b"0\r\n\r\n", "the body is empty");
    // The connection stays usable.
    stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(
        String::from_utf8(read_to_end(&mut stream).await).unwrap().starts_with("HTTP/1.1 200 ")
    );

    let mut client = http2(scenario.addr()).await;
    // In HTTP/2 a success would mean that the Worker has accepted.
    let answer = client.send(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (400, "bad_request".into()));
    node.behave(Behaviour::Fail(FailureCode::WorkerException));
    let answer = client.send(connect("websocket").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (500, "worker_exception".into()));
    eventually("no place to be kept", || scenario.metric("tenon_router_tunnels", None) == 0.0)
        .await;
}

#[tokio::test]
async fn a_malformed_handshake_is_refused_before_any_node_hears_of_it() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let well_formed = handshake("connection: close\r\n");
    for (from, to, expected) in [
        ("sec-websocket-version: 13", "sec-websocket-version: 8", "HTTP/1.1 426"),
        ("sec-websocket-version: 13", "x: y", "HTTP/1.1 426"),
        (KEY, "c2hvcnQ=", "HTTP/1.1 400"),
        ("sec-websocket-key", "x", "HTTP/1.1 400"),
        ("sec-websocket-protocol: chat, talk\r\n", "content-length: 1\r\n", "HTTP/1.1 400"),
    ] {
        let answer =
            crate::harness::raw(scenario.addr(), well_formed.replace(from, to).as_bytes()).await;
        assert!(answer.starts_with(expected), "{to}: {answer}");
        assert_eq!(
            answer.contains("sec-websocket-version: 13\r\n"),
            expected.ends_with("426"),
            "{answer}"
        );
    }
    assert_eq!(node.invocations(), 0);
    let mut client = http2(scenario.addr()).await;
    let mut old = connect("websocket").body(full("")).unwrap();
    old.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("8"));
    let answer = client.send(old).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("sec-websocket-version")), (426, "13"));
    let answer = client.send(connect("connect-udp").body(full("")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.code()), (400, "bad_request".into()));
}

#[tokio::test]
async fn an_upgrade_to_anything_else_is_ignored() {
    let node = Node::start("n1", Behaviour::Echo);
    let scenario = Scenario::with(&[&node]).await;
    let other = "GET / HTTP/1.1\r\nhost: shop\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
    let last = other.replace("connection: upgrade", "connection: close, upgrade");
    let answer = crate::harness::raw(scenario.addr(), format!("{other}{last}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert!(!answer.contains("echo-upgrade"), "{answer}");
}

#[tokio::test]
async fn a_101_that_nobody_asked_for_is_a_failure() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let answer = scenario.client().await.get("/").await;
    assert_eq!((answer.status.as_u16(), answer.code()), (500, "internal".into()));
    let caller = InternalCaller::of(scenario.router().internal_addr());
    let failure = caller.call(head("shop/cart"), futures::stream::empty()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Internal);
}

#[tokio::test]
async fn a_handshake_is_tried_elsewhere_as_any_request_is() {
    let nodes = [
        Node::start("n1", Behaviour::Refuse(FailureCode::Draining)),
        Node::start("n2", Behaviour::Tunnel),
    ];
    let scenario = Scenario::with(&nodes.each_ref()).await;
    for (mut socket, _client) in both(scenario.addr()).await {
        assert_eq!(read(&mut *socket, WELCOME.len()).await, WELCOME);
        socket.write_all(b"there").await.unwrap();
        assert_eq!(read(&mut *socket, 5).await, b"there");
    }
}

#[tokio::test]
async fn what_the_node_says_last_arrives_and_then_the_connection_ends() {
    let node = Node::start("n1", Behaviour::Farewell(BYE));
    let scenario = Scenario::with(&[&node]).await;
    for (mut socket, _client) in both(scenario.addr()).await {
        assert_eq!(read_to_end(&mut *socket).await, BYE);
    }
}

#[tokio::test]
async fn a_client_whose_node_is_lost_is_told_so_between_two_messages() {
    let mut node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut sockets = both(scenario.addr()).await;
    for (socket, _) in &mut sockets {
        assert_eq!(read(&mut **socket, WELCOME.len()).await, WELCOME);
    }
    // The second tunnel is in the middle of a frame.
    sockets[1].0.write_all(b"\x82\x05ab").await.unwrap();
    assert_eq!(read(&mut *sockets[1].0, 4).await, b"\x82\x05ab");
    node.kill();
    let [(mut between, _), (mut within, _client)] = sockets;
    assert_eq!(read_to_end(&mut *between).await, close(1011, "node_lost"));
    assert_eq!(read_to_end(&mut *within).await, b"");
}

#[tokio::test]
async fn a_node_hears_of_a_client_that_vanishes() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let [(over_http1, _), (over_http2, client)] = both(scenario.addr()).await;
    drop((over_http1, over_http2, client));
    eventually("both to be over", || node.dropped() == 2).await;

    let reset = open_http1(scenario.addr()).await;
    SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    eventually("the third to be over", || node.dropped() == 3).await;
    eventually("all to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_its_node_and_nobody_else() {
    let node = Node::start("n1", Behaviour::Flood);
    let scenario = Scenario::with(&[&node]).await;
    let mut sockets = both(scenario.addr()).await;
    let flowing = node.said();
    eventually("the flood", || node.said() > flowing).await;
    node.behave(Behaviour::Echo);
    let mut other = scenario.client().await;
    for _ in 0..300 {
        assert_eq!(other.post("/", pattern(100_000)).await.status, 200);
    }
    // The kernel's buffers of two connections, and twice the windows of two streams.
    let said = node.said();
    assert!(said < 40 << 20, "{said} bytes wait for who does not read");
    for (socket, _) in &mut sockets {
        let read = read(&mut **socket, 1 << 20).await;
        assert!(
            read.chunks(4 + 16 * 1024).all(|message| message.starts_with(&[0x82, 126, 0x40, 0]))
        );
    }
}

#[tokio::test]
async fn a_router_that_leaves_closes_its_tunnels_when_their_grace_is_over() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let options = Options { tunnel_grace: Duration::from_secs(3), ..Options::default() };
    let mut scenario = Scenario::with_options(&[&node], options).await;
    let mut sockets = both(scenario.addr()).await;
    let drained = tokio::spawn(scenario.signal().drain());
    eventually("readiness to end", || !scenario.readiness.is_ready()).await;
    for (socket, _) in &mut sockets {
        // The tunnels continue in the meantime.
        socket.write_all(b"\x82\x02on").await.unwrap();
        assert_eq!(read(&mut **socket, WELCOME.len() + 4).await, [WELCOME, b"\x82\x02on"].concat());
    }
    for (socket, _) in &mut sockets {
        assert_eq!(read_to_end(&mut **socket).await, close(1001, "draining"));
    }
    drop(sockets);
    drained.await.unwrap();
    scenario.join().await;
}

/// Returns a call from one Worker to another that asks for a tunnel.
fn asking() -> InvokeHead {
    let header =
        |name: &str, value: &'static str| Header { name: name.into(), value: value.into() };
    let headers = vec![header("upgrade", "websocket"), header("sec-websocket-key", KEY)];
    InvokeHead { headers, more_body: true, ..head("shop/cart") }
}

#[tokio::test]
async fn a_tunnel_of_a_worker_to_another_goes_by_the_internal_listener() {
    let node = Node::start("n1", Behaviour::Tunnel);
    let mut scenario = Scenario::with(&[&node]).await;
    let limited = Worker { request_body_bytes: 10, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![limited], ..Default::default() });
    let caller = InternalCaller::of(scenario.router().internal_addr());
    let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let (agreed, mut said) = caller.open(asking(), pieces_rx).await.unwrap();
    assert_eq!((agreed.status, &agreed.body[..]), (101, WELCOME));
    assert!(
        agreed
            .headers
            .iter()
            .any(|header| header.name == "sec-websocket-accept" && header.value == KEY)
    );
    for piece in ["a first piece", "a second piece"] {
        pieces_tx.send(piece.into()).await.unwrap();
        assert_eq!(said.next().await.unwrap().unwrap(), piece);
    }
    drop(pieces_tx);
    assert_eq!(said.next().await.unwrap().unwrap(), BYE);
    assert!(said.next().await.is_none());
    eventually("the tunnel to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0)
        .await;

    // A tunnel that is open when the router leaves is broken off.
    let (pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let (_, mut said) = caller.open(asking(), pieces_rx).await.unwrap();
    let drained = tokio::spawn(scenario.signal().drain());
    assert_eq!(said.next().await.unwrap().unwrap_err().code, FailureCode::Draining);
    drop((pieces_tx, said, caller));
    drained.await.unwrap();
    scenario.join().await;
}
