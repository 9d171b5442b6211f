//! The contracts between Tenon's processes.
//!
//! - [`catalog`] and [`runtime`]: the gRPC services, generated from `proto/proto`.
//! - [`frame`]: gRPC's message framing, for the request path, which speaks HTTP/2 directly.
//! - [`id`]: the names of things as types.
//! - [`egress`]: to which hosts a Worker may connect.
//! - [`module`]: what a Worker's modules are, and what importing one gives.
//! - [`pattern`]: what regular expressions cost to compile.
//! - [`revision`]: what a node runs, and the digest that names it.
//! - [`failure`]: why an invocation failed, as a caller, a router and a log see it.
//!
//! Nothing here does I/O.

pub mod egress;
pub mod failure;
pub mod frame;
pub mod id;
pub mod module;
pub mod pattern;
pub mod revision;

/// `tenon.catalog.v1`: what is deployed.
#[allow(clippy::all, unreachable_pub)]
pub mod catalog {
    tonic::include_proto!("tenon.catalog.v1");
}

/// `tenon.node.v1`: between a node's supervisor and its shards.
#[allow(clippy::all, unreachable_pub)]
pub mod node {
    tonic::include_proto!("tenon.node.v1");
}

/// `tenon.runtime.v1`: delivering events to Workers.
#[allow(clippy::all, unreachable_pub)]
pub mod runtime {
    use crate::failure::{Failure, FailureCode, Phase};

    tonic::include_proto!("tenon.runtime.v1");

    /// The HTTP/2 path of [`Runtime.Invoke`](runtime_client::RuntimeClient::invoke).
    pub const INVOKE_PATH: &str = "/tenon.runtime.v1.Runtime/Invoke";

    /// How often Workers may call one another in a row. Nobody builds that many layers on purpose, and sixteen calls are
    /// soon over.
    pub const MAX_DEPTH: u32 = 16;

    impl InvokeHead {
        /// # Errors
        /// When it is one call of Workers by Workers too many.
        pub fn check_depth(&self) -> Result<(), Failure> {
            if self.depth <= MAX_DEPTH {
                return Ok(());
            }
            let Self { worker, caller, .. } = self;
            let message = format!(
                "Workers call one another in a loop: {caller} calls {worker} after {MAX_DEPTH} calls in a row. Let one of \
                 them answer by itself."
            );
            Err(Failure::new(FailureCode::LoopDetected, Phase::Admission, message))
        }

        /// Whether it is to become a tunnel if it is answered with 101: then what follows it is no body, but the bytes of
        /// a WebSocket.
        pub fn asks_for_tunnel(&self) -> bool {
            self.more_body && asks_for_websocket(&self.method, &self.headers)
        }
    }

    /// Whether a request is that of a WebSocket's opening handshake (RFC 6455, section 4.1), as it is between processes.
    pub fn asks_for_websocket(method: &str, headers: &[Header]) -> bool {
        let upgrade = |header: &Header| {
            header.name.eq_ignore_ascii_case("upgrade") && header.value.eq_ignore_ascii_case(b"websocket")
        };
        method == "GET" && headers.iter().any(upgrade)
    }
}
