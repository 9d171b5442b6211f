//! Tests of Workers that exceed their memory limit: only their isolates end, and all of their
//! memory is counted and released.

use std::rc::Rc;

use tenon_engine::V8_IS_PATCHED;
use tenon_proto::failure::FailureCode;

use crate::harness::{Shard, Text as _, await_condition, trials};

trials! {
    a_full_heap_ends_only_its_isolate,
    a_heap_over_its_limit_is_released_when_its_turn_ends,
    array_buffers_are_counted,
    array_buffers_that_are_garbage_make_room_for_others,
    a_spare_gets_the_limits_of_its_worker,
    unread_responses_are_counted_with_their_headers,
    an_idle_isolate_is_collected_within_a_budget,
    a_string_beyond_the_maximum_length_is_a_range_error,
}

async fn a_full_heap_ends_only_its_isolate(shard: Rc<Shard>) {
    let bombs = [
        "const all = []; for (;;) all.push({});",
        "const all = []; for (;;) { try { all.push(new Array(1000).fill(1)) } catch {} }",
        "const all = new Map(); for (let i = 0;; i++) all.set(i, {});",
        "let s = 'x'; for (;;) s += s + 'y'.repeat(1000);",
        "const all = []; for (let i = 0;; i++) all.push('x'.repeat(1e5) + i, all.at(-1)?.charCodeAt(0));",
        "let s = 'x'; for (let i = 0; i < 28; i++) s += s; const all = []; for (;;) { all.push(s + 'y'); all.at(-1).charCodeAt(1); }",
        "const all = []; for (;;) all.push(new Promise(() => {}));",
        "const grow = () => { const x = new Array(1e4).fill(0); return Promise.resolve(x).then(grow).then(() => x) }; await grow();",
        "const all = []; for (;;) all.push(Symbol('x'.repeat(100)), () => all);",
        "const all = []; for (let i = 0;; i++) { all.push(i); globalThis[`x${i}`] = 'y' + i; }",
        "const all = {}; for (let i = 0;; i++) all[`x${i}`] = i;",
        "const all = []; all.length = 2**25; all.fill(1.5); for (;;) all.push(...all.slice(0, 1e5));",
        "let a = [1]; for (;;) a = a.concat(a);",
        "const all = []; for (;;) all.push(10n ** 10000n);",
        "const all = []; for (;;) all.push(JSON.parse('[' + '{\"a\":[1,2,3]},'.repeat(1000) + '1]'));",
        "const all = []; for (let i = 0;; i++) all.push(new RegExp('a' + i), new Function('return ' + i));",
    ];
    for code in bombs {
        let neighbor = shard.handler("return new Response('well')").start().await.unwrap();
        let worker = shard.handler(code).limits(|limits| {
            limits.memory_mib = 24;
            limits.cpu_ms = 60_000;
        });
        let worker = worker.start().await.unwrap();
        let failure = worker.get("/").await.expect_err(code);
        assert!(
            // V8 has limits of its own for some kinds of objects, and throws.
            [FailureCode::MemoryLimitExceeded, FailureCode::WorkerException]
                .contains(&failure.code),
            "{code}: {failure}"
        );
        if failure.code == FailureCode::MemoryLimitExceeded {
            assert_eq!(worker.0.condemned(), Some(FailureCode::MemoryLimitExceeded), "{code}");
            assert_eq!(
                worker.get("/").await.unwrap_err().code,
                FailureCode::MemoryLimitExceeded,
                "{code}"
            );
        }
        assert_eq!(worker.0.in_flight(), 0, "{code}");
        assert_eq!(neighbor.get("/").await.unwrap().text(), "well");
    }
}

async fn a_heap_over_its_limit_is_released_when_its_turn_ends(shard: Rc<Shard>) {
    // V8 permits one long string regardless of the limit, and counts it at the next collection.
    let worker = shard.handler(
        "if (request.url.endsWith('/waits')) await new Promise((resolve) => setTimeout(resolve, 1e6));
         globalThis.kept = '€'.repeat(2 ** 26 - 24);
         return new Response(String(kept.charCodeAt(0)))",
    );
    let worker = worker.limits(|limits| {
        (limits.cpu_ms, limits.memory_mib) = (60_000, 32);
    });
    let worker = worker.start().await.unwrap();
    let other = async {
        await_condition("a request in flight", || worker.0.in_flight() > 0).await;
        let answer = worker.get("/").await;
        (answer, worker.0.condemned(), worker.0.memory_bytes())
    };
    let (waits, (answer, condemned, bytes)) = tokio::join!(worker.get("/waits"), other);
    assert_eq!(answer.unwrap().text(), "8364");
    assert_eq!(condemned, Some(FailureCode::MemoryLimitExceeded));
    assert!(bytes < 1 << 20, "the condemned isolate still holds {bytes} bytes");
    assert_eq!(waits.unwrap_err().code, FailureCode::MemoryLimitExceeded);
}

async fn array_buffers_are_counted(shard: Rc<Shard>) {
    let bombs = [
        "const all = []; for (;;) all.push(new Uint8Array(1 << 20))",
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 10))",
        "new ArrayBuffer(1 << 30)",
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 20, { maxByteLength: 1 << 30 }))",
        "const all = []; for (;;) all.push(new (new Uint8Array(1).buffer.constructor)(1 << 20, { maxByteLength: 1 << 30 }))",
        "let b = new ArrayBuffer(1 << 10); for (;;) b = b.transfer(b.byteLength * 2)",
        "let b = new ArrayBuffer(1 << 20); const all = []; for (;;) { b = b.slice(0); all.push(b) }",
        "const all = []; for (;;) all.push(new TextEncoder().encode('x'.repeat(1 << 20)))",
        "const all = []; for (;;) all.push(new Response('x'.repeat(1 << 16)), await new Response('y'.repeat(1 << 20)).arrayBuffer())",
    ];
    for code in bombs {
        let worker = shard.handler(code).limits(|limits| {
            limits.memory_mib = 24;
            limits.cpu_ms = 60_000;
        });
        let worker = worker.start().await.unwrap();
        let failure = worker.get("/").await.expect_err(code);
        assert_eq!(failure.code, FailureCode::MemoryLimitExceeded, "{code}");
        assert_eq!(worker.0.condemned(), Some(FailureCode::MemoryLimitExceeded), "{code}");
    }
    shard.expect_a_neighbor_to_answer().await;
}

async fn array_buffers_that_are_garbage_make_room_for_others(shard: Rc<Shard>) {
    let worker = shard.handler(
        "for (let i = 0; i < 200; i++) new Uint8Array(1 << 20).fill(i);
         return new Response('done')",
    );
    let worker = worker.limits(|limits| {
        limits.memory_mib = 24;
        limits.cpu_ms = 60_000;
    });
    let worker = worker.start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(worker.get("/").await.unwrap().text(), "done");
    }
    assert_eq!(worker.0.condemned(), None);
    assert!(worker.0.memory_bytes() < 64 << 20);
}

async fn a_spare_gets_the_limits_of_its_worker(shard: Rc<Shard>) {
    let codes = ["new Array(1 << 17).fill(0.5)", "new Uint8Array(1 << 20)"];
    for (code, memory_mib) in codes.into_iter().flat_map(|code| [16, 48].map(|mib| (code, mib))) {
        let mut kept = Vec::new();
        for has_spare in [false, true] {
            if has_spare {
                shard.engine.make_spare();
            }
            let worker = shard
                .handler(&format!("(globalThis.kept ??= []).push({code}); return new Response()"))
                .limits(|limits| limits.memory_mib = memory_mib);
            let worker = worker.start().await.unwrap();
            assert_eq!(shard.engine.spares(), 0);
            let mut requests = 0_usize;
            let failure = loop {
                match worker.get("/").await {
                    Ok(_) => requests += 1,
                    Err(failure) => break failure,
                }
            };
            assert_eq!(failure.code, FailureCode::MemoryLimitExceeded, "{code}");
            kept.push(requests);
        }
        let [without_spare, with_spare] = kept[..] else { unreachable!("two are measured") };
        let least = memory_mib as usize / 2;
        assert!(
            (least..=memory_mib as usize + 4).contains(&with_spare),
            "{code}: {with_spare} MiB"
        );
        assert!(
            with_spare.abs_diff(without_spare) <= 2,
            "{code}: {with_spare} MiB instead of {without_spare}"
        );
    }
}

async fn unread_responses_are_counted_with_their_headers(shard: Rc<Shard>) {
    for body in ["null", "'text'", "new Uint8Array(9)"] {
        let code =
            format!("return new Response({body}, {{ headers: {{ x: 'x'.repeat(127 * 1024) }} }})");
        let worker =
            shard.handler(&code).limits(|limits| limits.memory_mib = 24).start().await.unwrap();
        let mut held = Vec::new();
        let failure = loop {
            match worker.get("/").await {
                Ok(response) => held.push(response),
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure.code, FailureCode::MemoryLimitExceeded, "{body}");
        // About 193 headers of 127 KiB fill 24 MiB.
        assert!((185..200).contains(&held.len()), "{body}: {}", held.len());
        held.clear();
        worker.get("/").await.unwrap();
    }
}

async fn an_idle_isolate_is_collected_within_a_budget(shard: Rc<Shard>) {
    let worker = shard.handler(
        "if (request.url.endsWith('/waits')) await new Promise((resolve) => setTimeout(resolve, 500));
         globalThis.kept = new Array(1e5).fill(0).map((_, i) => ({ i }));
         globalThis.kept = null;
         return new Response()",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 20_000).start().await.unwrap();
    worker.get("/").await.unwrap();
    assert!(worker.0.collect().is_some_and(|freed| freed > 1 << 20));
    // Enough time must have passed since the last collection before an isolate is collected again.
    let more = std::iter::from_fn(|| worker.0.collect()).take(10_000).count();
    assert!(more < 1_000, "{more}");
    let waits = async {
        await_condition("a request in flight", || worker.0.in_flight() > 0).await;
        worker.0.collect()
    };
    let (answer, collected) = tokio::join!(worker.get("/waits"), waits);
    answer.unwrap();
    assert_eq!(collected, None);
    let large = shard.handler(
        "globalThis.kept = new Array(1e6).fill(0).map((_, i) => ({ i })); return new Response()",
    );
    let large = large.limits(|limits| limits.cpu_ms = 20_000).start().await.unwrap();
    large.get("/").await.unwrap();
    assert_eq!(large.0.collect(), None);
}

async fn a_string_beyond_the_maximum_length_is_a_range_error(shard: Rc<Shard>) {
    // A patch reduces the maximum length of a string to an eighth of V8's own limit, because a
    // string of V8's maximum length would not fit into a container.
    let longest = if V8_IS_PATCHED { (1 << 26) - 24 } else { (1 << 29) - 24 };
    let worker = shard.handler(&format!(
        "const length = (count) => {{ try {{ return 'a'.repeat(count).length }} catch (error) {{ return error.name }} }};
         return new Response(`${{length({longest})}} ${{length({longest} + 1)}}`)"
    ));
    let answer = worker.limits(|limits| limits.memory_mib = 1024).get().await.unwrap();
    assert_eq!(answer.text(), format!("{longest} RangeError"));
}
