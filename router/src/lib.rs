//! Terminates HTTP and forwards each request to its Worker's shard.
//!
//! ```text
//!                     ┌─ catalog thread: watch ─► table ─► published
//!  operator ─gRPC─────┘                                        │ read without locks
//!                     ┌─ thread 0 ─────────────────────────────┴──────────┐
//!  client ─HTTP──────►│ front ─► path: match ─► admit ─► pick ─► forward ─┼─► shard
//!                     └───────────────────────────────────────────────────┘
//!  node, operator ─gRPC──► internal: look up by name ─► the same from admit on
//!                       thread 1 … one per core; all share the table and `thread::Shared`
//! ```
//!
//! | group | what it is | may depend on |
//! | --- | --- | --- |
//! | `front` | listeners, a request's path, responses, calls from inside the platform | all |
//! | `tunnel` | WebSockets | `upstream` |
//! | `upstream` | shards: picking, connections, attempts, retries | |
//! | `sites` | static files: fetched from operators, kept on disk, read | `server` |
//!
//! `args` contains the arguments of processes that serve clients. `server` connects to the catalog,
//! which operators serve. Any group may use `date`, `executor`, `figures`, `meters` and `trace`,
//! and three crates: [`tenon_clients`] (clients' connections, and what each client may take),
//! [`tenon_compression`] (the encoders of responses, and what they may take) and [`tenon_table`]
//! (the content of the catalog: routes, the ring of shards, rate limits). `thread` contains what
//! one serving thread owns of every group but `front`. `metrics` contains the metrics of all
//! groups.
//!
//! Each decision is a module of pure functions: [`tenon_table::route`] (which Worker),
//! [`tenon_table::ring`] (which shards), `placement` (shard or lane), `health`, `pulse` and `retry`
//! (how to react to failures), and `error` (which response the client gets). `front::path` contains
//! the steps of a request, in order. Calls between Workers, and scheduled events from the operator,
//! arrive through `front::internal`. A WebSocket request takes the same path (`handshake`) and then
//! continues as a tunnel (`tunnel`).

mod args;
mod catalog;
mod date;
mod executor;
mod figures;
mod front;
#[cfg(fuzzing)]
pub mod fuzzing;
mod meters;
mod metrics;
mod router;
mod server;
mod sites;
mod thread;
mod trace;
mod tunnel;
mod upstream;

pub use args::{CERTIFICATES, FrontArgs, FrontArgsError};
pub use front::forwarded::TrustedProxies;
pub use front::pages::{FailedRequest, Page, Pages};
pub use front::{BACKLOG, FrontThread, Listeners};
pub use router::{Addresses, Config, IDLE_TIMEOUT, Router, SpawnError, bind};
pub use sites::SitesConfig;
pub use tenon_clients::pace::Pace;
pub use tenon_clients::{descriptors, memory};
pub use tenon_http3::Http3Error;
pub use tenon_https::{Https, HttpsError, HttpsSettings};
pub use tenon_spans::{SpanArgs, SpansConfig};
pub use tenon_table::Pin;
pub use upstream::inline::{
    Colocated, InlineReply, InlineRequest, InlineShard, ReplyParts, RequestParts, Siblings,
};
