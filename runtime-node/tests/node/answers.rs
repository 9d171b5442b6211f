//! Tests of Workers that answer on the shard that received the request.

use std::time::Duration;

use bytes::Bytes;
use tenon_engine::buffers::BLOCK_CAPACITY;
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::client::{Client, head};
use crate::harness::{TestNode, trials};

trials! {
    a_worker_answers,
    a_worker_sees_the_request_as_it_was_sent,
    large_bodies_are_transferred_in_both_directions,
    a_response_head_may_exceed_the_headroom_of_its_buffer,
    sent_responses_return_their_buffers,
    a_body_is_streamed_while_it_is_sent,
    each_shard_has_its_own_isolates_and_code_is_fetched_once,
    an_exception_has_its_own_code_and_is_logged,
    a_revision_of_another_worker_is_refused,
    a_worker_continues_to_serve_after_its_clients_disconnect,
    a_client_that_disconnects_cancels_the_invocation,
}

async fn a_worker_answers(name: &'static str) {
    let node = TestNode::start(name).await;
    let hello = node
        .handler("hello", "return new Response('hello', { status: 201, headers: { 'x-a': 'b' } })");
    let answer = node.client().get(&hello).await.unwrap();
    assert_eq!(
        (answer.status, answer.text(), answer.header("x-a")),
        (201, "hello", Some(&b"b"[..]))
    );
    assert_eq!(node.metric("tenon_invocations_total", &[("code", "ok")]), 1);
    assert_eq!(node.metric("tenon_isolates", &[("state", "warm")]), 1);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_worker_sees_the_request_as_it_was_sent(name: &'static str) {
    let node = TestNode::start(name).await;
    let mirror = node.handler(
        "mirror",
        "return new Response([request.method, request.url, request.headers.get('x-greeting'), await request.text()].join(' '))",
    );
    let answer = node.client().post(&mirror, Bytes::from_static(b"body")).await.unwrap();
    assert_eq!(answer.text(), "POST https://worker.test/a/path?query=1 hello body");
}

async fn large_bodies_are_transferred_in_both_directions(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", "return new Response(await request.arrayBuffer())");
    let body = Bytes::from_iter((0..5_000_000u32).map(|n| (n % 251) as u8));
    for length in [64 * 1024, 64 * 1024 + 1, body.len()] {
        let answer = node.client().post(&echo, body.slice(..length)).await.unwrap();
        assert!(answer.body == body[..length], "{length} bytes came back as {}", answer.body.len());
    }
}

async fn a_response_head_may_exceed_the_headroom_of_its_buffer(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler(
        "worker",
        "return new Response(await request.text(), { headers: { 'x-long': 'v'.repeat(20_000) } })",
    );
    for length in [0, 1, BLOCK_CAPACITY] {
        let answer = node.client().post(&worker, Bytes::from(vec![b'b'; length])).await.unwrap();
        assert_eq!(answer.body, vec![b'b'; length]);
        assert_eq!(answer.header("x-long"), Some(&[b'v'; 20_000][..]));
    }
}

async fn sent_responses_return_their_buffers(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", "return new Response(await request.text())");
    for length in [1, BLOCK_CAPACITY, BLOCK_CAPACITY + 1] {
        node.client().post(&echo, Bytes::from(vec![b'b'; length])).await.unwrap();
    }
    node.await_metric("tenon_buffer_pool_blocks_in_use", &[], 0).await;
    assert_eq!(node.metric("tenon_buffer_pool_fallbacks_total", &[("reason", "too_large")]), 1);
    assert_eq!(node.metric("tenon_buffer_pool_fallbacks_total", &[("reason", "none_free")]), 0);
}

async fn a_body_is_streamed_while_it_is_sent(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", "return new Response(await request.text())");
    let upload = node.client().upload(&echo);
    upload.body_tx.send(Bytes::from_static(b"one ")).unwrap();
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    upload.body_tx.send(Bytes::from_static(b"two")).unwrap();
    assert_eq!(upload.end().await.unwrap().text(), "one two");
}

async fn each_shard_has_its_own_isolates_and_code_is_fetched_once(name: &'static str) {
    let node = TestNode::with(name, |config| config.listen.shards = 2).await;
    let counter = node.worker(
        "counter",
        "let n = 0; export default { fetch: () => new Response(String(++n)) }",
        |_| {},
    );
    for client in node.clients() {
        for n in ["1", "2"] {
            assert_eq!(client.get(&counter).await.unwrap().text(), n);
        }
    }
    assert_eq!(node.catalog.fetches(), 1);
    for shard in ["0", "1"] {
        assert_eq!(node.metric("tenon_invocations_total", &[("shard", shard), ("code", "ok")]), 2);
    }
}

async fn an_exception_has_its_own_code_and_is_logged(name: &'static str) {
    let node = TestNode::start(name).await;
    let broken = node.handler("broken", "throw new Error('of the tenant')");
    let failure = node.client().get(&broken).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WorkerException, Phase::Handler));
    assert!(!failure.message.contains("of the tenant"), "{failure}");
    for part in [
        "of the tenant",
        "code=\"worker_exception\"",
        "request_id=\"a-request\"",
        &broken.digest.short(),
    ] {
        assert!(node.logged(part), "{part} is not in the log");
    }
    assert_eq!(node.metric("tenon_invocations_total", &[("code", "worker_exception")]), 1);
}

async fn a_revision_of_another_worker_is_refused(name: &'static str) {
    let node = TestNode::start(name).await;
    let secret = node.handler("secret", "return new Response('secret')");
    let mut confused = head(&secret);
    confused.worker = "shop/cart".to_owned();
    let failure = node.client().call(confused, futures::stream::empty()).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::BadRequest, Phase::Admission));
}

async fn a_worker_continues_to_serve_after_its_clients_disconnect(name: &'static str) {
    let node = TestNode::start(name).await;
    let echo = node.handler("echo", "return new Response(await request.text())");
    for _ in 0..50 {
        let upload = node.client().upload(&echo);
        tokio::task::yield_now().await;
        upload.cancel();
    }
    assert_eq!(
        node.client().post(&echo, Bytes::from_static(b"well")).await.unwrap().text(),
        "well"
    );
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_client_that_disconnects_cancels_the_invocation(name: &'static str) {
    let node = TestNode::start(name).await;
    let waits =
        node.handler_with("waits", "await request.text(); return new Response()", |limits| {
            limits.concurrency = 1;
        });
    // The first client resets its stream; the second loses its connection.
    let upload = node.client().upload(&waits);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    upload.cancel();
    node.await_metric("tenon_invocations_total", &[("code", "cancelled")], 1).await;

    let elsewhere = Connection::open(node.client(), waits.clone());
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    elsewhere.cut();
    node.await_metric("tenon_invocations_total", &[("code", "cancelled")], 2).await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    assert_eq!(node.client().post(&waits, Bytes::new()).await.unwrap().status, 200);
}

/// An upload on a connection of its own, in a runtime that can be dropped together with it.
struct Connection(tokio::runtime::Runtime);

impl Connection {
    fn open(client: &Client, worker: crate::harness::Deployed) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = client.address();
        runtime.spawn(async move {
            let mut upload = Client::of(address).upload(&worker);
            drop(tokio::time::timeout(Duration::from_secs(60), upload.response()).await);
        });
        Self(runtime)
    }

    fn cut(self) {
        self.0.shutdown_background();
    }
}
