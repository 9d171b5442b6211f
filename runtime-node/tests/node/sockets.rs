//! Tests of WebSockets that one Worker opens to another through a binding.

use bytes::Bytes;
use futures::stream;
use tenon_proto::runtime::{InvokeHead, Service};
use tokio::sync::mpsc;

use crate::harness::client::{head, piece};
use crate::harness::router::Router;
use crate::harness::{TestNode, trials};

trials! {
    a_worker_opens_a_socket_to_another_on_its_shard,
    a_worker_opens_a_socket_to_another_through_a_router,
    a_worker_passes_on_the_socket_of_another,
}

const ECHO: &str = "
    if (request.headers.get('upgrade') !== 'websocket') return new Response('warm');
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener('message', ({ data }) => server.send(data));
    server.addEventListener('close', ({ code }) => console.log('closed', code));
    return new Response(null, { status: 101, webSocket: client });";

/// A handler that opens a socket to `OTHER`, sends a message and responds with what it receives.
const CALLER: &str = "
    const { webSocket } = await env.OTHER.fetch('http://other.test/', { headers: { upgrade: 'websocket' } });
    const message = new Promise((resolve) => webSocket.addEventListener('message', resolve));
    const closed = new Promise((resolve) => webSocket.addEventListener('close', resolve));
    webSocket.accept();
    webSocket.send('from one Worker to another');
    const { data } = await message;
    webSocket.close(4000, 'thanks');
    const { code, wasClean } = await closed;
    return new Response(`${data} ${code} ${wasClean}`);";

async fn a_worker_opens_a_socket_to_another_on_its_shard(name: &'static str) {
    let node = TestNode::start(name).await;
    let other = node.handler("other", ECHO);
    let caller = node.caller("caller", CALLER, "other");
    assert_eq!(node.client().get(&other).await.unwrap().text(), "warm");
    let service = Service {
        worker: other.worker.to_string(),
        digest: Bytes::copy_from_slice(other.digest.as_bytes()),
    };
    let head = InvokeHead { services: vec![service], ..head(&caller) };
    let answer = node.client().call(head, stream::empty()).await.unwrap();
    assert_eq!(answer.text(), "from one Worker to another 4000 true");
    node.await_metric("tenon_shard_tunnels", &[], 0).await;
}

async fn a_worker_opens_a_socket_to_another_through_a_router(name: &'static str) {
    let router = Router::start().await;
    let node =
        TestNode::with(name, |config| config.router = Some(router.url().parse().unwrap())).await;
    router.set_shard(node.client().address());
    let other = node.handler("other", ECHO);
    let caller = node.caller("caller", CALLER, "other");
    router.add_worker(&other);
    let answer = node.client().get(&caller).await.unwrap();
    assert_eq!(answer.text(), "from one Worker to another 4000 true");
    let call = &router.calls()[0];
    assert!(call.requests_tunnel(), "{call:?}");
}

async fn a_worker_passes_on_the_socket_of_another(name: &'static str) {
    let router = Router::start().await;
    let node =
        TestNode::with(name, |config| config.router = Some(router.url().parse().unwrap())).await;
    router.set_shard(node.client().address());
    let other = node.handler("other", ECHO);
    let front = node.caller("front", "return env.OTHER.fetch(request)", "other");
    router.add_worker(&other);
    let (sent_tx, sent_rx) = mpsc::channel(1);
    let (head, mut messages) = node.client().tunnel(&front, sent_rx).await.unwrap();
    let accept = head.headers.iter().find(|header| header.name == "sec-websocket-accept").unwrap();
    assert_eq!((head.status, &accept.value[..]), (101, &b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="[..]));
    // A text frame with an all-zero mask; the echo comes back unmasked.
    sent_tx.send(Bytes::from_static(b"\x81\x82\0\0\0\0hi")).await.unwrap();
    assert_eq!(piece(&mut messages).await.unwrap().unwrap()[..], b"\x81\x02hi"[..]);
    sent_tx.send(Bytes::from_static(b"\x88\x80\0\0\0\0")).await.unwrap();
    assert_eq!(piece(&mut messages).await.unwrap().unwrap()[..], b"\x88\x00"[..]);
    assert_eq!(piece(&mut messages).await.unwrap(), None);
    node.await_metric("tenon_shard_tunnels", &[], 0).await;
}
