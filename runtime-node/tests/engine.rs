//! The engine with real Workers, well-behaved and hostile.
//!
//! The suite has its own `main` because V8 must be initialised before the harness creates its
//! threads: on a processor with memory protection keys, a thread created earlier dies when it runs
//! JavaScript.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

#[path = "engine/answers.rs"]
mod answers;
#[path = "engine/entrypoints.rs"]
mod entrypoints;
#[path = "engine/failures.rs"]
mod failures;
#[path = "engine/harness.rs"]
mod harness;
#[path = "engine/limits.rs"]
mod limits;
#[path = "engine/modules.rs"]
mod modules;
#[path = "engine/operations.rs"]
mod operations;
#[path = "engine/resets.rs"]
mod resets;
#[path = "engine/schedules.rs"]
mod schedules;
#[path = "engine/services.rs"]
mod services;
#[path = "engine/stacks.rs"]
mod stacks;
#[path = "engine/starts.rs"]
mod starts;
#[path = "engine/streams.rs"]
mod streams;
#[path = "engine/stretches.rs"]
mod stretches;
#[path = "engine/wasm.rs"]
mod wasm;

fn main() {
    tenon_engine::init();
    harness::collect_logs();
    let rooms = [
        answers::trials(),
        entrypoints::trials(),
        failures::trials(),
        limits::trials(),
        modules::trials(),
        operations::trials(),
        resets::trials(),
        schedules::trials(),
        services::trials(),
        stacks::trials(),
        starts::trials(),
        streams::trials(),
        stretches::trials(),
        wasm::trials(),
    ];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), rooms.into_iter().flatten().collect()).exit()
}
