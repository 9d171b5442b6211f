//! Fuzzes the inspection of WebAssembly modules before V8 sees them. The inspection agrees with the
//! validator and takes a bounded number of steps. V8 compiles modules that pass, and runs them
//! within limits (`workers/wasm.js`).
//!
//! Half of the modules are the raw input. The others are valid modules that are generated from the
//! input.

#![no_main]

use arbitrary::Unstructured;
use tenon_engine::fuzzing::{ModuleCheck, check_module};
use wasm_smith::{Config, Module};

tenon_fuzz::in_an_isolate!("../workers/wasm.js", |host, data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let generated = (kind % 2 == 0).then(|| module(rest)).flatten();
    let bytes = generated.as_deref().unwrap_or(rest);

    let (verdict, steps, is_valid) = check_module(bytes);
    match verdict {
        ModuleCheck::Invalid => assert!(!is_valid),
        ModuleCheck::Fine => assert!(is_valid),
        ModuleCheck::Refused(_) => {}
    }
    assert!(steps <= 2 + bytes.len(), "{steps} steps for {} bytes", bytes.len());
    host.send(bytes);
});

fn module(seed: &[u8]) -> Option<Vec<u8>> {
    let config = Config {
        exceptions_enabled: true,
        gc_enabled: true,
        reference_types_enabled: true,
        simd_enabled: true,
        tail_call_enabled: true,
        memory64_enabled: true,
        max_memories: 4,
        max_tables: 4,
        ..Config::default()
    };
    let module = Module::new(config, &mut Unstructured::new(seed)).ok()?;
    Some(module.to_bytes())
}
