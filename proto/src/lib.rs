//! The contracts between Tenon's processes.
//!
//! - [`catalog`], [`node`], [`router`] and [`runtime`]: the gRPC services, generated from
//!   `proto/proto`.
//! - [`frame`]: gRPC's message framing, for the request path, which speaks HTTP/2 directly.
//! - [`invoke`]: the messages of `Runtime.Invoke`, also for the request path.
//! - [`id`]: typed identifiers.
//! - [`figures`]: the requests of a revision, as routers count them during a rollout.
//! - [`egress`]: the hosts that a Worker may connect to.
//! - [`module`]: the kinds of modules, and the value that an import of each kind evaluates to.
//! - [`pattern`]: the cost of compiling regular expressions.
//! - [`revision`]: the unit of code and configuration that a node runs, and its digest.
//! - [`failure`]: the codes of failed invocations, for clients, routers and logs.
//!
//! This crate does no I/O.

pub mod egress;
pub mod failure;
pub mod figures;
pub mod frame;
pub mod id;
pub mod invoke;
pub mod module;
pub mod pattern;
pub mod revision;

/// `tenon.catalog.v1`: the Workers, revisions and nodes of a deployment.
#[allow(clippy::all, unreachable_pub)]
pub mod catalog {
    tonic::include_proto!("tenon.catalog.v1");
}

/// `tenon.node.v1`: the protocol between a node's supervisor and its shards.
#[allow(clippy::all, unreachable_pub)]
pub mod node {
    tonic::include_proto!("tenon.node.v1");
}

/// `tenon.router.v1`: the requests of operators to routers.
#[allow(clippy::all, unreachable_pub)]
pub mod router {
    tonic::include_proto!("tenon.router.v1");

    /// The HTTP/2 path of [`Router.AwaitWorker`](router_client::RouterClient::await_worker).
    pub const AWAIT_WORKER_PATH: &str = "/tenon.router.v1.Router/AwaitWorker";
}

/// `tenon.runtime.v1`: the delivery of events to Workers.
#[allow(clippy::all, unreachable_pub)]
pub mod runtime {
    use crate::failure::{Failure, FailureCode, Phase};

    tonic::include_proto!("tenon.runtime.v1");

    /// The HTTP/2 path of [`Runtime.Invoke`](runtime_client::RuntimeClient::invoke).
    pub const INVOKE_PATH: &str = "/tenon.runtime.v1.Runtime/Invoke";

    /// Returns whether a content type is that of gRPC. The whole value is compared: the content
    /// types of grpc-web begin the same way, but grpc-web has another framing and no trailers.
    pub fn is_grpc(content_type: &[u8]) -> bool {
        matches!(content_type, b"application/grpc" | b"application/grpc+proto")
    }

    /// Maximum depth of a chain of calls from Worker to Worker. No sensible design has so many
    /// layers, and a loop of sixteen calls ends quickly.
    pub const MAX_DEPTH: u32 = 16;

    impl InvokeHead {
        /// Returns the part of a request's stream that carries this head.
        pub fn into_part(self) -> invoke_request::Part {
            match self.entry {
                None => invoke_request::Part::Head(self),
                Some(_) => invoke_request::Part::EntryHead(self),
            }
        }

        /// Checks that the chain of Worker-to-Worker calls is at most [`MAX_DEPTH`] long.
        ///
        /// # Errors
        /// Fails with [`FailureCode::LoopDetected`] if the chain is longer.
        pub fn check_depth(&self) -> Result<(), Failure> {
            if self.depth <= MAX_DEPTH {
                return Ok(());
            }
            let Self { worker, caller, .. } = self;
            let message = format!(
                "Workers call one another in a loop: {caller} calls {worker} after {MAX_DEPTH} \
                 calls in a row. Remove one of the calls."
            );
            Err(Failure::new(FailureCode::LoopDetected, Phase::Admission, message))
        }

        /// Returns whether a 101 response turns this request into a tunnel: the messages after the
        /// head are then the bytes of a WebSocket and not a body.
        pub fn requests_tunnel(&self) -> bool {
            self.more_body && requests_websocket(&self.method, &self.headers)
        }
    }

    impl invoke_request::Part {
        /// Returns the head that the part carries, or `None` if the part carries none. An entry is
        /// dropped unless it is in an `EntryHead`, the part that versions without entries refuse.
        pub fn into_head(self) -> Option<InvokeHead> {
            match self {
                Self::Head(head) => Some(InvokeHead { entry: None, ..head }),
                Self::EntryHead(head) => Some(head),
                Self::Body(_) | Self::Trailers(_) => None,
            }
        }
    }

    /// Returns whether a request is a WebSocket opening handshake (RFC 6455, section 4.1), in the
    /// form used between processes.
    pub fn requests_websocket(method: &str, headers: &[Header]) -> bool {
        let upgrade = |header: &Header| {
            header.name.eq_ignore_ascii_case("upgrade")
                && header.value.eq_ignore_ascii_case(b"websocket")
        };
        method == "GET" && headers.iter().any(upgrade)
    }
}
