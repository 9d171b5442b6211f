//! The front of a thread: its doors, the connections that come by them, and how they end.
//!
//! Every thread listens on the same addresses (`SO_REUSEPORT`), one for clients and one for the platform's own processes;
//! the kernel deals connections out. A drain has two
//! steps, because a Service goes on sending new connections for a moment after its endpoint is told to leave:
//!
//! ```text
//!  Serving ── drain ──► Leaving ─────────── linger over ──► Closing ── last connection gone ──► done
//!  keep-alive           still accepts; HTTP/1 answers       accepts what has come, then
//!                       "connection: close", HTTP/2 GOAWAY  nothing; idle connections close
//! ```
//!
//! Requests are waited for, since they come to an end. Tunnels do not, and are ended when their grace is over.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tenon_lifecycle::{drain, readiness::Readiness, tls};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::inner;
use crate::link::Local;
use crate::path;
use crate::preface::{Opening, Speaks};
use crate::thread::RouterThread;

/// Connections that wait to be accepted. The kernel's own limit is usually lower.
const BACKLOG: i32 = 4096;

/// How long a client may take to send a request's head, and to say nothing between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// A request's head, and each piece that a body is read in, in bytes.
const HTTP1_BUFFER: usize = 64 * 1024;
const HTTP2_HEAD: u32 = 64 * 1024;
const HTTP2_STREAMS: u32 = 256;
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// An HTTP/2 client that does not even answer pings has gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// One that neither asks nor is asked for anything, as a tunnel may be, has gone when it answers so many probes not.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_PROBES: u32 = 3;

/// How long who has connected may take to say something once nobody else is let in.
const LAST_BEGINNING: Duration = Duration::from_secs(2);

/// A pause after a failed accept, which is nearly always a lack of file descriptors that passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Processes of ours, each with the requests of many callers on one connection.
const INNER_STREAMS: u32 = 4096;
const INNER_CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// A thread's listeners.
pub(crate) struct Doors<L> {
    pub(crate) clients: L,
    pub(crate) inner: L,
}

/// Who comes by a door.
#[derive(Clone, Copy)]
enum Door {
    Clients,
    Inner,
}

impl Doors<TcpListener> {
    async fn accept(&self) -> io::Result<(Door, TcpStream, SocketAddr)> {
        let (door, accepted) = tokio::select! {
            accepted = self.clients.accept() => (Door::Clients, accepted),
            accepted = self.inner.accept() => (Door::Inner, accepted),
        };
        accepted.map(|(stream, peer)| (door, stream, peer))
    }
}

/// A listener that shares its address with those of the other threads.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    Leaving,
    Closing,
}

/// Serves until the drain is over.
///
/// # Arguments
/// `linger` is how long new connections are taken after the drain has begun, and `tunnel_grace` how long tunnels may go on
/// from then.
pub(crate) async fn run(
    thread: Rc<RouterThread>,
    doors: Doors<std::net::TcpListener>,
    drain: drain::Watch,
    readiness: Readiness,
    linger: Duration,
    tunnel_grace: Duration,
) -> io::Result<()> {
    let doors = Doors { clients: TcpListener::from_std(doors.clients)?, inner: TcpListener::from_std(doors.inner)? };
    let (stage_tx, stage_rx) = watch::channel(Stage::Serving);
    let front = Front { thread: thread.clone(), stage_rx };
    let tunnels = &thread.tunnels;

    front.accept_until(&doors, drain.signaled()).await;
    let leaving = readiness.hold("drain");
    thread.leaving.set(true);
    stage_tx.send_replace(Stage::Leaving);
    front.accept_until(&doors, tokio::time::sleep(linger)).await;
    // Whoever has been let in by the kernel is served: closing the listener would reset them.
    front.admit_all(Door::Clients, doors.clients);
    front.admit_all(Door::Inner, doors.inner);
    stage_tx.send_replace(Stage::Closing);
    drop(front);
    // Every connection holds a receiver, and every tunnel a place.
    let mut finished = pin!(async {
        stage_tx.closed().await;
        // Those too that the last of them have become.
        tunnels.ended().await;
    });
    if tokio::time::timeout(tunnel_grace, finished.as_mut()).await.is_err() {
        tunnels.end();
        finished.await;
    }
    thread.meters.flush();
    drop((leaving, drain));
    Ok(())
}

struct Front {
    thread: Rc<RouterThread>,
    stage_rx: watch::Receiver<Stage>,
}

impl Front {
    async fn accept_until(&self, doors: &Doors<TcpListener>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut end => return,
                accepted = doors.accept() => accepted,
            };
            match accepted {
                Ok((door, stream, peer)) => self.admit(door, stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Takes all who are there. The kernel itself is asked, and not what the event loop has heard from it so far.
    fn admit_all(&self, door: Door, listener: TcpListener) {
        let accept = |listener: &std::net::TcpListener| {
            let (stream, peer) = listener.accept()?;
            stream.set_nonblocking(true)?;
            io::Result::Ok((TcpStream::from_std(stream)?, peer))
        };
        let Ok(listener) = listener.into_std() else { return };
        // No more than those who can have waited.
        for _ in 0..BACKLOG {
            match accept(&listener) {
                Ok((stream, peer)) => self.admit(door, stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It has left again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return tracing::warn!(%error, "cannot accept the last connections"),
            }
        }
    }

    fn admit(&self, door: Door, stream: TcpStream, peer: SocketAddr) {
        let (thread, stage_rx) = (self.thread.clone(), self.stage_rx.clone());
        spawn_local(async move {
            thread.gauges.connections.inc();
            let gauge = Counted(thread.clone());
            let served = match door {
                Door::Clients => serve(thread, stream, peer.ip(), stage_rx).await,
                Door::Inner => serve_inner(thread, stream, peer.ip(), stage_rx).await,
            };
            if let Err(error) = served {
                // Clients hang up, time out and send nonsense all day; hyper has told them what it could.
                tracing::debug!(%error, %peer, "a client connection broke");
            }
            drop(gauge);
        });
    }
}

/// A connection, as the gauge sees it.
struct Counted(Rc<RouterThread>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.gauges.connections.dec();
    }
}

/// Both kinds of connection are driven the same way, but have no trait in common that says so.
macro_rules! drive {
    ($stage_rx:ident, $asked:expr, $connection:expr, $last_stage:expr) => {{
        let mut connection = pin!($connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            () = until(&$stage_rx, $last_stage, $asked) => connection.as_mut().graceful_shutdown(),
        }
        if !$asked.get() {
            // Who has not even begun by now is not waited for: hyper would.
            match tokio::time::timeout(LAST_BEGINNING, connection.as_mut()).await {
                Ok(ended) => return Ok(ended?),
                Err(_) if !$asked.get() => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(connection.await?)
    }};
}

/// Waits until a connection is to end: not before it has been heard, if it says something soon.
async fn until(stage_rx: &watch::Receiver<Stage>, last: Stage, asked: &Cell<bool>) {
    // The sender waits for every receiver.
    let _ = stage_rx.clone().wait_for(|stage| *stage >= last).await;
    if !asked.get() {
        tokio::time::sleep(LAST_BEGINNING).await;
    }
}

/// Waits for what a connection begins with. `None` where that does not come although nobody is let in any more.
async fn begin<T>(stage_rx: &watch::Receiver<Stage>, beginning: impl Future<Output = T>) -> Option<T> {
    let asked = Cell::new(false);
    tokio::select! {
        biased;
        begun = beginning => Some(begun),
        () = until(stage_rx, Stage::Closing, &asked) => None,
    }
}

async fn serve(
    thread: Rc<RouterThread>,
    stream: TcpStream,
    peer: IpAddr,
    stage_rx: watch::Receiver<Stage>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    let opening = tokio::time::timeout(HEAD_TIMEOUT, Opening::read(stream));
    let Some(opening) = begin(&stage_rx, opening).await else { return Ok(()) };
    let opening = opening??;
    let asked = Cell::new(false);
    let service = service_fn(|request| {
        asked.set(true);
        path::serve(thread.clone(), peer, request)
    });
    match opening.speaks() {
        Speaks::Http1 => drive!(
            stage_rx,
            &asked,
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HTTP1_BUFFER)
                .serve_connection(TokioIo::new(opening), service)
                .with_upgrades(),
            Stage::Closing
        ),
        Speaks::Http2 => drive!(
            stage_rx,
            &asked,
            http2::Builder::new(Local)
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .max_header_list_size(HTTP2_HEAD)
                .max_concurrent_streams(HTTP2_STREAMS)
                .enable_connect_protocol()
                .initial_stream_window_size(HTTP2_STREAM_WINDOW)
                .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
                .serve_connection(TokioIo::new(opening), service),
            Stage::Leaving
        ),
    }
}

async fn serve_inner(
    thread: Rc<RouterThread>,
    stream: TcpStream,
    peer: IpAddr,
    stage_rx: watch::Receiver<Stage>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let Some(stream) = begin(&stage_rx, tls::accept(thread.tls.as_ref(), stream)).await else { return Ok(()) };
    let stream = stream?;
    let asked = Cell::new(false);
    let service = service_fn(|request| {
        asked.set(true);
        inner::serve(thread.clone(), peer, request)
    });
    drive!(
        stage_rx,
        &asked,
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(INNER_STREAMS)
            .initial_stream_window_size(HTTP2_STREAM_WINDOW)
            .initial_connection_window_size(INNER_CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service),
        Stage::Leaving
    )
}
