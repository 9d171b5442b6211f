//! Terminates HTTP and forwards each request to its Worker's shard.
//!
//! ```text
//!                     ┌─ catalog thread: watch ─► table ─► published
//!  operator ─gRPC─────┘                                        │ read without locks
//!                     ┌─ lane 0 ───────────────────────────────┴──────────┐
//!  client ─HTTP──────►│ front ─► path: match ─► admit ─► pick ─► forward ─┼─► shard
//!                     └───────────────────────────────────────────────────┘
//!  node, operator ─gRPC──► inner: look up by name ─► the same from admit on
//!                       lane 1 … one per core, sharing nothing but the addresses
//! ```
//!
//! Decisions are pure rooms: [`route`] (which Worker), [`ring`] (which shards), `health` and `retry` (what to
//! make of failures), `error` (what to tell the caller). The path of a request reads top-down in `path`; what
//! Workers ask of one another, and the clock of them, comes by `inner`.

mod answer;
mod catalog;
mod error;
mod exchange;
mod forward;
mod front;
mod headers;
mod health;
mod inner;
mod lane;
mod link;
mod messages;
mod metrics;
mod path;
mod pick;
mod preface;
mod relay;
mod retry;
pub mod ring;
pub mod route;
mod router;
pub mod table;
mod target;
mod trace;
mod upload;
mod wire;

pub use router::{Config, Router, SpawnError};
pub use table::Pin;
