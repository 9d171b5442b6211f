//! A real router between a real HTTP client, a real catalog and real gRPC nodes.
//!
//! The catalog and the nodes are servers of the generated gRPC traits, so that what the router puts on the wire
//! is read by somebody else's implementation.

// All of this is tests, but only functions that say so are seen as such.
#![allow(clippy::unwrap_used)]

mod harness;
mod inner;

mod bodies;
mod catalog;
mod front;
mod hostile;
mod lanes;
mod retry;
mod routing;
mod silence;
mod tls;
mod tunnel;
