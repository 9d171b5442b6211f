//! One router thread's connection to a shard: HTTP/2, over TLS where there is any, and every stream and record of it served
//! on the shard's own thread.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_lifecycle::tls::{self, Tls};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::server;
use crate::shard::Shard;

/// Streams of one connection at once, for a router thread sends all its requests for a shard over one. More than a
/// shard admits: who is over that bound is told so and can go elsewhere, where a stream that waits to be opened cannot.
const STREAMS: u32 = 4096;

/// WebSockets of a shard. They may all have come from one router thread, and are to leave half of its streams for requests.
pub(super) const TUNNELS: u32 = STREAMS / 2;

/// How much of one request's body may wait until its Worker reads it, in bytes: a head with the largest inline body,
/// and as much again on its way.
const STREAM_WINDOW: u32 = 128 * 1024;

/// The connection's own window is the sum of its streams': Workers that never read their bodies must not use up what
/// is for the others.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// A router's machine that vanished is noticed by the kernel: after so long without a sign of life it probes, so often,
/// and gives up after so many. Pings of HTTP/2 would be answered late by a thread that is busy, which is no death.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_RETRIES: u32 = 3;
const VANISHED: Duration = Duration::from_secs(25);

/// How long a node that leaves waits for whoever has not shaken hands: those who mean it take milliseconds.
const LAST_HANDSHAKE: Duration = Duration::from_secs(1);

/// Serves until the peer leaves or `leave_rx` turns true, and then what is in flight.
pub(super) async fn serve(stream: TcpStream, tls: Option<Tls>, shard: Rc<Shard>, mut leave_rx: watch::Receiver<bool>) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let hurried = async {
        let _ = leave_rx.wait_for(|leave| *leave).await;
        tokio::time::sleep(LAST_HANDSHAKE).await;
    };
    let stream = tokio::select! {
        accepted = tls::accept(tls.as_ref(), stream) => match accepted {
            Ok(stream) => stream,
            // Who may not come has been logged.
            Err(_) => return,
        },
        () = hurried => return,
    };
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        // Bounds against hostile clients. Ours are routers, which pass on the resets of a great many callers, and whose
        // uploads are cut short whenever a Worker does not read them.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| server::serve(Rc::clone(&shard), request)));
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
        tracing::debug!(%error, "a connection broke");
    }
}

/// Small answers go at once, and a machine that is no longer there is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_INTERVAL).with_retries(KEEP_ALIVE_RETRIES);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// Runs HTTP/2 streams on the thread that owns their connection.
#[derive(Clone, Copy)]
pub(crate) struct Local;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}
