//! HTTP/3 with clients: one QUIC endpoint on each thread.
//!
//! ```text
//!  UDP socket of a thread ─► ThreadSocket ─► Endpoint ─► Attempt ─► Connection ─► Arrival
//!    SO_REUSEPORT     │  ▲                               accept,     streams     head, Body, Reply
//!                     ▼  │                               retry or
//!                 other threads                          refuse
//! ```
//!
//! All threads listen on the same port, and the kernel distributes datagrams by their addresses. A
//! connection belongs to the thread that has accepted it, and its ids name this thread. A client
//! may change its address: a thread that receives a datagram of another thread's connection hands
//! it over. An eBPF program in the kernel could choose the right socket at once, but it needs a
//! capability that a router's container does not have, and unsafe code.
//!
//! Everything that a client can make the router keep is bounded:
//!
//! | what | bound |
//! | --- | --- |
//! | attempts without a proven address | [`UNPROVEN`]; further clients have to prove their address, by a Retry packet, which costs the router no memory |
//! | a connection | [`CONNECTION`] and [`MEMORY`], charged to the client's address |
//! | streams of a connection | [`STREAMS`] at the same time, each charged with [`STREAM`] while it exists |
//! | an incomplete head or trailers | twice [`HEAD`], charged in full beyond half of [`STREAM`] |
//! | data that a request has not read | [`STREAM_WINDOW`] for each stream, [`RECEIVE_WINDOW`] for the connection |
//! | a response that its client does not read | [`SEND_WINDOW`], or [`WIDE_WINDOW`] while memory is free |
//! | datagrams for other threads | a queue for each thread |
//!
//! 0-RTT is off, because anyone could repeat its requests. Datagrams (RFC 9297), WebTransport and
//! WebSockets (RFC 9220) are not supported.
//!
//! - [`connection_id`]: ids that name a thread. Pure.
//! - [`datagram`]: the connection id of a datagram. Pure.
//! - [`handover`], [`socket`]: datagrams between threads.
//! - [`endpoint`]: accepts connections.
//! - [`frames`]: what the parser of HTTP/3 may read. Pure.
//! - [`streams`]: the adapter between the parser and QUIC.
//! - [`connection`], [`body`]: a connection's requests.
//! - [`metrics`]: attempts, and datagrams between threads.
//!
//! The crate knows nothing of the router that uses it. All types belong to the thread that has
//! created them, except [`Listener`], which moves to its thread, and the metrics, which all threads
//! share.

mod body;
mod connection;
mod connection_id;
mod datagram;
mod endpoint;
mod frames;
mod handover;
pub mod metrics;
mod socket;
mod streams;

use std::time::Duration;

use tenon_https::TlsMemory;

pub use body::{Body, BodyError};
pub use connection::{Arrival, Closing, Connection, Reply, StreamError, Window};
pub use endpoint::{Attempt, Endpoint, Http3Error, Listener, listen};

/// The maximum size of a request's head, in bytes, as HTTP/3 counts it (RFC 9114, section 4.2.2).
pub const HEAD: u64 = 64 * 1024;

/// The maximum number of concurrent requests of a connection.
pub const STREAMS: u32 = 128;
/// The maximum number of other streams that a client may open. HTTP/3 uses three.
const UNIDIRECTIONAL: u32 = 8;

/// The memory that the stream of a request takes in addition to its data, in bytes, with room for a
/// usual head.
pub const STREAM: usize = 8 * 1024;

/// The flow-control windows of one stream and of the connection, in bytes, as in HTTP/2.
const STREAM_WINDOW: u32 = 128 * 1024;
const RECEIVE_WINDOW: u32 = 1024 * 1024;

/// The maximum part of a connection's responses that waits for the client's acknowledgement, in
/// bytes. It limits the rate of a download to one window in each round trip.
const SEND_WINDOW: usize = 64 * 1024;
/// The same for a connection with large responses, as long as there is memory for it.
const WIDE_WINDOW: usize = 1024 * 1024;

/// The memory that a connection takes, in bytes, with the responses that wait in [`SEND_WINDOW`].
pub const CONNECTION: usize = SEND_WINDOW + 32 * 1024;
/// The memory that TLS and QUIC add to a connection, in bytes.
pub const MEMORY: TlsMemory = TlsMemory { active: 48 * 1024, resting: 48 * 1024 };

/// The maximum number of simultaneous handshakes of a thread with clients that have not proven
/// their address.
const UNPROVEN: usize = 32;

/// The maximum duration of a handshake with a client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which a client that has sent nothing counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(45);
/// The interval at which a client is pinged. It is shorter than the time for which most network
/// address translators remember a client.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// The time for which a client that leaves may still receive what has been sent to it.
const LAST_PACKETS: Duration = Duration::from_millis(500);
