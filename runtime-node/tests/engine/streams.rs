//! Tests of streaming bodies in both directions: the bodies flow as fast as they are read, in
//! constant memory, and end when either side ends.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::{Body, FetchResponse, ResponseBody, Sending};
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{Shard, Text as _, await_condition, trials};

trials! {
    a_response_is_sent_as_it_is_written,
    a_response_stream_is_pulled_only_as_it_is_read,
    a_request_is_read_piece_by_piece,
    a_request_passes_to_the_response_in_native_code,
    an_inspected_body_still_passes_in_native_code,
    a_request_flows_through_a_transform,
    a_response_that_fails_midway_is_interrupted,
    a_response_that_will_never_end_is_interrupted,
    a_stalled_response_is_interrupted,
    a_client_that_disconnects_cancels_the_response_stream,
    a_client_that_disconnects_aborts_the_request_signal,
    a_handler_without_an_abort_listener_ends_with_its_client,
    wait_until_work_continues_after_the_client_disconnects,
    a_thousand_streams_flow_concurrently,
}

fn sending(response: FetchResponse) -> Sending {
    match response.body {
        ResponseBody::Stream(sending) => sending,
        ResponseBody::Full(piece) => panic!("the body is not a stream: {piece:?}"),
    }
}

/// Returns a body of `count` pieces of 64 KiB. `taken` counts the pieces that have been read.
fn pieces(count: usize, taken: &Rc<Cell<usize>>) -> Body {
    let taken = Rc::clone(taken);
    Body::Stream(
        stream::iter((0..count).map(move |_| {
            taken.set(taken.get() + 1);
            Ok(Bytes::from(vec![b'x'; 64 * 1024]))
        }))
        .boxed_local(),
    )
}

async fn a_response_is_sent_as_it_is_written(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let say;
         const body = new ReadableStream({ start(controller) { say = (text) => controller.enqueue(new TextEncoder().encode(text));
           say('one '); setTimeout(() => { say('two '); setTimeout(() => { say('three'); controller.close() }, 20) }, 20) } });
         return new Response(body, { headers: { 'x-kind': 'stream' } })",
    );
    let response = worker.get().await.unwrap();
    assert!(response.headers.iter().any(|header| header.name == "x-kind"));
    let read: Vec<_> = sending(response).map(Result::unwrap).collect().await;
    assert_eq!(read, ["one ", "two ", "three"]);
}

async fn a_response_stream_is_pulled_only_as_it_is_read(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let pulls = 0;
         export default { fetch(request) {
           if (new URL(request.url).pathname === '/pulls') return new Response(String(pulls));
           return new Response(new ReadableStream({ pull(controller) { pulls++; controller.enqueue(new Uint8Array(16384)) } }));
         } }",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 1_000).start().await.unwrap();
    let mut body = sending(worker.get("/").await.unwrap());
    let mut pulls = 0;
    for read in 0..64 {
        assert!(body.next().await.is_some());
        pulls = worker.get("/pulls").await.unwrap().text().parse().unwrap();
        assert!(pulls <= read + 8, "{pulls} pieces after {read} were read");
    }
    assert!(pulls >= 60);
}

async fn a_request_is_read_piece_by_piece(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let bytes = 0, pieces = 0;
         for await (const piece of request.body) { bytes += piece.byteLength; pieces++ }
         return new Response(`${bytes} in more than one: ${pieces > 1}`)",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 1_000).start().await.unwrap();
    let taken = Rc::new(Cell::new(0));
    let answer = worker.post(pieces(100, &taken)).await.unwrap();
    assert_eq!(answer.text(), "6553600 in more than one: true");
}

async fn a_request_passes_to_the_response_in_native_code(shard: Rc<Shard>) {
    expect_to_pass_through(
        shard.handler("return new Response(request.body, { status: 201 })").start().await.unwrap(),
    )
    .await;
}

async fn an_inspected_body_still_passes_in_native_code(shard: Rc<Shard>) {
    let worker = shard.handler(
        "if (request.body.locked) throw 0; return new Response(new Request(request).body)",
    );
    expect_to_pass_through(worker.start().await.unwrap()).await;
}

/// Sends 64 MiB through a Worker, and checks that the Worker does not read ahead of its client and
/// that its memory does not grow.
async fn expect_to_pass_through(worker: crate::harness::Loaded) {
    let taken = Rc::new(Cell::new(0));
    let mut body = sending(worker.post(pieces(1024, &taken)).await.unwrap());
    let before = worker.0.memory_bytes();
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece.unwrap().len();
        assert!(
            taken.get() <= bytes / (64 * 1024) + 2,
            "the Worker has read too far ahead of its client"
        );
        assert!(worker.0.memory_bytes() < before + (1 << 20));
    }
    assert_eq!(bytes, 64 << 20);
}

async fn a_request_flows_through_a_transform(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const upper = new TransformStream({ transform(text, controller) { controller.enqueue(text.toUpperCase()) } });
         return new Response(request.body.pipeThrough(new TextDecoderStream()).pipeThrough(upper).pipeThrough(new TextEncoderStream()))",
    );
    let parts = ["one ", "two ", "th", "ree"].map(|part| Ok(Bytes::from_static(part.as_bytes())));
    let body = Body::Stream(stream::iter(parts).boxed_local());
    let response = worker.start().await.unwrap().post(body).await.unwrap();
    assert_eq!(response.body.collect().await.unwrap(), "ONE TWO THREE");
}

async fn a_response_that_fails_midway_is_interrupted(shard: Rc<Shard>) {
    let worker = shard.handler(
        "return new Response(new ReadableStream({ start(controller) { controller.enqueue(new Uint8Array(3)) },
           pull() { throw new Error('no more of it') } }))",
    );
    let failure = worker.get().await.unwrap().body.collect().await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WorkerException, Phase::Response));
    await_condition("the reason in the log", || shard.logged("no more of it")).await;
    let worker = shard.handler("return new Response(ReadableStream.from(['a string']))");
    assert!(worker.get().await.unwrap().body.collect().await.is_err());
    await_condition("the reason in the log", || shard.logged("Uint8Array")).await;
}

async fn a_response_that_will_never_end_is_interrupted(shard: Rc<Shard>) {
    let worker = shard.handler("return new Response(new ReadableStream())").start().await.unwrap();
    assert!(worker.get("/").await.unwrap().body.collect().await.is_err());
    worker.0.idle().await;
}

async fn a_stalled_response_is_interrupted(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let pieces = 0;
         return new Response(new ReadableStream({ async pull(controller) {
           await new Promise((resolve) => setTimeout(resolve, pieces++ < 60 ? 50 : 20_000)); controller.enqueue(new Uint8Array(1)) } }))",
    );
    let worker = worker
        .limits(|limits| (limits.wall_ms, limits.cpu_ms) = (2_000, 2_000))
        .start()
        .await
        .unwrap();
    let pieces: Vec<_> = sending(worker.get("/").await.unwrap()).collect().await;
    // The body flows for longer than the limit, and then stalls.
    assert_eq!(pieces.iter().filter(|piece| piece.is_ok()).count(), 60);
    assert!(pieces.last().unwrap().is_err());
    worker.0.idle().await;
    let never = Body::Stream(stream::pending().boxed_local());
    let echo =
        shard.handler("return new Response(request.body)").limits(|limits| limits.wall_ms = 200);
    let echo = echo.start().await.unwrap();
    assert!(echo.post(never).await.unwrap().body.collect().await.is_err());
    echo.0.idle().await;
}

async fn a_client_that_disconnects_cancels_the_response_stream(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let interval;
         const body = new ReadableStream({
           start(controller) { interval = setInterval(() => controller.enqueue(new Uint8Array(1)), 5) },
           cancel(reason) { clearInterval(interval); console.log('canceled:', reason.name) } });
         request.signal.addEventListener('abort', () => console.log('aborted'));
         return new Response(body)",
    );
    let worker = worker.start().await.unwrap();
    let mut body = sending(worker.get("/").await.unwrap());
    assert!(body.next().await.is_some());
    drop(body);
    await_condition("the cancellation of the stream", || shard.logged("canceled: AbortError"))
        .await;
    await_condition("the abort of the signal", || shard.logged("aborted")).await;
    worker.0.idle().await;
}

async fn a_client_that_disconnects_aborts_the_request_signal(shard: Rc<Shard>) {
    let worker = shard.handler(
        "request.signal.addEventListener('abort', () => console.log('left:', request.signal.reason.name));
         await new Promise((resolve) => setTimeout(resolve, 10_000)); return new Response()",
    );
    let worker = worker.start().await.unwrap();
    let response = tokio::time::timeout(Duration::from_millis(20), worker.get("/")).await;
    assert!(response.is_err());
    await_condition("the abort of the signal", || shard.logged("left: AbortError")).await;
    worker.0.idle().await;
}

async fn a_handler_without_an_abort_listener_ends_with_its_client(shard: Rc<Shard>) {
    let worker = shard.handler(
        "await new Promise((resolve) => setTimeout(resolve, 50)); console.log('done', request.url); return new Response()",
    );
    let worker = worker.start().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(10), worker.get("/leaves")).await.is_err());
    worker.0.idle().await;
    // The dropped request would have finished before this request.
    worker.get("/stays").await.unwrap();
    assert!(shard.logged("/stays") && !shard.logged("/leaves"));
}

async fn wait_until_work_continues_after_the_client_disconnects(shard: Rc<Shard>) {
    let worker = shard.handler(
        "request.signal.onabort = () => ctx.waitUntil(new Promise((resolve) => setTimeout(() => { console.log('tidied up'); resolve() }, 30)));
         await new Promise((resolve) => setTimeout(resolve, 10_000)); return new Response()",
    );
    let worker = worker.start().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), worker.get("/")).await.is_err());
    await_condition("the work of waitUntil", || shard.logged("tidied up")).await;
    worker.0.idle().await;
}

async fn a_thousand_streams_flow_concurrently(shard: Rc<Shard>) {
    let worker =
        shard.handler("return new Response(request.body.pipeThrough(new TransformStream()))");
    let worker = worker.limits(|limits| limits.cpu_ms = 10_000).start().await.unwrap();
    let taken = Rc::new(Cell::new(0));
    let all = (0..1_000).map(|_| {
        let parts = (0..4).map(|part| Ok(Bytes::from(vec![part; 1_000])));
        let body = Body::Stream(stream::iter(parts).boxed_local());
        let (worker, taken) = (worker.clone(), Rc::clone(&taken));
        async move {
            let body = worker.post(body).await.unwrap().body.collect().await.unwrap();
            taken.set(taken.get() + body.len());
        }
    });
    futures::future::join_all(all).await;
    assert_eq!(taken.get(), 4_000_000);
}
