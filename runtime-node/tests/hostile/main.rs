//! The suite of hostile Workers: every script under `tests/hostile` is a test of its own.
//!
//! ```text
//!            one shard
//!   ┌───────────────────────────┐
//!   │ hostile  ◄── its requests │   must end as the script's header says
//!   │ neighbor ◄── requests     │   must answer throughout and afterwards
//!   │ innocent ◄── a request    │   an isolate started afterwards, which must answer
//!   └───────────────────────────┘
//! ```
//!
//! The scripts try to end the process that runs the suite, so a suite that finishes proves that
//! none succeeded. Only the scripts during which V8 may end the process run in a process of their
//! own (`hostile/ends.rs`). After the last script, the process of the suite must have released the
//! memory that the scripts took.

#![allow(clippy::unwrap_used)] // Clippy knows tests by an attribute that this harness does not use.

mod ends;
#[allow(dead_code, unused_imports, unused_macros)] // The engine's tests use the other functions.
#[path = "../engine/harness.rs"]
mod harness;
mod memory;
mod play;
mod script;
mod waits;

use std::path::Path;
use std::process::ExitCode;

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile");

fn main() -> ExitCode {
    tenon_engine::init();
    harness::collect_logs();
    let arguments = libtest_mimic::Arguments::from_args();
    let lists = arguments.list;
    let trials = script::all(Path::new(DIRECTORY)).into_iter().map(play::trial).collect();
    let before = memory::resident();
    let conclusion = libtest_mimic::run(&arguments, trials);
    waits::print();
    if !lists && let Err(growth) = memory::expect_returned(before) {
        eprintln!("\nthe memory of the scripts was not released: {growth}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
