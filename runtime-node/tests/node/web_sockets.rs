//! Tests of clients' WebSockets as a router forwards them: the messages of a call carry the bytes
//! of the protocol.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tenon_proto::failure::Failure;
use tenon_proto::runtime::ResponseHead;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::harness::client::{Client, piece};
use crate::harness::{Deployed, TestNode, trials};

trials! {
    a_worker_that_accepts_answers_with_101_and_exchanges_messages,
    a_worker_that_declines_an_upgrade_sends_a_plain_response,
    open_web_sockets_do_not_hold_request_permits,
    web_socket_messages_do_not_count_against_the_body_limit,
    a_client_that_disconnects_closes_its_web_socket,
    a_draining_node_closes_its_web_sockets,
    a_draining_node_does_not_wait_for_clients_that_do_not_close,
}

const ECHO: &str = "
    if (request.headers.get('upgrade') !== 'websocket') return new Response('no web socket');
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener('message', ({ data }) => server.send(data));
    server.addEventListener('close', ({ code, wasClean }) => console.log(`closed: ${code}, ${wasClean}`));
    return new Response(null, { status: 101, webSocket: client });";

/// The client's end of a WebSocket, behind a router that carries bytes.
pub(crate) struct Socket {
    pub(crate) stream: WebSocketStream<DuplexStream>,
    head: ResponseHead,
    /// The task that copies the call's messages to the client. Its result is the result of the
    /// call.
    relay: tokio::task::JoinHandle<Result<(), Failure>>,
}

impl Socket {
    pub(crate) async fn open(client: &Client, worker: &Deployed) -> Result<Self, Failure> {
        let (body_tx, body_rx) = mpsc::channel::<Bytes>(1);
        let (head, mut messages) = client.tunnel(worker, body_rx).await?;
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (mut from_client, mut to_client) = tokio::io::split(far);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(len @ 1..) = from_client.read(&mut buffer).await {
                if body_tx.send(Bytes::copy_from_slice(&buffer[..len])).await.is_err() {
                    return;
                }
            }
        });
        let first = head.body.clone();
        let relay = tokio::spawn(async move {
            to_client.write_all(&first).await.unwrap();
            while let Some(piece) = piece(&mut messages).await? {
                if to_client.write_all(&piece).await.is_err() {
                    break;
                }
            }
            to_client.shutdown().await.unwrap();
            Ok(())
        });
        Ok(Self {
            stream: WebSocketStream::from_raw_socket(near, Role::Client, None).await,
            head,
            relay,
        })
    }

    pub(crate) async fn expect_echo(&mut self, message: impl Into<Message>) {
        let message = message.into();
        self.stream.send(message.clone()).await.unwrap();
        assert_eq!(self.receive().await, message);
    }

    pub(crate) async fn receive(&mut self) -> Message {
        self.stream.next().await.expect("the WebSocket has ended").unwrap()
    }
}

fn header<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a [u8]> {
    head.headers.iter().find(|header| header.name == name).map(|header| &header.value[..])
}

async fn a_worker_that_accepts_answers_with_101_and_exchanges_messages(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", ECHO);
    let mut socket = Socket::open(node.client(), &echo).await.unwrap();
    assert!(socket.head.status == 101 && socket.head.more_body, "{:?}", socket.head);
    // The example of RFC 6455, section 1.3.
    assert_eq!(
        header(&socket.head, "sec-websocket-accept"),
        Some(&b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="[..])
    );
    assert_eq!(header(&socket.head, "content-length"), None);
    socket.expect_echo("a text").await;
    socket.expect_echo(vec![7; 300_000]).await;
    socket.stream.close(None).await.unwrap();
    assert!(matches!(socket.receive().await, Message::Close(_)));
    assert_eq!(socket.relay.await.unwrap(), Ok(()));
    node.await_metric("tenon_shard_tunnels", &[], 0).await;
}

async fn a_worker_that_declines_an_upgrade_sends_a_plain_response(name: &'static str) {
    let node = TestNode::start(name).await;
    let never =
        node.handler("never", "return new Response(await request.text() + 'no', { status: 403 })");
    let (body_tx, body_rx) = mpsc::channel(1);
    // The client's direction ends, as it does when a router sees that the response's status is not
    // 101.
    drop(body_tx);
    let (head, _) = node.client().tunnel(&never, body_rx).await.unwrap();
    assert_eq!((head.status, &head.body[..], head.more_body), (403, &b"no"[..], false));
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    assert_eq!(node.metric("tenon_shard_tunnels", &[]), 0);
}

async fn open_web_sockets_do_not_hold_request_permits(name: &'static str) {
    let node = TestNode::without_queues(name).await;
    let echo = node.handler_with("echo", ECHO, |limits| limits.concurrency = 1);
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(Socket::open(node.client(), &echo).await.unwrap());
    }
    assert_eq!(node.client().get(&echo).await.unwrap().text(), "no web socket");
    assert_eq!(node.metric("tenon_shard_tunnels", &[]), 3);
    assert_eq!(node.metric("tenon_shard_inflight", &[]), 0);
    for socket in &mut sockets {
        socket.expect_echo("still here").await;
    }
}

async fn web_socket_messages_do_not_count_against_the_body_limit(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler_with("echo", ECHO, |limits| limits.request_body_mib = 1);
    let mut socket = Socket::open(node.client(), &echo).await.unwrap();
    for _ in 0..5 {
        socket.expect_echo(vec![7; 500_000]).await;
    }
}

async fn a_client_that_disconnects_closes_its_web_socket(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", ECHO);
    let mut socket = Socket::open(node.client(), &echo).await.unwrap();
    socket.expect_echo("here").await;
    socket.relay.abort();
    drop(socket);
    node.await_metric("tenon_shard_tunnels", &[], 0).await;
    crate::harness::await_condition("the Worker's close event", || {
        node.logged("closed: 1006, false")
    })
    .await;
}

async fn a_draining_node_closes_its_web_sockets(name: &'static str) {
    let mut node = TestNode::with(name, |config| config.drain.grace = Duration::from_secs(3)).await;
    let echo = node.handler("echo", ECHO);
    let mut socket = Socket::open(node.client(), &echo).await.unwrap();
    node.begin_drain();
    socket.expect_echo("meanwhile").await;
    let Message::Close(Some(closed)) = socket.receive().await else {
        panic!("the WebSocket was not closed with a code")
    };
    assert_eq!(u16::from(closed.code), 1001);
    assert!(socket.stream.next().await.is_none());
    node.join().await;
    assert_eq!(socket.relay.await.unwrap(), Ok(()));
}

async fn a_draining_node_does_not_wait_for_clients_that_do_not_close(name: &'static str) {
    let mut node =
        TestNode::with(name, |config| config.drain.grace = Duration::from_millis(100)).await;
    let echo = node.handler("echo", ECHO);
    let (_body_tx, body_rx) = mpsc::channel(1);
    let (head, mut messages) = node.client().tunnel(&echo, body_rx).await.unwrap();
    assert_eq!(head.status, 101);
    node.begin_drain();
    node.join().await;
    let mut received = head.body.to_vec();
    while let Ok(Some(piece)) = piece(&mut messages).await {
        received.extend_from_slice(&piece);
    }
    assert_eq!(received[..4], [0x88, received[1], 0x03, 0xe9], "not a Close frame with code 1001");
}
