//! Responses that take a while.

use bytes::Bytes;
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::client::piece;
use crate::harness::{Stand, trials};

trials! {
    a_response_is_streamed_as_it_is_written,
    a_response_that_breaks_off_ends_with_a_failure,
    a_client_that_disconnects_cancels_its_response,
    a_slow_client_applies_backpressure_to_the_worker,
    a_response_holds_its_permits_until_it_ends,
    a_request_body_flows_through_a_transform_unchanged,
    a_request_body_that_fails_breaks_off_the_response_made_of_it,
}

/// Writes the bodies of later POST requests. The timer is pending work: without it, the stream
/// could never continue.
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
    let stand = Stand::start(name).await;
    let worker = stand.worker("prompted", PROMPTED, |_| {});
    let mut answer = stand.client().open(&worker).await;
    for text in ["one", "two"] {
        stand.client().post(&worker, text.into()).await.unwrap();
        assert_eq!(piece(&mut answer).await.unwrap().unwrap(), text);
    }
    stand.client().post(&worker, "".into()).await.unwrap();
    assert_eq!(piece(&mut answer).await.unwrap(), None);
    stand.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_response_that_breaks_off_ends_with_a_failure(name: &'static str) {
    let stand = Stand::start(name).await;
    let worker = stand.handler(
        "breaks",
        "let pieces = 0;
         return new Response(new ReadableStream({ pull(controller) {
           if (pieces++ === 2) throw new Error('no more');
           controller.enqueue(new Uint8Array(3)) } }))",
    );
    let mut answer = stand.client().open(&worker).await;
    let mut read = 0;
    let failure = loop {
        match piece(&mut answer).await {
            Ok(piece) => read += piece.expect("it does not just end").len(),
            Err(failure) => break failure,
        }
    };
    assert_eq!(
        (read, failure.code, failure.phase),
        (6, FailureCode::WorkerException, Phase::Response)
    );
    stand.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_client_that_disconnects_cancels_its_response(name: &'static str) {
    let stand = Stand::start(name).await;
    let worker = stand.handler(
        "endless",
        "let ticks;
         return new Response(new ReadableStream({
           start(controller) { ticks = setInterval(() => controller.enqueue(new Uint8Array(1)), 5) },
           cancel() { clearInterval(ticks); console.log('the reader has left') } }))",
    );
    let mut answer = stand.client().open(&worker).await;
    assert!(piece(&mut answer).await.unwrap().is_some());
    drop(answer);
    crate::harness::await_condition("the Worker hears of it", || {
        stand.logged("the reader has left")
    })
    .await;
    stand.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_slow_client_applies_backpressure_to_the_worker(name: &'static str) {
    let stand = Stand::start(name).await;
    let source = "
        let written = 0;
        export default { fetch(request) {
          if (request.method === 'POST') return new Response(String(written));
          return new Response(new ReadableStream({
            pull(controller) { written += 65536; controller.enqueue(new Uint8Array(65536)) } }));
        } }";
    let worker = stand.worker("eager", source, |limits| limits.cpu_ms = 10_000);
    let mut answer = stand.client().open(&worker).await;
    let mut read = 0;
    while read < 64 << 20 {
        read += piece(&mut answer).await.unwrap().unwrap().len();
    }
    let mut written = 0;
    // Writing stops when every buffer along the way is full.
    loop {
        let now = stand.client().post(&worker, "".into()).await.unwrap().text().parse().unwrap();
        if now == written {
            break;
        }
        written = now;
    }
    assert!(written - read < 4 << 20, "{written} written, {read} read");
}

async fn a_response_holds_its_permits_until_it_ends(name: &'static str) {
    let stand = Stand::without_queues(name).await;
    let worker = stand.handler_with(
        "one",
        "return new Response(new ReadableStream({ start() { setTimeout(() => {}, 20_000) } }))",
        |limits| limits.concurrency = 1,
    );
    let answer = stand.client().open(&worker).await;
    assert_eq!(stand.client().get(&worker).await.unwrap_err().code, FailureCode::Overloaded);
    drop(answer);
    stand.await_metric("tenon_shard_inflight", &[], 0).await;
    stand.client().open(&worker).await;
}

async fn a_request_body_flows_through_a_transform_unchanged(name: &'static str) {
    let stand = Stand::start(name).await;
    let worker = stand.handler_with(
        "transforms",
        "return new Response(request.body.pipeThrough(new TransformStream()))",
        |limits| limits.cpu_ms = 10_000,
    );
    for length in [1, 100_000, 1_000_000, 5_000_003] {
        let body: Bytes = (0..=250).cycle().take(length).collect::<Vec<u8>>().into();
        let answer = stand.client().post(&worker, body.clone()).await.unwrap();
        assert!(answer.body == body, "of {length} bytes {} came back", answer.body.len());
    }
}

async fn a_request_body_that_fails_breaks_off_the_response_made_of_it(name: &'static str) {
    let stand = Stand::start(name).await;
    let worker = stand.handler_with(
        "transforms",
        "return new Response(request.body.pipeThrough(new TransformStream()))",
        |limits| limits.request_body_mib = 1,
    );
    let failure = stand.client().post(&worker, vec![b'x'; 2 << 20].into()).await.unwrap_err();
    assert_eq!(failure.phase, Phase::Response);
}
