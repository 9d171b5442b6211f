//! Tests the engine with real Workers, both well-behaved and hostile.
//!
//! The suite has its own `main` because V8 must be initialized before the harness creates its
//! threads: on a processor with memory protection keys, a thread that was created earlier crashes
//! when it runs JavaScript.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod answers;
mod background;
mod blocking_time;
mod entrypoints;
mod failures;
mod harness;
mod limits;
mod memory_limits;
mod modules;
mod operations;
mod profiles;
mod resets;
mod rpc;
mod schedules;
mod services;
mod stacks;
mod starts;
mod streams;
mod wasm;

fn main() {
    tenon_engine::init();
    harness::collect_logs();
    let suites = [
        answers::trials(),
        background::trials(),
        blocking_time::trials(),
        entrypoints::trials(),
        failures::trials(),
        limits::trials(),
        memory_limits::trials(),
        modules::trials(),
        operations::trials(),
        profiles::trials(),
        resets::trials(),
        rpc::calls::trials(),
        rpc::limits::trials(),
        rpc::references::trials(),
        schedules::trials(),
        services::trials(),
        stacks::trials(),
        starts::trials(),
        streams::trials(),
        wasm::trials(),
    ];
    libtest_mimic::run(
        &libtest_mimic::Arguments::from_args(),
        suites.into_iter().flatten().collect(),
    )
    .exit()
}
