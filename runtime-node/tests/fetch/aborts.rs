//! Tests of requests that are aborted.

use std::rc::Rc;

use futures::{StreamExt as _, stream};
use tokio::io::AsyncReadExt as _;

use crate::fetching;
use crate::harness::{Shard, await_condition};
use crate::origin::{self, Origin, streamed};
use crate::text;

fetching![
    a_fetch_with_an_already_aborted_signal_is_not_sent,
    an_abort_ends_the_wait_for_an_answer,
    an_abort_fails_every_read_of_the_body,
    an_abort_cancels_the_stream_of_the_request,
    a_timeout_is_an_abort,
    a_canceled_body_ends_the_exchange,
    a_long_lived_signal_retains_nothing_of_finished_fetches,
];

/// Starts an origin that reads and never answers.
async fn silent() -> Origin {
    Origin::serve_connections(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await
}

/// Starts an origin whose bodies begin and never end.
async fn slow() -> Origin {
    Origin::plain(|_| streamed(stream::iter(["begun".into()]).chain(stream::pending()))).await
}

async fn fetch_text(shard: &Shard, origin: &Origin, body: &str) -> String {
    let body = format!("const origin = '{}'; {body}", origin.url("/"));
    text(shard.handler(&body).get().await.unwrap()).await
}

async fn a_fetch_with_an_already_aborted_signal_is_not_sent(shard: Rc<Shard>) {
    let origin = silent().await;
    let body = "const reason = { mine: true };
        let left;
        const body = new ReadableStream({ cancel(why) { left = why } });
        const caught = await fetch(origin, { signal: AbortSignal.abort(reason), method: 'POST', body, duplex: 'half' }).catch((e) => e);
        const plain = await fetch(origin, { signal: AbortSignal.abort() }).catch((e) => e.name);
        return Response.json([caught === reason, left === reason, plain])";
    assert_eq!(fetch_text(&shard, &origin, body).await, r#"[true,true,"AbortError"]"#);
    assert_eq!(origin.connections.get(), 0);
}

async fn an_abort_ends_the_wait_for_an_answer(shard: Rc<Shard>) {
    let origin = silent().await;
    let body = "const controller = new AbortController();
        setTimeout(() => controller.abort('enough'), 300);
        const reason = await fetch(origin, { signal: controller.signal }).catch((e) => e);
        return new Response(reason)";
    assert_eq!(fetch_text(&shard, &origin, body).await, "enough");
    await_condition("the end of the connection", || {
        (origin.connections.get(), origin.open.get()) == (1, 0)
    })
    .await;
}

async fn an_abort_fails_every_read_of_the_body(shard: Rc<Shard>) {
    let origin = slow().await;
    let body = "const ends = [];
        for (const read of [
          (r) => r.text(),
          (r) => r.clone().text(),
          async (r) => { const reader = r.body.getReader(); await reader.read(); await reader.read() },
          async (r, abort) => { const reader = r.body.getReader(); await reader.read(); abort(); await reader.read() },
          async (r, abort) => { abort(); await r.text() },
          async (r, abort) => { abort(); await r.body.getReader().read() },
        ]) {
          const controller = new AbortController();
          const response = await fetch(origin, { signal: controller.signal });
          setTimeout(() => controller.abort('enough'), 1_000);
          ends.push(await read(response, () => controller.abort('at once')).catch((e) => e));
        }
        return Response.json(ends)";
    let expected = r#"["enough","enough","enough","at once","at once","at once"]"#;
    assert_eq!(fetch_text(&shard, &origin, body).await, expected);
    await_condition("the end of the connections", || origin.open.get() == 0).await;
}

async fn an_abort_cancels_the_stream_of_the_request(shard: Rc<Shard>) {
    let origin = silent().await;
    let body = "let left;
        const body = new ReadableStream({
          start(c) { c.enqueue(new TextEncoder().encode('begun')) },
          cancel(why) { left = why },
        });
        const signal = AbortSignal.timeout(30);
        const caught = await fetch(origin, { method: 'POST', body, duplex: 'half', signal }).catch((e) => e);
        return Response.json([caught.name, caught === left])";
    assert_eq!(fetch_text(&shard, &origin, body).await, r#"["TimeoutError",true]"#);
    await_condition("the end of the connection", || origin.open.get() == 0).await;
}

async fn a_timeout_is_an_abort(shard: Rc<Shard>) {
    let origin = silent().await;
    let body = "return new Response(await fetch(origin, { signal: AbortSignal.timeout(20) }).catch((e) => e.name))";
    assert_eq!(fetch_text(&shard, &origin, body).await, "TimeoutError");
}

async fn a_canceled_body_ends_the_exchange(shard: Rc<Shard>) {
    let origin = slow().await;
    let body = "const response = await fetch(origin);
        await response.body.cancel();
        const other = await fetch(origin);
        const reader = other.body.getReader();
        await reader.read();
        await reader.cancel();
        await scheduler.wait(1_000);
        return new Response('canceled')";
    let answered = fetch_text(&shard, &origin, body);
    let mut answered = std::pin::pin!(answered);
    let (mut seen, mut ended) = (0, false);
    // The connection must end while the invocation still runs.
    while !ended {
        tokio::select! {
            text = &mut answered => {
                assert_eq!((text.as_str(), seen), ("canceled", 2));
                ended = true;
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {
                if origin.open.get() == 0 {
                    seen = seen.max(origin.connections.get());
                }
            }
        }
    }
}

async fn a_long_lived_signal_retains_nothing_of_finished_fetches(shard: Rc<Shard>) {
    let origin = Origin::plain(|_| origin::text("answer")).await;
    let body = "const { signal } = new AbortController();
        const streams = [];
        const post = async (use) => {
          const body = new ReadableStream({ start(c) { c.enqueue(new Uint8Array(1)); c.close() } });
          streams.push(new WeakRef(body));
          await use(await fetch(origin, { method: 'POST', body, duplex: 'half', signal }));
        };
        const uses = [(r) => r.text(), (r) => r.body.cancel(), (r) => new Response(r.body).text()];
        for (let i = 0; i < 60; i++) await post(uses[i % 3]);
        let left;
        for (let i = 0; i < 40 && left !== 0; i++) {
          // Some of the garbage survives for long enough that the whole heap is collected from time
          // to time.
          const garbage = [];
          for (let j = 0; j < 50; j++) {
            garbage[j] = Array.from({ length: 4000 }, () => [{}]);
            // When the list of dependent signals grows, collected signals are removed from it.
            AbortSignal.any([signal]);
            await scheduler.wait(0);
          }
          // `deref` keeps its target alive only until the end of the job, so it does not fake
          // a leak in the next round.
          left = streams.filter((stream) => stream.deref() !== undefined).length;
        }
        return Response.json(left)";
    let body = format!("const origin = '{}'; {body}", origin.url("/"));
    let worker =
        shard.handler(&body).limits(|limits| (limits.subrequests, limits.cpu_ms) = (100, 10_000));
    assert_eq!(text(worker.get().await.unwrap()).await, "0");
}
