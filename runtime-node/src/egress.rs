//! What Workers fetch: a shard's own HTTP client.
//!
//! ```text
//!  fetch ─► a hop ─► may this Worker? ─► seat ─► pool ────────────────────────────────► exchange ─► head ─► body
//!            ▲       (scheme, port,      (how     │ no connection                            │       │
//!            │        its own list)       many    ▼                                          │       ▼
//!            │                            wait)  reach: names ─► policy ─► dial ─► TLS, ALPN ──┘   decode
//!            └───────────────── a redirect ──────────────────────────────────────────────────────────┘
//! ```
//!
//! - [`client`]: the path above; [`message`]: what goes in and comes out; [`error`]: how it fails, and what to do then.
//! - [`policy`]: which addresses may be reached at all, [`redirect`]: where a redirect leads. Both are pure.
//! - [`reach`]: from a name to a stream of bytes: [`names`] resolves, [`dial`] connects, [`proxy`] leads where the node is
//!   to go through one.
//! - [`connection`] speaks HTTP/1.1 or HTTP/2, [`pool`] keeps what is idle.
//! - [`seats`]: how much may be under way; [`incoming`] and [`decode`]: a response's body as it comes.
//! - [`settings`]: what is fixed when the node starts.
//!
//! ## Who may reach what
//!
//! A Worker's program is hostile, and the node stands inside: beside other tenants' Services, its own ports, the cloud's
//! metadata. So the addresses that a name has resolved to are judged, and exactly these are connected to; a name that
//! resolves to something else a moment later has won nothing. A redirect is a request like any other and goes the whole
//! way again. The Worker's own list of hosts can only narrow that.
//!
//! ## What tenants share
//!
//! No connection, and no session of TLS that one could be resumed from: a pool's key begins with the tenant, which is
//! the namespace. Two tenants on one connection could tell each other's traffic from how long their own answers take and
//! from what HTTP/2's header compression remembers, and an origin that trusts a connection would trust both. Names are
//! resolved once for all, as everybody's answers are the same.
//!
//! All of this belongs to a shard's thread. What shards share never changes: [`Settings`].

pub mod client;
mod connection;
mod decode;
mod dial;
pub mod error;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod incoming;
pub mod message;
mod names;
pub mod policy;
mod pool;
pub mod proxy;
mod reach;
pub mod redirect;
mod seats;
pub mod settings;

pub use client::{Account, Client, Ledger, Opened, Tunnel};
pub use error::EgressError;
pub use message::{Bytestream, Outgoing, RedirectMode, Request, Response};
pub use policy::Policy;
pub use proxy::{InvalidProxy, Proxy, Resolver};
pub use settings::{Settings, SettingsError};

#[cfg(test)]
mod tests;
