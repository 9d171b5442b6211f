//! Tests of profiles: the node runs a Worker's requests on a copy in a lane, and the Worker returns
//! to its place afterwards.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::read::GzDecoder;
use futures::stream;
use serde_json::{Value, json};
use tenon_proto::failure::FailureCode;
use tenon_proto::node::profile_part::Part;
use tenon_proto::node::profile_response::Response;
use tenon_proto::node::profiler_client::ProfilerClient;
use tenon_proto::node::{ProfileKind, ProfilePart, ProfileRequest, ProfileResponse};
use tenon_proto::runtime::InvokeHead;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::{Code, Status, Streaming};

use crate::harness::client::head;
use crate::harness::supervised::{SupervisedNode, code};
use crate::harness::{Deployed, trials};

trials! {
    a_cpu_profile_of_a_worker_shows_the_requests_that_reach_the_node,
    a_worker_returns_to_its_shard_after_a_profile,
    a_heap_snapshot_contains_the_objects_of_the_copy,
    a_copy_that_reaches_its_cpu_limit_has_a_profile,
    a_copy_that_reaches_its_memory_limit_is_reported,
    a_copy_that_cannot_start_is_reported,
    a_lane_without_memory_for_a_snapshot_is_replaced_and_its_worker_is_not_quarantined,
    a_node_takes_one_profile_at_a_time_until_its_client_leaves,
    a_revision_is_not_quarantined_when_its_lane_is_lost_to_a_profile,
    requests_that_a_node_cannot_fulfill_are_refused,
    an_http_1_connection_gets_no_profile,
}

/// A handler that computes for a while if the URL contains `busy`, and otherwise responds at once.
const HANDLER: &str =
    "const busy = () => { let x = 0; for (let i = 0; i < 1e7; i++) x += i % 7; return x };
    if (request.url.includes('busy')) return new Response(`${busy()}`);
    globalThis.basket ??= { label: 'in the heap' };
    return new Response('light')";

async fn start(name: &'static str) -> SupervisedNode {
    SupervisedNode::with(name, &["--profile-port", "0"]).await
}

/// Begins a profile, and returns the responses after the first one.
async fn begin(
    node: &SupervisedNode,
    worker: &Deployed,
    kind: ProfileKind,
    duration_ms: u32,
) -> Result<Streaming<ProfileResponse>, Status> {
    let address = node.node.as_ref().unwrap().profiler().unwrap();
    let mut client = ProfilerClient::connect(format!("http://{address}")).await.unwrap();
    let worker = worker.worker.to_string();
    let request = ProfileRequest { worker, kind: kind.into(), duration_ms };
    let mut responses = client.profile(request).await?.into_inner();
    let first = responses.message().await?.and_then(|message| message.response);
    assert!(matches!(first, Some(Response::Waiting(_))), "{first:?}");
    Ok(responses)
}

/// Receives the rest of a profile, and decompresses it.
async fn receive(mut responses: Streaming<ProfileResponse>) -> Result<String, Status> {
    let mut compressed = Vec::new();
    while let Some(ProfileResponse { response }) = responses.message().await? {
        match response {
            Some(Response::Part(ProfilePart { part: Some(Part::Piece(piece)) })) => {
                compressed.extend_from_slice(&piece)
            }
            Some(Response::Part(ProfilePart { part: Some(Part::Begun(_)) })) => {}
            response => panic!("the node sent {response:?}"),
        }
    }
    let mut text = String::new();
    GzDecoder::new(&compressed[..]).read_to_string(&mut text).unwrap();
    Ok(text)
}

/// Takes a profile while requests for this URL arrive, as routers send them.
async fn profile_while(
    node: &SupervisedNode,
    worker: &Deployed,
    kind: ProfileKind,
    url: &str,
) -> Result<String, Status> {
    let responses = begin(node, worker, kind, 500).await?;
    let (shard, lane, is_done) =
        (node.shard.clone(), node.lane.clone(), Arc::<AtomicBool>::default());
    let request = InvokeHead { url: url.to_owned(), ..head(worker) };
    let must_stop = Arc::clone(&is_done);
    let requests = tokio::spawn(async move {
        while !must_stop.load(Ordering::Relaxed) {
            let outcome = shard.call(request.clone(), stream::empty()).await;
            if code(outcome) == Some(FailureCode::Moved) {
                let _ = lane.call(request.clone(), stream::empty()).await;
            }
        }
    });
    let profile = receive(responses).await;
    is_done.store(true, Ordering::Relaxed);
    requests.await.unwrap();
    profile
}

async fn a_cpu_profile_of_a_worker_shows_the_requests_that_reach_the_node(name: &'static str) {
    let node = start(name).await;
    let worker = node.known("worker", HANDLER).await;
    // On a busy machine, a profile may contain no sample of a function.
    loop {
        let url = "https://worker.test/busy";
        let profile = profile_while(&node, &worker, ProfileKind::Cpu, url).await.unwrap();
        let profile: Value = serde_json::from_str(&profile).unwrap();
        let nodes = profile["nodes"].as_array().unwrap();
        let mut frames = nodes.iter().map(|node| &node["callFrame"]);
        if let Some(busy) = frames.find(|frame| frame["functionName"] == "busy") {
            assert!(busy["url"].as_str().unwrap().starts_with("worker."), "{busy}");
            return;
        }
    }
}

async fn a_worker_returns_to_its_shard_after_a_profile(name: &'static str) {
    let node = start(name).await;
    let worker = node.known("worker", HANDLER).await;
    let starts = |page: &str| {
        let of_shard =
            page.lines().filter(|line| line.starts_with("tenon_worker_cold_starts_total"));
        let of_shard = of_shard.filter(|line| line.contains(worker.worker.name()));
        of_shard.filter(|line| line.contains("shard=\"0\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = starts(&node.metrics().await);
    assert!(!before.is_empty());
    let responses = begin(&node, &worker, ProfileKind::Cpu, 60_000).await.unwrap();
    while code(node.shard.get(&worker).await) != Some(FailureCode::Moved) {}
    // Such requests would send the Worker to the lanes, if it were not being profiled.
    let busy = InvokeHead { url: "https://worker.test/busy".to_owned(), ..head(&worker) };
    for _ in 0..3 {
        node.lane.call(busy.clone(), stream::empty()).await.unwrap();
    }
    drop(responses);
    while code(node.shard.get(&worker).await) == Some(FailureCode::Moved) {}
    assert_eq!(node.shard.get(&worker).await.unwrap().text(), "light");
    while code(node.lane.get(&worker).await) != Some(FailureCode::Moved) {}
    assert_eq!(starts(&node.metrics().await), before, "the isolate of the shard was lost");
}

async fn a_heap_snapshot_contains_the_objects_of_the_copy(name: &'static str) {
    let node = start(name).await;
    let worker = node.handler("worker", HANDLER);
    let url = "https://worker.test/";
    let snapshot = profile_while(&node, &worker, ProfileKind::Heap, url).await.unwrap();
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
    assert!(snapshot["snapshot"]["meta"]["node_fields"].is_array());
    assert!(snapshot["strings"].as_array().unwrap().contains(&json!("in the heap")));
    assert_eq!(node.get(&worker).await.unwrap().text(), "light");
}

async fn a_copy_that_reaches_its_cpu_limit_has_a_profile(name: &'static str) {
    let node = start(name).await;
    let worker = node.handler("worker", "const forever = () => { for (;;); }; forever()");
    let responses = begin(&node, &worker, ProfileKind::Cpu, 60_000).await.unwrap();
    assert_eq!(code(node.get(&worker).await), Some(FailureCode::CpuLimitExceeded));
    assert!(receive(responses).await.unwrap().contains(r#""functionName":"forever""#));
}

async fn a_copy_that_reaches_its_memory_limit_is_reported(name: &'static str) {
    let node = start(name).await;
    let body = "const all = []; for (;;) all.push(new Array(1e5).fill(1))";
    let worker = node.handler_within("worker", body, 30_000);
    let responses = begin(&node, &worker, ProfileKind::Heap, 60_000).await.unwrap();
    assert_eq!(code(node.get(&worker).await), Some(FailureCode::MemoryLimitExceeded));
    let status = receive(responses).await.unwrap_err();
    assert!(
        status.code() == Code::Aborted && status.message().contains("memory_limit_exceeded"),
        "{status}"
    );
}

async fn a_copy_that_cannot_start_is_reported(name: &'static str) {
    let node = start(name).await;
    let worker = node.handler("worker", "} }; throw new Error('no'); const f = { g() {");
    let responses = begin(&node, &worker, ProfileKind::Cpu, 60_000).await.unwrap();
    assert_eq!(code(node.get(&worker).await), Some(FailureCode::WorkerStartFailed));
    let status = receive(responses).await.unwrap_err();
    assert!(
        status.code() == Code::Aborted && status.message().contains("could not start"),
        "{status}"
    );
}

async fn a_lane_without_memory_for_a_snapshot_is_replaced_and_its_worker_is_not_quarantined(
    name: &'static str,
) {
    let node = SupervisedNode::with(name, &["--profile-port", "0", "--memory-budget", "512"]).await;
    // V8 takes 4 KiB for the name of each index of the largest array, here the table of the Map.
    // The copy has the Map from its start, because the snapshot may be taken before the first
    // request.
    let body = "return new Response(`${all.size}`) } };
        const all = new Map(Array.from({ length: 2e5 }, (_, i) => [i, `${i}`]));
        const rest = { of() {";
    let worker = node.handler_within("worker", body, 60_000);
    let responses = begin(&node, &worker, ProfileKind::Heap, 1).await.unwrap();
    // The request starts the copy. Its response is lost if the lane ends first.
    let _ = node.get(&worker).await;
    let status = receive(responses).await.unwrap_err();
    assert!(status.code() == Code::Aborted && status.message().contains("memory"), "{status}");
    node.await_line("tenon_node_process_exits_total{cause=\"crashed\",process=\"lane-0\"} 1").await;
    assert_eq!(node.lane.another().get(&worker).await.unwrap().text(), "200000");
    assert!(node.quarantines().is_empty());
}

async fn a_node_takes_one_profile_at_a_time_until_its_client_leaves(name: &'static str) {
    let node = start(name).await;
    let worker = node.known("worker", HANDLER).await;
    let other = node.handler("other", HANDLER);
    let responses = begin(&node, &worker, ProfileKind::Cpu, 60_000).await.unwrap();
    while code(node.shard.get(&worker).await) != Some(FailureCode::Moved) {}
    assert_eq!(node.lane.get(&worker).await.unwrap().text(), "light");
    let busy = begin(&node, &other, ProfileKind::Cpu, 1).await.err().unwrap();
    assert!(
        busy.code() == Code::FailedPrecondition && busy.message().contains(worker.worker.as_str()),
        "{busy}"
    );
    drop(responses);
    while code(node.shard.get(&worker).await) == Some(FailureCode::Moved) {}
    while code(node.lane.get(&worker).await) != Some(FailureCode::Moved) {}
    let url = "https://worker.test/";
    profile_while(&node, &other, ProfileKind::Cpu, url).await.unwrap();
}

async fn a_revision_is_not_quarantined_when_its_lane_is_lost_to_a_profile(name: &'static str) {
    let node = start(name).await;
    let body = "if (request.url.includes('forever')) for (;;); return new Response('light')";
    let worker = node.handler_within("worker", body, 60_000);
    let responses = begin(&node, &worker, ProfileKind::Cpu, 60_000).await.unwrap();
    assert_eq!(node.get(&worker).await.unwrap().text(), "light");
    let (lane, url) = (node.lane.clone(), "https://worker.test/forever".to_owned());
    let forever = InvokeHead { url, ..head(&worker) };
    let lost = tokio::spawn(async move { lane.call(forever, stream::empty()).await });
    node.await_line("tenon_shard_inflight{shard=\"lane-0\"} 1").await;
    node.signal("lane-0", "-ABRT");
    assert!(lost.await.unwrap().is_err());
    let status = receive(responses).await.unwrap_err();
    assert!(status.code() == Code::Aborted && status.message().contains("memory"), "{status}");
    node.await_line("tenon_node_process_exits_total{cause=\"crashed\",process=\"lane-0\"} 1").await;
    assert_eq!(node.lane.another().get(&worker).await.unwrap().text(), "light");
    assert!(node.quarantines().is_empty());
}

async fn requests_that_a_node_cannot_fulfill_are_refused(name: &'static str) {
    let node = start(name).await;
    let worker = node.handler("worker", HANDLER);
    for (kind, duration) in
        [(ProfileKind::Unspecified, 1), (ProfileKind::Cpu, 0), (ProfileKind::Heap, 60_001)]
    {
        let refused = begin(&node, &worker, kind, duration).await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}

async fn an_http_1_connection_gets_no_profile(name: &'static str) {
    let node = start(name).await;
    let worker = node.handler("worker", HANDLER);
    let address = node.node.as_ref().unwrap().profiler().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /tenon.node.v1.Profiler/Profile HTTP/1.1\r\nhost: node\r\n\
        content-type: application/grpc\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Workers could make such a connection. The node may also reset it.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1"), "{}", answer.escape_ascii());
    assert!(begin(&node, &worker, ProfileKind::Cpu, 1).await.is_ok());
}
