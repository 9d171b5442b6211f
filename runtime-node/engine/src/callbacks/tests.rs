//! Tests that a panic in any of the functions that V8 calls ends only its isolate, and that the
//! next isolate starts.

use std::collections::BTreeSet;

use bytes::Bytes;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::revision::{CompatibilityFlag, Limits, Revision};
use tokio::task::LocalSet;

use super::*;
use crate::invocation::{Event, Invocation};
use crate::testing::NoInterfaces;
use crate::{Engine, Isolate, Watchdog};

/// Returns a revision that runs `code` while it starts.
fn revision(code: &str) -> Rc<Revision> {
    let modules = [
        ("worker.js", format!("{code}; export default {{ fetch: () => {{}} }}")),
        ("other.js", "export default 1".to_owned()),
        ("text.txt", "a text".to_owned()),
    ];
    let modules = modules.map(|(name, text)| (name.to_owned(), Bytes::from(text)));
    Rc::new(Revision {
        limits: Limits { startup_ms: 10_000, cpu_ms: 10_000, ..Limits::default() },
        compatibility_flags: BTreeSet::from([CompatibilityFlag::NodejsCompat]),
        ..Revision::with_modules(WorkerId::new("default", "panics"), modules)
    })
}

fn run(test: impl AsyncFnOnce(Rc<Engine>)) {
    crate::init();
    let watchdog = Watchdog::spawn();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        test(Rc::new(Engine::new(&watchdog, ShardId(0), Rc::new(NoInterfaces)))).await
    });
}

async fn start(engine: &Rc<Engine>, code: &str) -> Result<Rc<Isolate>, Failure> {
    Isolate::start(engine, RevisionDigest::new([0; 32]), revision(code), None).await
}

/// Asserts that a Worker whose code triggers the callback fails to start if the callback panics,
/// and that its next start succeeds.
fn assert_panic_ends_isolate(callback: Callback, code: &str) {
    run(async |engine| {
        injected::arm(callback);
        let started = start(&engine, code).await.map(drop).map_err(|failure| failure.code);
        assert!(!injected::is_armed(), "V8 did not call {callback:?} for the code: {code}");
        assert_eq!(started, Err(FailureCode::Internal), "{callback:?}");
        start(&engine, code).await.unwrap();
    });
}

#[test]
fn a_panic_in_an_op_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::Op, "operate()");
}

#[test]
fn a_panic_in_the_rejection_callback_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::Rejection, "Promise.reject(new Error('unhandled'))");
}

#[test]
fn a_panic_in_the_import_meta_callback_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::ImportMeta, "globalThis.url = import.meta.url");
}

#[test]
fn a_panic_in_a_dynamic_import_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::DynamicImport, "await import('./other.js')");
    assert_panic_ends_isolate(Callback::DynamicImport, "import('./other.js').catch(() => {})");
}

#[test]
fn a_panic_in_the_module_resolver_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::Resolve, "import other from './other.js'");
    assert_panic_ends_isolate(
        Callback::Resolve,
        "import other from './other.js'; try { await import('./other.js') } catch {}",
    );
}

#[test]
fn a_panic_in_a_synthetic_module_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::Value, "import text from './text.txt'");
}

#[test]
fn a_panic_in_a_builtin_module_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::Builtin, "import path from 'node:path'");
}

#[test]
fn a_panic_in_a_lazy_property_ends_its_isolate() {
    assert_panic_ends_isolate(
        Callback::Lazy,
        "try { globalThis.wasm = typeof WebAssembly } finally { globalThis.seen = 1 }",
    );
}

#[test]
fn a_panic_in_the_check_of_eval_ends_its_isolate() {
    assert_panic_ends_isolate(Callback::CodeGeneration, "try { (0, eval)('1') } catch {}");
}

#[test]
fn a_panic_in_the_log_of_a_lost_exception_ends_its_isolate() {
    run(async |engine| {
        let code =
            "globalThis.registry = new FinalizationRegistry(() => { throw new Error('lost') });
            for (let i = 0; i < 100; i++) registry.register({}, i)";
        let isolate = start(&engine, code).await.unwrap();
        let limit = std::time::Duration::from_secs(10);
        let id = isolate.state.begin(Invocation::new(Event::Fetch, String::new(), limit, 0));
        isolate.state.end(id);
        isolate.collect().expect("no collection ran, although the isolate is idle and small");
        injected::arm(Callback::Message);
        let pass = isolate.queue().await;
        let _ = isolate.turn(&pass, None, |_, _| Some(()));
        drop(pass);
        assert!(!injected::is_armed(), "V8 has not reported what the registry's callback threw");
        assert_eq!(isolate.condemned(), Some(FailureCode::Internal));
        start(&engine, "").await.unwrap();
    });
}
