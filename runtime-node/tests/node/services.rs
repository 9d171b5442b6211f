//! Tests of Workers that call one another, and of Workers that run on a schedule.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::{InvokeHead, MAX_DEPTH, Scheduled, Service};

use crate::harness::client::head;
use crate::harness::router::{Router, call, node_and_router};
use crate::harness::{Deployed, TestNode, await_condition, trials};

trials! {
    a_warm_worker_of_the_shard_is_called_without_a_router,
    a_worker_that_is_not_warm_is_called_by_name_through_a_router,
    a_call_continues_the_trace_of_its_request,
    a_warm_older_revision_is_not_called,
    bodies_stream_through_a_call_in_both_directions,
    a_called_worker_has_its_own_limits,
    a_worker_without_a_free_permit_is_called_through_a_router,
    busy_workers_that_call_one_another_all_get_their_turns,
    workers_that_call_one_another_in_a_loop_are_stopped,
    an_unreachable_router_is_reported_to_the_caller,
    a_schedule_is_handled_and_answered_without_a_body,
    a_scheduled_invocation_survives_the_end_of_its_call,
}

const CALLS: &str = "return env.OTHER.fetch('http://other.test/')";

async fn a_warm_worker_of_the_shard_is_called_without_a_router(name: &'static str) {
    let node = TestNode::start(name).await;
    let other =
        node.handler("other", "return new Response('other: ' + request.url, { status: 203 })");
    let caller = node.caller("caller", CALLS, "other");
    node.client().get(&other).await.unwrap();
    let answer = call(&node, &caller, &[&other]).await.unwrap();
    assert_eq!((answer.status, answer.text()), (203, "other: http://other.test/"));
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_worker_that_is_not_warm_is_called_by_name_through_a_router(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let other = node.handler("other", "return new Response(await request.text())");
    let caller = node.caller(
        "caller",
        "return env.OTHER.fetch('http://other.test/', { method: 'POST', body: 'text' })",
        "other",
    );
    router.add_worker(&other);
    assert_eq!(call(&node, &caller, &[&other]).await.unwrap().text(), "text");
    let calls = router.calls();
    let InvokeHead { worker, digest, caller: by, depth, request_id, body, .. } = &calls[0];
    assert_eq!((worker.as_str(), by.as_str()), (other.worker.as_str(), caller.worker.as_str()));
    assert_eq!(
        (digest.len(), *depth, request_id.as_str(), &body[..]),
        (0, 1, "a-request", &b"text"[..])
    );

    assert_eq!(call(&node, &caller, &[&other]).await.unwrap().text(), "text");
    assert_eq!(
        router.calls().len(),
        1,
        "the warm callee on the shard was called through the router"
    );
}

async fn a_call_continues_the_trace_of_its_request(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let other = node.handler("other", "return new Response('other')");
    // The Worker in between runs on the shard, and its call leaves the shard.
    let between = node.caller("between", CALLS, "other");
    let caller = node.caller("caller", CALLS, "between");
    router.add_worker(&other);
    node.client().get(&between).await.unwrap();
    for trace in ["", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] {
        let digest = Bytes::copy_from_slice(between.digest.as_bytes());
        let services = vec![Service { worker: between.worker.to_string(), digest }];
        let head = InvokeHead { trace: trace.to_owned(), services, ..head(&caller) };
        let answer = node.client().call(head, stream::empty()).await.unwrap();
        assert_eq!(answer.text(), "other");
        let calls = router.calls();
        let last = calls.last().unwrap();
        assert_eq!((last.trace.as_str(), last.depth), (trace, 2));
    }
}

async fn a_warm_older_revision_is_not_called(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let old = node.handler("other", "return new Response('old')");
    let new = node.handler("other", "return new Response('new')");
    let caller = node.caller("caller", CALLS, "other");
    node.client().get(&old).await.unwrap();
    router.add_worker(&new);
    assert_eq!(call(&node, &caller, &[&new]).await.unwrap().text(), "new");
    assert_eq!(router.calls().len(), 1);
}

async fn bodies_stream_through_a_call_in_both_directions(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let other = node.handler("other", "return new Response(request.body)");
    let caller = node.caller("caller", "return env.OTHER.fetch(request)", "other");
    router.add_worker(&other);
    let text: Bytes = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let digest = Bytes::copy_from_slice(other.digest.as_bytes());
    let services = vec![Service { worker: other.worker.to_string(), digest }];
    for way in ["by the router", "within the shard"] {
        let services = services.clone();
        let head =
            InvokeHead { method: "POST".to_owned(), more_body: true, services, ..head(&caller) };
        let pieces: Vec<_> = text.chunks(50_000).map(Bytes::copy_from_slice).collect();
        let answer = node.client().call(head, stream::iter(pieces)).await.unwrap();
        assert!(answer.body == text, "{way}: {} bytes of {}", answer.body.len(), text.len());
    }
    assert_eq!(router.calls().len(), 1);
}

async fn a_called_worker_has_its_own_limits(name: &'static str) {
    let node = TestNode::start(name).await;
    let spins = node.handler_with(
        "other",
        "if (request.method === 'POST') for (;;); return new Response('well')",
        |limits| {
            limits.cpu_ms = 30;
            limits.request_body_mib = 0;
        },
    );
    let says = "try { return await env.OTHER.fetch('http://other.test/', INIT) } catch (error) { return new Response(error.message) }";
    let caller = node.caller("caller", &says.replace("INIT", "{ method: 'POST' }"), "other");
    let sends = node.caller(
        "sends",
        &says.replace("INIT", "{ method: 'POST', body: 'too much' }"),
        "other",
    );
    node.client().get(&spins).await.unwrap();
    let answer = call(&node, &caller, &[&spins]).await.unwrap();
    assert!(answer.text().contains("cpu_limit_exceeded: "), "{}", answer.text());
    node.client().get(&spins).await.unwrap();
    let answer = call(&node, &sends, &[&spins]).await.unwrap();
    assert!(answer.text().contains("request_too_large: "), "{}", answer.text());
}

async fn a_worker_without_a_free_permit_is_called_through_a_router(name: &'static str) {
    let router = Router::start().await;
    let node = TestNode::with(name, |config| {
        config.router = Some(router.url().parse().unwrap());
        config.admission.max_waiting = 0;
    })
    .await;
    router.set_shard(node.client().address());
    let other =
        node.handler_with("other", "await request.text(); return new Response('done')", |limits| {
            limits.concurrency = 1
        });
    let caller = node.caller(
        "caller",
        "return env.OTHER.fetch('http://other.test/').catch((error) => new Response(error.message))",
        "other",
    );
    router.add_worker(&other);
    node.client().get(&other).await.unwrap();
    let upload = node.client().upload(&other);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    let answer = call(&node, &caller, &[&other]).await.unwrap();
    assert!(answer.text().contains("overloaded: "), "the router's answer: {}", answer.text());
    assert_eq!(router.calls().len(), 1);
    assert_eq!(upload.end().await.unwrap().text(), "done");
}

async fn busy_workers_that_call_one_another_all_get_their_turns(name: &'static str) {
    let node = TestNode::start(name).await;
    // These turns are so long that the shard runs other isolates first.
    const SPINS: &str = "for (let i = 0; i < 2_000_000; i++);";
    let other = node.handler("other", &format!("{SPINS} return new Response('done')"));
    let calls = "const answer = await env.OTHER.fetch('http://other.test/');";
    let caller = node.caller("caller", &format!("{SPINS} {calls} {SPINS} return answer"), "other");
    node.client().get(&other).await.unwrap();
    let services = [&other];
    let calls = join_all((0..20).map(|_| call(&node, &caller, &services)));
    let requests = join_all((0..20).map(|_| node.client().get(&other)));
    let (called, answered) = tokio::join!(calls, requests);
    for answer in called.into_iter().chain(answered) {
        assert_eq!(answer.unwrap().text(), "done");
    }
}

async fn workers_that_call_one_another_in_a_loop_are_stopped(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let calls = "return env.OTHER.fetch('http://other.test/').catch((error) => new Response(error.message))";
    let ping = node.caller("ping", calls, "pong");
    let pong = node.caller("pong", calls, "ping");
    router.add_worker(&ping);
    router.add_worker(&pong);
    let answer = call(&node, &ping, &[&pong]).await.unwrap();
    let expected =
        format!("{} calls {} after {MAX_DEPTH} calls in a row", ping.worker, pong.worker);
    assert!(
        answer.text().contains("loop_detected: ") && answer.text().contains(&expected),
        "{}",
        answer.text()
    );
    assert!(router.calls().iter().all(|head| head.depth <= MAX_DEPTH));
}

async fn an_unreachable_router_is_reported_to_the_caller(name: &'static str) {
    let gone = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let answer_with = |router: Option<String>| async move {
        let node =
            TestNode::with(name, |config| config.router = router.map(|url| url.parse().unwrap()))
                .await;
        let says = "return env.OTHER.fetch('http://other.test/').catch((error) => new Response(error.message))";
        let caller = node.caller("caller", says, "other");
        call(&node, &caller, &[]).await.unwrap().text().to_owned()
    };
    assert_eq!(
        answer_with(Some(format!("http://{gone}"))).await,
        "fetch failed: no_node: no router is reachable"
    );
    let without = answer_with(None).await;
    assert!(
        without.starts_with("fetch failed: no_node: ") && without.contains("--router"),
        "{without}"
    );
}

fn tick(worker: &Deployed) -> InvokeHead {
    let scheduled = Some(Scheduled { cron: "*/5 * * * *".to_owned(), time_ms: 1_763_750_400_000 });
    let InvokeHead { worker, digest, request_id, .. } = head(worker);
    InvokeHead { worker, digest, request_id, scheduled, ..InvokeHead::default() }
}

const REMEMBERS: &str = "export default {
    fetch() { return new Response(globalThis.told ?? 'nothing'); },
    async scheduled({ cron, scheduledTime }) {
        console.log('has begun');
        await new Promise((resolve) => setTimeout(resolve, 20));
        globalThis.told = cron + ' ' + scheduledTime;
    } }";

async fn a_schedule_is_handled_and_answered_without_a_body(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.worker("remembers", REMEMBERS, |_| {});
    let answer = node.client().call(tick(&worker), stream::empty()).await.unwrap();
    assert_eq!((answer.status, answer.headers.len(), answer.body.len()), (204, 0, 0));
    assert_eq!(node.client().get(&worker).await.unwrap().text(), "*/5 * * * * 1763750400000");

    let without = node.handler("without", "return new Response()");
    let failure = node.client().call(tick(&without), stream::empty()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::WorkerException);
}

async fn a_scheduled_invocation_survives_the_end_of_its_call(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.worker("remembers", REMEMBERS, |_| {});
    let (client, event) = (node.client().another(), tick(&worker));
    let call = tokio::spawn(async move { client.call(event, stream::empty()).await });
    await_condition("the handler", || node.logged("has begun")).await;
    call.abort();
    let outcome = async {
        while node.client().get(&worker).await.unwrap().text() == "nothing" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), outcome)
        .await
        .expect("the invocation ended with its call");
}
