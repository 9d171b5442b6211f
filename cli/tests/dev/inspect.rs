//! Tests `tenon dev --inspect` with a client of the inspector protocol.
#![allow(clippy::unwrap_used)] // A test harness has no caller to return an error to.

mod pauses;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};

use crate::cdp::{self, Debugger};
use crate::harness::{Dev, await_condition, worker};

const TYPESCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/typescript");

/// A process of `tenon dev` that debuggers can connect to.
struct Inspected {
    dev: Dev,
    addr: SocketAddr,
}

impl Inspected {
    fn start(path: &Path) -> Self {
        Self::start_with("--inspect=0", path)
    }

    fn start_with(flag: &str, path: &Path) -> Self {
        let dev = Dev::start_with(&[flag], path);
        let line = dev.await_line("Debuggers connect to");
        let addr = line.split([' ', ';']).find_map(|word| word.parse().ok()).unwrap();
        Self { dev, addr }
    }

    fn with_source(directory: &Path, source: &str) -> Self {
        fs::write(directory.join("worker.yaml"), worker("hello", source)).unwrap();
        Self::start(directory)
    }

    fn attach(&self) -> Debugger {
        let targets = cdp::get(self.addr, "/json/list");
        Debugger::attach(targets[0]["webSocketDebuggerUrl"].as_str().unwrap())
    }

    fn get(&self) -> (u16, String) {
        self.dev.get("localhost", "/")
    }
}

/// Attaches a debugger, and enables the events about the console, scripts and pauses.
fn attach_and_enable(inspected: &Inspected) -> Debugger {
    let mut debugger = inspected.attach();
    debugger.call("Runtime.enable", json!({}));
    debugger.call("Debugger.enable", json!({}));
    debugger
}

#[test]
fn each_worker_is_a_target() {
    let inspected = Inspected::start(TYPESCRIPT.as_ref());
    let Inspected { addr, .. } = inspected;
    let version = cdp::get(addr, "/json/version");
    assert_eq!(version["Protocol-Version"], "1.3");
    assert_eq!(cdp::get(addr, "/json"), cdp::get(addr, "/json/list"));
    let target = cdp::get(addr, "/json/list")[0].clone();
    assert_eq!((&target["id"], &target["type"]), (&json!("default/menu"), &json!("node")));
    assert!(target["url"].as_str().unwrap().ends_with("/menu/worker.ts"), "{target}");
    assert_eq!(target["webSocketDebuggerUrl"], format!("ws://{addr}/default/menu"));
    let frontend = target["devtoolsFrontendUrl"].as_str().unwrap();
    assert!(frontend.ends_with(&format!("ws={addr}/default/menu")), "{frontend}");
}

#[test]
fn pages_cannot_reach_the_inspector() {
    let inspected = Inspected::start(TYPESCRIPT.as_ref());
    let Inspected { addr, .. } = inspected;
    let status = |path: &str, headers: &str| {
        let (head, _) = cdp::exchange(addr, &format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n"));
        head[9..12].to_owned()
    };
    let page = format!("host: {addr}\r\norigin: http://localhost:3000");
    assert_eq!(status("/json", &format!("host: {addr}")), "200");
    assert_eq!(status("/json", "host: rebound.example:9229"), "403");
    assert_eq!(status("/json", &page), "403");
    let upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    assert_eq!(status("/default/menu", &format!("host: {addr}\r\n{upgrade}")), "101");
    assert_eq!(status("/default/menu", &format!("{page}\r\n{upgrade}")), "403");
}

#[test]
fn console_calls_are_events_with_their_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { console.warn('over', { limit: 3 }); console.groupCollapsed('a'); return new Response('') } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    assert_eq!(inspected.get().0, 200);
    let called = debugger.event("Runtime.consoleAPICalled", |_| true);
    assert_eq!((&called["type"], &called["args"][0]["value"]), (&json!("warning"), &json!("over")));
    let limit = &called["args"][1]["preview"]["properties"][0];
    assert_eq!((&limit["name"], &limit["value"]), (&json!("limit"), &json!("3")), "{called}");
    let top = &called["stackTrace"]["callFrames"][0];
    assert_eq!(top["url"], "tenon://default/hello/worker.js");
    inspected.dev.await_line("over { limit: 3 }");
    let called = debugger.event("Runtime.consoleAPICalled", |_| true);
    assert_eq!(called["type"], "startGroupCollapsed");
    assert_eq!(inspected.get().0, 200);
    let next = debugger.event("Runtime.consoleAPICalled", |_| true);
    assert_eq!(next["type"], "warning", "one call caused several events");
}

#[test]
fn a_new_revision_detaches_the_debugger_which_can_then_attach_again() {
    let directory = tempfile::tempdir().unwrap();
    let answers = |text: &str| {
        format!("export default {{ fetch() {{ debugger; return new Response('{text}') }} }}")
    };
    let inspected = Inspected::with_source(directory.path(), &answers("first"));
    let mut debugger = attach_and_enable(&inspected);
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        debugger.event("Debugger.paused", |_| true);
        fs::write(directory.path().join("worker.yaml"), worker("hello", &answers("second")))
            .unwrap();
        assert_eq!(debugger.await_close().unwrap()["method"], "Inspector.detached");
        assert_eq!(request.join().unwrap(), (200, "first".into()));
    });
    await_condition("the new revision answers", || inspected.get().1 == "second");
    let mut debugger = attach_and_enable(&inspected);
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        debugger.event("Debugger.paused", |_| true);
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(request.join().unwrap(), (200, "second".into()));
    });
}

#[test]
fn a_cpu_profile_names_the_workers_functions() {
    let directory = tempfile::tempdir().unwrap();
    let source = "function busy() { let x = 0; for (let i = 0; i < 2e7; i++) x += i % 7; return x } export default { fetch() { return new Response(`${busy()}`) } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    debugger.call("Profiler.enable", json!({}));
    debugger.call("Profiler.start", json!({}));
    assert_eq!(inspected.get().0, 200);
    let profile = debugger.call("Profiler.stop", json!({}))["profile"].clone();
    let nodes = profile["nodes"].as_array().unwrap();
    let busy = nodes.iter().find(|node| node["callFrame"]["functionName"] == "busy");
    let url = busy.map(|node| &node["callFrame"]["url"]);
    assert_eq!(url, Some(&json!("tenon://default/hello/worker.js")));
}

#[test]
fn a_heap_snapshot_has_arrived_completely_when_the_call_returns() {
    let directory = tempfile::tempdir().unwrap();
    let source = "globalThis.kept = { marker: 'in the heap' }; export default { fetch() { return new Response('') } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = inspected.attach();
    debugger.call("HeapProfiler.enable", json!({}));
    debugger.call("HeapProfiler.takeHeapSnapshot", json!({ "reportProgress": false }));
    let chunks = debugger.received("HeapProfiler.addHeapSnapshotChunk");
    let text: String = chunks.iter().filter_map(|chunk| chunk["chunk"].as_str()).collect();
    let snapshot: Value = serde_json::from_str(&text).unwrap();
    assert!(snapshot["strings"].as_array().unwrap().contains(&json!("in the heap")));
}

#[test]
fn a_debugger_is_detached_when_its_isolate_exceeds_the_memory_limit() {
    let directory = tempfile::tempdir().unwrap();
    let source =
        "export default { fetch() { const all = []; for (;;) all.push(new Array(1e5).fill(1)) } }";
    let manifest = worker("hello", source).replace("spec:\n", "spec:\n  limits: {memoryMiB: 16}\n");
    fs::write(directory.path().join("worker.yaml"), manifest).unwrap();
    let inspected = Inspected::start(directory.path());
    let debugger = attach_and_enable(&inspected);
    let (_, body) = inspected.get();
    assert!(body.contains("memory_limit_exceeded"), "{body}");
    assert_eq!(debugger.await_close().unwrap()["method"], "Inspector.detached");
    let mut debugger = inspected.attach();
    let sum = debugger.call("Runtime.evaluate", json!({ "expression": "1 + 1" }));
    assert_eq!(sum["result"]["value"], 2);
}
