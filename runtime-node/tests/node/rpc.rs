//! Tests of method calls between Workers of a node, within a shard and through a router.

use futures::stream;
use tenon_proto::runtime::{Entry, InvokeHead, Rpc};

use crate::harness::client::head;
use crate::harness::router::{call, node_and_router};
use crate::harness::{TestNode, trials};

trials! {
    methods_callbacks_and_streams_pass_within_a_shard_and_through_a_router,
    named_exports_are_called_through_a_router,
    a_session_counts_as_a_request_in_flight_until_it_ends,
    a_request_without_an_entry_reaches_the_default_export,
}

const CALLEE: &str = "
    import { RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';
    class Counter extends RpcTarget { count = 0; add(by) { return (this.count += by); } }
    export class Admin extends WorkerEntrypoint {
        role() { return 'admin'; }
        fetch() { return new Response('admin fetched'); }
    }
    export default class extends WorkerEntrypoint {
        fetch() { return new Response('warm'); }
        role() { return 'user'; }
        counter() { return new Counter(); }
        async each(values, callback) { for (const value of values) await callback(value); return values.length; }
        async count(stream) { let length = 0; for await (const chunk of stream) length += chunk.length; return length; }
        bytes(length) { return new Blob([new Uint8Array(length)]).stream(); }
    }";

async fn methods_callbacks_and_streams_pass_within_a_shard_and_through_a_router(
    name: &'static str,
) {
    let (node, router) = node_and_router(name).await;
    let callee = node.worker("other", CALLEE, |_| {});
    router.add_worker(&callee);
    let caller = "
        const seen = [];
        const counter = await env.OTHER.counter();
        const counts = [await counter.add(2), await counter.add(3), await env.OTHER.counter().add(7)];
        const each = await env.OTHER.each([1, 2], (value) => { seen.push(value); });
        const sent = await env.OTHER.count(new Blob([new Uint8Array(300000)]).stream());
        const received = (await new Response(await env.OTHER.bytes(300000)).bytes()).length;
        const missing = await env.OTHER.missing().catch((error) => error.message);
        return Response.json([counts, each, seen, sent, received, missing]);";
    let caller = node.caller("caller", caller, "other");
    let expected = r#"[[2,5,7],2,[1,2],300000,300000,"The RPC receiver does not implement the method \"missing\"."]"#;
    assert_eq!(call(&node, &caller, &[]).await.unwrap().text(), expected);
    let calls = router.calls();
    assert_eq!(calls.len(), 6);
    let InvokeHead { worker, caller: by, depth, method, url, entry, more_body, .. } = &calls[0];
    assert_eq!((worker.as_str(), by.as_str()), (callee.worker.as_str(), caller.worker.as_str()));
    assert_eq!((method.as_str(), url.as_str(), *depth, *more_body), ("", "", 1, true));
    let rpc = Some(Rpc { method: "counter".to_owned() });
    assert_eq!(*entry, Some(Entry { export: String::new(), rpc }));

    // The callee is warm now.
    assert_eq!(call(&node, &caller, &[&callee]).await.unwrap().text(), expected);
    assert_eq!(router.calls().len(), 6, "a call of a warm Worker left the shard");
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn named_exports_are_called_through_a_router(name: &'static str) {
    let (node, router) = node_and_router(name).await;
    let callee = node.worker("other", CALLEE, |_| {});
    router.add_worker(&callee);
    let body = "
        const fetched = await env.ADMIN.fetch('https://admin.test/');
        return Response.json([await env.ADMIN.role(), await env.OTHER.role(), await fetched.text()]);";
    let services = [("OTHER", "other", None), ("ADMIN", "other", Some("Admin"))];
    let caller = node.caller_of("caller", body, &services);
    let expected = r#"["admin","user","admin fetched"]"#;
    for services in [&[][..], &[&callee]] {
        assert_eq!(call(&node, &caller, services).await.unwrap().text(), expected);
    }
    assert_eq!(router.calls().len(), 3);
}

async fn a_session_counts_as_a_request_in_flight_until_it_ends(name: &'static str) {
    let node = TestNode::start(name).await;
    let callee = node.worker("other", CALLEE, |_| {});
    let body = "
        const counter = await env.OTHER.counter();
        await new Promise((resolve) => { globalThis.release = resolve; setTimeout(resolve, 60_000); });
        return new Response(String(await counter.add(1)));";
    let body = format!(
        "if (request.url.endsWith('/release')) {{
            while (!globalThis.release) await new Promise((resolve) => setTimeout(resolve, 1));
            globalThis.release();
            return new Response();
        }} {body}"
    );
    let caller = node.caller("caller", &body, "other");
    node.client().get(&callee).await.unwrap();
    let url = "https://worker.test/release".to_owned();
    let release = InvokeHead { url, ..head(&caller) };
    let released = async {
        node.await_metric("tenon_shard_inflight", &[], 2).await;
        node.client().call(release, stream::empty()).await.unwrap();
    };
    let services = [&callee];
    let (answer, ()) = tokio::join!(call(&node, &caller, &services), released);
    assert_eq!(answer.unwrap().text(), "1");
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_request_without_an_entry_reaches_the_default_export(name: &'static str) {
    let node = TestNode::start(name).await;
    let callee = node.worker("other", CALLEE, |_| {});
    assert_eq!(node.client().get(&callee).await.unwrap().text(), "warm");
    // The node ignores an entry in an ordinary head: the head of a request for an entry is another
    // part of the message, `entry_head`.
    let entry = Some(Entry { export: "Admin".to_owned(), rpc: None });
    let plain = InvokeHead { entry, ..head(&callee) };
    let answer = node.client().call(plain, stream::empty()).await.unwrap();
    assert_eq!(answer.text(), "warm");
}
