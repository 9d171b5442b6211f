//! Tests tunnels of WebSockets over HTTP/1.1 and HTTP/2: data in both directions, and every way in
//! which a tunnel ends.
//!
//! The router does not interpret the data, so most data in these tests does not consist of
//! WebSocket frames.

use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use socket2::SockRef;
use tenon_proto::catalog::{WatchResponse, Worker};
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::{Header, InvokeHead};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::websocket::{KEY, open_both, open_http1, read, read_to_end};
use crate::harness::{
    BYE, Behavior, DEADLINE, InternalCaller, Node, Options, Scenario, WELCOME, eventually, head,
    worker,
};

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Returns a Close frame as the router sends it.
fn close(code: u16, reason: &str) -> Vec<u8> {
    [&[0x88, 2 + reason.len() as u8][..], &code.to_be_bytes(), reason.as_bytes()].concat()
}

#[tokio::test]
async fn bytes_pass_in_both_directions_until_the_client_ends_its_half() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    for (mut socket, _client) in open_both(scenario.addr()).await {
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
            "{} of {} bytes came back",
            back.len(),
            large.len()
        );
    }
    eventually("all tunnels to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0)
        .await;
    let carried = |to| scenario.metric("tenon_router_tunnel_bytes_total", Some(to));
    let (echoed, added) = (2 * ((10 << 20) + 11), 2 * (WELCOME.len() + BYE.len()));
    eventually("the bytes to the node to be counted", || carried("node") == f64::from(echoed))
        .await;
    eventually("the bytes to the client to be counted", || {
        carried("client") == f64::from(echoed) + added as f64
    })
    .await;
    assert_eq!(scenario.metric("tenon_router_requests_total", Some("1xx")), 1.0);
}

#[tokio::test]
async fn the_limit_of_a_body_does_not_apply_to_a_tunnel() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let limited = Worker { request_body_bytes: 10, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![limited], ..Default::default() });
    let mut client = scenario.client().await;
    node.behave(Behavior::Echo);
    while client.post("/", "more than ten").await.status != 413 {}
    node.behave(Behavior::Tunnel);
    let mut socket = open_http1(scenario.addr()).await;
    socket.write_all(b"more than ten").await.unwrap();
    assert_eq!(read(&mut socket, WELCOME.len() + 13).await, [WELCOME, b"more than ten"].concat());
}

#[tokio::test]
async fn a_handshake_is_retried_like_any_request() {
    let nodes = [
        Node::start("n1", Behavior::Refuse(FailureCode::Draining)),
        Node::start("n2", Behavior::Tunnel),
    ];
    let scenario = Scenario::with(&nodes.each_ref()).await;
    for (mut socket, _client) in open_both(scenario.addr()).await {
        assert_eq!(read(&mut *socket, WELCOME.len()).await, WELCOME);
        socket.write_all(b"there").await.unwrap();
        assert_eq!(read(&mut *socket, 5).await, b"there");
    }
}

#[tokio::test]
async fn the_last_data_of_the_node_arrives_before_the_connection_ends() {
    let node = Node::start("n1", Behavior::Farewell(BYE));
    let scenario = Scenario::with(&[&node]).await;
    for (mut socket, _client) in open_both(scenario.addr()).await {
        assert_eq!(read_to_end(&mut *socket).await, BYE);
    }
}

#[tokio::test]
async fn a_client_whose_node_is_lost_gets_a_close_frame_between_two_messages() {
    let mut node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let mut sockets = open_both(scenario.addr()).await;
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
async fn a_node_is_notified_of_a_client_that_disconnects() {
    let node = Node::start("n1", Behavior::Tunnel);
    let scenario = Scenario::with(&[&node]).await;
    let [(over_http1, _), (over_http2, client)] = open_both(scenario.addr()).await;
    drop((over_http1, over_http2, client));
    eventually("both invocations to end", || node.dropped() == 2).await;

    let reset = open_http1(scenario.addr()).await;
    SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    eventually("the third invocation to end", || node.dropped() == 3).await;
    eventually("all tunnels to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0)
        .await;
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_only_its_own_stream() {
    let node = Node::start("n1", Behavior::Flood);
    let scenario = Scenario::with(&[&node]).await;
    let mut sockets = open_both(scenario.addr()).await;
    let flowing = node.flooded();
    eventually("the flood to continue", || node.flooded() > flowing).await;
    node.behave(Behavior::Echo);
    let mut other = scenario.client().await;
    for _ in 0..300 {
        assert_eq!(other.post("/", pattern(100_000)).await.status, 200);
    }
    // The limit covers the kernel's buffers of two connections, and twice the windows of two
    // streams.
    let sent = node.flooded();
    assert!(sent < 40 << 20, "{sent} bytes wait for a client that does not read");
    for (socket, _) in &mut sockets {
        let read = read(&mut **socket, 1 << 20).await;
        assert!(
            read.chunks(4 + 16 * 1024).all(|message| message.starts_with(&[0x82, 126, 0x40, 0]))
        );
    }
}

#[tokio::test]
async fn a_draining_router_closes_its_tunnels_after_the_grace_period() {
    let node = Node::start("n1", Behavior::Tunnel);
    let options = Options { tunnel_grace: Duration::from_secs(3), ..Options::default() };
    let mut scenario = Scenario::with_options(&[&node], options).await;
    let mut sockets = open_both(scenario.addr()).await;
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

/// Returns a call from one Worker to another that requests a tunnel.
fn tunnel_request() -> InvokeHead {
    let header =
        |name: &str, value: &'static str| Header { name: name.into(), value: value.into() };
    let headers = vec![header("upgrade", "websocket"), header("sec-websocket-key", KEY)];
    InvokeHead { headers, more_body: true, ..head("shop/cart") }
}

#[tokio::test]
async fn a_tunnel_between_workers_uses_the_internal_listener() {
    let node = Node::start("n1", Behavior::Tunnel);
    let mut scenario = Scenario::with(&[&node]).await;
    let limited = Worker { request_body_bytes: 10, ..worker("shop/cart", "shop") };
    scenario.catalog.change(WatchResponse { workers: vec![limited], ..Default::default() });
    let caller = InternalCaller::of(scenario.internal_addr());
    let (mut pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let (accepted, mut answers) = caller.open(tunnel_request(), pieces_rx).await.unwrap();
    assert_eq!((accepted.status, &accepted.body[..]), (101, WELCOME));
    assert!(
        accepted
            .headers
            .iter()
            .any(|header| header.name == "sec-websocket-accept" && header.value == KEY)
    );
    for piece in ["a first piece", "a second piece"] {
        pieces_tx.send(piece.into()).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), piece);
    }
    drop(pieces_tx);
    assert_eq!(answers.next().await.unwrap().unwrap(), BYE);
    assert!(answers.next().await.is_none());
    eventually("the tunnel to be over", || scenario.metric("tenon_router_tunnels", None) == 0.0)
        .await;

    // A tunnel that is open when the router drains is broken off.
    let (pieces_tx, pieces_rx) = mpsc::channel::<Bytes>(0);
    let (_, mut answers) = caller.open(tunnel_request(), pieces_rx).await.unwrap();
    let drained = tokio::spawn(scenario.signal().drain());
    assert_eq!(answers.next().await.unwrap().unwrap_err().code, FailureCode::Draining);
    drop((pieces_tx, answers, caller));
    drained.await.unwrap();
    scenario.join().await;
}
