//! Cold starts: one for all waiting requests, from the catalog or from cached code, and in place of
//! other isolates.

use std::time::Duration;

use tenon_proto::failure::{FailureCode, Phase};
use tenon_proto::id::RevisionDigest;

use crate::harness::{Stand, await_condition, trials};

trials! {
    many_requests_for_a_cold_worker_wait_for_one_start,
    requests_waiting_for_a_start_are_served_by_earliest_deadline,
    the_number_of_requests_waiting_for_a_start_is_bounded,
    a_burst_of_clients_of_a_cold_worker_is_served,
    an_unknown_digest_is_unavailable,
    known_workers_are_served_without_the_catalog,
    a_start_waits_for_the_catalog_to_return,
    a_node_is_ready_without_a_catalog,
    unavailable_cold_workers_take_no_permits_from_warm_ones,
    code_that_does_not_match_its_digest_is_refused,
    a_worker_that_cannot_start_is_not_tried_for_every_request,
    the_least_recently_used_isolate_is_evicted_and_starts_again,
    a_busy_isolate_makes_no_room,
    a_start_takes_a_spare_isolate_and_another_is_made,
    a_worker_with_a_large_memory_limit_takes_no_spare,
    workers_start_without_spares,
    bytecode_outlives_the_process_and_damage_to_it_costs_only_time,
}

const COUNTER: &str = "let n = 0; export default { fetch: () => new Response(String(++n)) }";
const WAITS: &str = "await request.text(); return new Response('done')";

async fn many_requests_for_a_cold_worker_wait_for_one_start(name: &'static str) {
    let stand = Stand::start(name).await;
    let counter = stand.worker("counter", COUNTER, |_| {});
    let answers = futures::future::join_all((0..20).map(|_| stand.client().get(&counter))).await;
    let mut counts: Vec<u32> =
        answers.into_iter().map(|answer| answer.unwrap().text().parse().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=20).collect::<Vec<_>>());
    assert_eq!(stand.catalog.fetches(), 1);
    assert_eq!(stand.metric("tenon_cold_starts_total", &[("outcome", "ok")]), 1);
}

async fn requests_waiting_for_a_start_are_served_by_earliest_deadline(name: &'static str) {
    let stand = Stand::start(name).await;
    // The first Worker queues its requests behind one another.
    let one_by_one = stand.worker("one-by-one", COUNTER, |limits| limits.concurrency = 1);
    let side_by_side = stand.worker("side-by-side", COUNTER, |_| {});
    for worker in [one_by_one, side_by_side] {
        stand.catalog.pause();
        // The last request has the earliest deadline.
        let mut answers = Vec::new();
        for (n, seconds) in [50, 40, 30, 20].into_iter().enumerate() {
            answers.push(tokio::spawn(
                stand.client().get_within(&worker, Duration::from_secs(seconds)),
            ));
            stand.await_metric("tenon_shard_waiting", &[], n as u64 + 1).await;
        }
        stand.catalog.resume();
        let mut counts = Vec::new();
        for answer in answers {
            counts.push(answer.await.unwrap().unwrap().text().to_owned());
        }
        assert_eq!(counts, ["4", "3", "2", "1"], "{}", worker.worker);
    }
}

async fn the_number_of_requests_waiting_for_a_start_is_bounded(name: &'static str) {
    let stand = Stand::with(name, |config| config.admission.max_waiting = 3).await;
    let (cold, other) =
        (stand.worker("cold", COUNTER, |_| {}), stand.worker("other", COUNTER, |_| {}));
    stand.catalog.pause();
    let mut waits = Vec::new();
    for (n, worker) in [&cold, &cold, &cold, &other].into_iter().enumerate() {
        let (client, worker) = (stand.client().clone(), worker.clone());
        waits.push(tokio::spawn(async move { client.get(&worker).await }));
        stand.await_metric("tenon_shard_waiting", &[], n as u64 + 1).await;
    }
    let failure = stand.client().get(&cold).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(stand.metric("tenon_shed_total", &[("reason", "waiting_room_full")]), 1);
    stand.catalog.resume();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    stand.await_metric("tenon_shard_waiting", &[], 0).await;
}

async fn a_burst_of_clients_of_a_cold_worker_is_served(name: &'static str) {
    let stand = Stand::start(name).await;
    let worker = stand.worker("busy", COUNTER, |_| {});
    let answers = (0..500).map(|_| {
        let (client, worker) = (stand.client().clone(), worker.clone());
        tokio::spawn(async move { client.get(&worker).await })
    });
    for answer in answers.collect::<Vec<_>>() {
        answer.await.unwrap().unwrap();
    }
}

async fn an_unknown_digest_is_unavailable(name: &'static str) {
    let stand = Stand::start(name).await;
    let mut unknown = stand.worker("known", COUNTER, |_| {});
    unknown.digest = RevisionDigest::new([7; 32]);
    let failure = stand.client().get(&unknown).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("no such revision"), "{failure}");
    assert!(failure.may_retry_elsewhere());
    assert_eq!(stand.metric("tenon_isolates", &[]), 0);
}

async fn known_workers_are_served_without_the_catalog(name: &'static str) {
    let mut stand = Stand::with(name, |config| config.pool.isolates = 1).await;
    let (known, other) = (stand.worker("known", COUNTER, |_| {}), stand.handler("other", WAITS));
    let unknown = stand.handler("unknown", WAITS);
    stand.client().get(&known).await.unwrap();
    stand.client().get(&other).await.unwrap();
    stand.catalog.stop();
    // Neither the warm Worker nor the evicted one needs the catalog.
    stand.client().get(&other).await.unwrap();
    stand.client().get(&known).await.unwrap();
    let failure = stand.client().get(&unknown).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("cannot be reached"), "{failure}");
}

async fn a_start_waits_for_the_catalog_to_return(name: &'static str) {
    let mut stand = Stand::start(name).await;
    let warm = stand.worker("warm", COUNTER, |_| {});
    stand.client().get(&warm).await.unwrap();
    let cold = stand.handler("cold", WAITS);
    stand.catalog.stop();
    let client = stand.client().clone();
    let answer = tokio::spawn(async move { client.get(&cold).await });
    stand.await_metric("tenon_isolates", &[("state", "starting")], 1).await;
    stand.catalog.restart();
    assert_eq!(answer.await.unwrap().unwrap().text(), "done");
}

async fn a_node_is_ready_without_a_catalog(name: &'static str) {
    let stand =
        Stand::with(name, |config| config.catalog = "http://127.0.0.1:9".parse().unwrap()).await;
    assert!(stand.readiness.is_ready());
}

async fn unavailable_cold_workers_take_no_permits_from_warm_ones(name: &'static str) {
    let mut stand = Stand::with(name, |config| config.admission.max_inflight = 2).await;
    let warm = stand.worker("warm", COUNTER, |_| {});
    stand.client().get(&warm).await.unwrap();
    stand.catalog.stop();
    let cold: Vec<_> = (0..5).map(|n| stand.handler(&format!("cold-{n}"), WAITS)).collect();
    let waiting: Vec<_> = cold
        .into_iter()
        .map(|cold| {
            let client = stand.client().clone();
            tokio::spawn(async move { client.get(&cold).await })
        })
        .collect();
    stand.await_metric("tenon_isolates", &[("state", "starting")], 5).await;
    stand.client().get(&warm).await.unwrap();
    for waited in waiting {
        assert_eq!(waited.await.unwrap().unwrap_err().code, FailureCode::RevisionUnavailable);
    }
}

async fn code_that_does_not_match_its_digest_is_refused(name: &'static str) {
    let stand = Stand::start(name).await;
    let (requested, delivered) =
        (stand.worker("requested", COUNTER, |_| {}), stand.worker("delivered", COUNTER, |_| {}));
    stand.catalog.swap(requested.digest, delivered.digest);
    let failure = stand.client().get(&requested).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::RevisionUnavailable, Phase::Start));
    assert!(failure.message.contains("damaged"), "{failure}");
}

async fn a_worker_that_cannot_start_is_not_tried_for_every_request(name: &'static str) {
    let stand = Stand::start(name).await;
    let broken = stand.worker("broken", "throw new Error('at the top')", |_| {});
    // The requests go out together; one that comes after a back-off, on a slow machine, starts it
    // again.
    for failure in futures::future::join_all((0..10).map(|_| stand.client().get(&broken))).await {
        let failure = failure.unwrap_err();
        assert_eq!((failure.code, failure.phase), (FailureCode::WorkerStartFailed, Phase::Start));
    }
    let failure = stand.client().get(&broken).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::WorkerStartFailed, Phase::Start));
    let started = stand.metric("tenon_cold_starts_total", &[("outcome", "failed")]);
    assert!((1..5).contains(&started), "{started} starts for eleven requests");
}

async fn the_least_recently_used_isolate_is_evicted_and_starts_again(name: &'static str) {
    let stand = Stand::with(name, |config| config.pool.isolates = 2).await;
    let [a, b, c] = ["a", "b", "c"].map(|name| stand.worker(name, COUNTER, |_| {}));
    for (worker, n) in [(&a, "1"), (&b, "1"), (&a, "2"), (&c, "1"), (&a, "3"), (&b, "1")] {
        assert_eq!(stand.client().get(worker).await.unwrap().text(), n, "{}", worker.worker);
        // A response may arrive a moment before its permits are released.
        stand.await_metric("tenon_shard_inflight", &[], 0).await;
    }
    assert_eq!(stand.metric("tenon_evictions_total", &[("reason", "room")]), 2);
    assert_eq!(stand.metric("tenon_isolates", &[("state", "warm")]), 2);
    assert_eq!(stand.catalog.fetches(), 3);
}

async fn a_busy_isolate_makes_no_room(name: &'static str) {
    let stand = Stand::with(name, |config| config.pool.isolates = 1).await;
    let (busy, other) = (stand.handler("busy", WAITS), stand.handler("other", WAITS));
    let upload = stand.client().upload(&busy);
    stand.await_metric("tenon_shard_inflight", &[], 1).await;
    let failure = stand.client().get(&other).await.unwrap_err();
    assert_eq!((failure.code, failure.phase), (FailureCode::Overloaded, Phase::Admission));
    assert_eq!(stand.metric("tenon_shed_total", &[("reason", "no_idle_isolate")]), 1);
    assert_eq!(upload.end().await.unwrap().text(), "done");
    stand.await_metric("tenon_shard_inflight", &[], 0).await;
    assert_eq!(stand.client().get(&other).await.unwrap().text(), "done");
}

async fn a_start_takes_a_spare_isolate_and_another_is_made(name: &'static str) {
    let stand = Stand::start(name).await;
    stand.await_metric("tenon_spare_isolates", &[], 1).await;
    let counter = stand.worker("counter", COUNTER, |_| {});
    assert_eq!(stand.client().get(&counter).await.unwrap().text(), "1");
    assert_eq!(stand.metric("tenon_spare_lookups_total", &[("outcome", "hit")]), 1);
    stand.await_metric("tenon_spare_isolates", &[], 1).await;
    assert_eq!(
        stand.metric("tenon_isolates", &[]),
        1,
        "a spare does not count as a Worker's isolate"
    );
}

async fn a_worker_with_a_large_memory_limit_takes_no_spare(name: &'static str) {
    let stand = Stand::start(name).await;
    for (memory_mib, outcome) in [(16, "hit"), (512, "hit"), (1024, "miss")] {
        stand.await_metric("tenon_spare_isolates", &[], 1).await;
        let before = stand.metric("tenon_spare_lookups_total", &[("outcome", outcome)]);
        let name = format!("worker-{memory_mib}");
        let worker = stand.handler_with(&name, "return new Response('started')", |limits| {
            limits.memory_mib = memory_mib;
        });
        assert_eq!(stand.client().get(&worker).await.unwrap().text(), "started");
        let after = stand.metric("tenon_spare_lookups_total", &[("outcome", outcome)]);
        assert_eq!(after, before + 1, "{memory_mib} MiB");
    }
}

async fn workers_start_without_spares(name: &'static str) {
    let stand = Stand::with(name, |config| config.pool.spares = 0).await;
    let counter = stand.worker("counter", COUNTER, |_| {});
    assert_eq!(stand.client().get(&counter).await.unwrap().text(), "1");
    assert_eq!(stand.metric("tenon_spare_isolates", &[]), 0);
}

async fn bytecode_outlives_the_process_and_damage_to_it_costs_only_time(name: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let source: String =
        (0..500).map(|n| format!("export function f{n}(x) {{ return x * {n}; }}\n")).collect();
    let lookups = ["miss", "hit", "rejected"];
    let answers_with = async |wanted: &str, damaged: &[u8]| {
        let stand = Stand::with(name, |config| {
            config.pool.code_cache_dir = Some(directory.path().join("code"))
        })
        .await;
        let worker = stand.worker("long", &format!("{source}{COUNTER}"), |_| {});
        assert_eq!(stand.client().get(&worker).await.unwrap().text(), "1");
        let found = |lookup| stand.metric("tenon_bytecode_lookups_total", &[("outcome", lookup)]);
        assert_eq!(lookups.map(found), lookups.map(|lookup| u64::from(lookup == wanted)));
        let file = directory.path().join("code").join(worker.digest.to_string());
        // The file is written under another name first.
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
