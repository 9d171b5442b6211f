//! The engine with real Workers, well-behaved and hostile.
//!
//! It has a main of its own: V8 is initialised before the harness makes its threads. On a processor with memory
//! protection keys a thread made earlier dies when it runs JavaScript.

#[path = "engine/answers.rs"]
mod answers;
#[path = "engine/failures.rs"]
mod failures;
#[path = "engine/harness.rs"]
mod harness;
#[path = "engine/limits.rs"]
mod limits;
#[path = "engine/operations.rs"]
mod operations;
#[path = "engine/starts.rs"]
mod starts;

fn main() {
    if let Ok(f) = std::env::var("DBGFLAGS") { v8::V8::set_flags_from_string(&f) }
    tenon_runtime_node::engine::init();
    harness::collect_logs();
    let rooms = [answers::trials(), failures::trials(), limits::trials(), operations::trials(), starts::trials()];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), rooms.into_iter().flatten().collect()).exit()
}
