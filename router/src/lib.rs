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
//! Each decision is a module of pure functions: [`route`] (which Worker), [`ring`] (which shards),
//! `placement` (shard or lane), `health`, `pulse` and `retry` (how to react to failures), and
//! `error` (which response the client gets). `path` contains the path of a request, in order. Calls
//! between Workers, and scheduled events from the operator, arrive through `inner`. A WebSocket
//! request takes the same path (`handshake`) and then continues as a tunnel (`tunnel`).

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
