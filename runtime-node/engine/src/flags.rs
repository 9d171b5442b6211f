//! The V8 flags of the process. They must be the same where the snapshot is made (a `build.rs`
//! includes this file) and where the snapshot is used.

/// The flags, each with its reason:
/// - `--single-threaded-gc`: a Worker's heap is small, and the Worker itself pays for its
///   collections: they run on its shard's thread, in its own turn, never on a neighbor's core.
/// - `--enable-sharedarraybuffer-per-context`: no context gets the constructor, because a
///   thread that counts in shared memory is a fine-grained clock.
/// - `--no-turboshaft-loop-unrolling`: around an inner loop that it unrolls, such as that of
///   `Array.prototype.fill`, the optimizer also drops the outer loop's check for interrupts, and
///   `for (;;) new Array(1000).fill(1)` can no longer be terminated.
///
/// Flags for WebAssembly (see `wasm.rs`):
/// - `--no-wasm-tier-up --no-wasm-dynamic-tiering`: the time and memory of the optimizing compiler
///   have no bound in terms of the code, and could not be charged to a Worker, because it works on
///   other threads. The baseline compiler is linear in what `check.rs` permits, and compiles each
///   function on its first call, in the caller's turn.
/// - `--wasm-num-compilation-tasks=0`: no other thread compiles.
/// - `--wasm-max-mem-pages`: the limit of 4 GiB also applies to memories with 64-bit addresses.
/// - `--wasm-max-table-size`: V8 writes each element of a table that grows, and cannot be
///   interrupted meanwhile.
pub const FLAGS: &str = "--single-threaded-gc --enable-sharedarraybuffer-per-context --no-turboshaft-loop-unrolling \
     --no-wasm-tier-up --no-wasm-dynamic-tiering --wasm-num-compilation-tasks=0 --wasm-max-mem-pages=65536 \
     --wasm-max-table-size=1048576";
