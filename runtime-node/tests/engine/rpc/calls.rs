//! Tests of method calls: which members a caller reaches, and how arguments, results and errors
//! arrive.

use std::rc::Rc;

use tenon_proto::failure::FailureCode;

use super::{OUTCOME, Pair, answer};
use crate::harness::{Shard, trials};

trials! {
    a_method_is_called_with_copies_of_its_arguments,
    values_of_every_kind_arrive_as_their_structured_clones,
    only_members_that_the_class_declares_are_reachable,
    properties_are_read_from_accessors,
    errors_keep_their_class_name_and_message_but_not_their_stack,
    values_that_cannot_be_sent_are_refused,
    a_binding_with_methods_is_still_a_fetcher,
    a_named_export_takes_requests_and_calls,
    a_missing_entrypoint_is_reported_to_the_caller,
    a_worker_may_have_methods_only,
}

async fn a_method_is_called_with_copies_of_its_arguments(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        add(cart, item) { cart.items.push(item); return { ...cart, by: this.env.SECRET, kept: typeof this.ctx.waitUntil }; }
    }";
    let caller = "
        const cart = { items: ['tea'] };
        const answer = await env.OTHER.add(cart, { name: 'milk' });
        return Response.json([answer, cart]);";
    let expected = r#"[{"items":["tea",{"name":"milk"}],"by":"of the callee","kept":"function"},{"items":["tea"]}]"#;
    let pair = Pair::start(&shard, callee, caller).await;
    for _ in 0..3 {
        assert_eq!(pair.get().await, expected);
    }
    assert_eq!(*pair.workers.sessions.borrow(), ["add", "add", "add"]);
}

async fn values_of_every_kind_arrive_as_their_structured_clones(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint { echo(value) { return value; } }";
    let caller = r"
        const cyclic = { list: [] };
        cyclic.list.push(cyclic);
        const buffer = new Uint8Array([1, 2, 3, 4]).buffer;
        const named = Object.assign([1, , 3], { name: 'list' });
        const values = {
            undefined, null: null, yes: true, no: false, zero: 0, minus: -0, int: -123456, large: 2 ** 40, half: 0.5,
            infinite: -Infinity, nan: NaN, big: -(2n ** 70n), text: 'plain', accents: 'é€😀', lone: 'a\ud800b', bom: '\ufeffx',
            long: 'x'.repeat(100000), key: { ['__proto__']: 1 }, date: new Date(5), regexp: /a+/giu, map: new Map([[{ a: 1 }, 'v']]),
            set: new Set([1, 'two']), boxed: [Object(1), Object('s'), Object(false), Object(7n)], bytes: new Uint16Array(buffer, 2, 1),
            view: new DataView(buffer, 1, 2), floats: new Float64Array([1.5]), named, error: new RangeError('far', { cause: 'why' }),
            exception: new DOMException('no', 'NotFoundError'), headers: new Headers({ a: 'b' }), blob: new Blob(['blob'], { type: 'text/x' }),
            file: new File(['file'], 'f.txt', { lastModified: 9 }),
        };
        const got = await env.OTHER.echo(values);
        const wrong = [];
        const same = (name, a, b) => { if (!Object.is(a, b)) wrong.push(`${name}: ${String(a)} is not ${String(b)}`); };
        for (const name of ['undefined', 'null', 'yes', 'no', 'zero', 'minus', 'int', 'large', 'half', 'infinite', 'nan', 'big', 'text',
            'accents', 'lone', 'bom', 'long']) same(name, got[name], values[name]);
        same('keys', Object.keys(got).join(), Object.keys(values).join());
        same('key', Object.getOwnPropertyDescriptor(got.key, '__proto__').value, 1);
        same('date', got.date.getTime(), 5);
        same('regexp', String(got.regexp), '/a+/giu');
        same('map', JSON.stringify([...got.map]), '[[{\x22a\x22:1},\x22v\x22]]');
        same('set', [...got.set].join(), '1,two');
        same('boxed', got.boxed.map((box) => typeof box + typeof box.valueOf()).join(), 'objectnumber,objectstring,objectboolean,objectbigint');
        same('bytes', got.bytes[0], 0x0403);
        same('shared', got.bytes.buffer, got.view.buffer);
        same('view', got.view.getUint8(0), 2);
        same('floats', got.floats[0], 1.5);
        same('hole', 1 in got.named, false);
        same('named', got.named.name + got.named.length, 'list3');
        same('error', `${got.error instanceof RangeError} ${got.error.message} ${got.error.cause}`, 'true far why');
        same('exception', `${got.exception instanceof DOMException} ${got.exception.name} ${got.exception.message}`, 'true NotFoundError no');
        same('headers', got.headers.get('a'), 'b');
        same('blob', `${await got.blob.text()} ${got.blob.type}`, 'blob text/x');
        same('file', `${await got.file.text()} ${got.file.name} ${got.file.lastModified}`, 'file f.txt 9');
        const loop = await env.OTHER.echo(cyclic);
        same('cycle', loop.list[0], loop);
        same('nothing', await env.OTHER.echo(), undefined);
        return new Response(wrong.join('; ') || 'all');";
    assert_eq!(answer(&shard, callee, caller).await, "all");
}

async fn only_members_that_the_class_declares_are_reachable(shard: Rc<Shard>) {
    let callee = "
        class Base extends WorkerEntrypoint { inherited() { return 'inherited'; } }
        export default class extends Base {
            own = () => 'own'; state = 'state'; #secret = 'secret';
            fetch() { return new Response('fetched'); }
            scheduled() { return 'scheduled'; }
            #hidden() { return this.#secret; }
            static make() { return 'static'; }
            open() { return 'open'; }
        }";
    let caller = [
        OUTCOME,
        "const lines = [];
         for (const name of ['open', 'inherited', 'own', 'state', 'ctx', 'env', 'constructor', 'toString', 'hasOwnProperty', '__proto__',
            'scheduled', 'secret', '#secret', '#hidden', 'hidden', 'make', 'missing', 'dup', 'connect']) {
             lines.push(`${name}: ${await outcome(async () => env.OTHER[name]())}`);
         }
         lines.push('then: ' + typeof env.OTHER.then, 'awaited: ' + ((await env.OTHER) === env.OTHER));
         return new Response(lines.join('\\n'));",
    ];
    let text = answer(&shard, callee, &caller.concat()).await;
    let missing = |name: &str| {
        format!("{name}: TypeError: The RPC receiver does not implement the method \"{name}\".")
    };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["open: open", "inherited: inherited"]);
    for name in ["own", "state", "ctx", "env"] {
        let line = lines.iter().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        assert!(line.contains("is a property of the instance"), "{line}");
    }
    let absent = [
        "scheduled",
        "secret",
        "#secret",
        "#hidden",
        "hidden",
        "make",
        "missing",
        "dup",
        "connect",
    ];
    for name in absent {
        assert!(lines.contains(&&*missing(name)), "{name} is not refused: {text}");
    }
    // These are members of the binding itself.
    assert!(lines.contains(&"toString: [object Fetcher]"), "{text}");
    assert!(lines.contains(&"then: undefined") && lines.contains(&"awaited: true"), "{text}");
}

async fn properties_are_read_from_accessors(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        get version() { return { major: 3, names: ['a', 'b'] }; }
        get broken() { throw new SyntaxError('broken'); }
        greet(name) { return `Hello, ${name}, from ${this.env.SECRET}`; }
    }";
    let caller = [
        OUTCOME,
        "const greet = await env.OTHER.greet;
         return Response.json([
            await env.OTHER.version, await env.OTHER.version.major, await env.OTHER.version.names[1],
            await outcome(() => env.OTHER.broken), await outcome(() => env.OTHER.absent), await greet('you'),
            await outcome(() => env.OTHER.version.toString), typeof env.OTHER.version.catch,
         ]);",
    ];
    let text = answer(&shard, callee, &caller.concat()).await;
    assert!(
        text.starts_with(
            r#"[{"major":3,"names":["a","b"]},3,"b","SyntaxError: broken","TypeError: The RPC receiver does not implement the method \"absent\".","Hello, you, from of the callee""#
        ),
        "{text}"
    );
}

async fn errors_keep_their_class_name_and_message_but_not_their_stack(shard: Rc<Shard>) {
    let callee = "
        class Refused extends Error { name = 'Refused'; code = 7; }
        export default class extends WorkerEntrypoint {
            async range() { throw new RangeError('far'); }
            own() { throw new Refused('not you'); }
            dom() { throw new DOMException('gone', 'NotFoundError'); }
            text() { throw 'only text'; }
            cause() { throw new Error('outer', { cause: new TypeError('inner') }); }
            odd() { throw Symbol('odd'); }
        }";
    let caller = "
        const seen = {};
        for (const name of ['range', 'own', 'dom', 'text', 'cause', 'odd']) {
            try { await env.OTHER[name](); } catch (error) {
                seen[name] = typeof error === 'string' ? error
                    : [error.constructor.name, error.name, error.message, /worker\\.js/.test(error.stack), error.cause?.message];
            }
        }
        return Response.json(seen);";
    let expected = concat!(
        r#"{"range":["RangeError","RangeError","far",false,null],"own":["Error","Refused","not you",false,null],"#,
        r#""dom":["DOMException","NotFoundError","gone",false,null],"text":"only text","#,
        r#""cause":["Error","Error","outer",false,"inner"],"#,
        r#""odd":["TypeError","TypeError","The Worker threw a value that cannot be sent",false,null]}"#
    );
    let text = answer(&shard, callee, caller).await;
    // The caller's built-in code creates the `DOMException`, so its stack may name the caller's
    // module.
    let text = text.replace(r#""gone",true"#, r#""gone",false"#);
    assert_eq!(text, expected);
}

async fn values_that_cannot_be_sent_are_refused(shard: Rc<Shard>) {
    let callee = "
        class Point { x = 1; }
        export default class extends WorkerEntrypoint {
            echo(value) { return typeof value; }
            point() { return new Point(); }
            symbol() { return Symbol(); }
        }";
    let caller = [
        OUTCOME,
        "class Money { amount = 1; }
         const locked = new ReadableStream();
         locked.getReader();
         const detached = new ArrayBuffer(8);
         structuredClone(detached, { transfer: [detached] });
         const pending = env.OTHER.echo(1);
         const lines = [];
         for (const value of [Symbol('s'), new Money(), new WeakMap(), new Proxy({}, {}), globalThis, locked, detached, Promise.resolve(),
             env.OTHER, env.OTHER.echo, pending, Response.error(), { get broken() { throw new Error('in the getter'); } }]) {
             lines.push(await outcome(() => env.OTHER.echo(value)));
         }
         lines.push(await outcome(() => env.OTHER.point()), await outcome(() => env.OTHER.symbol()));
         return new Response(lines.join('\\n'));",
    ];
    let text = answer(&shard, callee, &caller.concat()).await;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 15, "{text}");
    for (i, line) in lines.iter().enumerate().filter(|(i, _)| *i != 12) {
        assert!(line.starts_with("DataCloneError: "), "line {i}: {line}");
    }
    assert!(
        lines[1].contains("\"Money\"") && lines[1].contains("extend RpcTarget"),
        "{}",
        lines[1]
    );
    assert_eq!(lines[12], "Error: in the getter");
    assert!(lines[13].contains("\"Point\""), "{}", lines[13]);
}

async fn a_binding_with_methods_is_still_a_fetcher(shard: Rc<Shard>) {
    let callee = "export default class extends WorkerEntrypoint {
        fetch(request) { return new Response('path ' + new URL(request.url).pathname); }
        status() { return 'method'; }
    }";
    let caller = "
        const answer = await env.OTHER.fetch('https://other.test/way');
        return Response.json([
            await answer.text(), await env.OTHER.status(), String(env.OTHER), Object.keys(env.OTHER), 'status' in env.OTHER,
            typeof env.OTHER[Symbol.iterator], typeof env.OTHER.status, env.OTHER.fetch.length,
        ]);";
    let pair = Pair::start(&shard, callee, caller).await;
    let expected = r#"["path /way","method","[object Fetcher]",[],false,"undefined","function",1]"#;
    assert_eq!(pair.get().await, expected);
    assert_eq!(pair.workers.requests.get(), 1);
}

async fn a_named_export_takes_requests_and_calls(shard: Rc<Shard>) {
    let callee = "
        export class Admin extends WorkerEntrypoint {
            fetch() { return new Response('admin fetched'); }
            role() { return 'admin'; }
        }
        export default class extends WorkerEntrypoint { role() { return 'user'; } fetch() { return new Response('user fetched'); } }";
    let caller = "
        const fetched = await Promise.all([env.ADMIN, env.OTHER].map(async (to) => (await to.fetch('https://a.test/')).text()));
        return Response.json([await env.ADMIN.role(), await env.OTHER.role(), ...fetched]);";
    let expected = r#"["admin","user","admin fetched","user fetched"]"#;
    assert_eq!(answer(&shard, callee, caller).await, expected);
}

async fn a_missing_entrypoint_is_reported_to_the_caller(shard: Rc<Shard>) {
    let caller = [
        OUTCOME,
        "return new Response([await outcome(() => env.OTHER.hello()), await outcome(() => env.ADMIN.hello()),
             await outcome(() => env.ABSENT.hello())].join('\\n'));",
    ];
    let callee =
        "export default { fetch() { return new Response(); }, hello() { return 'hello'; } }";
    let text = answer(&shard, callee, &caller.concat()).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("The Worker's default export accepts no method calls"), "{text}");
    assert!(lines[1].contains("The Worker has no export \"Admin\""), "{text}");
    assert_eq!(lines[2], "Error: worker_not_found: no such Worker");
}

async fn a_worker_may_have_methods_only(shard: Rc<Shard>) {
    let callee = "export class Admin extends WorkerEntrypoint { role() { return 'admin'; } }";
    let pair = Pair::start(&shard, callee, "return new Response(await env.ADMIN.role())").await;
    assert_eq!(pair.get().await, "admin");
    let failure = pair.callee.get("/").await.unwrap_err();
    assert_eq!(failure.code, FailureCode::WorkerException);
}
