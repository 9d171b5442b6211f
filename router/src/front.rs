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

use crate::answer::Written;
use crate::clients::{self, Order, Passage, SWEEP};
use crate::gate::{self, Gate};
use crate::handshake::Handshake;
use crate::inner;
use crate::link::Local;
use crate::path::{self, Caller};
use crate::preface::{Opening, Speaks};
use crate::thread::RouterThread;

/// Connections that wait to be accepted. The kernel's own limit is usually lower.
const BACKLOG: i32 = 4096;

/// A request's head, and each piece that a body is read in, in bytes.
const HTTP1_BUFFER: usize = 64 * 1024;
const HTTP2_HEAD: u32 = 64 * 1024;
const HTTP2_STREAMS: u32 = 128;
/// What of one body, and of all together, may wait to be read. The first is counted with each request.
const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// What of an answer may wait in the connection, in bytes.
const HTTP2_SEND_BUFFER: usize = 64 * 1024;

/// A client that takes nothing of what it is sent for so long has gone.
const GONE: Duration = Duration::from_secs(60);

/// An HTTP/2 client that does not even answer pings has gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// One that neither asks nor is asked for anything, as a tunnel may be, has gone when it answers so many probes not.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_PROBES: u32 = 3;

/// How long who has connected may take to say something once nobody else is let in.
const LAST_BEGINNING: Duration = Duration::from_secs(2);

/// Connections that are taken before everything else on the thread has its turn. More than that, and a crowd that comes
/// again as soon as it is hung up on makes each step of each request wait for as many of it as wait.
const IN_A_ROW: usize = 8;

/// A pause after a failed accept, which is nearly always a lack of file descriptors that passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Processes of ours, each with the requests of many callers on one connection.
const INNER_STREAMS: u32 = 4096;
const INNER_STREAM_WINDOW: u32 = 256 * 1024;
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

    let sweeper = spawn_local(sweep(thread.clone()));

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
    async fn accept_until(&self, doors: &Doors<TcpListener>, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        for accepted_so_far in 1_usize.. {
            if accepted_so_far.is_multiple_of(IN_A_ROW) {
                tokio::task::yield_now().await;
            }
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
        let gauge = Counted::new(&thread);
        match door {
            Door::Clients => {
                // Without memory for it, and without one that waits and could make room, it is hung up on.
                let Some(admitted) = thread.clients.admit(peer.ip()) else { return };
                let accounts = thread.accounts(peer.ip());
                let caller = Caller { address: peer.ip(), client: admitted.0.clone(), accounts };
                spawn_local(async move {
                    tell(peer, serve(thread, stream, caller, stage_rx).await);
                    drop((admitted, gauge));
                });
            }
            Door::Inner => {
                spawn_local(async move {
                    tell(peer, serve_inner(thread, stream, peer.ip(), stage_rx).await);
                    drop(gauge);
                });
            }
        }
    }
}

type Served = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn tell(peer: SocketAddr, served: Served) {
    if let Err(error) = served {
        // Clients hang up, time out and send nonsense all day; they have been told what could be told.
        tracing::debug!(%error, %peer, "a client connection broke");
    }
}

/// Looks through the clients' connections from time to time.
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

/// A connection, as the gauge sees it.
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

/// Ends a connection when what it has in hand is done.
macro_rules! finish {
    ($asked:expr, $connection:expr) => {{
        let mut connection = $connection;
        connection.as_mut().graceful_shutdown();
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

/// Both kinds of connection are driven the same way, but have no trait in common that says so.
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
    caller: Caller,
    stage_rx: watch::Receiver<Stage>,
) -> Served {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
    socket.set_tcp_user_timeout(Some(GONE))?;
    // What is on its way to a client that reads is not limited by that.
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
    let mut gate = Gate::new(opening?, client.clone());
    // What only a connection at work needs is not part of one that rests.
    if gate.speaks() == Speaks::Http2 {
        return Box::pin(serve_http2(thread, gate, caller, stage_rx)).await;
    }
    loop {
        match Box::pin(serve_http1(thread.clone(), gate, caller.clone(), stage_rx.clone())).await? {
            Some(resting) => gate = resting,
            None => return Ok(()),
        }
        client.rest(true);
        // Less is always possible.
        let _ = client.hold(clients::RESTING);
        let asked = Cell::new(true);
        tokio::select! {
            biased;
            readable = gate.readable() => readable?,
            () = ended(&client) => return Ok(()),
            () = until(&stage_rx, Stage::Closing, &asked) => return Ok(()),
        }
    }
}

/// Waits until a connection is to end for want of memory, or because it waits for too long.
async fn ended(client: &clients::Client) {
    while client.order().await != Order::End {}
}

/// Serves until the end of the connection, or until it rests.
async fn serve_http1(
    thread: Rc<RouterThread>,
    gate: Gate,
    caller: Rc<Caller>,
    stage_rx: watch::Receiver<Stage>,
) -> Result<Option<Gate>, Box<dyn std::error::Error + Send + Sync>> {
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
        if let Some(refusal) = gate::refusal(&client, &request) {
            request.extensions_mut().insert(refusal);
        }
        let in_hand = client.take_in_hand();
        let served = path::serve(thread.clone(), caller.clone(), request);
        async { served.await.map(|response| Written::of(response, in_hand)) }
    });
    let mut connection = http1::Builder::new()
        // The sweep sees to it that heads come in time.
        .header_read_timeout(None)
        .max_buf_size(HTTP1_BUFFER)
        .serve_connection(TokioIo::new(gate), service)
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
    gate: Gate,
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
        async { served.await.map(|response| Written::of(response, in_hand)) }
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
        .serve_connection(TokioIo::new(gate), service);
    let driven = async { drive!(stage_rx, &asked, connection, Stage::Leaving) };
    tokio::select! {
        biased;
        served = driven => served,
        () = ended(&client) => Ok(()),
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
    let accounts = Rc::new(thread.accounts(peer));
    let asked = Cell::new(false);
    let service = service_fn(|request| {
        asked.set(true);
        inner::serve(thread.clone(), peer, accounts.clone(), request)
    });
    drive!(
        stage_rx,
        &asked,
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(INNER_STREAMS)
            .initial_stream_window_size(INNER_STREAM_WINDOW)
            .initial_connection_window_size(INNER_CONNECTION_WINDOW)
            .serve_connection(TokioIo::new(stream), service),
        Stage::Leaving
    )
}
