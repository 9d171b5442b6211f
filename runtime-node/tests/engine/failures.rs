//! Tests of handlers that fail without exceeding a limit.

use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{Shard, Text as _, trials};

trials! {
    an_exception_fails_its_invocation_and_leaves_the_isolate_usable,
    any_thrown_value_fails_only_its_invocation,
    a_result_that_is_not_a_response_is_an_exception,
    overridden_getters_of_a_response_are_not_called,
    a_promise_that_cannot_settle_is_detected_immediately,
    an_invocation_may_wait_for_another,
    an_unhandled_rejection_is_logged_but_does_not_fail_the_request,
    an_exception_in_a_timer_is_logged_but_does_not_fail_the_request,
    an_exception_in_a_finalizer_is_logged_but_does_not_fail_the_request,
    infinite_recursion_is_an_exception,
    the_log_of_an_invocation_is_bounded,
    the_log_rate_of_a_worker_is_bounded,
    the_message_to_the_caller_does_not_reveal_the_exception,
}

async fn an_exception_fails_its_invocation_and_leaves_the_isolate_usable(shard: Rc<Shard>) {
    let worker = shard.worker(
        "function inner(path) {\n  if (path.endsWith('/bad')) throw new TypeError('quite bad');\n  return path;\n}
         export default { fetch: (request) => new Response(inner(request.url)) }",
    );
    let worker = worker.start().await.unwrap();
    let failure = worker.get("/bad").await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WorkerException, Phase::Handler));
    assert!(
        shard.logged("worker.js:2:36: TypeError: quite bad\n    at inner (worker.js:2:36)"),
        "{:?}",
        shard.log()
    );
    assert_eq!(worker.0.condemned(), None);
    assert_eq!(worker.get("/good").await.unwrap().text(), "https://worker.test/good");
    assert_eq!(worker.0.in_flight(), 0);
}

async fn any_thrown_value_fails_only_its_invocation(shard: Rc<Shard>) {
    let thrown = [
        "null",
        "undefined",
        "1n",
        "Symbol('s')",
        "{}",
        "Object.create(null)",
        "{ toString() { throw 1 } }",
        "{ get stack() { throw 2 }, get message() { throw 3 } }",
        "Object.defineProperty(new Error('e'), 'stack', { get() { throw 4 } })",
        "Object.assign(new Error('e'), { stack: { toString() { throw 5 } } })",
        "new Proxy(new Error('e'), { get() { throw 6 }, getPrototypeOf() { throw 7 } })",
        "(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy })()",
        "'x'.repeat(1 << 24)",
        "Object.setPrototypeOf(new Error('e'), null)",
        "(Error.prepareStackTrace = () => { throw 8 }, new Error('e'))",
        "(Error.stackTraceLimit = 1e9, new Error('e'))",
        "Promise.reject(9)",
    ];
    for value in thrown {
        for how in [
            format!("throw {value}"),
            format!("await null; throw {value}"),
            format!("return Promise.reject({value})"),
        ] {
            let worker = shard.handler(&how).start().await.unwrap();
            let failure = worker.get("/").await.unwrap_err();
            assert_eq!(failure.code, FailureCode::WorkerException, "{how}");
            assert_eq!(worker.0.condemned(), None, "{how}");
        }
    }
}

async fn a_result_that_is_not_a_response_is_an_exception(shard: Rc<Shard>) {
    let answers = [
        "1",
        "null",
        "undefined",
        "'text'",
        "{ status: 200 }",
        "Object.create(Response.prototype)",
    ];
    for answer in answers.into_iter().chain([
        "new Proxy(new Response(), {})",
        "Response",
        "new Request('a:b')",
    ]) {
        let worker = shard.handler(&format!("return {answer}"));
        assert_eq!(
            worker.failure().await,
            (FailureCode::WorkerException, Phase::Handler),
            "{answer}"
        );
    }
}

async fn overridden_getters_of_a_response_are_not_called(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const no = () => { throw new Error('asked') };
         class Lying extends Response {
           get status() { return no() } get headers() { return no() } get body() { return no() }
           get then() { return undefined } get [Symbol.toStringTag]() { return no() }
         }
         const response = new Lying('true');
         for (const key of ['status', 'headers', 'body', 'text'])
           Object.defineProperty(response, key, { get: no });
         return response;",
    );
    let response = worker.get().await.unwrap();
    assert_eq!((response.status, response.text()), (200, "true"));
}

async fn a_promise_that_cannot_settle_is_detected_immediately(shard: Rc<Shard>) {
    let worker = shard.handler("await new Promise(() => {})").start().await.unwrap();
    let failure = worker.get("/").await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::NoResponse, Phase::Handler));
    assert_eq!(worker.0.in_flight(), 0);
    // A timer that could settle the promise delays the detection.
    let worker = shard.handler("setTimeout(() => {}, 5); await new Promise(() => {})");
    assert_eq!(worker.failure().await.0, FailureCode::NoResponse);
    let worker = shard
        .worker("addEventListener('fetch', (event) => event.respondWith(new Promise(() => {})))");
    assert_eq!(worker.failure().await.0, FailureCode::NoResponse);
}

async fn an_invocation_may_wait_for_another(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let loading;
         const load = () => loading ??= new Promise((resolve) => setTimeout(() => resolve('loaded'), 20));
         export default { async fetch(request) { return new Response(await load() + new URL(request.url).pathname) } }",
    );
    let worker = worker.start().await.unwrap();
    let (first, second) = tokio::join!(worker.get("/1"), worker.get("/2"));
    assert_eq!((first.unwrap().text(), second.unwrap().text()), ("loaded/1", "loaded/2"));
}

async fn an_unhandled_rejection_is_logged_but_does_not_fail_the_request(shard: Rc<Shard>) {
    let worker = shard.handler(
        "Promise.reject(new Error('left alone'));
         const handled = Promise.reject(new Error('looked after')); await null; handled.catch(() => {});
         for (let i = 0; i < 1000; i++) Promise.reject(i);
         return new Response('fine')",
    );
    assert_eq!(worker.get().await.unwrap().text(), "fine");
    assert!(shard.logged("unhandled rejection: worker.js"), "{:?}", shard.log());
    assert!(shard.logged("Error: left alone"));
    assert!(!shard.logged("looked after"));
    assert!(shard.log().len() < 100);
}

async fn an_exception_in_a_timer_is_logged_but_does_not_fail_the_request(shard: Rc<Shard>) {
    let worker = shard.handler(
        "setTimeout(() => { throw new Error('in a timer') }, 1);
         await new Promise((resolve) => setTimeout(resolve, 10));
         return new Response('fine')",
    );
    assert_eq!(worker.get().await.unwrap().text(), "fine");
    assert!(shard.logged("Error: in a timer"), "{:?}", shard.log());
}

async fn an_exception_in_a_finalizer_is_logged_but_does_not_fail_the_request(shard: Rc<Shard>) {
    let worker = shard.handler(
        "const registry = globalThis.registry ??= new FinalizationRegistry(() => { throw new Error('in a finalizer') });
         registry.register({}, 0);
         new Array(1e5).fill(0).map((_, i) => ({ i }));
         return new Response('fine')",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 5_000).start().await.unwrap();
    while !shard.logged("Error: in a finalizer") {
        assert_eq!(worker.get("/").await.unwrap().text(), "fine");
        // The event loop runs finalizers in turns of their own.
        tokio::task::yield_now().await;
    }
}

async fn infinite_recursion_is_an_exception(shard: Rc<Shard>) {
    let endless = [
        "const f = () => f(); f()",
        "const f = (n) => { try { f(n + 1) } catch { null.x } }; f(0)",
        "JSON.stringify({ toJSON() { return JSON.stringify(this) } })",
        "const a = []; a[0] = a; const b = new Proxy(a, { get: (t, k, r) => r[k] }); b.x",
        "'x'.replace(/x/, function f() { return 'x'.replace(/x/, f) })",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
        "const e = new Error(); Object.defineProperty(e, 'stack', { get() { return this.stack } }); throw e",
        "const r = () => new Response(new Proxy({}, { get: r })); r()",
    ];
    for code in endless {
        let worker = shard.handler(code).limits(|limits| limits.cpu_ms = 2_000);
        assert_eq!(
            worker.failure().await,
            (FailureCode::WorkerException, Phase::Handler),
            "{code}"
        );
    }
    let worker =
        shard.handler("const f = () => f(); try { f() } catch (e) { return new Response(e.name) }");
    assert_eq!(worker.get().await.unwrap().text(), "RangeError");
    shard.expect_a_neighbor_to_answer().await;
}

async fn the_log_of_an_invocation_is_bounded(shard: Rc<Shard>) {
    let worker = shard.handler(
        "for (let i = 0; i < 100000; i++) console.log('x'.repeat(100)); return new Response()",
    );
    let worker = worker.limits(|limits| limits.cpu_ms = 20_000).start().await.unwrap();
    worker.get("/").await.unwrap();
    let lines = shard.log();
    assert_eq!(lines.len(), 64 * 1024 / 100 + 2);
    assert_eq!(
        lines.last().unwrap(),
        "WARN [request/] the invocation has logged too much; dropping the rest"
    );
    // The next invocation has a budget of its own. A line as large as the heap uses up only this
    // budget.
    let worker = shard.handler("console.log('y'.repeat(1 << 24)); return new Response()");
    worker.limits(|limits| limits.cpu_ms = 20_000).get().await.unwrap();
    assert_eq!(shard.log().len(), lines.len() + 2);
}

async fn the_log_rate_of_a_worker_is_bounded(shard: Rc<Shard>) {
    // Each request has a new isolate: the log rate applies to the Worker and not to an isolate.
    for _ in 0..60 {
        shard.handler("console.log('x'.repeat(60000)); return new Response()").get().await.unwrap();
    }
    let lines = shard.log();
    assert!(lines.len() < 60, "{} lines were logged", lines.len());
    let reports =
        lines.iter().filter(|line| line.ends_with("exceeds its log rate; dropping lines")).count();
    assert!(reports >= 1, "no line reports that lines were dropped");
}

async fn the_message_to_the_caller_does_not_reveal_the_exception(shard: Rc<Shard>) {
    let failure = shard.handler("throw new Error('password=1234')").get().await.unwrap_err();
    assert_eq!(failure.message, "the Worker threw an exception; see its log");
    assert!(shard.logged("password=1234"));
}
