//! Serves a router thread's connection to a shard: HTTP/2, over TLS if configured. The shard's own
//! thread serves all streams of the connection and processes its TLS records.
//!
//! ```text
//!  accept ─► TLS ─► sniff ─┬─ a router ──► tenon_hop ─┬─► server
//!                          └─ any other ─► hyper ─────┘
//! ```

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_hop::server::{Bounds, Connection};
use tenon_hop::sniff::{Opening, Peer, Replay, sniff};
use tenon_lifecycle::tls::{self, Stream, Tls};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::server;
use crate::shard::Shard;

/// Maximum number of concurrent streams on one connection; a router thread sends all its requests
/// to a shard over one connection. The maximum is above the number of requests that a shard admits
/// by default: a request that the shard refuses can go elsewhere, whereas a request that waits for
/// a stream cannot.
const STREAMS: u32 = 4096;

/// Maximum number of a shard's WebSockets. They may all come from one router thread, and must leave
/// half of the streams of its connection for requests.
pub(super) const TUNNELS: u32 = STREAMS / 2;

/// Maximum number of bytes of one request that wait until its Worker reads them: the size of a head
/// with the largest inline body, and the same number of bytes in flight.
const STREAM_WINDOW: u32 = 128 * 1024;

/// Window of a connection, in bytes: the sum of its streams' windows, because Workers that never
/// read their bodies must not use up the window of other Workers.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// The kernel detects a router's machine that has vanished: a connection is probed after
/// `KEEP_ALIVE` of silence, every `KEEP_ALIVE_INTERVAL`, and dropped after `KEEP_ALIVE_RETRIES`
/// unanswered probes. `VANISHED` is the longest time for which sent bytes may be unacknowledged.
/// HTTP/2 pings are unsuitable: a router's thread that is busy answers them late.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;
const VANISHED: Duration = Duration::from_secs(25);

/// Time limit for unfinished handshakes on a draining node; a regular handshake takes milliseconds.
const LAST_HANDSHAKE: Duration = Duration::from_secs(1);

/// Serves the connection until the peer closes it, or until `leave_rx` becomes true and the streams
/// in flight have finished.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<Tls>,
    shard: Rc<Shard>,
    mut leave_rx: watch::Receiver<bool>,
) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "a connection ended before it was set up");
        return;
    }
    let handshake_limit = async {
        let _ = leave_rx.wait_for(|leave| *leave).await;
        tokio::time::sleep(LAST_HANDSHAKE).await;
    };
    let opened = async {
        // `accept` has logged a peer that it refused.
        let stream = tls::accept(tls.as_ref(), stream).await.ok()?;
        sniff(stream).await.ok()
    };
    let peer = tokio::select! {
        opened = opened => opened,
        () = handshake_limit => None,
    };
    match peer {
        Some(Peer::Hop(opening)) => serve_hop(opening, shard, leave_rx).await,
        Some(Peer::Other(stream)) => serve_other(stream, shard, leave_rx).await,
        None => {}
    }
}

/// Serves a router.
async fn serve_hop(
    opening: Opening<Stream>,
    shard: Rc<Shard>,
    mut leave_rx: watch::Receiver<bool>,
) {
    let service = move |timeout, body| server::serve_hop(Rc::clone(&shard), timeout, body);
    let bounds = Bounds { streams: STREAMS, stream_window: STREAM_WINDOW };
    let mut connection = Connection::new(opening, service, bounds);
    let leave = pin!(leave_rx.wait_for(|leave| *leave));
    let ended = match select(&mut connection, leave).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => {
            connection.graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "lost a router's connection");
    }
}

/// Serves any other peer, such as a gRPC client.
async fn serve_other(
    stream: Replay<Stream>,
    shard: Rc<Shard>,
    mut leave_rx: watch::Receiver<bool>,
) {
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        // The defaults of these bounds protect against hostile clients, and are too low here: a
        // shard's clients are routers, which forward the resets of very many clients, and whose
        // uploads are reset whenever a Worker does not read them.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_local_error_reset_streams(None)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| server::serve(Rc::clone(&shard), request)),
        );
    let mut connection = pin!(connection);
    let leave = pin!(leave_rx.wait_for(|leave| *leave));
    let ended = match select(connection.as_mut(), leave).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "lost a connection");
    }
}

/// Disables Nagle's algorithm, and enables TCP keep-alive.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_RETRIES);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// An executor that runs HTTP/2 streams on the thread that owns their connection.
#[derive(Clone, Copy)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}
