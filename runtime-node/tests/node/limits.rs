//! Tests of the limits of Workers and shards. A Worker that exceeds a limit does not affect the
//! others.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use tenon_proto::failure::{FailureCode, Phase};
use tenon_proto::frame::INLINE_BODY;
use tenon_proto::runtime::{Header, InvokeHead};
use tenon_runtime_node::config::Config;

use crate::harness::client::head;
use crate::harness::{Deployed, TestNode, trials};

trials! {
    the_concurrent_invocations_of_a_worker_are_bounded,
    a_worker_with_all_its_permits_in_use_is_reported_as_hot,
    wait_until_work_counts_against_the_concurrency_of_a_worker,
    the_concurrent_invocations_of_a_shard_are_bounded,
    requests_without_a_permit_wait_while_the_queue_has_room,
    a_worker_that_is_stopped_repeatedly_goes_into_back_off,
    a_body_over_the_limit_is_refused_whether_announced_or_streamed,
    a_loop_fails_at_the_cpu_limit_and_its_neighbor_is_served,
    an_isolate_with_a_full_heap_is_replaced,
    an_isolate_stopped_at_a_limit_is_evicted_immediately,
    requests_waiting_for_a_stopped_isolate_are_served_by_the_next,
    unread_request_bodies_do_not_block_other_requests,
    an_idle_isolate_is_evicted,
    tight_memory_forces_a_collection_before_an_eviction,
    an_isolate_slightly_over_its_cpu_limit_is_retired,
    a_memory_shortage_evicts_idle_isolates_and_refuses_starts,
}

const WAITS: &str = "await request.text(); return new Response('done')";

async fn the_concurrent_invocations_of_a_worker_are_bounded(name: &'static str) {
    let node = TestNode::without_queues(name).await;
    let waits = node.handler_with("waits", WAITS, |limits| limits.concurrency = 2);
    let other = node.handler("other", WAITS);
    node.client().get(&waits).await.unwrap();
    let uploads = [node.client().upload(&waits), node.client().upload(&waits)];
    node.await_metric("tenon_shard_inflight", &[], 2).await;
    let failure = node.client().get(&waits).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "worker_full")]), 1);
    assert_eq!(node.client().get(&other).await.unwrap().text(), "done");
    for upload in uploads {
        assert_eq!(upload.end().await.unwrap().text(), "done");
    }
    assert_eq!(node.client().get(&waits).await.unwrap().text(), "done");
}

async fn a_worker_with_all_its_permits_in_use_is_reported_as_hot(name: &'static str) {
    let node = TestNode::start(name).await;
    let waits = node.handler_with("waits", WAITS, |limits| limits.concurrency = 1);
    assert!(!node.client().get(&waits).await.unwrap().is_hot);
    let first = node.client().upload(&waits);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    let second = node.client().upload(&waits);
    node.await_metric("tenon_shard_waiting", &[], 1).await;
    assert!(first.end().await.unwrap().is_hot);
    second.end().await.unwrap();
}

async fn wait_until_work_counts_against_the_concurrency_of_a_worker(name: &'static str) {
    let node = TestNode::start(name).await;
    let lingers = node.handler_with(
        "lingers",
        "ctx.waitUntil(new Promise((resolve) => setTimeout(resolve, 1e6))); return new Response()",
        |limits| (limits.concurrency, limits.wall_ms) = (1, 3_000),
    );
    node.client().get(&lingers).await.unwrap();
    let failure = node.client().get(&lingers).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
}

async fn the_concurrent_invocations_of_a_shard_are_bounded(name: &'static str) {
    let node = TestNode::with(name, |config| {
        (config.admission.max_inflight, config.admission.max_waiting) = (1, 0)
    })
    .await;
    let (one, other) = (node.handler("one", WAITS), node.handler("other", WAITS));
    let upload = node.client().upload(&one);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    let failure = node.client().get(&other).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "shard_full")]), 1);
    upload.end().await.unwrap();
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    node.client().get(&other).await.unwrap();
}

async fn requests_without_a_permit_wait_while_the_queue_has_room(name: &'static str) {
    let full = |config: &mut Config| {
        (config.admission.max_inflight, config.admission.max_waiting) = (2, 1)
    };
    let node = TestNode::with(name, full).await;
    // A single Worker gets at most half of the shard.
    let (one, other) = (node.handler("one", WAITS), node.handler("other", WAITS));
    for worker in [&one, &other] {
        node.client().get(worker).await.unwrap();
        node.await_metric("tenon_shard_inflight", &[], 0).await;
    }
    let later = |worker: &Deployed| {
        let (client, worker) = (node.client().clone(), worker.clone());
        tokio::spawn(async move { client.get(&worker).await })
    };
    let uploads = [node.client().upload(&one), node.client().upload(&other)];
    node.await_metric("tenon_shard_inflight", &[], 2).await;
    let waits = [later(&one), later(&other)];
    node.await_metric("tenon_shard_waiting", &[], 2).await;
    for worker in [&one, &other] {
        let failure = node.client().get(worker).await.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    }
    for upload in uploads {
        assert_eq!(upload.end().await.unwrap().text(), "done");
    }
    for wait in waits {
        assert_eq!(wait.await.unwrap().unwrap().text(), "done");
    }
    node.await_metric("tenon_shard_waiting", &[], 0).await;
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn a_worker_that_is_stopped_repeatedly_goes_into_back_off(name: &'static str) {
    let node = TestNode::start(name).await;
    let loops = node.handler_with("loops", "for (;;);", |limits| limits.cpu_ms = 1);
    let back_off = async {
        loop {
            let failure = node.client().get(&loops).await.unwrap_err();
            assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
            if failure.phase == Phase::Admission {
                return failure;
            }
        }
    };
    assert!(back_off.await.message.contains("in a short time"));
    let starts = node.metric("tenon_cold_starts_total", &[]);
    assert!(node.client().get(&loops).await.is_err());
    assert!(node.metric("tenon_cold_starts_total", &[]) <= starts + 1);
}

async fn a_body_over_the_limit_is_refused_whether_announced_or_streamed(name: &'static str) {
    let node = TestNode::start(name).await;
    let limit = |limits: &mut tenon_proto::revision::Limits| limits.request_body_mib = 1;
    let echo = node.handler_with("echo", "return new Response(await request.arrayBuffer())", limit);
    let mib = Bytes::from(vec![b'x'; 1 << 20]);
    assert_eq!(node.client().post(&echo, mib.clone()).await.unwrap().body.len(), 1 << 20);

    // The body arrives in pieces, without a declared length.
    let upload = node.client().upload(&echo);
    upload.body_tx.send(mib.slice(..INLINE_BODY)).unwrap();
    upload.body_tx.send(mib).unwrap();
    let failure = upload.end().await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RequestTooLarge, Phase::Handler));

    // The length is declared: the Worker is never invoked.
    let mut announced = head(&echo);
    announced.more_body = true;
    announced
        .headers
        .push(Header { name: "content-length".to_owned(), value: Bytes::from_static(b"1048577") });
    let failure = node.client().call(announced, futures::stream::pending()).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RequestTooLarge, Phase::Admission));
}

async fn a_loop_fails_at_the_cpu_limit_and_its_neighbor_is_served(name: &'static str) {
    let node = TestNode::start(name).await;
    let loops = node.handler_with("loops", "for (;;);", |limits| limits.cpu_ms = 20);
    let neighbor = node.handler("neighbor", "return new Response('well')");
    for _ in 0..3 {
        let (failure, answer) =
            tokio::join!(node.client().get(&loops), node.client().get(&neighbor));
        let failure = failure.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::CpuLimitExceeded, Phase::Handler));
        assert_eq!(answer.unwrap().text(), "well");
    }
}

async fn an_isolate_with_a_full_heap_is_replaced(name: &'static str) {
    let node = TestNode::start(name).await;
    let source = "let n = 0; const kept = [];
        export default { async fetch(request) {
          n += 1;
          if (request.method === 'POST') for (;;) kept.push(new Array(1e5).fill(n));
          return new Response(String(n));
        } }";
    let grows =
        node.worker("grows", source, |limits| (limits.memory_mib, limits.cpu_ms) = (32, 20_000));
    assert_eq!(node.client().get(&grows).await.unwrap().text(), "1");
    let failure = node.client().post(&grows, Bytes::new()).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::MemoryLimitExceeded, Phase::Handler));
    assert_eq!(node.client().get(&grows).await.unwrap().text(), "1");
    assert_eq!(node.metric("tenon_evictions_total", &[("reason", "condemned")]), 1);
    node.await_metric("tenon_isolates", &[], 1).await;
}

async fn an_isolate_stopped_at_a_limit_is_evicted_immediately(name: &'static str) {
    let node = TestNode::start(name).await;
    // If each eviction waited for the next scan of idle isolates, ten evictions would exceed the
    // timeout of the test.
    for n in 0..10 {
        let loops = node.handler(&format!("loops-{n}"), "for (;;);");
        let failure = node.client().get(&loops).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::CpuLimitExceeded);
        node.await_metric("tenon_isolates", &[], 0).await;
    }
    assert_eq!(node.metric("tenon_evictions_total", &[("reason", "condemned")]), 10);
}

async fn requests_waiting_for_a_stopped_isolate_are_served_by_the_next(name: &'static str) {
    let node = TestNode::start(name).await;
    // All turns are long, so that each request waits for the previous one.
    let source = "let stops = false;
        export default { async fetch(request) {
          if (stops) return new Response('half done');
          stops = request.method === 'POST';
          for (let i = 0; stops || i < 1e7; i++);
          return new Response('whole');
        } }";
    let worker = node.worker("worker", source, |_| {});
    assert_eq!(node.client().get(&worker).await.unwrap().text(), "whole");
    let (first, second) = (node.client(), node.client());
    let (failure, one, other) =
        tokio::join!(first.post(&worker, Bytes::new()), first.get(&worker), second.get(&worker));
    assert_eq!(failure.unwrap_err().code, FailureCode::CpuLimitExceeded);
    assert_eq!((one.unwrap().text(), other.unwrap().text()), ("whole", "whole"));
}

async fn unread_request_bodies_do_not_block_other_requests(name: &'static str) {
    let node = TestNode::start(name).await;
    let ignores =
        node.handler("ignores", "await new Promise((resolve) => setTimeout(resolve, 1e6))");
    let echo = node.handler("echo", "return new Response(await request.arrayBuffer())");
    let piece = Bytes::from(vec![b'x'; INLINE_BODY]);
    // The bodies together are larger than any single flow-control window.
    let mut stuck = Vec::new();
    for _ in 0..100 {
        let upload = node.client().upload(&ignores);
        for _ in 0..16 {
            upload.body_tx.send(piece.clone()).unwrap();
        }
        stuck.push(upload);
    }
    node.await_metric("tenon_shard_inflight", &[], 100).await;
    let body = Bytes::from(vec![b'y'; 1 << 20]);
    for _ in 0..3 {
        let answer = node.client().post(&echo, body.clone());
        let answer = tokio::time::timeout(Duration::from_secs(30), answer)
            .await
            .expect("an unread body blocks the request")
            .unwrap();
        assert_eq!(answer.body.len(), body.len());
    }
    stuck.into_iter().for_each(|upload| upload.cancel());
    node.await_metric("tenon_shard_inflight", &[], 0).await;
}

async fn an_idle_isolate_is_evicted(name: &'static str) {
    let node =
        TestNode::with(name, |config| config.pool.idle_timeout = Duration::from_millis(1)).await;
    let hello = node.handler("hello", "return new Response('hello')");
    node.client().get(&hello).await.unwrap();
    node.await_metric("tenon_evictions_total", &[("reason", "idle")], 1).await;
    node.await_metric("tenon_isolates", &[], 0).await;
    assert_eq!(node.client().get(&hello).await.unwrap().text(), "hello");
}

async fn an_isolate_slightly_over_its_cpu_limit_is_retired(name: &'static str) {
    let node = TestNode::start(name).await;
    let source = "let served = 0;
        export default { fetch(request) {
          served += 1;
          const rounds = Number(new URL(request.url).searchParams.get('rounds'));
          for (let i = 0; i < rounds; i++);
          return new Response(String(served));
        } }";
    let deploy =
        |number| node.worker(&format!("worker-{number}"), source, |limits| limits.cpu_ms = 5);
    let (mut number, mut worker, mut answered) = (0, deploy(0), false);
    // Each request does a little more work, so that one of them ends just after the limit.
    let mut rounds = 100_000;
    loop {
        let url = format!("https://worker.test/?rounds={rounds}");
        let request = InvokeHead { url, ..head(&worker) };
        match node.client().call(request, stream::empty()).await {
            // This is a new isolate, and the isolate before it has answered every request.
            Ok(answer) if answered && answer.text() == "1" => break,
            Ok(_) => (answered, rounds) = (true, rounds + rounds / 100),
            // The work was too much. The next attempt uses a new Worker, because a Worker that is
            // stopped repeatedly goes into back-off.
            Err(_) => {
                number += 1;
                (worker, answered, rounds) = (deploy(number), false, rounds - rounds / 10);
            }
        }
    }
    assert!(node.metric("tenon_evictions_total", &[("reason", "retired")]) >= 1);
}

/// Stand-ins for the kernel's files about a container's memory, with a given percentage in use.
struct Memory(tempfile::TempDir);

impl Memory {
    fn used(percent: u32) -> Self {
        let memory = Self(tempfile::tempdir().unwrap());
        memory.write("proc/meminfo", "MemTotal: 16000000 kB");
        memory.write("proc/self/cgroup", "0::/");
        memory.write("sys/fs/cgroup/memory.max", "1000");
        memory.write("sys/fs/cgroup/memory.stat", "inactive_file 0");
        memory.use_up(percent);
        memory
    }

    fn use_up(&self, percent: u32) {
        self.write("sys/fs/cgroup/memory.current", &format!("{percent}0"));
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // The file is replaced atomically, because the node may read it at any time.
        std::fs::write(path.with_extension("new"), content).unwrap();
        std::fs::rename(path.with_extension("new"), path).unwrap();
    }

    async fn node(&self, name: &'static str) -> TestNode {
        TestNode::with(name, |config| config.memory.root = self.0.path().to_owned()).await
    }
}

async fn tight_memory_forces_a_collection_before_an_eviction(name: &'static str) {
    let memory = Memory::used(10);
    let node = memory.node(name).await;
    let wastes =
        node.handler("wastes", "for (let i = 0; i < 1e5; i++) ({ i }); return new Response()");
    node.client().get(&wastes).await.unwrap();
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    memory.use_up(85);
    node.await_metric("tenon_evictions_total", &[("reason", "memory")], 1).await;
    assert_eq!(node.metric("tenon_forced_collections_total", &[]), 1);
    // Cold isolates still start.
    assert!(node.client().get(&wastes).await.is_ok());
}

async fn a_memory_shortage_evicts_idle_isolates_and_refuses_starts(name: &'static str) {
    let memory = Memory::used(10);
    let uses = |percent| memory.use_up(percent);
    let node = memory.node(name).await;
    let hello = node.handler("hello", "return new Response('hello')");
    let busy = node.handler("busy", WAITS);
    node.client().get(&hello).await.unwrap();
    let upload = node.client().upload(&busy);
    node.await_metric("tenon_shard_inflight", &[], 1).await;

    uses(97);
    node.await_metric("tenon_evictions_total", &[("reason", "memory")], 1).await;
    let failure = node.client().get(&hello).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "memory_short")]), 1);
    assert_eq!(
        upload.end().await.unwrap().text(),
        "done",
        "the request in flight was not answered"
    );

    uses(92);
    node.await_metric("tenon_memory_used_bytes", &[], 920).await;
    assert!(
        node.client().get(&hello).await.is_err(),
        "a cold start succeeded at 92 % of the memory limit"
    );
    uses(50);
    while node.client().get(&hello).await.is_err() {
        tokio::task::yield_now().await;
    }
}
