//! Tests of a Worker's calls to other Workers. The tests themselves answer the calls.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use tenon_engine::{Body, CallContext, FetchRequest};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::runtime::{Header, Service};
use tenon_web::{Call, CallResponse, Services};

use crate::harness::{Shard, Text as _, request, trials};

trials! {
    a_binding_calls_the_worker_that_it_names,
    the_static_files_are_called_as_the_worker_itself,
    a_request_is_passed_on_with_its_body_and_the_answer_passed_back,
    a_body_that_the_worker_writes_is_streamed_to_the_call,
    a_call_carries_its_depth_and_the_serving_revision,
    a_failure_rejects_with_its_code,
    a_call_counts_as_a_subrequest,
    a_call_that_is_aborted_is_dropped,
    a_call_ends_with_its_invocation,
    a_call_does_not_follow_redirects,
    a_binding_cannot_be_forged_for_another_worker,
    a_binding_may_have_any_name,
    tampered_built_ins_do_not_change_a_call,
}

/// A stand-in for other Workers, which answers according to the URL's path and records the calls.
#[derive(Default)]
struct Other {
    calls: RefCell<Vec<RecordedCall>>,
    dropped: Rc<Cell<usize>>,
}

struct RecordedCall {
    caller: WorkerId,
    callee: WorkerId,
    digest: Option<RevisionDigest>,
    assets: bool,
    depth: u32,
    method: String,
    url: String,
    request_id: String,
    headers: Vec<(String, String)>,
}

struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Services for Other {
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>> {
        let Call { caller, callee, digest, assets, request } = call;
        let FetchRequest { request_id, method, url, headers, body, call_context, .. } = request;
        let text = |header: &Header| {
            (header.name.clone(), String::from_utf8_lossy(&header.value).into_owned())
        };
        let headers = headers.iter().map(text).collect();
        let depth = call_context.depth;
        let path = url
            .split("//")
            .last()
            .and_then(|rest| rest.split_once('/'))
            .map_or("", |(_, path)| path);
        let path = path.split('?').next().unwrap_or_default().to_owned();
        self.calls.borrow_mut().push(RecordedCall {
            caller,
            callee,
            digest,
            assets,
            depth,
            method,
            url,
            request_id,
            headers,
        });
        let dropped = Rc::clone(&self.dropped);
        async move {
            let header = |name: &str, value: &str| Header {
                name: name.to_owned(),
                value: value.to_owned().into(),
            };
            let answered = |status, headers, body| Ok(CallResponse { status, headers, body });
            match path.as_str() {
                "fail" => Err(Failure::new(
                    FailureCode::LoopDetected,
                    Phase::Admission,
                    "round and round",
                )),
                "hang" => {
                    let _dropped = Dropped(dropped);
                    std::future::pending().await
                }
                "moved" => answered(302, vec![header("location", "http://other.test/")], None),
                "empty" => answered(204, Vec::new(), None),
                _ => {
                    let echo = match body {
                        Body::Full(bytes) => stream::iter([Ok(bytes)]).boxed_local(),
                        Body::Stream(pieces) | Body::Trailed(pieces, _) => pieces,
                    };
                    answered(
                        201,
                        vec![
                            header("x-other", "yes"),
                            header("set-cookie", "a=1"),
                            header("set-cookie", "b=2"),
                        ],
                        Some(echo),
                    )
                }
            }
        }
        .boxed_local()
    }
}

fn id(name: &str) -> WorkerId {
    WorkerId::new("test", name)
}

async fn the_static_files_are_called_as_the_worker_itself(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        const file = await env.FILES.fetch('http://any.test/page.html');
        await env.AUTH.fetch('http://auth.test/empty');
        return Response.json([file.status, Object.keys(env), String(env.FILES)]);";
    let worker = shard.handler(source).service("AUTH", "auth").assets("FILES");
    let answer = worker.get().await.unwrap();
    assert_eq!(answer.text(), r#"[201,["AUTH","FILES"],"[object Fetcher]"]"#);
    let calls = other.calls.borrow();
    assert!(calls[0].assets && calls[0].callee == calls[0].caller);
    assert!(calls[0].digest.is_some(), "the call for static files has no digest");
    assert_eq!((calls[1].assets, &calls[1].callee), (false, &id("auth")));
}

async fn a_binding_calls_the_worker_that_it_names(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        const first = await env.FIRST.fetch('http://first.test/empty?x=1', { headers: { 'X-Mine': 'é' } });
        const second = await env.SECOND.fetch(new Request('https://second.test:8443/', { method: 'PUT', body: 'text' }));
        return Response.json([
            first.status, await first.text(), second.status, await second.text(), second.headers.get('x-other'),
            second.headers.getSetCookie(), second.url, second.redirected, Object.keys(env), String(env.FIRST),
        ]);";
    let worker =
        shard.handler(source).var("NAME", "value").service("SECOND", "two").service("FIRST", "one");
    let answer = worker.get().await.unwrap();
    let expected = r#"[204,"",201,"text","yes",["a=1","b=2"],"https://second.test:8443/",false,["NAME","FIRST","SECOND"],"[object Fetcher]"]"#;
    assert_eq!(answer.text(), expected);
    let calls = other.calls.borrow();
    let called: Vec<_> = calls
        .iter()
        .map(|call| (call.callee.clone(), call.method.as_str(), call.url.as_str()))
        .collect();
    let expected = [
        (id("one"), "GET", "http://first.test/empty?x=1"),
        (id("two"), "PUT", "https://second.test:8443/"),
    ];
    assert_eq!(called, expected);
    let header = |call: &RecordedCall, name: &str| {
        call.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    assert_eq!(header(&calls[0], "host").as_deref(), Some("first.test"));
    assert_eq!(header(&calls[1], "host").as_deref(), Some("second.test:8443"));
    assert_eq!(header(&calls[1], "content-length").as_deref(), Some("4"));
    assert_eq!(header(&calls[1], "content-type").as_deref(), Some("text/plain;charset=UTF-8"));
}

async fn a_request_is_passed_on_with_its_body_and_the_answer_passed_back(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let worker = shard
        .handler("return env.OTHER.fetch(request)")
        .service("OTHER", "other")
        .start()
        .await
        .unwrap();
    let pieces = stream::iter((0..100).map(|i| Ok(Bytes::from(vec![i; 1000]))));
    let answer = worker.post(Body::Stream(pieces.boxed_local())).await.unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(answer.headers.iter().filter(|header| header.name == "set-cookie").count(), 2);
    let body = answer.body.collect().await.unwrap();
    assert_eq!((body.len(), body[99_999]), (100_000, 99));
    let calls = other.calls.borrow();
    assert_eq!((calls[0].method.as_str(), calls[0].url.as_str()), ("POST", "https://worker.test/"));
    assert!(calls[0].headers.contains(&("x-greeting".to_owned(), "hello".to_owned())));
    assert_eq!(calls[0].request_id, "request/", "the request id was not passed on");
}

async fn a_body_that_the_worker_writes_is_streamed_to_the_call(shard: Rc<Shard>) {
    let shard = shard.with_services(Rc::new(Other::default()));
    let source = "
        let left = 50;
        const body = new ReadableStream({ pull(controller) {
            if (left-- > 0) controller.enqueue(new Uint8Array(2000).fill(left)); else controller.close();
        } });
        const answer = await env.OTHER.fetch('http://other.test/', { method: 'POST', body, duplex: 'half' });
        const bytes = await answer.bytes();
        return new Response(`${bytes.length} ${bytes[0]} ${bytes[99_999]}`);";
    assert_eq!(
        shard.handler(source).service("OTHER", "other").get().await.unwrap().text(),
        "100000 49 0"
    );
}

async fn a_call_carries_its_depth_and_the_serving_revision(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "await env.ONE.fetch('http://one/'); await env.TWO.fetch('http://two/'); return new Response()";
    let worker =
        shard.handler(source).service("ONE", "one").service("TWO", "two").start().await.unwrap();
    let services = vec![Service { worker: "test/two".to_owned(), digest: vec![7; 32].into() }];
    let request = FetchRequest {
        call_context: CallContext { depth: 3, services, ..CallContext::default() },
        ..request("/")
    };
    worker.0.fetch(request).await.unwrap();
    let calls = other.calls.borrow();
    assert_eq!((calls[0].depth, calls[0].digest), (4, None));
    assert_eq!((calls[1].depth, calls[1].digest), (4, Some(RevisionDigest::new([7; 32]))));
    assert_eq!(calls[0].caller.namespace(), "test");
}

async fn a_failure_rejects_with_its_code(shard: Rc<Shard>) {
    let shard = shard.with_services(Rc::new(Other::default()));
    let source = "
        try { await env.OTHER.fetch('http://other/fail'); }
        catch (error) { return Response.json([error instanceof TypeError, error.message, error.cause.stage]); }";
    let expected = r#"[true,"fetch failed: loop_detected: round and round","service"]"#;
    assert_eq!(
        shard.handler(source).service("OTHER", "other").get().await.unwrap().text(),
        expected
    );
}

async fn a_call_counts_as_a_subrequest(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        for (let i = 0; i < 3; i++) {
            try { await env.OTHER.fetch('http://other/'); } catch (error) { return new Response(`${i}: ${error.message}`); }
        }";
    let worker =
        shard.handler(source).service("OTHER", "other").limits(|limits| limits.subrequests = 2);
    let answer = worker.get().await.unwrap();
    assert!(
        answer.text().starts_with("2: ") && answer.text().contains("spec.limits.subrequests"),
        "{}",
        answer.text()
    );
    assert_eq!(other.calls.borrow().len(), 2);
}

async fn a_call_that_is_aborted_is_dropped(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        const controller = new AbortController();
        setTimeout(() => controller.abort(new Error('enough')), 5);
        try { await env.OTHER.fetch('http://other/hang', { signal: controller.signal }); }
        catch (error) { return new Response(error.message); }";
    let worker = shard.handler(source).service("OTHER", "other").start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "enough");
    worker.0.idle().await;
    assert_eq!(other.dropped.get(), 1);
}

async fn a_call_ends_with_its_invocation(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let worker =
        shard.handler("await env.OTHER.fetch('http://other/hang')").service("OTHER", "other");
    let worker = worker.limits(|limits| limits.wall_ms = 30).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap_err().code, FailureCode::WallLimitExceeded);
    worker.0.idle().await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.dropped.get(), 1);
}

async fn a_call_does_not_follow_redirects(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let worker =
        shard.handler("return env.OTHER.fetch('http://other/moved')").service("OTHER", "other");
    assert_eq!(worker.get().await.unwrap().status, 302);
    assert_eq!(other.calls.borrow().len(), 1);
}

async fn a_binding_cannot_be_forged_for_another_worker(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        const Fetcher = env.OTHER.constructor, outcomes = [];
        for (const attempt of [
            () => new Fetcher(1), () => new Fetcher(), () => Fetcher.prototype.fetch.call({}, 'http://x/'),
            () => env.OTHER.fetch(), () => env.OTHER.fetch('/relative'), () => { 'use strict'; env.OTHER = 1; },
        ]) {
            try { await attempt(); outcomes.push('done'); } catch (error) { outcomes.push(error.constructor.name); }
        }
        return new Response(outcomes.join());";
    let answer = shard.handler(source).service("OTHER", "other").get().await.unwrap();
    assert_eq!(answer.text(), "TypeError,TypeError,TypeError,TypeError,TypeError,TypeError");
    assert!(other.calls.borrow().is_empty());
}

async fn a_binding_may_have_any_name(shard: Rc<Shard>) {
    let shard = shard.with_services(Rc::new(Other::default()));
    let source = "
        const names = ['__proto__', 'constructor', 'toString', 'fetch'];
        const statuses = [];
        for (const name of names) statuses.push((await Object.getOwnPropertyDescriptor(env, name).value.fetch('http://o/')).status);
        return new Response(statuses.join());";
    let worker = ["__proto__", "constructor", "toString", "fetch"]
        .into_iter()
        .fold(shard.handler(source), |worker, name| worker.service(name, "other"));
    assert_eq!(worker.get().await.unwrap().text(), "201,201,201,201");
}

async fn tampered_built_ins_do_not_change_a_call(shard: Rc<Shard>) {
    let other = Rc::new(Other::default());
    let shard = shard.with_services(other.clone());
    let source = "
        const thrown = () => { throw new Error('tampered'); };
        const binding = env.OTHER;
        const tampered = [
            Promise.prototype, 'then', Array.prototype, Symbol.iterator, Object.prototype, 'signal',
            Object.prototype, 'service', Request.prototype, 'url', Request.prototype, 'method', Response.prototype, 'status',
        ];
        for (let i = 0; i < tampered.length; i += 2) {
            Object.defineProperty(tampered[i], tampered[i + 1], { get: thrown, set: thrown, configurable: true });
        }
        globalThis.fetch = thrown;
        globalThis.Request = thrown;
        return await binding.fetch('http://other.test/', { __proto__: null, method: 'POST', body: 'text' });";
    let answer = shard.handler(source).service("OTHER", "other").get().await.unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(answer.body.collect().await.unwrap(), "text");
    assert_eq!(other.calls.borrow()[0].method, "POST");
}
