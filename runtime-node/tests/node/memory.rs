//! Tests of the memory of a node of several processes: the memory use of one process never ends
//! another process.

use std::time::Duration;

use futures::future::join_all;
use futures::stream;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::InvokeHead;

use crate::harness::client::head;
use crate::harness::supervised::{SupervisedNode, code};
use crate::harness::{Deployed, trials};

trials! {
    many_simultaneous_starts_do_not_end_a_process,
    a_start_takes_the_place_of_an_idle_isolate,
    memory_that_workers_map_and_touch_later_stays_within_the_budget,
}

/// The memory budget of the node, in MiB.
const BUDGET: u64 = 512;

/// The interval between the requests of an attack, in which the supervisor can react.
const PACE: Duration = Duration::from_millis(120);

/// A handler body that takes memory in pieces, which the kernel provides only when they are
/// touched.
const TAKES: &str = "
    globalThis.pieces ??= [];
    if (request.url.includes('map')) {
        for (let i = 0; i < 5; i++) pieces.push(take());
    } else {
        for (const piece of pieces) {
            const bytes = new Uint8Array(piece);
            for (let i = 0; i < bytes.length; i += 4096) bytes[i] = 1;
        }
    }
    return new Response('done');";

fn request_for(worker: &Deployed, what: &str) -> InvokeHead {
    InvokeHead { url: format!("https://worker.test/{what}"), ..head(worker) }
}

async fn many_simultaneous_starts_do_not_end_a_process(name: &'static str) {
    let node = SupervisedNode::with(name, &["--memory-budget", "256"]).await;
    let worker = |i| node.handler(&format!("worker-{i}"), "return new Response('served')");
    let workers: Vec<_> = (0..150).map(worker).collect();
    let answers = join_all(workers.iter().map(|worker| node.lane.get(worker))).await;
    let refused = answers.into_iter().filter_map(code).collect::<Vec<_>>();
    assert!(refused.len() < workers.len(), "every Worker was refused: {refused:?}");
    assert!(refused.iter().all(|code| *code == FailureCode::Overloaded), "{refused:?}");
    assert!(
        !node
            .metrics()
            .await
            .contains("tenon_node_process_exits_total{cause=\"crashed\",process=\"lane-0\"} 1")
    );
}

async fn a_start_takes_the_place_of_an_idle_isolate(name: &'static str) {
    let node = SupervisedNode::with(name, &["--memory-budget", "256"]).await;
    // There are about four times as many Workers as fit into memory. They start sixteen at a time,
    // in two rounds.
    let worker = |i| node.handler(&format!("worker-{i}"), "return new Response('served')");
    let workers: Vec<_> = (0..320).map(worker).collect();
    for some in (0..2).flat_map(|_| workers.chunks(16)) {
        for answer in join_all(some.iter().map(|worker| node.lane.get(worker))).await {
            assert_eq!(answer.unwrap().text(), "served");
        }
    }
    let series = "tenon_evictions_total{reason=\"memory\",shard=\"lane-0\"} ";
    let metrics = node.metrics().await;
    let evictions = metrics.lines().find_map(|line| line.strip_prefix(series));
    assert!(evictions.is_some_and(|count| count != "0"), "no isolate was evicted");
}

async fn memory_that_workers_map_and_touch_later_stays_within_the_budget(name: &'static str) {
    let node = SupervisedNode::with(name, &["--memory-budget", &BUDGET.to_string()]).await;
    let neighbor = node.known("neighbor", "return new Response('served')").await;
    let mut requests = 48;
    // The first round continues until the process runs out of memory; the second round stops
    // earlier.
    for round in 0..2 {
        let takers = (0..12).map(|i| {
            let take = match i % 2 {
                0 => "const take = () => new ArrayBuffer(4 << 20);",
                _ => "const take = () => new WebAssembly.Memory({ initial: 64 }).buffer;",
            };
            // The CPU limit is high enough for the slowest machine.
            node.handler_within(&format!("taker-{round}-{i}"), &format!("{take} {TAKES}"), 120_000)
        });
        let takers: Vec<_> = takers.collect();
        // After the first round, a new process serves the lane.
        let probe = node.handler(&format!("probe-{round}"), "return new Response('there')");
        while node.lane.get(&probe).await.is_err() {}
        let mut mapped = 0_usize;
        for taker in takers.iter().cycle().take(requests) {
            if node.lane.call(request_for(taker, "map"), stream::empty()).await.is_err() {
                break;
            }
            mapped += 1;
            tokio::time::sleep(PACE).await;
        }
        requests = mapped.saturating_sub(2);
        let lane = &node.lane;
        let touches = join_all(
            takers.iter().map(|taker| lane.call(request_for(taker, "touch"), stream::empty())),
        );
        let mut touches = std::pin::pin!(touches);
        let resident =
            || ["0", "lane-0"].map(|id| node.memory(id, "VmRSS")).iter().sum::<u64>() >> 20;
        let mut peak = 0;
        loop {
            tokio::select! {
                _ = &mut touches => break,
                answer = node.shard.get(&neighbor) => assert_eq!(answer.unwrap().text(), "served"),
            }
            peak = peak.max(resident());
        }
        peak = peak.max(resident());
        assert!(peak <= BUDGET, "the processes used {peak} MiB, and the budget is {BUDGET} MiB");
        assert!(
            round == 0 || peak > BUDGET / 4,
            "the processes used only {peak} MiB of {BUDGET} MiB"
        );
    }
}
