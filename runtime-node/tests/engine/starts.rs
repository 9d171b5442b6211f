//! Tests of the start of a Worker, and of failures during the start.

use std::rc::Rc;
use std::sync::Arc;

use tenon_engine::{Bytecode, BytecodeLookup};
use tenon_proto::failure::{FailureCode, Phase};

use crate::harness::{Shard, Text as _, Worker, trials};

trials! {
    a_syntax_error_is_logged_with_file_line_and_column,
    an_error_in_an_imported_module_names_that_module,
    an_unresolved_import_is_a_failed_start,
    an_entrypoint_without_a_handler_is_a_failed_start,
    an_exception_of_a_module_is_logged_and_not_returned,
    a_module_may_await_at_top_level,
    a_module_that_awaits_forever_is_a_failed_start,
    a_loop_at_top_level_ends_at_the_start_limit,
    a_loop_after_an_await_at_top_level_ends_at_the_start_limit,
    a_loop_in_an_awaiting_import_ends_at_the_start_limit,
    a_heap_filled_at_top_level_is_a_failed_start,
    timers_set_during_the_start_end_with_it,
    bytecode_is_made_after_use_and_used_by_the_next_start,
    bytecode_that_v8_rejects_does_not_fail_the_start,
    no_bytecode_is_used_for_a_short_worker,
}

async fn a_syntax_error_is_logged_with_file_line_and_column(shard: Rc<Shard>) {
    let worker = shard.worker("export default {\n  fetch() { return new Response('unfinished }\n}");
    assert_eq!(worker.failure().await, (FailureCode::WorkerStartFailed, Phase::Start));
    assert!(
        shard.logged("worker.js:2:33: SyntaxError: Invalid or unexpected token"),
        "{:?}",
        shard.log()
    );
}

async fn an_error_in_an_imported_module_names_that_module(shard: Rc<Shard>) {
    let modules = [
        ("worker.js", "import './lib/bad.js'; export default { fetch() {} }"),
        ("lib/bad.js", "\n\n  null.x"),
    ];
    assert_eq!(
        shard.modules(&modules).failure().await,
        (FailureCode::WorkerStartFailed, Phase::Start)
    );
    assert!(
        shard.logged("lib/bad.js:3:8: TypeError: Cannot read properties of null"),
        "{:?}",
        shard.log()
    );
}

async fn an_unresolved_import_is_a_failed_start(shard: Rc<Shard>) {
    let worker = shard.worker("import './missing.js'; export default { fetch() {} }");
    assert_eq!(worker.failure().await, (FailureCode::WorkerStartFailed, Phase::Start));
    assert!(
        shard.logged(r#"Cannot find module "./missing.js" imported from "worker.js""#),
        "{:?}",
        shard.log()
    );
}

async fn an_entrypoint_without_a_handler_is_a_failed_start(shard: Rc<Shard>) {
    for source in
        ["", "export default null", "export default { fetch: 1 }", "export const fetch = () => {}"]
    {
        assert_eq!(
            shard.worker(source).failure().await,
            (FailureCode::WorkerStartFailed, Phase::Start)
        );
    }
    assert!(shard.logged("The entrypoint has no handler"), "{:?}", shard.log());
}

async fn an_exception_of_a_module_is_logged_and_not_returned(shard: Rc<Shard>) {
    let failure =
        shard.worker("throw new Error('the tenant’s own business')").get().await.unwrap_err();
    assert_eq!(failure.code, FailureCode::WorkerStartFailed);
    assert!(!failure.message.contains("business"));
    assert!(shard.logged("Error: the tenant’s own business"), "{:?}", shard.log());
}

async fn a_module_may_await_at_top_level(shard: Rc<Shard>) {
    let worker = shard.worker(
        "const later = await new Promise((resolve) => setTimeout(() => resolve('later'), 5));
         export default { fetch: () => new Response(later) }",
    );
    assert_eq!(worker.get().await.unwrap().text(), "later");
}

async fn a_module_that_awaits_forever_is_a_failed_start(shard: Rc<Shard>) {
    let worker = shard.worker("await new Promise(() => {}); export default { fetch() {} }");
    assert_eq!(worker.failure().await, (FailureCode::WorkerStartFailed, Phase::Start));
}

async fn a_loop_at_top_level_ends_at_the_start_limit(shard: Rc<Shard>) {
    let worker = shard.worker("for (;;);").limits(|limits| limits.startup_ms = 50);
    assert_eq!(worker.failure().await, (FailureCode::CpuLimitExceeded, Phase::Start));
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_loop_after_an_await_at_top_level_ends_at_the_start_limit(shard: Rc<Shard>) {
    for pause in ["null", "new Promise((resolve) => setTimeout(resolve, 1))"] {
        let worker =
            shard.worker(&format!("await {pause}; try {{ for (;;); }} finally {{ for (;;); }}"));
        let worker = worker.limits(|limits| limits.startup_ms = 50);
        assert_eq!(worker.failure().await, (FailureCode::CpuLimitExceeded, Phase::Start));
        shard.expect_a_neighbor_to_answer().await;
    }
}

async fn a_loop_in_an_awaiting_import_ends_at_the_start_limit(shard: Rc<Shard>) {
    let modules = [
        ("worker.js", "import './a.js'; import './b.js'; export default { fetch() {} }"),
        ("a.js", "await null; await import('./c.js')"),
        ("b.js", "await Promise.all([1, 2, 3].map(async () => { await null; for (;;); }))"),
        ("c.js", "for (;;) await null;"),
    ];
    let worker = shard.modules(&modules).limits(|limits| limits.startup_ms = 50);
    assert_eq!(worker.failure().await, (FailureCode::CpuLimitExceeded, Phase::Start));
    shard.expect_a_neighbor_to_answer().await;
}

async fn a_heap_filled_at_top_level_is_a_failed_start(shard: Rc<Shard>) {
    let worker = shard.worker("const all = []; for (;;) all.push(new Array(1000).fill({}))");
    let worker = worker.limits(|limits| {
        limits.memory_mib = 16;
        limits.startup_ms = 20_000;
    });
    assert_eq!(worker.failure().await, (FailureCode::MemoryLimitExceeded, Phase::Start));
    shard.expect_a_neighbor_to_answer().await;
}

/// Returns a Worker that answers with `text` and has enough code for its bytecode to be stored.
fn long(shard: &Shard, text: &str) -> Worker {
    let ballast: String =
        (0..500).map(|n| format!("export function f{n}(x) {{ return x * {n}; }}\n")).collect();
    let main = format!(
        "import './lib/ballast.js'; export default {{ fetch: () => new Response('{text}') }}"
    );
    shard.modules(&[("worker.js", &main), ("lib/ballast.js", &ballast)])
}

async fn bytecode_is_made_after_use_and_used_by_the_next_start(shard: Rc<Shard>) {
    let first = long(&shard, "well").start().await.unwrap();
    assert!(first.get("/").await.is_ok());
    assert_eq!(first.0.bytecode_lookup(), Some(BytecodeLookup::Miss));
    let bytecode = Bytecode::decode(&first.0.bytecode().unwrap().encode()).unwrap();
    let next = long(&shard, "well").start_with(Some(Arc::new(bytecode))).await.unwrap();
    assert_eq!(next.get("/").await.unwrap().text(), "well");
    assert_eq!(next.0.bytecode_lookup(), Some(BytecodeLookup::Hit));
}

async fn bytecode_that_v8_rejects_does_not_fail_the_start(shard: Rc<Shard>) {
    let other = long(&shard, "of another text").start().await.unwrap();
    let bytecode = Arc::new(other.0.bytecode().unwrap());
    let next = long(&shard, "well").start_with(Some(bytecode)).await.unwrap();
    assert_eq!(next.get("/").await.unwrap().text(), "well");
    assert_eq!(next.0.bytecode_lookup(), Some(BytecodeLookup::Rejected));
}

async fn no_bytecode_is_used_for_a_short_worker(shard: Rc<Shard>) {
    assert_eq!(
        shard.handler("return new Response('')").start().await.unwrap().0.bytecode_lookup(),
        None
    );
}

async fn timers_set_during_the_start_end_with_it(shard: Rc<Shard>) {
    let worker = shard.worker(
        "let fired = 0; setInterval(() => fired++, 1);
         export default { fetch: () => new Promise((resolve) =>
           setTimeout(() => resolve(new Response(String(fired))), 20)) }",
    );
    assert_eq!(worker.get().await.unwrap().text(), "0");
}
