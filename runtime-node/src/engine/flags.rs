//! The V8 flags of the process, the same where the snapshot is made (`build.rs` includes this file) and where it
//! is used.

/// Each with its reason:
/// - `--single-threaded-gc`: a Worker's heap is small, and its collections are its own cost: on its shard's
///   thread, in its own turn, never on the core of a neighbour.
/// - `--no-expose-wasm`: WebAssembly's memory is outside of both the heap limit and the buffer budget, and shared
///   memories would bring back a timer as fine as a thread can count.
/// - `--no-harmony-sharedarraybuffer` has gone from V8, so `bootstrap.js` removes the constructor instead; with
///   WebAssembly gone there is no other way to one.
/// - `--no-allow-natives-syntax` is the default; nothing here may turn it on.
pub const FLAGS: &str = "--single-threaded-gc --no-expose-wasm";
