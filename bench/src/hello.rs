//! The host and the response that every contender of a contest serves.

/// The host that every contender serves.
pub const HOST: &str = "hello.bench.localhost";
/// The response of every contender: see `bench/peers/hello.js`.
pub const ANSWER: &str = "Hello from /\n";
