//! Tests of cold starts: all waiting requests share one start, which takes its code from the
//! catalog or from a cache, and may evict another isolate.

use std::time::Duration;

use bytes::Bytes;
use tenon_proto::failure::{FailureCode, Phase};
use tenon_proto::id::RevisionDigest;

use crate::harness::catalog::Catalog;
use crate::harness::{Deployed, TestNode, await_condition, trials};

trials! {
    many_requests_for_a_cold_worker_wait_for_one_start,
    requests_waiting_for_a_start_are_served_by_earliest_deadline,
    the_number_of_requests_waiting_for_a_start_is_bounded,
    a_burst_of_clients_of_a_cold_worker_is_served,
    an_unknown_digest_is_unavailable,
    known_workers_are_served_without_the_catalog,
    a_start_waits_for_the_catalog_to_return,
    a_start_asks_another_operator_while_one_is_not_ready,
    a_start_waits_no_longer_than_its_requests_may,
    revisions_outlive_the_process_and_are_fetched_again_if_damaged,
    a_node_is_ready_without_a_catalog,
    unavailable_cold_workers_do_not_take_permits_from_warm_ones,
    code_that_does_not_match_its_digest_is_refused,
    a_worker_that_cannot_start_is_not_tried_for_every_request,
    the_least_recently_used_isolate_is_evicted_and_starts_again,
    a_busy_isolate_is_not_evicted,
    a_start_takes_a_spare_isolate_and_another_is_made,
    a_worker_with_a_large_memory_limit_does_not_take_a_spare,
    workers_start_without_spares,
    bytecode_outlives_the_process_and_is_made_again_if_damaged,
    bytecode_contains_the_functions_that_run_before_the_first_response,
    bytecode_is_made_again_after_further_requests,
}

const COUNTER: &str = "let n = 0; export default { fetch: () => new Response(String(++n)) }";
/// A time that is shorter than the default limit of a request.
const A_MOMENT: Duration = Duration::from_secs(2);
const WAITS: &str = "await request.text(); return new Response('done')";

async fn many_requests_for_a_cold_worker_wait_for_one_start(name: &'static str) {
    let node = TestNode::start(name).await;
    let counter = node.worker("counter", COUNTER, |_| {});
    let answers = futures::future::join_all((0..20).map(|_| node.client().get(&counter))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| answer.cold), "a request did not wait");
    assert!(!node.client().get(&counter).await.unwrap().cold, "a request waited for no start");
    let mut counts: Vec<u32> =
        answers.iter().map(|answer| answer.text().parse().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=20).collect::<Vec<_>>());
    assert_eq!(node.catalog.fetches(), 1);
    assert_eq!(node.metric("tenon_cold_starts_total", &[("outcome", "ok")]), 1);
}

async fn requests_waiting_for_a_start_are_served_by_earliest_deadline(name: &'static str) {
    let node = TestNode::start(name).await;
    // The first Worker handles its requests one after another.
    let one_by_one = node.worker("one-by-one", COUNTER, |limits| limits.concurrency = 1);
    let side_by_side = node.worker("side-by-side", COUNTER, |_| {});
    for worker in [one_by_one, side_by_side] {
        node.catalog.pause();
        // The last request has the earliest deadline.
        let mut answers = Vec::new();
        for (n, seconds) in [50, 40, 30, 20].into_iter().enumerate() {
            answers.push(tokio::spawn(
                node.client().get_within(&worker, Duration::from_secs(seconds)),
            ));
            node.await_metric("tenon_shard_waiting", &[], n as u64 + 1).await;
        }
        node.catalog.resume();
        let mut counts = Vec::new();
        for answer in answers {
            counts.push(answer.await.unwrap().unwrap().text().to_owned());
        }
        assert_eq!(counts, ["4", "3", "2", "1"], "{}", worker.worker);
    }
}

async fn the_number_of_requests_waiting_for_a_start_is_bounded(name: &'static str) {
    let node = TestNode::with(name, |config| config.admission.max_waiting = 3).await;
    let (cold, other) =
        (node.worker("cold", COUNTER, |_| {}), node.worker("other", COUNTER, |_| {}));
    node.catalog.pause();
    let mut waits = Vec::new();
    for (n, worker) in [&cold, &cold, &cold, &other].into_iter().enumerate() {
        let (client, worker) = (node.client().clone(), worker.clone());
        waits.push(tokio::spawn(async move { client.get(&worker).await }));
        node.await_metric("tenon_shard_waiting", &[], n as u64 + 1).await;
    }
    let failure = node.client().get(&cold).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "waiting_room_full")]), 1);
    node.catalog.resume();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    node.await_metric("tenon_shard_waiting", &[], 0).await;
}

async fn a_burst_of_clients_of_a_cold_worker_is_served(name: &'static str) {
    let node = TestNode::start(name).await;
    let worker = node.worker("busy", COUNTER, |_| {});
    let answers = (0..500).map(|_| {
        let (client, worker) = (node.client().clone(), worker.clone());
        tokio::spawn(async move { client.get(&worker).await })
    });
    for answer in answers.collect::<Vec<_>>() {
        answer.await.unwrap().unwrap();
    }
}

async fn an_unknown_digest_is_unavailable(name: &'static str) {
    let node = TestNode::start(name).await;
    let mut unknown = node.worker("known", COUNTER, |_| {});
    unknown.digest = RevisionDigest::new([7; 32]);
    let failure = node.client().get(&unknown).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("no such revision"), "{failure}");
    assert!(failure.may_retry_elsewhere());
    assert_eq!(node.metric("tenon_isolates", &[]), 0);
}

async fn known_workers_are_served_without_the_catalog(name: &'static str) {
    let mut node = TestNode::with(name, |config| {
        config.pool.isolates = 1;
        config.catalog.wait = A_MOMENT;
    })
    .await;
    let (known, other) = (node.worker("known", COUNTER, |_| {}), node.handler("other", WAITS));
    let unknown = node.handler("unknown", WAITS);
    node.client().get(&known).await.unwrap();
    node.client().get(&other).await.unwrap();
    node.catalog.stop();
    // Neither the warm Worker nor the evicted Worker needs the catalog.
    node.client().get(&other).await.unwrap();
    node.client().get(&known).await.unwrap();
    let failure = node.client().get(&unknown).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("cannot be reached"), "{failure}");
}

async fn a_start_waits_for_the_catalog_to_return(name: &'static str) {
    let mut node = TestNode::start(name).await;
    let warm = node.worker("warm", COUNTER, |_| {});
    node.client().get(&warm).await.unwrap();
    let cold = node.handler("cold", WAITS);
    node.catalog.stop();
    let client = node.client().clone();
    let answer = tokio::spawn(async move { client.get(&cold).await });
    node.await_metric("tenon_isolates", &[("state", "starting")], 1).await;
    node.catalog.restart();
    assert_eq!(answer.await.unwrap().unwrap().text(), "done");
}

async fn a_start_asks_another_operator_while_one_is_not_ready(name: &'static str) {
    let starting = Catalog::start();
    let url = starting.url();
    let mut node = TestNode::with(name, |config| {
        config.catalog.starting = Some(url.parse().unwrap());
    })
    .await;
    let [first, second] = ["first", "second"].map(|name| node.handler(name, WAITS));
    node.catalog.copy_to(&starting);
    node.catalog.refuse();
    assert_eq!(node.client().get(&first).await.unwrap().text(), "done");
    assert!(node.catalog.fetches() > 0 && starting.fetches() == 1);
    // The connection to the operator that answered is kept.
    node.catalog.stop();
    assert_eq!(node.client().get(&second).await.unwrap().text(), "done");
}

async fn a_start_waits_no_longer_than_its_requests_may(name: &'static str) {
    let mut node = TestNode::start(name).await;
    let cold = node.handler("cold", WAITS);
    node.catalog.stop();
    let failure = node.client().get_within(&cold, A_MOMENT).await.unwrap_err();
    assert_ne!(failure.code, FailureCode::RevisionUnavailable, "{failure}");
    node.await_metric("tenon_shard_waiting", &[], 0).await;
    // The start continues, and the next request waits for it.
    let client = node.client().clone();
    let answer = tokio::spawn(async move { client.get(&cold).await });
    node.await_metric("tenon_shard_waiting", &[], 1).await;
    node.catalog.restart();
    assert_eq!(answer.await.unwrap().unwrap().text(), "done");
    assert_eq!(node.metric("tenon_cold_starts_total", &[("outcome", "ok")]), 1);
}

async fn revisions_outlive_the_process_and_are_fetched_again_if_damaged(name: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let code = directory.path().join("code");
    let start = async || {
        TestNode::with(name, |config| config.pool.code_cache_dir = Some(code.clone())).await
    };
    let node = start().await;
    let worker = node.worker("kept", COUNTER, |_| {});
    node.client().get(&worker).await.unwrap();
    let file = code.join("revisions").join(worker.digest.to_string());
    await_condition("the revision's file", || file.exists()).await;
    let revisions = Catalog::start();
    node.catalog.copy_to(&revisions);
    drop(node);

    let mut node = start().await;
    node.catalog.stop();
    assert_eq!(node.client().get(&worker).await.unwrap().text(), "1");
    drop(node);

    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let node = start().await;
    revisions.copy_to(&node.catalog);
    assert_eq!(node.client().get(&worker).await.unwrap().text(), "1");
    assert_eq!(node.catalog.fetches(), 1, "a damaged file was used");
}

async fn a_node_is_ready_without_a_catalog(name: &'static str) {
    let node =
        TestNode::with(name, |config| config.catalog.ready = "http://127.0.0.1:9".parse().unwrap())
            .await;
    assert!(node.readiness.is_ready());
}

async fn unavailable_cold_workers_do_not_take_permits_from_warm_ones(name: &'static str) {
    let mut node = TestNode::with(name, |config| {
        config.admission.max_inflight = 2;
        config.catalog.wait = A_MOMENT;
    })
    .await;
    let warm = node.worker("warm", COUNTER, |_| {});
    node.client().get(&warm).await.unwrap();
    node.catalog.stop();
    let cold: Vec<_> = (0..5).map(|n| node.handler(&format!("cold-{n}"), WAITS)).collect();
    let waiting: Vec<_> = cold
        .into_iter()
        .map(|cold| {
            let client = node.client().clone();
            tokio::spawn(async move { client.get(&cold).await })
        })
        .collect();
    node.await_metric("tenon_isolates", &[("state", "starting")], 5).await;
    node.client().get(&warm).await.unwrap();
    for waited in waiting {
        assert_eq!(waited.await.unwrap().unwrap_err().code, FailureCode::RevisionUnavailable);
    }
}

async fn code_that_does_not_match_its_digest_is_refused(name: &'static str) {
    let node = TestNode::start(name).await;
    let (requested, delivered) =
        (node.worker("requested", COUNTER, |_| {}), node.worker("delivered", COUNTER, |_| {}));
    node.catalog.swap(requested.digest, delivered.digest);
    let failure = node.client().get(&requested).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("damaged"), "{failure}");
}

async fn a_worker_that_cannot_start_is_not_tried_for_every_request(name: &'static str) {
    let node = TestNode::start(name).await;
    let broken = node.worker("broken", "throw new Error('at the top')", |_| {});
    // The requests are sent together. On a slow machine, a request may arrive after the back-off
    // and start the Worker again.
    for failure in futures::future::join_all((0..10).map(|_| node.client().get(&broken))).await {
        let failure = failure.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::WorkerStartFailed, Phase::Start));
    }
    let failure = node.client().get(&broken).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WorkerStartFailed, Phase::Start));
    let started = node.metric("tenon_cold_starts_total", &[("outcome", "failed")]);
    assert!((1..5).contains(&started), "{started} starts for eleven requests");
}

async fn the_least_recently_used_isolate_is_evicted_and_starts_again(name: &'static str) {
    let node = TestNode::with(name, |config| config.pool.isolates = 2).await;
    let [a, b, c] = ["a", "b", "c"].map(|name| node.worker(name, COUNTER, |_| {}));
    for (worker, n) in [(&a, "1"), (&b, "1"), (&a, "2"), (&c, "1"), (&a, "3"), (&b, "1")] {
        assert_eq!(node.client().get(worker).await.unwrap().text(), n, "{}", worker.worker);
        // A response may arrive a moment before its permits are released.
        node.await_metric("tenon_shard_inflight", &[], 0).await;
    }
    assert_eq!(node.metric("tenon_evictions_total", &[("reason", "room")]), 2);
    assert_eq!(node.metric("tenon_isolates", &[("state", "warm")]), 2);
    assert_eq!(node.catalog.fetches(), 3);
}

async fn a_busy_isolate_is_not_evicted(name: &'static str) {
    let node = TestNode::with(name, |config| config.pool.isolates = 1).await;
    let (busy, other) = (node.handler("busy", WAITS), node.handler("other", WAITS));
    let upload = node.client().upload(&busy);
    node.await_metric("tenon_shard_inflight", &[], 1).await;
    let failure = node.client().get(&other).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(node.metric("tenon_shed_total", &[("reason", "no_idle_isolate")]), 1);
    assert_eq!(upload.end().await.unwrap().text(), "done");
    node.await_metric("tenon_shard_inflight", &[], 0).await;
    assert_eq!(node.client().get(&other).await.unwrap().text(), "done");
}

async fn a_start_takes_a_spare_isolate_and_another_is_made(name: &'static str) {
    let node = TestNode::start(name).await;
    node.await_metric("tenon_spare_isolates", &[], 1).await;
    let counter = node.worker("counter", COUNTER, |_| {});
    assert_eq!(node.client().get(&counter).await.unwrap().text(), "1");
    assert_eq!(node.metric("tenon_spare_lookups_total", &[("outcome", "hit")]), 1);
    node.await_metric("tenon_spare_isolates", &[], 1).await;
    assert_eq!(node.metric("tenon_isolates", &[]), 1, "a spare was counted as a Worker's isolate");
}

async fn a_worker_with_a_large_memory_limit_does_not_take_a_spare(name: &'static str) {
    let node = TestNode::start(name).await;
    for (memory_mib, outcome) in [(16, "hit"), (512, "hit"), (1024, "miss")] {
        node.await_metric("tenon_spare_isolates", &[], 1).await;
        let before = node.metric("tenon_spare_lookups_total", &[("outcome", outcome)]);
        let name = format!("worker-{memory_mib}");
        let worker = node.handler_with(&name, "return new Response('started')", |limits| {
            limits.memory_mib = memory_mib;
        });
        assert_eq!(node.client().get(&worker).await.unwrap().text(), "started");
        let after = node.metric("tenon_spare_lookups_total", &[("outcome", outcome)]);
        assert_eq!(after, before + 1, "{memory_mib} MiB");
    }
}

async fn workers_start_without_spares(name: &'static str) {
    let node = TestNode::with(name, |config| config.pool.spares = 0).await;
    let counter = node.worker("counter", COUNTER, |_| {});
    assert_eq!(node.client().get(&counter).await.unwrap().text(), "1");
    assert_eq!(node.metric("tenon_spare_isolates", &[]), 0);
}

async fn bytecode_outlives_the_process_and_is_made_again_if_damaged(name: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let source: String =
        (0..500).map(|n| format!("export function f{n}(x) {{ return x * {n}; }}\n")).collect();
    let lookups = ["miss", "hit", "rejected"];
    let answers_with = async |wanted: &str, damaged: &[u8]| {
        let node = TestNode::with(name, |config| {
            config.pool.code_cache_dir = Some(directory.path().join("code"))
        })
        .await;
        let worker = node.worker("long", &format!("{source}{COUNTER}"), |_| {});
        assert_eq!(node.client().get(&worker).await.unwrap().text(), "1");
        let found = |lookup| node.metric("tenon_bytecode_lookups_total", &[("outcome", lookup)]);
        assert_eq!(lookups.map(found), lookups.map(|lookup| u64::from(lookup == wanted)));
        let file = directory.path().join("code").join(worker.digest.to_string());
        // The node writes the file under another name first.
        await_condition("the bytecode's file", || {
            std::fs::read(&file).is_ok_and(|bytes| bytes != damaged)
        })
        .await;
        file
    };
    let file = answers_with("miss", &[]).await;
    answers_with("hit", &[]).await;
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    answers_with("miss", &bytes).await;
    answers_with("hit", &bytes).await;
}

/// Returns code that defines `all`, which calls hundreds of functions.
fn used_by_all() -> String {
    let functions = (0..500).map(|n| format!("function f{n}(x) {{ return [x, {n}].join(); }}\n"));
    let calls = (0..500).map(|n| format!("f{n}(1);"));
    format!("{}function all() {{ {} }}\n", functions.collect::<String>(), calls.collect::<String>())
}

/// A size, in bytes, that the bytecode of [`used_by_all`] exceeds only if the functions have run.
const SIZE_IF_RUN: u64 = 100_000;

async fn bytecode_contains_the_functions_that_run_before_the_first_response(name: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let code = directory.path().join("code");
    let node = TestNode::with(name, |config| config.pool.code_cache_dir = Some(code.clone())).await;
    let waits = "export default { async fetch(request) { await request.text(); all(); return new Response() } }";
    let worker = node.worker("waits", &format!("{}{waits}", used_by_all()), |_| {});
    let upload = node.client().upload(&worker);
    node.await_metric("tenon_cold_starts_total", &[("outcome", "ok")], 1).await;
    // Meanwhile, the thread is idle, and is free to make bytecode for another Worker.
    let other = node.worker("other", &format!("{}{COUNTER}", used_by_all()), |_| {});
    node.client().get(&other).await.unwrap();
    let size = async |worker: &Deployed| {
        let file = code.join(worker.digest.to_string());
        await_condition("the bytecode's file", || file.exists()).await;
        file.metadata().unwrap().len()
    };
    assert!(size(&other).await < SIZE_IF_RUN);
    upload.end().await.unwrap();
    let made = size(&worker).await;
    assert!(made > SIZE_IF_RUN, "{made} bytes");
}

async fn bytecode_is_made_again_after_further_requests(name: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let code = directory.path().join("code");
    let node = TestNode::with(name, |config| config.pool.code_cache_dir = Some(code.clone())).await;
    let methods = "export default { fetch({ method }) { if (method === 'POST') all(); return new Response() } }";
    let worker = node.worker("methods", &format!("{}{methods}", used_by_all()), |_| {});
    node.client().get(&worker).await.unwrap();
    let size = || Some(code.join(worker.digest.to_string()).metadata().ok()?.len());
    await_condition("the first bytecode", || size().is_some_and(|size| size < SIZE_IF_RUN)).await;
    for _ in 0..3 {
        node.client().post(&worker, Bytes::new()).await.unwrap();
    }
    await_condition("bytecode of more functions", || size().is_some_and(|size| size > SIZE_IF_RUN))
        .await;
}
