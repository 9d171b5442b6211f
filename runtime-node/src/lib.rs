//! Runs Workers in V8 isolates on pinned threads.
//!
//! ```text
//!  node ─► one thread per shard ─► server (gRPC) ─► shard: admission, pool ─► engine: isolates
//!                                                      └── cold ──► source ──► catalog
//! ```
//!
//! - [`engine`]: everything V8.
//! - [`node`]: threads, listeners and drain; [`server`]: the gRPC service; [`shard`]: what one
//!   thread owns.
//! - [`pool`], [`admission`], [`tenants`], [`spares`] and [`upkeep`]: policy, without V8 or
//!   sockets.
//! - [`egress`]: outbound `fetch`; [`services`]: calls between Workers; [`response_cache`]: the
//!   Cache API.
//! - [`handshake`]: the WebSocket handshake.
//! - [`supervisor`]: starts and watches the processes of shards and lanes; [`seat`]: the shard's
//!   side of that; [`page`]: the memory they share.
//! - [`buffers`]: buffers for response messages.
//! - [`memory`]: the node's memory budget and how much of it is used.
//! - [`metrics`]: metrics of the node and its shards; [`tallies`]: metrics of each Worker.
//! - [`source`]: fetches revisions from the catalog by digest; [`reports`]: reports their health to
//!   the operator.

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
