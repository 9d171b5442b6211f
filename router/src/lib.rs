//! Terminates HTTP and forwards each request to its Worker's shard.
//!
//! ```text
//!                     ┌─ catalog thread: watch ─► table ─► published
//!  operator ─gRPC─────┘                                        │ read without locks
//!                     ┌─ thread 0 ─────────────────────────────┴──────────┐
//!  client ─HTTP──────►│ front ─► path: match ─► admit ─► pick ─► forward ─┼─► shard
//!                     └───────────────────────────────────────────────────┘
//!  node, operator ─gRPC──► inner: look up by name ─► the same from admit on
//!                       thread 1 … one per core, sharing nothing but the addresses
//! ```
//!
//! Decisions are pure rooms: [`route`] (which Worker), [`ring`] (which shards), `placement` (shard
//! or lane), `health`, `pulse` and `retry` (what to make of failures), `error` (what to tell the
//! caller). The path of a request reads top-down in `path`; what Workers ask of one another, and
//! the clock of them, comes by `inner`. A request that becomes a WebSocket goes the same way
//! (`handshake`), and then on by itself (`tunnel`).

mod answer;
mod bulkhead;
mod catalog;
mod clients;
mod closing;
pub mod descriptors;
mod error;
mod exchange;
mod forward;
mod front;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod handshake;
mod head;
mod headers;
mod health;
mod heard;
mod inner;
mod link;
pub mod memory;
mod messages;
mod metrics;
mod pace;
mod path;
mod pick;
mod placement;
mod preface;
mod pulse;
mod quota;
mod relay;
mod retry;
pub mod ring;
pub mod route;
mod router;
mod shares;
mod silence;
pub mod table;
mod target;
mod thread;
mod trace;
mod tunnel;
mod tunnels;
mod upload;
mod wire;

pub use pace::Pace;
pub use router::{Config, Router, SpawnError};
pub use table::Pin;
