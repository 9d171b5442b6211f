//! The V8 flags of the process, the same where the snapshot is made (`build.rs` includes this file) and where it
//! is used.

/// Each with its reason:
/// - `--single-threaded-gc`: a Worker's heap is small, and its collections are its own cost: on its shard's
///   thread, in its own turn, never on the core of a neighbour.
/// - `--enable-sharedarraybuffer-per-context`: no context gets the constructor. Shared memory is a clock as fine as
///   a thread can count.
/// - `--no-turboshaft-loop-unrolling`: around an inner loop that it unrolls, such as that of `Array.prototype.fill`,
///   the optimiser also drops the outer loop's check for interrupts, and `for (;;) new Array(1000).fill(1)` can no
///   longer be terminated.
///
/// And for WebAssembly (see `wasm.rs`):
/// - `--no-wasm-tier-up --no-wasm-dynamic-tiering`: what the optimising compiler takes, in time and memory, has no bound
///   that goes by the code, and nobody would be charged for it, because it works on other threads. The baseline compiler
///   is linear in what `check.rs` lets through, and works for each function when that is first called, in the caller's turn.
/// - `--wasm-num-compilation-tasks=0`: no other thread compiles.
/// - `--wasm-max-mem-pages`: 4 GiB for a memory with addresses of 64 bits, too.
/// - `--wasm-max-table-size`: V8 writes to each place of a table that grows, and cannot be interrupted.
pub const FLAGS: &str = "--single-threaded-gc --enable-sharedarraybuffer-per-context --no-turboshaft-loop-unrolling \
     --no-wasm-tier-up --no-wasm-dynamic-tiering --wasm-num-compilation-tasks=0 --wasm-max-mem-pages=65536 \
     --wasm-max-table-size=1048576";
