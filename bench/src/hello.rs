//! The Worker that every contender of a contest serves.

/// The host at which it is served.
pub const HOST: &str = "hello.bench.localhost";
/// Its response; see `bench/peers/hello.js`.
pub const ANSWER: &str = "Hello from /\n";
