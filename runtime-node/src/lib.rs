//! Runs Workers in V8 isolates on pinned threads.
//!
//! ```text
//!  node ─► one thread per shard ─► server (gRPC) ─► shard: admission, pool ─► engine: isolates
//!                                                      └── cold ──► source ──► catalog
//! ```
//!
//! Isolates and their limits are in `tenon-engine`, the Web interfaces in `tenon-web`, and the
//! client for outgoing requests in `tenon-egress`.
//!
//! - [`node`]: threads, listeners and drain; [`server`]: the gRPC service; [`shard`]: what one
//!   thread owns.
//! - [`pool`], [`admission`], [`tenants`], [`spares`], [`upkeep`] and [`wear`]: policy, without
//!   V8 or sockets.
//! - [`services`]: calls between Workers.
//! - [`supervisor`]: starts and watches the processes of shards and lanes; [`child`]: connects such
//!   a process to its supervisor.
//! - [`memory`]: the node's memory budget and how much of it is used.
//! - [`metrics`]: metrics of the shards and of each Worker; [`profile`]: the bounds of profiles.
//! - [`source`]: fetches revisions from the catalog by digest; [`reports`]: reports their health to
//!   the operator.

pub mod admission;
pub mod child;
pub mod config;
pub mod memory;
pub mod metrics;
pub mod node;
pub mod pool;
pub mod profile;
pub mod reports;
pub mod server;
pub mod services;
pub mod shard;
pub mod source;
pub mod spares;
pub mod supervisor;
pub mod tenants;
pub mod upkeep;
pub mod wear;
