//! Serves HTTP: a thread's listeners, the connections that they accept, and how those end.
//!
//! Every thread listens on the same two addresses (`SO_REUSEPORT`), one for clients and one for the
//! platform's own processes; the kernel distributes connections among the threads. A drain has two
//! steps, because a Service keeps sending new connections for a moment after its endpoint has been
//! withdrawn:
//!
//! ```text
//!  Serving ── drain ──► Leaving ────────── linger over ──► Closing ─ last connection gone ──► done
//!  keep-alive           still accepts; HTTP/1 answers      accepts what has arrived,
//!                       "connection: close", HTTP/2 GOAWAY then nothing; idle connections close
//! ```
//!
//! The drain waits for requests, since each of them ends. Tunnels may not end by themselves, so
//! they are closed when their grace period is over.
//!
//! The group turns a client's request into an invocation, and the node's reply into a response:
//!
//! - [`path`]: the path of a client's request, in order.
//! - [`target`], [`headers`], [`body`], [`handshake`]: the parts of a request that the router
//!   interprets.
//! - [`response`], [`error`]: what the client receives.
//! - [`internal`]: calls from other processes of the platform.
//!
//! The top of the crate: depends on every other group, and no group depends on it.

pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod handshake;
pub(crate) mod headers;
pub(crate) mod internal;
pub(crate) mod path;
pub(crate) mod response;
pub(crate) mod target;

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tenon_lifecycle::{drain, readiness::Readiness, tls};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::clients::filter::{self, HeadFilter};
use crate::clients::preface::{Opening, Speaks};
use crate::clients::{self, Order, Passage, SWEEP};
use crate::executor::Local;
use crate::front::handshake::Handshake;
use crate::front::path::Caller;
use crate::front::response::WrittenResponse;
use crate::thread::RouterThread;

/// The maximum length of the queue of connections to accept. The kernel's own limit is usually
/// lower.
const BACKLOG: i32 = 4096;

/// The maximum size of a request's head, and of each read of a body, in bytes.
const HTTP1_BUFFER: usize = 64 * 1024;
const HTTP2_HEAD: u32 = 64 * 1024;
const HTTP2_STREAMS: u32 = 128;
/// The flow-control windows of one stream and of the connection, in bytes: how much body may be
/// buffered unread. The first is charged to each request.
const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// The maximum part of a response that is buffered in the connection, in bytes.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;

/// A client that accepts no data for this long is dead.
const GONE: Duration = Duration::from_secs(60);

/// An HTTP/2 client that does not answer pings is dead.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// An idle peer, such as that of a tunnel, is probed after `KEEPALIVE`, and is dead after
/// `KEEPALIVE_PROBES` unanswered probes.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_PROBES: u32 = 3;

/// How long a new connection may stay silent once no more connections are accepted.
const LAST_BEGINNING: Duration = Duration::from_secs(2);

/// Connections accepted before the other tasks of the thread run. With a larger number, a crowd of
/// clients that reconnects as soon as it is disconnected delays each step of each request by as
/// many connections as are queued.
const IN_A_ROW: usize = 8;

/// The pause after a failed accept. The cause is nearly always a temporary lack of file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The limits for the platform's own processes, each of which sends the requests of many callers on
/// one connection.
const INTERNAL_STREAMS: u32 = 4096;
const INTERNAL_STREAM_WINDOW: u32 = 256 * 1024;
const INTERNAL_CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// A thread's listeners.
pub(crate) struct Listeners<L> {
    pub(crate) clients: L,
    pub(crate) internal: L,
}

/// Which listener accepted a connection.
#[derive(Clone, Copy)]
enum ListenerKind {
    Clients,
    Internal,
}

impl Listeners<TcpListener> {
    async fn accept(&self) -> io::Result<(ListenerKind, TcpStream, SocketAddr)> {
        let (kind, accepted) = tokio::select! {
            accepted = self.clients.accept() => (ListenerKind::Clients, accepted),
            accepted = self.internal.accept() => (ListenerKind::Internal, accepted),
        };
        accepted.map(|(stream, peer)| (kind, stream, peer))
    }
}

/// Binds a listener that shares its address with the listeners of the other threads.
///
/// # Errors
/// Fails if the address cannot be bound.
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

/// Serves until the drain is complete.
///
/// # Arguments
/// * `linger`: how long new connections are accepted after the drain has begun.
/// * `tunnel_grace`: how long tunnels may stay open after `linger`.
pub(crate) async fn run(
    thread: Rc<RouterThread>,
    listeners: Listeners<std::net::TcpListener>,
    drain: drain::Watch,
    readiness: Readiness,
    linger: Duration,
    tunnel_grace: Duration,
) -> io::Result<()> {
    let listeners = Listeners {
        clients: TcpListener::from_std(listeners.clients)?,
        internal: TcpListener::from_std(listeners.internal)?,
    };
    let (stage_tx, stage_rx) = watch::channel(Stage::Serving);
    let front = Front { thread: thread.clone(), stage_rx };
    let tunnels = &thread.tunnels;

    let sweeper = spawn_local(sweep(thread.clone()));

    front.accept_until(&listeners, drain.signaled()).await;
    let leaving = readiness.hold("drain");
    thread.leaving.set(true);
    stage_tx.send_replace(Stage::Leaving);
    front.accept_until(&listeners, tokio::time::sleep(linger)).await;
    // Connections that the kernel has established are served: closing the listener would reset
    // them.
    front.admit_all(ListenerKind::Clients, listeners.clients);
    front.admit_all(ListenerKind::Internal, listeners.internal);
    stage_tx.send_replace(Stage::Closing);
    drop(front);
    // Every connection holds a receiver, and every tunnel a place.
    let mut finished = pin!(async {
        stage_tx.closed().await;
        // The last connections may have become tunnels.
        tunnels.ended().await;
    });
    if tokio::time::timeout(tunnel_grace, finished.as_mut()).await.is_err() {
        tunnels.end();
        finished.await;
    }
    sweeper.abort();
    thread.meters.flush();
    drop((leaving, drain));
    Ok(())
}

struct Front {
    thread: Rc<RouterThread>,
    stage_rx: watch::Receiver<Stage>,
}

impl Front {
    async fn accept_until(&self, listeners: &Listeners<TcpListener>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        for accepted_so_far in 1_usize.. {
            if accepted_so_far.is_multiple_of(IN_A_ROW) {
                tokio::task::yield_now().await;
            }
            let accepted = tokio::select! {
                biased;
                () = &mut end => return,
                accepted = listeners.accept() => accepted,
            };
            match accepted {
                Ok((kind, stream, peer)) => self.admit(kind, stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Accepts all established connections. This asks the kernel directly, because the event loop
    /// may not know of all of them yet.
    fn admit_all(&self, kind: ListenerKind, listener: TcpListener) {
        let accept = |listener: &std::net::TcpListener| {
            let (stream, peer) = listener.accept()?;
            stream.set_nonblocking(true)?;
            io::Result::Ok((TcpStream::from_std(stream)?, peer))
        };
        let Ok(listener) = listener.into_std() else { return };
        // At most the length of the queue.
        for _ in 0..BACKLOG {
            match accept(&listener) {
                Ok((stream, peer)) => self.admit(kind, stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has disconnected already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return tracing::warn!(%error, "cannot accept the last connections"),
            }
        }
    }

    fn admit(&self, kind: ListenerKind, stream: TcpStream, peer: SocketAddr) {
        let (thread, stage_rx) = (self.thread.clone(), self.stage_rx.clone());
        let gauge = Counted::new(&thread);
        match kind {
            ListenerKind::Clients => {
                // The connection is closed if there is no memory for it and no waiting connection
                // that could be ended instead.
                let Some(admitted) = thread.clients.admit(peer.ip()) else { return };
                let accounts = thread.accounts(peer.ip());
                let caller = Caller { address: peer.ip(), client: admitted.0.clone(), accounts };
                spawn_local(async move {
                    tell(peer, serve(thread, stream, caller, stage_rx).await);
                    drop((admitted, gauge));
                });
            }
            ListenerKind::Internal => {
                spawn_local(async move {
                    tell(peer, serve_internal(thread, stream, peer.ip(), stage_rx).await);
                    drop(gauge);
                });
            }
        }
    }
}

type Served = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn tell(peer: SocketAddr, served: Served) {
    if let Err(error) = served {
        // Clients disconnect, time out and send invalid data all the time; they have already
        // received whatever response was possible.
        tracing::debug!(%error, %peer, "a client connection broke");
    }
}

/// Periodically examines the clients' connections.
async fn sweep(thread: Rc<RouterThread>) {
    let mut shed = 0;
    loop {
        tokio::time::sleep(SWEEP).await;
        thread.clients.sweep();
        thread.gauges.client_memory.set(thread.clients.memory() as i64);
        let before = std::mem::replace(&mut shed, thread.clients.shed());
        thread.metrics.shed.inc_by(shed - before);
    }
}

/// Counts a connection in the gauge until dropped.
struct Counted(Rc<RouterThread>);

impl Counted {
    fn new(thread: &Rc<RouterThread>) -> Self {
        thread.gauges.connections.inc();
        Self(thread.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.gauges.connections.dec();
    }
}

/// Shuts a connection down gracefully, once its requests in flight are done.
macro_rules! finish {
    ($asked:expr, $connection:expr) => {{
        let mut connection = $connection;
        connection.as_mut().graceful_shutdown();
        if !$asked.get() {
            // hyper would wait for the first request of a connection without limit.
            match tokio::time::timeout(LAST_BEGINNING, connection.as_mut()).await {
                Ok(ended) => return Ok(ended?),
                Err(_) if !$asked.get() => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(connection.await?)
    }};
}

/// Drives both kinds of connection. They behave alike but share no trait.
macro_rules! drive {
    ($stage_rx:ident, $asked:expr, $connection:expr, $last_stage:expr) => {{
        let mut connection = pin!($connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            () = until(&$stage_rx, $last_stage, $asked) => {}
        }
        finish!($asked, connection.as_mut())
    }};
}

/// Waits until a connection should end: from stage `last` on, and, if it has sent no request yet,
/// after a short delay in which it may send one.
async fn until(stage_rx: &watch::Receiver<Stage>, last: Stage, asked: &Cell<bool>) {
    // The sender outlives every receiver.
    let _ = stage_rx.clone().wait_for(|stage| *stage >= last).await;
    if !asked.get() {
        tokio::time::sleep(LAST_BEGINNING).await;
    }
}

/// Waits for the start of a connection. Returns `None` if that does not arrive and no more
/// connections are accepted.
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
    caller: Caller,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    socket.set_tcp_user_timeout(Some(GONE))?;
    // The send buffer does not limit data in flight to a client that reads.
    socket.set_tcp_notsent_lowat(clients::UNSENT)?;
    let client = caller.client.clone();
    let opening = begin(&stage_rx, async {
        tokio::select! {
            biased;
            opening = Opening::read(stream) => Some(opening),
            () = ended(&client) => None,
        }
    });
    let Some(Some(opening)) = opening.await else { return Ok(()) };
    let caller = Rc::new(caller);
    let mut filter = HeadFilter::new(opening?, client.clone());
    // The state of an active connection is boxed, so that it is no part of an idle one.
    if filter.speaks() == Speaks::Http2 {
        return Box::pin(serve_http2(thread, filter, caller, stage_rx)).await;
    }
    loop {
        match Box::pin(serve_http1(thread.clone(), filter, caller.clone(), stage_rx.clone())).await? {
            Some(resting) => filter = resting,
            None => return Ok(()),
        }
        client.rest(true);
        // Shrinking a hold always succeeds.
        let _ = client.hold(clients::RESTING);
        let asked = Cell::new(true);
        tokio::select! {
            biased;
            readable = filter.readable() => readable?,
            () = ended(&client) => return Ok(()),
            () = until(&stage_rx, Stage::Closing, &asked) => return Ok(()),
        }
    }
}

/// Waits until a connection is told to end, because memory is short or it has been idle for too
/// long.
async fn ended(client: &clients::Client) {
    while client.order().await != Order::End {}
}

/// Serves until the connection ends, or until it is idle and gives up its buffers.
async fn serve_http1(
    thread: Rc<RouterThread>,
    filter: HeadFilter,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Result<Option<HeadFilter>, Box<dyn std::error::Error + Send + Sync>> {
    let client = caller.client.clone();
    if !client.hold(clients::HTTP1) {
        return Ok(None);
    }
    client.rest(false);
    let asked = Cell::new(false);
    let service = service_fn(|mut request: Request<Incoming>| {
        asked.set(true);
        if Handshake::is_asked_in_http1(request.method(), request.version(), request.headers()) {
            client.pass(Passage::Kept);
        }
        if let Some(refusal) = filter::refusal(&client, &request) {
            request.extensions_mut().insert(refusal);
        }
        let in_hand = client.take_in_hand();
        let served = path::serve(thread.clone(), caller.clone(), request);
        async { served.await.map(|response| WrittenResponse::of(response, in_hand)) }
    });
    let mut connection = http1::Builder::new()
        // The sweep enforces the timeout for heads.
        .header_read_timeout(None)
        .max_buf_size(HTTP1_BUFFER)
        .serve_connection(TokioIo::new(filter), service)
        .with_upgrades();
    let rests = async {
        loop {
            match client.order().await {
                Order::End => return false,
                Order::Rest if client.may_rest() => return true,
                Order::Rest => {}
            }
        }
    };
    let rests = tokio::select! {
        biased;
        ended = &mut connection => return Ok(ended.map(|()| None)?),
        rests = rests => rests,
        () = until(&stage_rx, Stage::Closing, &asked) => {
            let finished = async { finish!(&asked, std::pin::Pin::new(&mut connection)) };
            return tokio::select! {
                biased;
                finished = finished => Served::map(finished, |()| None),
                () = ended(&client) => Ok(None),
            };
        }
    };
    Ok(if rests { connection.into_parts().map(|parts| parts.io.into_inner()) } else { None })
}

async fn serve_http2(
    thread: Rc<RouterThread>,
    filter: HeadFilter,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    let client = caller.client.clone();
    client.pass(Passage::Free);
    if !client.hold(clients::HTTP2) {
        return Ok(());
    }
    let asked = Cell::new(false);
    let service = service_fn(|request| {
        asked.set(true);
        let in_hand = client.take_in_hand();
        let served = path::serve(thread.clone(), caller.clone(), request);
        async { served.await.map(|response| WrittenResponse::of(response, in_hand)) }
    });
    let connection = http2::Builder::new(Local)
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(HTTP2_HEAD)
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_send_buf_size(HTTP2_SEND_BUFFER)
        .enable_connect_protocol()
        .initial_stream_window_size(HTTP2_STREAM_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(filter), service);
    let driven = async { drive!(stage_rx, &asked, connection, Stage::Leaving) };
    tokio::select! {
        biased;
        served = driven => served,
        () = ended(&client) => Ok(()),
    }
}

async fn serve_internal(
    thread: Rc<RouterThread>,
    stream: TcpStream,
    peer: IpAddr,
    stage_rx: watch::Receiver<Stage>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let Some(stream) = begin(&stage_rx, tls::accept(thread.tls.as_ref(), stream)).await else { return Ok(()) };
    let stream = stream?;
    let accounts = Rc::new(thread.accounts(peer));
    let asked = Cell::new(false);
    let service = service_fn(|request| {
        asked.set(true);
        internal::serve(thread.clone(), peer, accounts.clone(), request)
    });
    drive!(
        stage_rx,
        &asked,
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(INTERNAL_STREAMS)
            .initial_stream_window_size(INTERNAL_STREAM_WINDOW)
            .initial_connection_window_size(INTERNAL_CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service),
        Stage::Leaving
    )
}
