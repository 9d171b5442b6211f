//! Tests of functions, objects and streams, which are passed by reference, and of the session in
//! which they work.

use std::rc::Rc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tenon_engine::Body;

use super::{OUTCOME, Pair, answer};
use crate::harness::{Shard, Text as _, await_condition, trials};

trials! {
    functions_are_called_where_they_were_made,
    a_callback_that_is_kept_works_after_its_call,
    targets_are_called_by_reference_until_they_are_disposed,
    members_of_a_result_are_called_in_the_same_session,
    stubs_are_passed_on,
    streams_are_read_and_written_across_the_call,
    a_broken_stream_breaks_at_its_reader,
    requests_and_responses_arrive_with_their_bodies,
    a_session_ends_with_the_invocation_of_its_caller,
}

async fn functions_are_called_where_they_were_made(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        async map(values, each) {
            const out = [];
            for (const value of values) out.push(await each(value));
            return out;
        }
        counter() { let count = 0; return { next: (by) => (count += by), nested: { reset: () => { count = 0; } } }; }
        async caught(fail) { try { await fail(); } catch (error) { return `${error.name} ${error.message}`; } }
    }";
    let caller = "
        let here = 0;
        const doubled = await env.OTHER.map([1, 2, 3], async (value) => { here++; return value * 2; });
        const counter = await env.OTHER.counter();
        const counts = [await counter.next(2), await counter.next(3)];
        await counter.nested.reset();
        counts.push(await counter.next(1));
        const caught = await env.OTHER.caught(() => { throw new EvalError('mine'); });
        return Response.json([doubled, here, counts, caught, typeof counter.next]);";
    let pair = Pair::start(&shard, callee, caller).await;
    let expected = r#"[[2,4,6],3,[2,5,1],"EvalError mine","function"]"#;
    assert_eq!(pair.get().await, expected);
    // A session is one invocation of the callee, which ends.
    pair.callee.0.idle().await;
    assert_eq!(*pair.workers.sessions.borrow(), ["map", "counter", "caught"]);
}

async fn a_callback_that_is_kept_works_after_its_call(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        subscribe(listener) {
            const kept = listener.dup();
            this.ctx.waitUntil((async () => {
                await kept('first');
                await kept('second');
                kept[Symbol.dispose]();
            })());
            return 'subscribed';
        }
        async late(listener) {
            setTimeout(async () => { try { await listener('late'); } catch (error) { console.log(`refused: ${error.message}`); } }, 1);
            return 'returned';
        }
    }";
    let caller = "
        const events = [];
        const { promise, resolve } = Promise.withResolvers();
        const answer = await env.OTHER.subscribe((event) => { if (events.push(event) === 2) resolve(); });
        await promise;
        await env.OTHER.late((event) => events.push(event));
        return Response.json([answer, events]);";
    let pair = Pair::start(&shard, callee, caller).await;
    assert_eq!(pair.get().await, r#"["subscribed",["first","second"]]"#);
}

async fn targets_are_called_by_reference_until_they_are_disposed(shard: Rc<Shard>) {
    let callee = "
        class Account extends RpcTarget {
            balance = 10;
            constructor(log) { super(); this.log = log; }
            deposit(amount) { this.balance += amount; return this.balance; }
            get owner() { return 'me'; }
            [Symbol.dispose]() { console.log(`disposed ${this.log}`); }
        }
        export default class extends WorkerEntrypoint {
            open(log) { return new Account(log); }
            both() { return { first: new Account('a'), second: new Account('b') }; }
            inspect(account) { return account.deposit(1); }
        }";
    let caller = [
        OUTCOME,
        "const account = await env.OTHER.open('one');
         const seen = [await account.deposit(5), await account.owner, await outcome(() => account.balance), String(account)];
         const copy = account.dup();
         account[Symbol.dispose]();
         seen.push(await outcome(() => account.deposit(1)), await copy.deposit(1));
         copy[Symbol.dispose]();
         const both = await env.OTHER.both();
         seen.push(await both.first.deposit(1), await both.second.deposit(2), Object.keys(both).join());
         both[Symbol.dispose]();
         return Response.json(seen);",
    ];
    let pair = Pair::start(&shard, callee, &caller.concat()).await;
    let text = pair.get().await;
    assert!(
        text.starts_with(r#"[15,"me","TypeError: The RPC receiver's \"balance\""#)
            && text.ends_with(
                r#","[object RpcStub]","Error: The stub has been disposed",16,11,12,"first,second"]"#
            ),
        "{text}"
    );
    pair.callee.0.idle().await;
    for name in ["one", "a", "b"] {
        assert!(shard.logged(&format!("disposed {name}")), "{name} was not disposed");
    }
}

async fn members_of_a_result_are_called_in_the_same_session(shard: Rc<Shard>) {
    let callee = "
        class Session extends RpcTarget {
            constructor(user) { super(); this.user = user; }
            profile() { return { name: this.user, tags: ['x'] }; }
            child(name) { return new Session(`${this.user}/${name}`); }
        }
        export default class extends WorkerEntrypoint {
            async login(user) { await null; if (user === '') throw new Error('no user'); return new Session(user); }
        }";
    let caller = [
        OUTCOME,
        "const session = env.OTHER.login('ann');
         const [profile, name, child] = await Promise.all([session.profile(), session.profile().name, session.child('b').child('c').profile()]);
         const failed = await outcome(() => env.OTHER.login('').profile());
         const settled = await env.OTHER.login('eve');
         return Response.json([profile, name, child.name, failed, (await settled.profile()).name, await env.OTHER.login('x').profile().tags[0]]);",
    ];
    let pair = Pair::start(&shard, callee, &caller.concat()).await;
    let expected = r#"[{"name":"ann","tags":["x"]},"ann","ann/b/c","Error: no user","eve","x"]"#;
    assert_eq!(pair.get().await, expected);
    assert_eq!(pair.workers.sessions.borrow().len(), 4);
}

async fn stubs_are_passed_on(shard: Rc<Shard>) {
    let callee = "
        export default class extends WorkerEntrypoint {
            make() { return (text) => `made ${text}`; }
            use(callback) { return callback('used'); }
            back(callback) { return callback; }
        }";
    let caller = "
        const made = await env.OTHER.make();
        const mine = await env.OTHER.back((text) => `mine ${text}`);
        return Response.json([await env.OTHER.use(made), await made('again'), await mine('too')]);";
    let expected = r#"["made used","made again","mine too"]"#;
    assert_eq!(answer(&shard, callee, caller).await, expected);
}

async fn streams_are_read_and_written_across_the_call(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        count(to) {
            let at = 0;
            return new ReadableStream({ pull(controller) { if (at < to) controller.enqueue(new Uint8Array(1000).fill(at++)); else controller.close(); } });
        }
        async sum(stream) { let sum = 0; for await (const chunk of stream) sum += chunk.length; return sum; }
        async fill(writable) {
            const writer = writable.getWriter();
            await writer.write('one');
            await writer.write({ two: 2 });
            await writer.close();
            return 'filled';
        }
        upper(stream) { return stream.pipeThrough(new TransformStream({ transform(text, controller) { controller.enqueue(text.toUpperCase()); } })); }
    }";
    let caller = "
        const bytes = await new Response(await env.OTHER.count(300)).bytes();
        const sum = await env.OTHER.sum(new Blob(['x'.repeat(200000)]).stream());
        const seen = [];
        const filled = await env.OTHER.fill(new WritableStream({ write(chunk) { seen.push(chunk); }, close() { seen.push('closed'); } }));
        const upper = await env.OTHER.upper(ReadableStream.from(['a', 'b']));
        const texts = [];
        for await (const text of upper) texts.push(text);
        return Response.json([bytes.length, bytes[299999] === (299 & 255), sum, filled, seen, texts]);";
    let expected = r#"[300000,true,200000,"filled",["one",{"two":2},"closed"],["A","B"]]"#;
    let pair = Pair::start(&shard, callee, caller).await;
    assert_eq!(pair.get().await, expected);
    pair.callee.0.idle().await;
}

async fn a_broken_stream_breaks_at_its_reader(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        broken() {
            let at = 0;
            return new ReadableStream({ pull(controller) { if (at++ < 1) controller.enqueue('first'); else throw new RangeError('at the source'); } });
        }
        endless() { return new ReadableStream({ pull(controller) { controller.enqueue('more'); }, cancel(reason) { console.log(`canceled: ${reason}`); } }); }
    }";
    let caller = [
        OUTCOME,
        "const reader = (await env.OTHER.broken()).getReader();
         const first = (await reader.read()).value;
         const broken = await outcome(() => reader.read());
         const endless = (await env.OTHER.endless()).getReader();
         await endless.read();
         await endless.cancel('enough');
         return Response.json([first, broken]);",
    ];
    assert_eq!(
        answer(&shard, callee, &caller.concat()).await,
        r#"["first","RangeError: at the source"]"#
    );
    await_condition("the cancellation of the source", || shard.logged("canceled: enough")).await;
}

async fn requests_and_responses_arrive_with_their_bodies(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        async describe(request) { return [request.method, request.url, request.headers.get('x-a'), request.redirect, await request.text()]; }
        respond(body) { return new Response(body, { status: 201, statusText: 'Made', headers: { 'x-b': 'c', 'set-cookie': 'd=e' } }); }
        through(response) { return response; }
        streamed() { return new Response(ReadableStream.from([new Uint8Array([104, 105])])); }
    }";
    let caller = "
        const init = { method: 'PUT', body: 'sent', headers: { 'x-a': 'b' }, redirect: 'manual' };
        const described = await env.OTHER.describe(new Request('https://a.test/x?y', init));
        const response = await env.OTHER.respond('text');
        const same = await env.OTHER.through(new Response(request.body ?? 'none'));
        const used = new Response('once');
        await env.OTHER.through(used);
        return Response.json([
            described, response.status, response.statusText, response.headers.get('x-b'), response.headers.getSetCookie(),
            response.headers.get('content-type'), await response.text(), await same.text(), used.bodyUsed,
            await (await env.OTHER.streamed()).text(), response instanceof Response,
        ]);";
    let expected = concat!(
        r#"[["PUT","https://a.test/x?y","b","manual","sent"],201,"Made","c",["d=e"],"text/plain;charset=UTF-8","text","#,
        r#""none",true,"hi",true]"#
    );
    let pair = Pair::start(&shard, callee, caller).await;
    assert_eq!(pair.get().await, expected);
    let pieces = stream::iter((0..40).map(|_| Ok(Bytes::from(vec![b'x'; 5000]))));
    let answer = pair.caller.post(Body::Stream(pieces.boxed_local())).await.unwrap();
    assert!(answer.text().contains(&"x".repeat(200_000)), "the body did not pass both Workers");
}

async fn a_session_ends_with_the_invocation_of_its_caller(shard: Rc<Shard>) {
    let callee = "
        class Held extends RpcTarget { [Symbol.dispose]() { console.log('released'); } }
        export default class extends WorkerEntrypoint { hold() { return new Held(); } }";
    let caller = "globalThis.held = await env.OTHER.hold(); return new Response('left')";
    let pair = Pair::start(&shard, callee, caller).await;
    assert_eq!(pair.get().await, "left");
    await_condition("the release of the object", || shard.logged("released")).await;
    pair.callee.0.idle().await;
}
