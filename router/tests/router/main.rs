//! Tests a router that is connected to clients, a catalog and nodes over sockets.
//!
//! The catalog and the nodes implement the generated gRPC traits, so that tonic, an independent
//! implementation, decodes the router's messages.

// All code in this crate belongs to tests, but Clippy recognizes only functions that are marked as
// tests.
#![allow(clippy::unwrap_used)]

mod harness;
mod internal;

mod assets;
mod bodies;
mod catalog;
mod compression;
mod fast_path;
mod figures;
mod front;
mod hostile;
mod http3;
mod http3_limits;
mod https;
mod lanes;
mod rate_limits;
mod retry;
mod routing;
mod rules;
mod silence;
mod spans;
mod spread;
mod tls;
mod traffic;
mod tunnel;
mod websocket_handshake;
