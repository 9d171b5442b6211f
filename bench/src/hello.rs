//! The Worker that every contender of a contest serves.

/// The host of the Worker.
pub const HOST: &str = "hello.bench.localhost";
/// The response of the Worker to `/` (see `bench/peers/hello.js`).
pub const ANSWER: &str = "Hello from /\n";
