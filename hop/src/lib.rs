//! Carries `Runtime.Invoke` between a router and a shard, over the hop protocol: a subset of
//! HTTP/2 that suffices for this method and these two peers.
//!
//! The bytes are ordinary gRPC over HTTP/2, but a sender has few choices: every header is a literal
//! or in the static table, a header block fits into one frame, and the blocks of ordinary requests
//! and responses are constants, which a receiver compares instead of parsing. Both peers state in
//! their SETTINGS that they keep to the hop protocol ([`settings`]). Any other peer is
//! served by a complete implementation.
//!
//! ```text
//!  router: Sender ─► outbox ─► socket ─► Connection ─► service     the shard's thread
//!          Call ◄─ stream ◄── Connection ◄── socket ◄─ outbox ◄┘
//! ```
//!
//! A connection is one task. The task holds all streams, reads what has arrived, and writes
//! together what all streams send in one turn of the event loop. A request therefore needs no task,
//! no channel and no TCP segment of its own.
//!
//! - [`client`]: the router's side.
//! - [`server`]: the shard's side.
//! - [`incoming`]: the body of a request, on the shard's side.
//! - [`sniff`]: decides, on the shard's side, which implementation a peer needs.
//! - [`block`], [`frame`], [`settings`]: the encoding of headers, frames and settings. Pure.
//! - [`pieces`]: the data of a stream that has arrived and has not been read. Pure.
//! - [`wire`]: reads frames from a socket and writes an outbox to it.
//! - [`error`]: the ways in which a connection fails.

mod block;
pub mod client;
pub mod error;
mod frame;
mod incoming;
mod pieces;
pub mod server;
mod settings;
pub mod sniff;
mod wire;

pub use incoming::Incoming;
