//! Tests of responses and requests that are streamed.

use bytes::Bytes;
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::client::piece;
use crate::harness::{TestNode, trials};

trials! {
    a_response_is_streamed_as_it_is_written,
    a_response_that_is_interrupted_ends_with_a_failure,
    a_client_that_disconnects_cancels_its_response,
    a_slow_client_applies_backpressure_to_the_worker,
    a_response_holds_its_permits_until_it_ends,
    a_request_body_flows_through_a_transform_unchanged,
    a_request_body_that_fails_interrupts_the_response_made_from_it,
}

/// A Worker that streams the bodies of later POST requests as its response. The timer is pending
/// work: without it, the node would end the stream, because nothing could continue it.
const PROMPTED: &str = "
    let write;
    export default { async fetch(request) {
      if (request.method === 'POST') { write(await request.text()); return new Response() }
      return new Response(new ReadableStream({
        start(controller) {
          write = (text) => text === '' ? controller.close() : controller.enqueue(new TextEncoder().encode(text));
          setTimeout(() => {}, 20_000);
        },
      }));
    } }";

async fn a_response_is_streamed_as_it_is_written(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.worker("prompted", PROMPTED, |_| {});
    let mut answer = node.client().open(&worker).await;
    for text in ["one", "two"] {
        node.client().post(&worker, text.into()).await.unwrap();
        assert_eq!(piece(&mut answer).await.unwrap().unwrap(), text);
    }
    node.client().post(&worker, "".into()).await.unwrap();
    assert_eq!(piece(&mut answer).await.unwrap(), None);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_response_that_is_interrupted_ends_with_a_failure(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler(
        "breaks",
        "let pieces = 0;
         return new Response(new ReadableStream({ pull(controller) {
           if (pieces++ === 2) throw new Error('no more');
           controller.enqueue(new Uint8Array(3)) } }))",
    );
    let mut answer = node.client().open(&worker).await;
    let mut read = 0;
    let failure = loop {
        match piece(&mut answer).await {
            Ok(piece) => read += piece.expect("the response ended without a failure").len(),
            Err(failure) => break failure,
        }
    };
    assert_eq!(
        (read, failure.code, failure.phase),
        (6, FailureCode::WorkerException, Phase::Response)
    );
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_client_that_disconnects_cancels_its_response(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler(
        "endless",
        "let ticks;
         return new Response(new ReadableStream({
           start(controller) { ticks = setInterval(() => controller.enqueue(new Uint8Array(1)), 5) },
           cancel() { clearInterval(ticks); console.log('the reader has left') } }))",
    );
    let mut answer = node.client().open(&worker).await;
    assert!(piece(&mut answer).await.unwrap().is_some());
    drop(answer);
    crate::harness::await_condition("the cancellation of the stream", || {
        node.logged("the reader has left")
    })
    .await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_slow_client_applies_backpressure_to_the_worker(name: &'static str) {
    let node = TestNode::start(name).await;
    let source = "
        let written = 0;
        export default { fetch(request) {
          if (request.method === 'POST') return new Response(String(written));
          return new Response(new ReadableStream({
            pull(controller) { written += 65536; controller.enqueue(new Uint8Array(65536)) } }));
        } }";
    let worker = node.worker("eager", source, |limits| limits.cpu_ms = 10_000);
    let mut answer = node.client().open(&worker).await;
    let mut read = 0;
    while read < 64 << 20 {
        read += piece(&mut answer).await.unwrap().unwrap().len();
    }
    let mut written = 0;
    // Writing stops when every buffer on the way to the client is full.
    loop {
        let now = node.client().post(&worker, "".into()).await.unwrap().text().parse().unwrap();
        if now == written {
            break;
        }
        written = now;
    }
    assert!(written - read < 4 << 20, "{written} written, {read} read");
}

async fn a_response_holds_its_permits_until_it_ends(name: &'static str) {
    let node = TestNode::without_queues(name).await;
    let worker = node.handler_with(
        "one",
        "return new Response(new ReadableStream({ start() { setTimeout(() => {}, 20_000) } }))",
        |limits| limits.concurrency = 1,
    );
    let answer = node.client().open(&worker).await;
    assert_eq!(node.client().get(&worker).await.unwrap_err().code, FailureCode::Overloaded);
    drop(answer);
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    node.client().open(&worker).await;
}

async fn a_request_body_flows_through_a_transform_unchanged(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler_with(
        "transforms",
        "return new Response(request.body.pipeThrough(new TransformStream()))",
        |limits| limits.cpu_ms = 10_000,
    );
    for length in [1, 100_000, 1_000_000, 5_000_003] {
        let body: Bytes = (0..=250).cycle().take(length).collect::<Vec<u8>>().into();
        let answer = node.client().post(&worker, body.clone()).await.unwrap();
        assert!(answer.body == body, "of {length} bytes, {} came back", answer.body.len());
    }
}

async fn a_request_body_that_fails_interrupts_the_response_made_from_it(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.handler_with(
        "transforms",
        "return new Response(request.body.pipeThrough(new TransformStream()))",
        |limits| limits.request_body_mib = 1,
    );
    let failure = node.client().post(&worker, vec![b'x'; 2 << 20].into()).await.unwrap_err();
    assert_eq!(failure.phase, Phase::Response);
}
