//! Runs Workers in V8 isolates on pinned threads.
//!
//! ```text
//!  node ─► one thread per shard ─► server (gRPC) ─► shard: admission, pool ─► engine: isolates
//!                                                      └── cold ──► source ──► catalog
//! ```
//!
//! - [`engine`]: everything V8.
//! - [`node`]: threads, listeners, drain; [`server`]: the wire; [`shard`]: what a thread owns.
//! - [`pool`], [`admission`], [`tenants`], [`spares`] and [`upkeep`]: policy, without V8 or sockets.
//! - [`egress`]: what Workers fetch; [`services`]: how they call one another; [`response_cache`]: what they keep.
//! - [`handshake`]: how WebSockets begin.
//! - [`supervisor`]: the processes that shards are; [`seat`]: a shard's side of that, and [`page`], the memory they share.
//! - [`buffers`]: what answers are written into.
//! - [`memory`]: the node's budget and how much of it is used.
//! - [`metrics`]: what is counted, and [`tallies`], of each Worker.
//! - [`source`]: revisions from the catalog, by digest; [`reports`]: what the operator is told of them.

pub mod admission;
pub mod buffers;
mod cache;
pub mod config;
pub mod egress;
pub mod engine;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod handshake;
pub mod memory;
pub mod metrics;
pub mod node;
pub mod page;
pub mod pool;
pub mod reports;
pub mod response_cache;
pub mod seat;
pub mod server;
pub mod services;
pub mod shard;
pub mod source;
pub mod spares;
pub mod supervisor;
pub mod tallies;
pub mod tenants;
pub mod upkeep;
