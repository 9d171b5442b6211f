//! Tests of a Worker's own WebAssembly modules, and of the counting of their memory.

use std::rc::Rc;

use tenon_proto::failure::{FailureCode, Phase};
use tenon_proto::revision::StatePolicy;

use crate::harness::{Shard, Text, Worker, await_condition, trials};

trials![
    a_wasm_module_exports_a_compiled_module,
    a_wasm_module_can_be_imported_while_a_request_is_served,
    each_isolate_of_a_revision_has_its_own_wasm_instance,
    an_invalid_wasm_module_is_a_failed_start,
    a_wasm_module_can_be_imported_as_bytes,
    wasm_memory_and_array_buffers_share_one_limit,
    wasm_memory_is_counted_and_released,
    wasm_code_is_counted_while_its_module_is_alive,
];

/// A module that exports `add(a, b)`, a memory of one page, and `grow(n)`, which grows the memory.
const ADD: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0, //
    1, 12, 2, 0x60, 2, 0x7f, 0x7f, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, //
    3, 3, 2, 0, 1, //
    5, 3, 1, 0, 1, //
    7, 23, 3, 3, b'a', b'd', b'd', 0, 0, 4, b'g', b'r', b'o', b'w', 0, 1, 6, b'm', b'e', b'm',
    b'o', b'r', b'y', 2, 0, //
    10, 16, 2, 7, 0, 0x20, 0, 0x20, 1, 0x6a, 0x0b, 6, 0, 0x20, 0, 0x40, 0, 0x0b,
];

fn with_add(worker: Worker) -> Worker {
    worker.module("add.wasm", ADD)
}

async fn a_wasm_module_exports_a_compiled_module(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import add from './add.wasm'; import * as all from './add.wasm';
         const { exports } = new WebAssembly.Instance(add);
         export default { fetch: () => Response.json([
           add instanceof WebAssembly.Module, Object.keys(all), exports.add(2, 40), WebAssembly.Module.exports(add).length,
         ]) }",
    );
    assert_eq!(with_add(worker).get().await.unwrap().text(), r#"[true,["default"],42,3]"#);
}

async fn a_wasm_module_can_be_imported_while_a_request_is_served(shard: Rc<Shard>) {
    let handler = "const { default: add } = await import('./add.wasm');
                   const { exports } = await WebAssembly.instantiate(add);
                   return new Response(exports.add(1, 2))";
    assert_eq!(with_add(shard.handler(handler)).get().await.unwrap().text(), "3");
}

async fn each_isolate_of_a_revision_has_its_own_wasm_instance(shard: Rc<Shard>) {
    let worker = || {
        with_add(shard.worker(
            "import add from './add.wasm';
             const { exports } = new WebAssembly.Instance(add);
             export default { fetch: () => new Response([exports.grow(1), exports.add(1, 1)].join(' ')) }",
        ))
    };
    let (one, other) = (worker().start().await.unwrap(), worker().start().await.unwrap());
    assert_eq!(one.get("/").await.unwrap().text(), "1 2");
    assert_eq!(one.get("/").await.unwrap().text(), "2 2");
    assert_eq!(other.get("/").await.unwrap().text(), "1 2");
    drop((one, other));
    let resets = worker().state(StatePolicy::Reset).start().await.unwrap();
    for _ in 0..3 {
        assert_eq!(resets.get("/").await.unwrap().text(), "1 2");
    }
}

async fn an_invalid_wasm_module_is_a_failed_start(shard: Rc<Shard>) {
    let worker = shard
        .worker("import './bad.wasm'; export default { fetch() {} }")
        .module("bad.wasm", b"text");
    assert_eq!(worker.failure().await, (FailureCode::WorkerStartFailed, Phase::Start));
    assert!(shard.logged("CompileError: "), "{:?}", shard.log());
}

async fn a_wasm_module_can_be_imported_as_bytes(shard: Rc<Shard>) {
    let worker = shard.worker(
        "import bytes from './add.wasm' with { type: 'bytes' };
         export default { fetch: async () => new Response((await WebAssembly.instantiate(bytes)).instance.exports.add(3, 4)) }",
    );
    assert_eq!(with_add(worker).get().await.unwrap().text(), "7");
}

async fn wasm_memory_and_array_buffers_share_one_limit(shard: Rc<Shard>) {
    let handler = |body: &str| {
        let handler = format!("const add = (await import('./add.wasm')).default; {body}");
        with_add(shard.handler(&handler))
            .limits(|limits| (limits.memory_mib, limits.cpu_ms) = (32, 2_000))
    };
    let grown = "const { grow } = new WebAssembly.Instance(add).exports;
                 const held = new Uint8Array(20 << 20);
                 return new Response([grow(400), grow(100) > 0, held.length].join(' '))";
    assert_eq!(handler(grown).get().await.unwrap().text(), "-1 true 20971520");
    let filled = "globalThis.held = new WebAssembly.Instance(add).exports; held.grow(320);
                  return new Response(new Uint8Array(20 << 20).length)";
    assert_eq!(handler(filled).failure().await, (FailureCode::MemoryLimitExceeded, Phase::Handler));
}

async fn wasm_memory_is_counted_and_released(shard: Rc<Shard>) {
    let handler = "globalThis.held = request.url.endsWith('/keep')
                     ? new WebAssembly.Instance((await import('./add.wasm')).default).exports : null;
                   return new Response(held?.grow(800))";
    let worker = with_add(shard.handler(handler))
        .limits(|limits| limits.cpu_ms = 2_000)
        .start()
        .await
        .unwrap();
    assert_eq!(worker.get("/keep").await.unwrap().text(), "1");
    assert!(worker.0.memory_bytes() > 50 << 20, "{}", worker.0.memory_bytes());
    worker.get("/").await.unwrap();
    await_condition("the release of the memory", || {
        worker.0.collect();
        worker.0.memory_bytes() < 20 << 20
    })
    .await;
}

async fn wasm_code_is_counted_while_its_module_is_alive(shard: Rc<Shard>) {
    // One custom section of 8 MiB, plus one byte for its empty name.
    let handler = "if (!request.url.endsWith('/keep')) return new Response();
                   const module = new Uint8Array(14 + (8 << 20));
                   module.set([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 0, 0x81, 0x80, 0x80, 0x04]);
                   globalThis.module = new WebAssembly.Module(module);
                   return new Response('made')";
    let worker =
        shard.handler(handler).limits(|limits| limits.cpu_ms = 5_000).start().await.unwrap();
    worker.get("/").await.unwrap();
    let before = worker.0.memory_bytes();
    worker.get("/keep").await.unwrap();
    worker.0.collect();
    let after = worker.0.memory_bytes();
    assert!((before + (7 << 20)..before + (12 << 20)).contains(&after), "{before} {after}");
}
