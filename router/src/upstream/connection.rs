//! An HTTP/2 connection to a shard: how the connection is opened and bounded, and how it ended.
//!
//! With keepalive probes, the kernel detects within `VANISHED` that the peer's machine or the
//! network has failed.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt as _, LocalBoxFuture};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_hop::client::{self, Pings};
use tenon_hop::error::ConnectionError;
use tenon_lifecycle::tls::{Role, Stream, Tls};
use tenon_table::Shard;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::executor::Local;
use crate::upstream::counting_stream::{CountingStream, IoCounts};
use crate::upstream::health::Disconnect;
use crate::upstream::pulse;
use crate::upstream::upload::AttemptBody;

/// The timeout of a TCP connect. A node in the same cluster answers within a millisecond; a lost
/// SYN is retransmitted after one second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The timeout of a TLS handshake. The kernel answers a SYN, but the shard's thread answers a TLS
/// handshake between turns, and the longest turn may take 30 seconds. Without TLS a request waits
/// for such a turn just as long. Requests that have an alternative do not wait for the handshake,
/// and a shard that has been unavailable gets less time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(40);

/// The time after which a connection with an unanswered ping is closed. It is twice the duration of
/// the longest turn.
const PING_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without a packet from the other machine after which the connection counts as lost.
const VANISHED: Duration = Duration::from_secs(3);

/// The maximum part of one response that is buffered for its client, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 64 * 1024;

/// The window of a whole connection, in bytes, which is the maximum of HTTP/2. A few clients that
/// read slowly would exhaust a smaller window and block all other responses.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The maximum part of one request that is buffered in the connection, in bytes: the node's flow
/// control is the actual buffer.
const SEND_BUFFER: usize = 64 * 1024;

/// The times of pings to a shard. No pings are sent while there is no stream.
const PINGS: Pings = Pings { after: pulse::PING_AFTER, timeout: PING_TIMEOUT };

/// Sends requests on a connection.
#[derive(Clone)]
pub(crate) enum Sender {
    /// The sender of a connection in the HTTP/2 subset of [`tenon_hop`].
    Hop(client::Sender),
    /// hyper's sender, for a shard that does not know the hop protocol.
    Complete(SendRequest<AttemptBody>),
}

impl Sender {
    /// Returns whether the connection takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Hop(sender) => sender.is_closed(),
            Self::Complete(sender) => sender.is_closed(),
        }
    }
}

/// Drives a connection until it ends.
pub(crate) type Driver = LocalBoxFuture<'static, Disconnect>;

/// Opens a connection: TCP, TLS if it is configured, and HTTP/2.
///
/// # Arguments
/// * `pings` - whether to ping the shard while it has requests.
/// * `counts` - counts reads from the connection and writes to it.
/// * `prove_by` - the deadline of the handshakes, if the peer has yet to prove that it responds.
///
/// # Errors
/// Fails if a connect or a handshake fails or takes too long, or if the certificate of the node is
/// for another pool.
pub(crate) async fn open(
    shard: &Shard,
    tls: Option<&Tls>,
    pings: bool,
    counts: &Rc<IoCounts>,
    prove_by: Option<Instant>,
) -> io::Result<(Sender, Driver)> {
    let timeout = || {
        prove_by.map_or(HANDSHAKE_TIMEOUT, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    };
    let stream = connect(shard, tls, counts, timeout()).await?;
    // The handshake writes only the preface and settings, and sends no request.
    let pings = pings.then_some(PINGS);
    let handshake =
        with_timeout(timeout(), client::handshake(stream, STREAM_WINDOW, pings)).await?;
    if let Some((sender, connection)) = handshake {
        let driver = connection.map(|ended| hop_disconnect(&ended)).boxed_local();
        return Ok((Sender::Hop(sender), driver));
    }
    let (sender, connection) = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(pings.map(|pings| pings.after))
        .keep_alive_timeout(PINGS.timeout)
        .handshake(TokioIo::new(connect(shard, tls, counts, timeout()).await?))
        .await
        .map_err(io::Error::other)?;
    let driver = connection.map(|ended| disconnect(&ended)).boxed_local();
    Ok((Sender::Complete(sender), driver))
}

/// The error for a node of another pool, which may have got the address of a deleted node. Such a
/// node must not see the requests of this pool's Workers.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of the node at {address} is not for RuntimePool {pool}")]
struct WrongPool {
    address: Box<str>,
    pool: Arc<str>,
}

/// Connects with TCP, and with TLS if it is configured.
async fn connect(
    shard: &Shard,
    tls: Option<&Tls>,
    counts: &Rc<IoCounts>,
    timeout: Duration,
) -> io::Result<CountingStream<Stream>> {
    let address = (&*shard.address, shard.port);
    let stream = with_timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await?;
    set_options(&stream)?;
    let stream = match tls {
        Some(tls) => {
            let connecting = tls.connect(Role::RuntimeNode, address.0, stream);
            let stream = with_timeout(timeout, async { Ok(connecting.await?) }).await?;
            // The shard's thread has answered, because it has completed the handshake.
            counts.count_read();
            if !stream.peer_may_be_of_pool(&shard.pool) {
                let (address, pool) = (shard.address.clone(), Arc::clone(&shard.pool));
                return Err(io::Error::other(WrongPool { address, pool }));
            }
            stream
        }
        None => Stream::Plain(stream),
    };
    Ok(CountingStream::new(stream, counts.clone()))
}

async fn with_timeout<T>(
    limit: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Disables Nagle's algorithm, and has the kernel detect a machine that has vanished.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let interval = VANISHED / 3;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(interval).with_interval(interval).with_retries(2),
    )?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// Returns the URI of a path on a shard. If the shard's address is not valid in a URI, the
/// authority is a placeholder, because nodes do not read the authority.
pub(crate) fn uri(shard: &Shard, tls: bool, path: &'static str) -> Uri {
    let host = if shard.address.contains(':') {
        format!("[{}]", shard.address)
    } else {
        shard.address.to_string()
    };
    let authority = Authority::try_from(format!("{host}:{}", shard.port))
        .unwrap_or_else(|_| Authority::from_static("node.invalid"));
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(authority);
    parts.path_and_query = Some(PathAndQuery::from_static(path));
    Uri::from_parts(parts).expect("the parts do not make a URI")
}

/// Returns the way in which a connection has ended.
fn disconnect(ended: &hyper::Result<()>) -> Disconnect {
    let Err(error) = ended else { return Disconnect::Closed };
    tracing::debug!(%error, "lost the connection to a shard");
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let mut kinds =
        causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    let vanished = error.is_timeout() || kinds.any(|kind| !HANG_UPS.contains(&kind));
    if vanished { Disconnect::Vanished } else { Disconnect::HungUp }
}

fn hop_disconnect(ended: &Result<(), ConnectionError>) -> Disconnect {
    let Err(error) = ended else { return Disconnect::Closed };
    tracing::debug!(%error, "lost the connection to a shard");
    match error {
        ConnectionError::Io(error) if !HANG_UPS.contains(&error.kind()) => Disconnect::Vanished,
        ConnectionError::Silent => Disconnect::Vanished,
        _ => Disconnect::HungUp,
    }
}

/// The errors with which a connection ends after the process at its other end has ended.
const HANG_UPS: [io::ErrorKind; 3] =
    [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
