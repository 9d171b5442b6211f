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
pub const FLAGS: &str = "--single-threaded-gc --enable-sharedarraybuffer-per-context --no-turboshaft-loop-unrolling";
