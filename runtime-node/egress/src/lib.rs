//! The client with which a shard sends the outbound HTTP requests of Workers, and opens their TCP
//! connections.
//!
//! ```text
//!  fetch ─► hop ─► allowed? ─► permit ─► pool ─────────────────► exchange ─► head ─► body
//!            ▲                            │ no connection           ▲         │        │
//!            │                            ▼                         │         │        ▼
//!            │                        connector ─► TLS, ALPN ───────┘         │      decode
//!            └─────────────────────── redirect ───────────────────────────────┘
//!
//!  allowed?   scheme, port, and the Worker's own list of hosts
//!  permit     bounds the requests that wait for a response
//!  connector  names ─► policy ─► dial
//! ```
//!
//! - [`client`]: the path above, that of WebSockets and TCP sockets, and queries of names;
//!   [`message`]: requests and responses; [`error`]: the errors of requests and sockets, with
//!   remedies for the tenant.
//! - [`policy`]: which addresses may be reached at all; [`redirect`]: the target of a redirect.
//!   Both are pure.
//! - [`connector`]: makes a byte stream to a name: [`names`] resolves, [`dial`] connects, [`proxy`]
//!   opens a tunnel if the node must use a proxy.
//! - [`origin`]: the peer and the tenant of a request; [`connection`] speaks HTTP/1.1 or HTTP/2
//!   with it; [`pool`] keeps idle connections.
//! - [`budget`]: the invocation to which requests are charged; [`concurrency`]: bounds on
//!   concurrent requests and responses; [`incoming`] and [`decode`]: a response body as it arrives.
//! - [`handshake`]: the WebSocket opening handshake, for clients and servers; [`metrics`]: metrics
//!   of requests and connections.
//! - [`settings`]: the settings, which are fixed when the node starts.
//!
//! ## Which addresses a Worker may reach
//!
//! A Worker's program is hostile, and the node stands inside the network: next to other tenants'
//! Services, its own ports and the cloud's metadata service. The client therefore judges the
//! addresses to which a name has resolved, and connects to exactly these addresses; it does not
//! matter if the name resolves to another address a moment later. A redirect is a request like any
//! other and takes the whole path again. The Worker's own list of hosts can only narrow the policy.
//!
//! ## What tenants share
//!
//! Tenants share neither connections nor TLS sessions that a connection could resume: each key of
//! the pool of connections begins with the tenant, which is the namespace. Two tenants on one
//! connection could infer each other's traffic from the latency of their own responses and from the
//! state of HTTP/2's header compression, and an origin that authenticates the connection would
//! trust both. The DNS cache is shared, because its answers are the same for every tenant.
//!
//! A client belongs to a shard's thread. Shards share only the immutable [`Settings`].

mod budget;
mod cause;
pub mod client;
mod concurrency;
mod connection;
mod connector;
mod decode;
mod dial;
pub mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod handshake;
mod incoming;
pub mod message;
pub mod metrics;
mod names;
mod origin;
pub mod policy;
mod pool;
pub mod proxy;
pub mod redirect;
pub mod settings;

pub use budget::InvocationBudget;
pub use client::{Authorities, Client, EgressContext, Endpoint, Socket, Tunnel, UpgradeResponse};
pub use error::EgressError;
pub use message::{
    BodyStream, RedirectMode, Request, RequestBody, Response, ResponseBody, Trailers,
};
pub use metrics::EgressMetrics;
pub use policy::Policy;
pub use proxy::{InvalidProxy, Proxy, Resolver};
pub use settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;
