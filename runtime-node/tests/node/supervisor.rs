//! Tests of a node of several processes: its supervisor, and a process of the program for each
//! shard and lane.

use futures::{SinkExt as _, stream};
use tenon_proto::catalog::quarantined;
use tenon_proto::failure::FailureCode;
use tenon_proto::runtime::InvokeHead;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::client::head;
use crate::harness::supervised::{SupervisedNode, code};
use crate::harness::{await_condition, trials};
use crate::web_sockets::Socket;

trials! {
    a_revision_moves_from_a_lane_to_its_shard_after_light_requests,
    a_request_that_must_stay_runs_in_the_lane,
    a_revision_whose_code_ran_when_its_process_ended_is_refused_and_reported,
    a_repeated_request_gets_the_decision_on_its_lost_shard,
    a_process_that_ends_between_turns_is_restarted_without_quarantine,
    a_heavy_revision_moves_back_to_the_lanes,
    a_web_socket_that_stays_heavy_on_the_shard_is_closed_and_opened_again_in_a_lane,
    a_timer_that_stays_heavy_on_the_shard_is_stopped,
    a_draining_node_finishes_its_invocations,
    metrics_cover_all_processes,
}

async fn a_revision_moves_from_a_lane_to_its_shard_after_light_requests(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let unknown = node.handler("unknown", "return new Response('light')");
    assert_eq!(code(node.shard.get(&unknown).await), Some(FailureCode::Moved));
    assert_eq!(node.lane.get(&unknown).await.unwrap().text(), "light");
    let worker = node.known("light", "return new Response('light')").await;
    assert_eq!(node.shard.get(&worker).await.unwrap().text(), "light");
    while node.lane.get(&worker).await.is_ok() {}
    assert_eq!(code(node.lane.get(&worker).await), Some(FailureCode::Moved));
}

async fn a_request_that_must_stay_runs_in_the_lane(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let worker = node.handler("stays", "return new Response('here')");
    let head = InvokeHead { stay: true, ..head(&worker) };
    for _ in 0..32 {
        assert_eq!(node.lane.call(head.clone(), stream::empty()).await.unwrap().text(), "here");
    }
}

async fn a_revision_whose_code_ran_when_its_process_ended_is_refused_and_reported(
    name: &'static str,
) {
    let node = SupervisedNode::start(name).await;
    let killer = node.handler("killer", "for (;;);");
    let other = node.handler("other", "return new Response('served')");
    let (lane, called) = (node.lane.clone(), killer.clone());
    let lost = tokio::spawn(async move { lane.get(&called).await });
    // The metrics show which process is computing: the lane's turn runs until its CPU limit.
    node.await_line("tenon_node_process_up{process=\"lane-0\"} 1").await;
    node.await_line("tenon_shard_inflight{shard=\"lane-0\"} 1").await;
    node.signal("lane-0", "-ABRT");
    assert!(lost.await.unwrap().is_err());
    await_condition("a report to the operator", || !node.quarantines().is_empty()).await;
    let reported = node.quarantines();
    assert_eq!(
        (reported.len(), reported[0].cause(), reported[0].times),
        (1, quarantined::Cause::Crashed, 1)
    );
    for client in [&node.shard, &node.lane] {
        assert_eq!(code(client.get(&killer).await), Some(FailureCode::WorkerQuarantined));
    }
    assert_eq!(node.get(&other).await.unwrap().text(), "served");
    node.await_line("tenon_node_process_exits_total{cause=\"crashed\",process=\"lane-0\"} 1").await;
    node.await_line("tenon_node_quarantined_revisions 1").await;
}

async fn a_repeated_request_gets_the_decision_on_its_lost_shard(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let known = node.known(
        "killer",
        "if (request.url.includes('kill')) for (;;); return new Response('light')",
    );
    let killer = known.await;
    let kill = InvokeHead { url: "https://worker.test/kill".to_owned(), ..head(&killer) };
    let (shard, first) = (node.shard.clone(), kill.clone());
    let lost = tokio::spawn(async move { shard.call(first, stream::empty()).await });
    node.await_line("tenon_shard_inflight{shard=\"0\"} 1").await;
    node.signal("0", "-ABRT");
    assert!(lost.await.unwrap().is_err());
    // The request is repeated immediately: a router that has lost the connection does not wait for
    // the supervisor.
    let again = node.lane.call(InvokeHead { stay: true, ..kill }, stream::empty()).await;
    assert_eq!(code(again), Some(FailureCode::WorkerQuarantined));
    await_condition("a report to the operator", || !node.quarantines().is_empty()).await;
    assert_eq!(node.quarantines().len(), 1);
    node.await_line("tenon_node_process_up{process=\"lane-0\"} 1").await;
}

async fn a_process_that_ends_between_turns_is_restarted_without_quarantine(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let worker = node.handler("innocent", "return new Response('served')");
    assert_eq!(node.get(&worker).await.unwrap().text(), "served");
    for id in ["0", "lane-0"] {
        node.signal(id, "-KILL");
        let process = if id == "0" { "shard-0" } else { id };
        node.await_line(&format!(
            "tenon_node_process_exits_total{{cause=\"killed\",process=\"{process}\"}} 1"
        ))
        .await;
        // Connections that arrive in the meantime wait.
        let (shard, lane) = (node.shard.another(), node.lane.another());
        let outcome = match shard.get(&worker).await {
            Err(failure) if failure.code == FailureCode::Moved => lane.get(&worker).await,
            outcome => outcome,
        };
        assert_eq!(outcome.unwrap().text(), "served", "after the end of {process}");
    }
    assert!(node.quarantines().is_empty());
}

async fn a_heavy_revision_moves_back_to_the_lanes(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let known = node.known(
        "turns",
        "if (request.url.includes('heavy')) { let sum = 0; for (let i = 0; i < 1e8; i++) sum += i % 7; return new Response(`${sum}`) }
         return new Response('light')",
    );
    let worker = known.await;
    let heavy = InvokeHead { url: "https://worker.test/heavy".to_owned(), ..head(&worker) };
    while code(node.shard.call(heavy.clone(), stream::empty()).await) != Some(FailureCode::Moved) {}
    assert!(node.lane.call(heavy, stream::empty()).await.is_ok());
}

/// A computation that takes longer than the turns that a shard permits.
const COMPUTE: &str = "const compute = () => { let sum = 0; for (let i = 0; i < 3e7; i++) sum += i % 7; return sum };";

async fn a_web_socket_that_stays_heavy_on_the_shard_is_closed_and_opened_again_in_a_lane(
    name: &'static str,
) {
    let node = SupervisedNode::start(name).await;
    let echo = format!(
        "{COMPUTE}
         if (request.headers.get('upgrade') !== 'websocket') return new Response('light');
         const {{ 0: client, 1: server }} = new WebSocketPair();
         server.accept();
         server.addEventListener('message', ({{ data }}) => {{ if (data === 'heavy') compute(); server.send(data) }});
         return new Response(null, {{ status: 101, webSocket: client }});"
    );
    let worker = node.known("echo", &echo).await;
    let mut socket = Socket::open(&node.shard, &worker).await.unwrap();
    socket.expect_echo("light").await;
    let closed = loop {
        // The socket may have been closed since the last message.
        let _ = socket.stream.send(Message::from("heavy")).await;
        match socket.receive().await {
            Message::Close(closed) => break closed.unwrap(),
            answer => assert_eq!(answer, Message::from("heavy")),
        }
    };
    assert_eq!(u16::from(closed.code), 1012);
    assert_eq!(code(node.shard.get(&worker).await), Some(FailureCode::Moved));
    Socket::open(&node.lane, &worker).await.unwrap().expect_echo("heavy").await;
}

async fn a_timer_that_stays_heavy_on_the_shard_is_stopped(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let body = format!(
        "{COMPUTE}
         const lingers = async () => {{ for (;;) {{ compute(); await new Promise((done) => setTimeout(done, 50)) }} }};
         if (request.url.includes('linger')) ctx.waitUntil(lingers());
         return new Response('light')"
    );
    let worker = node.known("timer", &body).await;
    let lingers = InvokeHead { url: "https://worker.test/linger".to_owned(), ..head(&worker) };
    assert_eq!(node.shard.call(lingers, stream::empty()).await.unwrap().text(), "light");
    while code(node.shard.get(&worker).await) != Some(FailureCode::Moved) {}
    // The Worker's own limits would let the timer run for minutes.
    node.await_line("tenon_isolates{shard=\"0\",state=\"retiring\"} 0").await;
}

async fn a_draining_node_finishes_its_invocations(name: &'static str) {
    let mut node = SupervisedNode::start(name).await;
    let worker = node.handler(
        "slow",
        "await new Promise((done) => setTimeout(done, 500)); return new Response('done')",
    );
    let (lane, called) = (node.lane.clone(), worker.clone());
    let begun = tokio::spawn(async move { lane.get(&called).await });
    node.await_line("tenon_shard_inflight{shard=\"lane-0\"} 1").await;
    node.signal.take();
    assert_eq!(begun.await.unwrap().unwrap().text(), "done");
    let node = node.node.take().unwrap();
    tokio::task::spawn_blocking(|| node.join()).await.unwrap();
}

async fn metrics_cover_all_processes(name: &'static str) {
    let node = SupervisedNode::start(name).await;
    let page = node.metrics().await;
    for line in [
        "tenon_shard_inflight{shard=\"0\"} 0",
        "tenon_shard_inflight{shard=\"lane-0\"} 0",
        "tenon_node_process_up{process=\"shard-0\"} 1",
        "tenon_worker_crash_loops 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
    }
    let mut families: Vec<_> = page.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "a family is listed twice");
}
