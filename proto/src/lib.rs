//! The contracts between Tenon's processes.
//!
//! - [`catalog`] and [`runtime`]: the gRPC services, generated from `proto/proto`.
//! - [`frame`]: gRPC's message framing, for the request path, which speaks HTTP/2 directly.
//! - [`id`]: the names of things as types.
//! - [`egress`]: to which hosts a Worker may connect.
//! - [`module`]: what a Worker's modules are, and what importing one gives.
//! - [`revision`]: what a node runs, and the digest that names it.
//! - [`failure`]: why an invocation failed, as a caller, a router and a log see it.
//!
//! Nothing here does I/O.

pub mod egress;
pub mod failure;
pub mod frame;
pub mod id;
pub mod module;
pub mod revision;

/// `tenon.catalog.v1`: what is deployed.
#[allow(clippy::all, unreachable_pub)]
pub mod catalog {
    tonic::include_proto!("tenon.catalog.v1");
}

/// `tenon.runtime.v1`: delivering events to Workers.
#[allow(clippy::all, unreachable_pub)]
pub mod runtime {
    tonic::include_proto!("tenon.runtime.v1");

    /// The HTTP/2 path of [`Runtime.Invoke`](runtime_client::RuntimeClient::invoke).
    pub const INVOKE_PATH: &str = "/tenon.runtime.v1.Runtime/Invoke";
}
