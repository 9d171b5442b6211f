//! Tests that a debugger can pause the code of Workers.

use std::fs;
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Inspected, TYPESCRIPT, attach_and_enable};
use crate::cdp::Debugger;
use crate::harness::{self, worker};

/// Returns the source map of a script.
fn source_map(script: &Value) -> oxc_sourcemap::SourceMap<'static> {
    let url = script["sourceMapURL"].as_str().unwrap();
    let encoded = url.strip_prefix("data:application/json;base64,").unwrap();
    let json = String::from_utf8(BASE64_STANDARD.decode(encoded).unwrap()).unwrap();
    oxc_sourcemap::SourceMap::from_json_string(&json).unwrap().into_owned()
}

#[test]
fn a_breakpoint_in_typescript_pauses_a_request_with_its_locals() {
    let inspected = Inspected::start(TYPESCRIPT.as_ref());
    let mut debugger = attach_and_enable(&inspected);
    let script = debugger.event("Debugger.scriptParsed", |script| {
        script["url"].as_str().is_some_and(|url| url.ends_with("/menu/worker.ts"))
    });
    let url = script["url"].as_str().unwrap();
    assert!(url.starts_with("file:///"), "{url}");

    // The test maps a position in the source to a position in the running code, as clients do.
    let map = source_map(&script);
    let source = map.get_source_content(0).unwrap().to_owned();
    let marked = source.lines().position(|line| line.contains("the kitchen is closed")).unwrap();
    let line = u32::try_from(marked).unwrap();
    let token = map.get_tokens().find(|token| token.get_src_line() == line).unwrap();
    let set = debugger.call(
        "Debugger.setBreakpointByUrl",
        json!({ "url": url, "lineNumber": token.get_dst_line(), "columnNumber": token.get_dst_col() }),
    );
    assert_eq!(set["locations"].as_array().unwrap().len(), 1, "{set}");

    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.dev.get("localhost", "/fail"));
        let paused = debugger.event("Debugger.paused", |_| true);
        assert_eq!(paused["hitBreakpoints"][0], set["breakpointId"]);
        let frame = &paused["callFrames"][0];
        assert_eq!(frame["location"]["scriptId"], script["scriptId"]);
        let evaluated = debugger.call(
            "Debugger.evaluateOnCallFrame",
            json!({ "callFrameId": frame["callFrameId"], "expression": "typeof env.CURRENCY" }),
        );
        assert_eq!(evaluated["result"]["value"], "string", "{evaluated} in {frame}");
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(request.join().unwrap().0, 500);
    });
    let thrown = debugger.event("Runtime.exceptionThrown", |_| true);
    let details = &thrown["exceptionDetails"];
    assert_eq!((&details["text"], &details["url"]), (&json!("Uncaught"), &json!(url)), "{details}");
    let description = details["exception"]["description"].as_str().unwrap();
    assert!(description.contains("the kitchen is closed"), "{description}");
    assert_eq!(inspected.get().0, 200);
}

#[test]
fn a_pause_does_not_count_toward_limits_and_other_requests_wait_until_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { const greeting = 'Hello'; debugger; return new Response(greeting) } }";
    let manifest = worker("hello", source).replace("spec:\n", "spec:\n  limits: {cpuMs: 20}\n");
    fs::write(directory.path().join("worker.yaml"), manifest).unwrap();
    let inspected = Inspected::start(directory.path());
    let mut debugger = attach_and_enable(&inspected);
    thread::scope(|scope| {
        let first = scope.spawn(|| inspected.get());
        let paused = debugger.event("Debugger.paused", |_| true);
        let second = scope.spawn(|| inspected.get());
        let frame = &paused["callFrames"][0]["callFrameId"];
        // This takes more CPU time than the Worker's limit.
        let busy = "let i = 0; while (i < 2e8) i++; greeting.length";
        let evaluate = json!({ "callFrameId": frame, "expression": busy });
        assert_eq!(debugger.call("Debugger.evaluateOnCallFrame", evaluate)["result"]["value"], 5);
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(first.join().unwrap(), (200, "Hello".into()));
        debugger.event("Debugger.paused", |_| true);
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(second.join().unwrap(), (200, "Hello".into()));
    });
}

#[test]
fn paused_code_continues_when_the_debugger_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { debugger; return new Response('done') } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        debugger.event("Debugger.paused", |_| true);
        drop(debugger);
        assert_eq!(request.join().unwrap(), (200, "done".into()));
    });
    assert_eq!(inspected.get(), (200, "done".into()));
}

#[test]
fn an_endless_loop_can_be_paused_and_ends_by_its_limit_when_the_debugger_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { globalThis.goes = true; console.log('looping'); while (goes); return new Response('out') } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        debugger.event("Runtime.consoleAPICalled", |_| true);
        debugger.call("Debugger.pause", json!({}));
        let paused = debugger.event("Debugger.paused", |_| true);
        let frame = &paused["callFrames"][0];
        let end = json!({ "callFrameId": frame["callFrameId"], "expression": "goes = false" });
        debugger.call("Debugger.evaluateOnCallFrame", end);
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(request.join().unwrap(), (200, "out".into()));
    });
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        debugger.event("Runtime.consoleAPICalled", |_| true);
        drop(debugger);
        let (_, body) = request.join().unwrap();
        assert!(body.contains("cpu_limit_exceeded"), "{body}");
    });
}

#[test]
fn a_worker_can_wait_for_a_debugger_before_its_first_statement() {
    let directory = tempfile::tempdir().unwrap();
    let source =
        "const answer = 'ready'; export default { fetch() { return new Response(answer) } }";
    fs::write(directory.path().join("worker.yaml"), worker("hello", source)).unwrap();
    let inspected = Inspected::start_with("--inspect-brk=0", directory.path());
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        let mut debugger = attach_and_enable(&inspected);
        debugger.call("Runtime.runIfWaitingForDebugger", json!({}));
        let script = debugger.event("Debugger.scriptParsed", |script| {
            script["url"] == "tenon://default/hello/worker.js"
        });
        let paused = debugger.event("Debugger.paused", |_| true);
        let location = &paused["callFrames"][0]["location"];
        assert_eq!(location["scriptId"], script["scriptId"], "{paused}");
        assert_eq!(location["lineNumber"], 0);
        debugger.call("Debugger.resume", json!({}));
        assert_eq!(request.join().unwrap(), (200, "ready".into()));
    });
}

#[test]
fn every_realm_of_a_worker_that_resets_its_state_can_be_debugged() {
    let directory = tempfile::tempdir().unwrap();
    let source =
        "let n = 0; export default { fetch() { n++; debugger; return new Response(`${n}`) } }";
    let manifest = worker("hello", source).replace("spec:\n", "spec:\n  state: Reset\n");
    fs::write(directory.path().join("worker.yaml"), manifest).unwrap();
    let inspected = Inspected::start(directory.path());
    let mut debugger = attach_and_enable(&inspected);
    for _ in 0..3 {
        thread::scope(|scope| {
            let request = scope.spawn(|| inspected.get());
            debugger.event("Debugger.paused", |_| true);
            debugger.call("Debugger.resume", json!({}));
            assert_eq!(request.join().unwrap(), (200, "1".into()));
        });
    }
}

#[test]
fn steps_stay_in_the_code_of_the_worker() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch(request) { debugger; const { pathname } = new URL(request.url); return new Response(pathname) } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    let script = debugger.event("Debugger.scriptParsed", |script| {
        script["url"] == "tenon://default/hello/worker.js"
    });
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        // Steps through the built-in functions would need more calls to reach the handler's end.
        for _ in 0..12 {
            let paused = debugger.event("Debugger.paused", |_| true);
            let frame = &paused["callFrames"][0];
            assert_eq!(frame["location"]["scriptId"], script["scriptId"], "{paused}");
            if frame["returnValue"].is_object() {
                break;
            }
            debugger.call("Debugger.stepInto", json!({}));
        }
        debugger.call("Debugger.disable", json!({}));
        assert_eq!(request.join().unwrap(), (200, "/".into()));
    });
}

#[test]
fn ctrl_c_ends_a_process_whose_code_is_paused() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { debugger; return new Response('done') } }";
    let Inspected { dev, addr } = Inspected::with_source(directory.path(), source);
    let mut debugger = Debugger::attach(&format!("ws://{addr}/default/hello"));
    debugger.call("Debugger.enable", json!({}));
    let (host, port) = ("localhost", dev.port());
    thread::scope(|scope| {
        let request = scope.spawn(move || harness::request(port, "GET", host, "/", ""));
        debugger.event("Debugger.paused", |_| true);
        assert!(dev.interrupt().success());
        assert_eq!(request.join().unwrap(), (200, "done".into()));
    });
}

#[test]
fn code_stays_paused_for_a_debugger_when_another_one_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { const answer = 'done'; debugger; return new Response(answer) } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let (mut leaving, mut staying) = (attach_and_enable(&inspected), attach_and_enable(&inspected));
    thread::scope(|scope| {
        let request = scope.spawn(|| inspected.get());
        leaving.event("Debugger.paused", |_| true);
        drop(leaving);
        let paused = staying.event("Debugger.paused", |_| true);
        let frame = &paused["callFrames"][0]["callFrameId"];
        let answer = json!({ "callFrameId": frame, "expression": "answer" });
        let evaluated = staying.call("Debugger.evaluateOnCallFrame", answer);
        assert_eq!(evaluated["result"]["value"], "done");
        staying.call("Debugger.resume", json!({}));
        assert_eq!(request.join().unwrap(), (200, "done".into()));
    });
}

#[test]
fn a_debugger_may_leave_while_its_own_expression_is_paused() {
    let directory = tempfile::tempdir().unwrap();
    let source = "export default { fetch() { return new Response('done') } }";
    let inspected = Inspected::with_source(directory.path(), source);
    let mut debugger = attach_and_enable(&inspected);
    debugger.send("Runtime.evaluate", json!({ "expression": "debugger" }));
    debugger.event("Debugger.paused", |_| true);
    drop(debugger);
    assert_eq!(inspected.get(), (200, "done".into()));
    let sum =
        attach_and_enable(&inspected).call("Runtime.evaluate", json!({ "expression": "1 + 1" }));
    assert_eq!(sum["result"]["value"], 2);
}
