//! Tests of CPU profiles and heap snapshots of an isolate.

use std::rc::Rc;

use serde_json::{Value, json};
use tenon_proto::failure::FailureCode;

use crate::harness::{Loaded, Shard, Text as _, trials};

trials![
    a_cpu_profile_names_the_function_that_computes,
    a_cpu_profile_names_the_authors_positions,
    limits_apply_while_a_profile_is_recorded,
    an_isolate_that_ran_out_of_memory_has_no_profile,
    a_heap_snapshot_contains_the_workers_objects,
    a_heap_snapshot_ends_when_its_reader_wants_no_more,
    an_isolate_that_is_being_profiled_can_end,
];

const BUSY: &str =
    "function busy() { let x = 0; for (let i = 0; i < 2e7; i++) x += i % 7; return x }
    export default { fetch() { return new Response(`${busy()}`) } }";

/// Returns the call frame of `busy` in a profile of the Worker. Takes profiles until one contains
/// the function, because on a busy machine a profile may contain no sample of it.
async fn frame_of_busy(worker: &Loaded) -> Value {
    loop {
        worker.0.begin_cpu_profile();
        worker.get("/").await.unwrap();
        let profile: Value = serde_json::from_str(&worker.0.end_cpu_profile().unwrap()).unwrap();
        assert!(profile["startTime"].is_number() && profile["timeDeltas"].is_array(), "{profile}");
        let nodes = profile["nodes"].as_array().unwrap();
        let frame = nodes
            .iter()
            .map(|node| &node["callFrame"])
            .find(|frame| frame["functionName"] == "busy");
        if let Some(frame) = frame {
            return frame.clone();
        }
    }
}

async fn a_cpu_profile_names_the_function_that_computes(shard: Rc<Shard>) {
    let worker = shard.worker(BUSY).limits(|limits| limits.cpu_ms = 30_000).start().await.unwrap();
    let frame = frame_of_busy(&worker).await;
    assert_eq!((&frame["url"], &frame["lineNumber"]), (&json!("worker.js"), &json!(0)), "{frame}");
    assert_eq!(worker.0.end_cpu_profile(), None, "a profile ended twice");
}

async fn a_cpu_profile_names_the_authors_positions(shard: Rc<Shard>) {
    let map = r#"{"version":3,"sources":["src/index.ts"],"names":[],"mappings":"AAUK"}"#;
    let worker = shard.modules(&[("worker.js", BUSY), ("worker.js.map", map)]);
    let worker = worker.limits(|limits| limits.cpu_ms = 30_000).start().await.unwrap();
    let frame = frame_of_busy(&worker).await;
    let place = ["url", "lineNumber", "columnNumber"].map(|key| frame[key].clone());
    assert_eq!(place, [json!("src/index.ts"), json!(10), json!(5)]);
}

async fn limits_apply_while_a_profile_is_recorded(shard: Rc<Shard>) {
    let worker = shard.handler("for (;;);").start().await.unwrap();
    worker.0.begin_cpu_profile();
    assert_eq!(worker.get("/").await.unwrap_err().code, FailureCode::CpuLimitExceeded);
    // The profile shows what has used the time.
    assert!(worker.0.end_cpu_profile().unwrap().contains(r#""functionName":"fetch""#));
}

async fn an_isolate_that_ran_out_of_memory_has_no_profile(shard: Rc<Shard>) {
    let handler = "const all = []; for (;;) all.push(new Array(1e5).fill(1))";
    let worker = shard.handler(handler).limits(|limits| limits.memory_mib = 16);
    let worker = worker.limits(|limits| limits.cpu_ms = 30_000).start().await.unwrap();
    worker.0.begin_cpu_profile();
    assert_eq!(worker.get("/").await.unwrap_err().code, FailureCode::MemoryLimitExceeded);
    assert_eq!(worker.0.end_cpu_profile(), None);
    worker.0.begin_cpu_profile();
    assert_eq!(worker.0.end_cpu_profile(), None, "an isolate that has ended was entered");
    assert!(!worker.0.heap_snapshot(|_| panic!("an isolate that has ended has a snapshot")));
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_heap_snapshot_contains_the_workers_objects(shard: Rc<Shard>) {
    let source = "class Basket { constructor() { this.label = 'in the heap' } }
        globalThis.basket = new Basket();
        export default { fetch() { return new Response('well') } }";
    let worker = shard.worker(source).start().await.unwrap();
    assert_eq!(worker.get("/").await.unwrap().text(), "well");
    let mut text = Vec::new();
    let taken = worker.0.heap_snapshot(|piece| {
        text.extend_from_slice(piece);
        true
    });
    assert!(taken);
    let snapshot: Value = serde_json::from_slice(&text).unwrap();
    assert!(snapshot["snapshot"]["meta"]["node_fields"].is_array());
    let strings = snapshot["strings"].as_array().unwrap();
    assert!(strings.contains(&json!("Basket")) && strings.contains(&json!("in the heap")));
    assert_eq!(worker.get("/").await.unwrap().text(), "well", "after the snapshot");
}

async fn a_heap_snapshot_ends_when_its_reader_wants_no_more(shard: Rc<Shard>) {
    let worker = shard.handler("return new Response('well')").start().await.unwrap();
    let mut pieces = 0;
    assert!(worker.0.heap_snapshot(|_| {
        pieces += 1;
        pieces < 3
    }));
    assert_eq!(pieces, 3);
    assert_eq!(worker.get("/").await.unwrap().text(), "well");
}

async fn an_isolate_that_is_being_profiled_can_end(shard: Rc<Shard>) {
    let worker = shard.handler("return new Response('well')").start().await.unwrap();
    worker.0.begin_cpu_profile();
    assert_eq!(worker.get("/").await.unwrap().text(), "well");
    drop(worker);
    shard.expect_a_neighbor_to_answer().await;
}
