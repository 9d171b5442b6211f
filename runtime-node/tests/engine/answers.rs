//! Tests the capabilities of well-behaved Workers.

use std::rc::Rc;

use tenon_engine::buffers::BLOCK_CAPACITY;
use tenon_proto::frame::INLINE_BODY;

use crate::harness::{Shard, Text as _, trials};

trials! {
    a_handler_sees_the_request_and_responds_with_status_headers_and_body,
    bytes_go_through_unchanged,
    text_of_any_characters_and_length_is_sent_as_utf_8,
    bytes_of_any_content_and_length_are_read_as_utf_8,
    a_body_can_be_read_only_once,
    global_state_persists_between_invocations,
    bindings_are_properties_of_env_which_is_frozen,
    a_worker_in_service_worker_syntax_responds,
    modules_import_each_other_by_relative_and_full_names,
    a_module_can_be_imported_while_a_request_is_served,
    the_clock_does_not_advance_within_a_turn,
    shared_memory_is_not_available,
    a_line_of_the_console_carries_its_level_and_request,
    tampered_prototypes_do_not_change_an_answer,
    objects_created_after_tampering_work_as_before,
    isolates_can_be_dropped_in_any_order,
}

async fn a_handler_sees_the_request_and_responds_with_status_headers_and_body(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const seen = [request.method, request.url, request.headers.get('X-Greeting')].join(' ');
         return new Response(seen, { status: 201, headers: { 'x-one': 'größe', 'X-Two': '2' } });",
    );
    let response = worker.start().await.unwrap().get("/path?query=1").await.unwrap();
    assert_eq!(response.status, 201);
    assert_eq!(response.text(), "GET https://worker.test/path?query=1 hello");
    let header = |name| {
        response.headers.iter().find(|header| header.name == name).map(|header| &header.value[..])
    };
    assert_eq!(header("x-one"), Some(&b"gr\xf6\xdfe"[..]));
    assert_eq!(header("x-two"), Some(&b"2"[..]));
    assert!(header("content-type").is_some());
}

async fn bytes_go_through_unchanged(shard: Rc<Shard>) {
    let echo =
        shard.handler("return new Response(await request.arrayBuffer())").start().await.unwrap();
    let long = |length| (0..=255).cycle().take(length).collect::<Vec<u8>>();
    for body in [
        vec![],
        vec![0, 1, 254, 255],
        long(BLOCK_CAPACITY),
        long(BLOCK_CAPACITY + 1),
        long(3_000_000),
    ] {
        let full = tenon_engine::Body::Full(body.clone().into());
        assert!(echo.post(full).await.unwrap().body.collect().await.unwrap() == body);
    }
}

async fn text_of_any_characters_and_length_is_sent_as_utf_8(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const [unit, times] = decodeURIComponent(new URL(request.url).pathname.slice(1)).split('*');
         return new Response(unit.repeat(Number(times)));",
    );
    let worker = worker.start().await.unwrap();
    for unit in ["a", "é", "€", "😀", "aé€😀"] {
        for length in
            [0, 1, BLOCK_CAPACITY - 1, BLOCK_CAPACITY, BLOCK_CAPACITY + 1, 5 * BLOCK_CAPACITY]
        {
            let times = length.div_ceil(unit.len());
            let answer = worker.get(&format!("/{unit}*{times}")).await.unwrap();
            assert!(answer.text() == unit.repeat(times), "{times} times {unit}");
        }
    }
    let lone = shard.handler("return new Response('a\\ud800b')");
    assert_eq!(lone.get().await.unwrap().text(), "a\u{fffd}b");
}

async fn bytes_of_any_content_and_length_are_read_as_utf_8(shard: Rc<Shard>) {
    let echo = shard.handler("return new Response(await request.text())").start().await.unwrap();
    let cases: [(&[u8], &str); 5] = [
        (b"plain", "plain"),
        ("aé€😀".as_bytes(), "aé€😀"),
        (b"\xEF\xBB\xBFmarked", "marked"),
        (b"cut \xE2\x82", "cut \u{fffd}"),
        (b"wrong \xFF\xC0\x80", "wrong \u{fffd}\u{fffd}\u{fffd}"),
    ];
    for (bytes, text) in cases {
        // Short and long bodies are decoded in different ways.
        for spaces in [0, INLINE_BODY] {
            let body = [bytes, &vec![b' '; spaces]].concat();
            let answer = echo.post(tenon_engine::Body::Full(body.into())).await.unwrap();
            let answer = answer.body.collect().await.unwrap();
            assert!(
                answer == (text.to_owned() + &" ".repeat(spaces)).as_bytes(),
                "{text} {spaces}"
            );
        }
    }
}

async fn a_body_can_be_read_only_once(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const first = await request.json();
         const used = request.bodyUsed;
         const second = await request.text().catch((error) => error.name);
         return new Response([first, used, second, request.body.locked].join(' '));",
    );
    let worker = worker.start().await.unwrap();
    let answer = worker.post(tenon_engine::Body::Full("[1,2]".into())).await.unwrap();
    assert_eq!(answer.text(), "1,2 true TypeError true");
}

async fn global_state_persists_between_invocations(shard: Rc<Shard>) {
    let worker =
        shard.worker("let n = 0; export default { fetch: () => new Response(String(++n)) }");
    let worker = worker.start().await.unwrap();
    for n in 1..=3 {
        assert_eq!(worker.get("/").await.unwrap().text(), n.to_string());
    }
}

async fn bindings_are_properties_of_env_which_is_frozen(shard: Rc<Shard>) {
    let worker = shard
        .handler("env.GREETING = 'changed'; env.more = 1; return new Response(JSON.stringify(env))")
        .var("GREETING", "grüß dich")
        .secret("KEY", "s3cret");
    // Modules are strict code, where a write to a frozen object throws.
    assert!(worker.get().await.is_err());
    let worker = shard
        .handler(
            "try { env.GREETING = 'changed' } catch {}
                  return new Response(JSON.stringify(env))",
        )
        .var("GREETING", "grüß dich")
        .secret("KEY", "s3cret");
    assert_eq!(worker.get().await.unwrap().text(), r#"{"GREETING":"grüß dich","KEY":"s3cret"}"#);
}

async fn a_worker_in_service_worker_syntax_responds(shard: Rc<Shard>) {
    let worker = shard.worker(
        "addEventListener('fetch', (event) => {
           event.waitUntil(Promise.resolve());
           event.respondWith(new Response(new URL(event.request.url).pathname));
         });",
    );
    assert_eq!(worker.start().await.unwrap().get("/here").await.unwrap().text(), "/here");
}

async fn modules_import_each_other_by_relative_and_full_names(shard: Rc<Shard>) {
    let worker = shard.modules(&[
        (
            "src/main.js",
            "import { name } from './names/one.js'; import two from 'two.js';
             export default { fetch: () => new Response([name, two, import.meta.url].join(' ')) }",
        ),
        ("src/names/one.js", "export { name } from '../names/real.js'"),
        ("src/names/real.js", "import '../main.js'; export const name = 'one'"),
        ("two.js", "export default 'two'"),
    ]);
    assert_eq!(worker.get().await.unwrap().text(), "one two file:///src/main.js");
}

async fn a_module_can_be_imported_while_a_request_is_served(shard: Rc<Shard>) {
    let worker = shard.modules(&[
        (
            "main.js",
            "export default { async fetch(request) {
               const name = new URL(request.url).searchParams.get('module');
               try { return new Response((await import(name)).default); }
               catch (error) { return new Response(`${error.name}: ${error.message}`); }
             } }",
        ),
        ("lib/late.js", "await null; export default 'late'"),
        ("lib/broken.js", "export default ("),
        ("lib/angry.js", "throw new RangeError('no')"),
    ]);
    let worker = worker.start().await.unwrap();
    let import =
        async |name: &str| worker.get(&format!("/?module={name}")).await.unwrap().text().to_owned();
    assert_eq!(import("./lib/late.js").await, "late");
    assert_eq!(import("lib/late.js").await, "late");
    assert_eq!(import("./lib/angry.js").await, "RangeError: no");
    assert!(import("./lib/broken.js").await.starts_with("SyntaxError: "));
    assert!(import("https://example.com/x.js").await.starts_with("TypeError: Cannot find module"));
}

async fn the_clock_does_not_advance_within_a_turn(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const times = () => [Date.now(), +new Date(), +new (class extends Date {})(), Date.parse(Date())];
         const before = times();
         for (let i = 0; i < 3e6; i++);
         const after = times();
         await new Promise((resolve) => setTimeout(resolve, 20));
         return new Response([
           before.join() === after.join(), before[0] === before[1] && before[1] === before[2],
           Math.abs(before[0] - before[3]) < 1000, before[0] % 1 === 0, Date.now() - before[0] >= 10,
           new Date(0) instanceof Date, new Date().constructor === Date, Date.name, Date.length, Date.UTC(1970),
         ].join(' '));",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 2_000);
    assert_eq!(worker.get().await.unwrap().text(), "true true true true true true true Date 7 0");
}

async fn shared_memory_is_not_available(shard: Rc<Shard>) {
    let worker =
        shard.handler("return new Response([typeof SharedArrayBuffer, typeof Atomics].join(' '))");
    assert_eq!(worker.get().await.unwrap().text(), "undefined undefined");
}

async fn a_line_of_the_console_carries_its_level_and_request(shard: Rc<Shard>) {
    let worker = shard.worker(
        "console.warn('starting');
         export default { async fetch() {
           console.debug('one', 1, { two: 2 });
           await null;
           console.error('two');
           return new Response() } }",
    );
    worker.start().await.unwrap().get("/logs").await.unwrap();
    assert_eq!(
        shard.log(),
        ["WARN [] starting", "DEBUG [request/logs] one 1 { two: 2 }", "ERROR [request/logs] two"],
    );
}

/// JavaScript that overwrites built-in prototypes and globals. The original globals remain
/// available under their names with a leading `_`.
const TAMPERING: &str = "
    const no = () => { throw new Error('tampered') };
    const { defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
    const prototypes = [Object.prototype, String.prototype, Promise.prototype, Map.prototype, RegExp.prototype,
      Uint8Array.prototype.__proto__, Function.prototype, Array.prototype];
    const poisoned = ['0', '1', 'status', 'headers', 'body', 'list', 'type', 'source', 'get', 'set', 'value', 'then'];
    const names = ['Object', 'Array', 'Promise', 'Response', 'Request', 'Headers', 'URL', 'String', 'JSON', 'Error', 'Map'];
    for (let i = 0; i < prototypes.length; i++) {
      const keys = ownKeys(prototypes[i]);
      for (let j = 0; j < keys.length; j++) {
        const { value, writable } = getOwnPropertyDescriptor(prototypes[i], keys[j]);
        if (typeof value === 'function' && writable && keys[j] !== 'constructor') prototypes[i][keys[j]] = no;
      }
    }
    for (let i = 0; i < names.length; i++) {
      globalThis[`_${names[i]}`] = globalThis[names[i]];
      globalThis[names[i]] = null;
    }
    const trap = { __proto__: null, get: no, set: no, configurable: true };
    for (let i = 0; i < poisoned.length; i++) defineProperty(_Object.prototype, poisoned[i], trap);
";

async fn tampered_prototypes_do_not_change_an_answer(shard: Rc<Shard>) {
    let worker = shard.worker(&format!(
        "{TAMPERING}
         const well = new _Response('well');
         export default {{ fetch(request) {{ request.headers; request.url; return well }} }}",
    ));
    let response = worker.get().await.unwrap();
    assert_eq!((response.status, response.text()), (200, "well"));
    shard.expect_a_neighbor_to_answer().await;
}

async fn objects_created_after_tampering_work_as_before(shard: Rc<Shard>) {
    let worker = shard.worker(&format!(
        "{TAMPERING}
         function late() {{
           const controller = new AbortController();
           controller.abort();
           const heir = controller.signal instanceof EventTarget;
           let code;
           try {{ atob('*') }} catch (error) {{ code = error instanceof DOMException && error.code }}
           const text = new TextDecoder().decode(new TextEncoder().encode('t'));
           return `${{heir}} ${{controller.signal.aborted}} ${{code}} ${{text}} ${{crypto.randomUUID().length}}`;
         }}
         export default {{ fetch: () => new _Response(late()) }}",
    ));
    assert_eq!(worker.get().await.unwrap().text(), "true true 5 t 36");
}

async fn isolates_can_be_dropped_in_any_order(shard: Rc<Shard>) {
    let mut workers = Vec::new();
    for n in 0..12 {
        let worker =
            shard.handler(&format!("setTimeout(() => {{}}, 1e6); return new Response('{n}')"));
        workers.push((n, worker.start().await.unwrap()));
    }
    for keep in [|n| n % 3 != 0, |n| n % 2 == 0, |n: i32| n > 3] {
        workers.retain(|(n, _)| keep(*n));
        for (n, worker) in &workers {
            assert_eq!(worker.get("/").await.unwrap().text(), n.to_string());
        }
    }
}
