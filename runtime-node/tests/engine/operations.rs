//! Tests of timers, bodies and `waitUntil`: the pending operations of an invocation, which end with
//! the invocation.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tenon_engine::{Body, StreamError};
use tenon_proto::failure::{Failure, FailureCode, Phase};

use crate::harness::{Shard, Text as _, await_condition, request, trials};

trials! {
    timers_fire_in_the_order_of_their_delays,
    the_delay_of_a_timer_begins_when_it_is_set,
    an_interval_repeats_until_it_is_cleared,
    a_timer_can_be_cleared,
    a_microtask_can_clear_a_timer_that_expired_together_with_its_own,
    the_number_of_timers_of_an_invocation_is_bounded,
    timers_are_counted_against_the_memory_limit,
    timers_end_with_their_invocation,
    wait_until_keeps_an_invocation_after_its_response,
    a_kept_invocation_outlives_the_eviction_of_its_isolate,
    wait_until_ends_at_the_wall_limit,
    wait_until_for_a_promise_that_cannot_settle_ends_immediately,
    a_dropped_request_is_canceled,
    a_request_that_takes_too_long_is_ended,
    a_body_is_read_as_it_arrives,
    a_body_over_the_limit_is_refused,
    bodies_are_counted_while_they_arrive,
    bodies_that_are_garbage_make_room_for_others,
    an_unread_body_is_not_collected,
    a_body_that_is_interrupted_fails_the_request_with_its_reason,
    a_body_and_its_clone_can_each_be_read_once,
    many_interleaved_invocations_do_not_mix_their_results,
}

async fn timers_fire_in_the_order_of_their_delays(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const fired = [];
         await new Promise((resolve) => {
           setTimeout((...args) => { fired.push(...args); resolve() }, 200, 'd', 'e');
           setTimeout(() => fired.push('c'), 100);
           setTimeout(() => fired.push('b'), 50);
           setTimeout(() => fired.push('a'));
           Promise.resolve().then(() => fired.push('0'));
         });
         return new Response(fired.join(''))",
    );
    assert_eq!(worker.get().await.unwrap().text(), "0abcde");
}

async fn the_delay_of_a_timer_begins_when_it_is_set(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const fired = [];
         await new Promise((resolve) => {
           setTimeout(() => fired.push('set before the work'), 5);
           for (let i = 0; i < 5e7; i++);
           setTimeout(() => { fired.push('set after it'); resolve() });
         });
         return new Response(fired.join())",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 20_000);
    assert_eq!(worker.get().await.unwrap().text(), "set before the work,set after it");
}

async fn an_interval_repeats_until_it_is_cleared(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let n = 0;
         await new Promise((resolve) => { const id = setInterval(() => { if (++n === 3) { clearInterval(id); resolve() } }, 0) });
         await new Promise((resolve) => setTimeout(resolve, 20));
         return new Response(String(n))",
    );
    assert_eq!(worker.get().await.unwrap().text(), "3");
}

async fn a_timer_can_be_cleared(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let fired = false;
         const id = setTimeout(() => { fired = true }, 1);
         clearTimeout(id); clearTimeout(id); clearTimeout(); clearTimeout(null); clearTimeout(NaN); clearTimeout(-1);
         clearTimeout({}); clearTimeout(1e300);
         await new Promise((resolve) => setTimeout(resolve, 10));
         return new Response(`${typeof id} ${fired}`)",
    );
    assert_eq!(worker.get().await.unwrap().text(), "number false");
}

async fn a_microtask_can_clear_a_timer_that_expired_together_with_its_own(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const fired = [];
         let second;
         setTimeout(async () => { fired.push(1); await null; clearTimeout(second); }, 1);
         second = setTimeout(() => fired.push(2), 1);
         const last = new Promise((resolve) => setTimeout(resolve, 2));
         for (let i = 0; i < 20_000_000; i++); // Runs until all timers have expired.
         await last;
         return new Response(String(fired))",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 10_000).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "1");
}

async fn the_number_of_timers_of_an_invocation_is_bounded(shard: Rc<Shard>) {
    let worker = shard.handler(
        "let n = 0; try { for (;;) { setTimeout(() => {}, 1e6); n++ } } catch (e) { return new Response(`${n} ${e.name}`) }",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 20_000).start().await.unwrap();
    for _ in 0..2 {
        assert_eq!(worker.get("/").await.unwrap().text(), "10000 RangeError");
    }
}

async fn timers_are_counted_against_the_memory_limit(shard: Rc<Shard>) {
    let worker = shard.handler(
        "try { for (let n = 0; n < 9_000; n++) setTimeout(() => {}, 1e6) } catch (error) { console.log(error.name) }
         ctx.waitUntil(new Promise((resolve) => setTimeout(resolve, 1e6)));
         return new Response('set')",
    );
    let worker = worker
        .limits(|limits| (limits.memory_mib, limits.cpu_ms, limits.wall_ms) = (24, 20_000, 5_000));
    let worker = worker.start().await.unwrap();
    // The timers of each request take 9 MiB.
    for _ in 0..2 {
        assert_eq!(worker.get("/").await.unwrap().text(), "set");
    }
    assert_eq!(worker.get("/").await.unwrap_err().code, FailureCode::MemoryLimitExceeded);
    assert!(shard.logged("RangeError"));
    assert!(worker.0.memory_bytes() > 24 << 20);
    worker.0.idle().await;
    await_condition("the release of the timers' memory", || worker.0.memory_bytes() < 24 << 20)
        .await;
}

async fn timers_end_with_their_invocation(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let fired = 0;
         export default { async fetch(request) {
           if (request.url.endsWith('/set')) { setTimeout(() => fired++, 5); return new Response() }
           await new Promise((resolve) => setTimeout(resolve, 30));
           return new Response(String(fired))
         } }",
    );
    let worker = worker.start().await.unwrap();
    worker.get("/set").await.unwrap();
    assert_eq!(worker.0.in_flight(), 0);
    assert_eq!(worker.get("/").await.unwrap().text(), "0");
}

const KEPT: &str = "ctx.waitUntil((async () => {
  await new Promise((resolve) => setTimeout(resolve, 30));
  console.log('kept');
})());
return new Response('early');";

async fn wait_until_keeps_an_invocation_after_its_response(shard: Rc<Shard>) {
    let worker = shard.handler(KEPT).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "early");
    assert_eq!(worker.0.in_flight(), 1);
    assert!(!shard.logged("kept"));
    worker.0.idle().await;
    assert_eq!(worker.0.in_flight(), 0);
    assert!(shard.logged("kept"));
}

async fn a_kept_invocation_outlives_the_eviction_of_its_isolate(shard: Rc<Shard>) {
    let worker = shard.handler(KEPT).start().await.unwrap();
    worker.get("/").await.unwrap();
    let isolate = Rc::downgrade(&worker.0);
    drop(worker);
    await_condition("the log line", || shard.logged("kept")).await;
    await_condition("the end of the isolate", || isolate.upgrade().is_none()).await;
}

async fn wait_until_ends_at_the_wall_limit(shard: Rc<Shard>) {
    let worker = shard.handler(
        "ctx.waitUntil(new Promise((resolve) => setTimeout(resolve, 1e6)));
         ctx.waitUntil(Promise.reject(new Error('one of them failed')));
         return new Response('early')",
    );
    let worker = worker.limits(|limits| limits.wall_ms = 50).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "early");
    worker.0.idle().await;
    assert!(
        shard.logged("ended while waiting after its response: wall_limit_exceeded"),
        "{:?}",
        shard.log()
    );
    assert!(shard.logged("one of them failed"));
}

async fn wait_until_for_a_promise_that_cannot_settle_ends_immediately(shard: Rc<Shard>) {
    let worker =
        shard.handler("ctx.waitUntil(new Promise(() => {})); return new Response('early')");
    let worker = worker.start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "early");
    assert_eq!(worker.0.in_flight(), 0);
}

async fn a_dropped_request_is_canceled(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let log = [];
         export default { async fetch(request) {
           if (request.url.endsWith('/log')) {
             await new Promise((resolve) => setTimeout(resolve, 40));
             return new Response(log.join());
           }
           log.push('begun');
           await new Promise((resolve) => setTimeout(resolve, 20));
           log.push('done');
           return new Response();
         } }",
    );
    let worker = worker.start().await.unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(5), worker.get("/")).await;
    assert!(gone.is_err());
    assert_eq!(worker.0.in_flight(), 0);
    drop(worker.0.fetch(request("/never-polled")));
    assert_eq!(worker.get("/log").await.unwrap().text(), "begun");
}

async fn a_request_that_takes_too_long_is_ended(shard: Rc<Shard>) {
    let worker = shard.handler("await new Promise((resolve) => setTimeout(resolve, 1e6))");
    let worker = worker.limits(|limits| limits.wall_ms = 30).start().await.unwrap();
    let failure = worker.get("/").await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WallLimitExceeded, Phase::Handler));
    assert_eq!(worker.0.in_flight(), 0);
    assert_eq!(worker.0.condemned(), None);
}

fn stream(parts: impl IntoIterator<Item = Result<Bytes, Failure>, IntoIter: 'static>) -> Body {
    Body::Stream(Box::pin(futures::stream::iter(parts).then(async |part| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        part.map_err(StreamError::Failed)
    })))
}

async fn a_body_is_read_as_it_arrives(shard: Rc<Shard>) {
    let worker = shard
        .handler("return new Response((await request.text()).toUpperCase())")
        .start()
        .await
        .unwrap();
    let parts = ["one ", "", "two ", "three"].map(|part| Ok(Bytes::from_static(part.as_bytes())));
    assert_eq!(worker.post(stream(parts)).await.unwrap().text(), "ONE TWO THREE");
    // A handler that does not read the body does not wait for the body.
    let worker = shard.handler("return new Response('uninterested')").start().await.unwrap();
    let never = Body::Stream(Box::pin(futures::stream::pending()));
    assert_eq!(worker.post(never).await.unwrap().text(), "uninterested");
}

async fn a_body_over_the_limit_is_refused(shard: Rc<Shard>) {
    let worker = shard.handler("try { await request.text() } catch {} return new Response('read')");
    let worker = worker.limits(|limits| limits.request_body_mib = 1).start().await.unwrap();
    let taken = Rc::new(Cell::new(0));
    let counter = Rc::clone(&taken);
    let endless = std::iter::repeat_with(move || {
        counter.set(counter.get() + 1);
        Ok(Bytes::from(vec![b'x'; 64 * 1024]))
    });
    assert_eq!(worker.post(stream(endless)).await.unwrap_err().code, FailureCode::RequestTooLarge);
    assert_eq!(taken.get(), 17);
    let full = Body::Full(vec![b'x'; (1 << 20) + 1].into());
    assert_eq!(worker.post(full).await.unwrap_err().code, FailureCode::RequestTooLarge);
}

/// Returns `count` MiB in parts of 64 KiB. `taken` counts the parts that have been read.
fn mebibytes(
    count: usize,
    taken: &Rc<Cell<usize>>,
) -> impl Iterator<Item = Result<Bytes, Failure>> + use<> {
    let taken = Rc::clone(taken);
    (0..count * 16).map(move |_| {
        taken.set(taken.get() + 1);
        Ok(Bytes::from(vec![b'x'; 64 * 1024]))
    })
}

async fn bodies_are_counted_while_they_arrive(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let read = 0;
         export default { async fetch(request) {
           if (request.method === 'GET') return new Response(String(read));
           const body = await request.arrayBuffer();
           read += body.byteLength;
           return new Response();
         } }",
    );
    let worker = worker.limits(|limits| limits.memory_mib = 24).start().await.unwrap();
    let taken = Rc::new(Cell::new(0));
    // The bodies never announce their end, so only the bytes that have arrived can be counted.
    let endless = || stream(mebibytes(10, &taken).chain(std::iter::repeat(Ok(Bytes::new()))));
    let mut uploads: FuturesUnordered<_> = (0..10).map(|_| worker.post(endless())).collect();
    for _ in 1..10 {
        assert_eq!(
            uploads.next().await.unwrap().unwrap_err().code,
            FailureCode::MemoryLimitExceeded
        );
    }
    // There is room for one upload, which continues.
    assert!(uploads.next().now_or_never().is_none());
    assert!(worker.0.memory_bytes() < 40 << 20);
}

async fn bodies_that_are_garbage_make_room_for_others(shard: Rc<Shard>) {
    let worker =
        shard.handler("return new Response(String((await request.arrayBuffer()).byteLength))");
    let worker = worker
        .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (24, 20_000))
        .start()
        .await
        .unwrap();
    for _ in 0..8 {
        let body = stream(mebibytes(12, &Rc::default()));
        assert_eq!(worker.post(body).await.unwrap().text(), (12 << 20).to_string());
    }
    assert_eq!(worker.0.condemned(), None);
}

async fn an_unread_body_is_not_collected(shard: Rc<Shard>) {
    let worker = shard.handler(
        "await new Promise((resolve) => setTimeout(resolve, 30)); return new Response('unread')",
    );
    let worker = worker.start().await.unwrap();
    let taken = Rc::new(Cell::new(0));
    assert_eq!(worker.post(stream(mebibytes(1, &taken))).await.unwrap().text(), "unread");
    assert_eq!(taken.get(), 0);
}

async fn a_body_that_is_interrupted_fails_the_request_with_its_reason(shard: Rc<Shard>) {
    let worker = shard.handler("return new Response(await request.text())").start().await.unwrap();
    let broken =
        Failure::new(FailureCode::BadRequest, Phase::Handler, "the request's body was interrupted");
    let parts = [Ok(Bytes::from_static(b"begun")), Err(broken.clone())];
    assert_eq!(worker.post(stream(parts)).await.unwrap_err(), broken);
}

async fn a_body_and_its_clone_can_each_be_read_once(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const copy = request.clone();
         const both = [await request.text(), await copy.text()].join();
         try { await request.text() } catch (error) { return new Response(`${both} ${error.name}`) }",
    );
    let worker = worker.start().await.unwrap();
    let parts = [Ok(Bytes::from_static(b"body"))];
    assert_eq!(worker.post(stream(parts)).await.unwrap().text(), "body,body TypeError");
}

async fn many_interleaved_invocations_do_not_mix_their_results(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const mine = new URL(request.url).pathname;
         for (let i = 0; i < 5; i++) {
           await new Promise((resolve) => setTimeout(resolve, (mine.length * 7 + i * 3) % 5));
           console.log(mine);
         }
         return new Response(mine)",
    );
    let worker = worker.start().await.unwrap();
    let paths: Vec<_> = (0..50).map(|n| format!("/{}", "x".repeat(n))).collect();
    let answers = futures::future::join_all(paths.iter().map(|path| worker.get(path))).await;
    for (path, answer) in paths.iter().zip(answers) {
        assert_eq!(answer.unwrap().text(), path);
    }
    let lines = shard.log();
    assert_eq!(lines.len(), 250);
    for line in lines {
        let (request, path) = line.trim_start_matches("INFO [request").split_once("] ").unwrap();
        assert_eq!(request, path);
    }
}
