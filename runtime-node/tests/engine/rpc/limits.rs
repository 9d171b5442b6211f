//! Tests of the limits of calls, and of peers that send malformed messages.

use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::{Body, FetchRequest};
use tenon_proto::runtime::{Entry, Rpc};

use super::{IMPORTS, OUTCOME, Pair, Workers, answer};
use crate::harness::{Shard, Text as _, request, trials};

trials! {
    the_limits_of_the_callee_stop_the_callee,
    the_limits_of_a_message_are_named,
    references_of_a_session_are_bounded,
    a_call_counts_as_one_subrequest,
    malformed_messages_end_only_their_session,
    tampered_built_ins_do_not_change_a_call,
}

async fn the_limits_of_the_callee_stop_the_callee(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        spin() { for (;;); }
        async later(callback) { await callback(); for (;;); }
    }";
    let caller = [
        OUTCOME,
        "const path = new URL(request.url).pathname;
         return new Response(await outcome(() => path === '/later' ? env.OTHER.later(() => 1) : env.OTHER.spin()));",
    ];
    for (path, expected) in [
        ("/", "Error: cpu_limit_exceeded: "),
        ("/later", "Error: The session with the Worker has ended: "),
    ] {
        let pair = Pair::start(&shard, callee, &caller.concat()).await;
        let answer = pair.caller.get(path).await.unwrap();
        assert!(answer.text().starts_with(expected), "{}", answer.text());
        // The caller pays only for its own turns, and continues.
        assert!(pair.callee.0.condemned().is_some());
        assert!(pair.caller.0.condemned().is_none());
    }
}

async fn the_limits_of_a_message_are_named(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        echo(value) { return typeof value; }
        deep() { let value = null; for (let i = 0; i < 600; i++) value = [value]; return value; }
    }";
    let caller = [
        OUTCOME,
        "let deep = null;
         for (let i = 0; i < 600; i++) deep = { deep };
         return new Response([
            await outcome(() => env.OTHER.echo(deep)), await outcome(() => env.OTHER.deep()),
            await outcome(() => env.OTHER.echo(new Uint8Array(33 * 1024 * 1024))), await outcome(() => env.OTHER.echo('ok')),
         ].join('\\n'));",
    ];
    let text = answer(&shard, callee, &caller.concat()).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[..2].iter().all(|line| line.contains("more than 500 levels deep")), "{text}");
    assert!(lines[2].contains("larger than 33554432 bytes; send a stream instead"), "{text}");
    assert_eq!(lines[3], "string");
}

async fn references_of_a_session_are_bounded(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        take(functions) { return functions.length; }
        many() { return Array.from({ length: 2000 }, () => () => 1); }
    }";
    let caller = [
        OUTCOME,
        "const functions = Array.from({ length: 2000 }, () => () => 1);
         return new Response([
            await outcome(() => env.OTHER.take(functions)), await outcome(() => env.OTHER.many()),
            await outcome(() => env.OTHER.take(functions.slice(0, 900))),
         ].join('\\n'));",
    ];
    let text = answer(&shard, callee, &caller.concat()).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[..2].iter().all(|line| line.contains("more than 1000 references")), "{text}");
    assert_eq!(lines[2], "900");
}

async fn a_call_counts_as_one_subrequest(shard: Rc<Shard>) {
    let workers = Rc::<Workers>::default();
    let on = shard.with_services(workers.clone());
    let callee = format!(
        "{IMPORTS} export default class extends WorkerEntrypoint {{ make() {{ return () => 1; }} }}"
    );
    let callee = on.worker(&callee).start().await.unwrap();
    workers.by_name.borrow_mut().insert("other".to_owned(), callee);
    let caller = on.handler(
        "const one = await env.OTHER.make();
         for (let i = 0; i < 5; i++) await one();
         try { await env.OTHER.make(); } catch (error) { return new Response(error.message); }",
    );
    let caller = caller.service("OTHER", "other").limits(|limits| limits.subrequests = 1);
    let answer = caller.get().await.unwrap();
    assert!(answer.text().contains("spec.limits.subrequests"), "{}", answer.text());
}

async fn malformed_messages_end_only_their_session(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint { echo(value) { return value; } }";
    let pair =
        Pair::start(&shard, callee, "return new Response(await env.OTHER.echo('well'))").await;
    let call = |body: Vec<u8>| {
        let entry =
            Some(Entry { export: String::new(), rpc: Some(Rpc { method: "echo".to_owned() }) });
        let body = Body::Stream(stream::iter([Ok(Bytes::from(body))]).boxed_local());
        pair.callee.0.fetch(FetchRequest { entry, body, ..request("/") })
    };
    let frame = |content: &[u8]| [&(content.len() as u32).to_le_bytes()[..], content].concat();
    // CALL 0 of "echo" at the entrypoint, with one argument.
    let echo = |value: &[u8]| frame(&[&[1, 0, 2, 0, 1, 8][..], b"echo", &[1, 1], value].concat());
    let answer = call(echo(&[2])).await.unwrap().body.collect().await.unwrap();
    assert_eq!(answer, frame(&[2, 0, 2]));

    let nested = [11, 1].repeat(600);
    let malformed: Vec<Vec<u8>> = vec![
        frame(&[]),
        vec![255; 4],
        vec![0, 0, 0, 3, 1],
        frame(&[1]),
        frame(&[1, 0, 2, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
        echo(&[]),
        echo(&[8, 0]),
        echo(&[8, 9]),
        echo(&[7, 254, 255, 255, 127]),
        echo(&[10, 255, 255, 255, 127]),
        echo(&[11, 255, 255, 255, 127]),
        echo(&[19, 255, 255, 255, 127]),
        echo(&[20, 2, 120, 0, 0, 0]),
        echo(&[20, 20, 85, 105, 110, 116, 49, 54, 65, 114, 114, 97, 121, 1, 1, 19, 2, 0, 0]),
        echo(&[15, 2, 40, 0]),
        echo(&[26, 3, 0, 0, 0, 0]),
        echo(&[99]),
        echo(&nested),
    ];
    for body in malformed {
        let shown = format!("{:?}", &body[..body.len().min(40)]);
        if let Ok(answer) = call(body).await {
            // The session may report an error, but no result.
            let answer = answer.body.collect().await.unwrap();
            assert_ne!(answer.get(4), Some(&2), "{shown} was understood");
        }
    }
    // A reproducible sequence of arbitrary bytes.
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    for length in 0..200_usize {
        let value: Vec<u8> = (0..length).map(|_| next() % 32).collect();
        let _ = call(echo(&value)).await;
    }
    assert!(pair.callee.0.condemned().is_none());
    assert_eq!(pair.get().await, "well");
}

async fn tampered_built_ins_do_not_change_a_call(shard: Rc<Shard>) {
    let callee = "
        const thrown = () => { throw new Error('tampered'); };
        const tampered = [Promise.prototype, 'then', Array.prototype, Symbol.iterator, Map.prototype, 'set', Object.prototype, 'value'];
        export default class extends WorkerEntrypoint {
            echo(value) {
                for (let i = 0; i < tampered.length; i += 2) {
                    Object.defineProperty(tampered[i], tampered[i + 1], { get: thrown, set: thrown, configurable: true });
                }
                return value;
            }
        }";
    let caller = "
        const thrown = () => { throw new Error('tampered'); };
        const tampered = [
            Promise.prototype, 'then', Array.prototype, Symbol.iterator, Array.prototype, 'slice', Map.prototype, 'get',
            Uint8Array.prototype, 'set', Object.prototype, 'get', Object.prototype, 'stage', Function.prototype, 'call',
        ];
        const { OTHER } = env;
        for (let i = 0; i < tampered.length; i += 2) {
            Object.defineProperty(tampered[i], tampered[i + 1], { get: thrown, set: thrown, configurable: true });
        }
        const answer = await OTHER.echo({ list: ['a', { b: 1 }], text: 'é' });
        return new Response(answer.list[0] + answer.list[1].b + answer.text);";
    assert_eq!(answer(&shard, callee, caller).await, "a1é");
}
