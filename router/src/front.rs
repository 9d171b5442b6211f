//! Serves HTTP: a thread's listeners, the connections that they accept, and the end of these
//! connections.
//!
//! Every thread listens on the same addresses (`SO_REUSEPORT`): one or two for clients, and one for
//! the platform's own processes; the kernel distributes connections among the threads. A drain has
//! two steps, because a Service keeps sending new connections for a moment after its endpoint has
//! been withdrawn:
//!
//! ```text
//!  Serving ── drain ──► Leaving ────────── linger over ──► Closing ─ last connection gone ──► done
//!  keep-alive           still accepts; HTTP/1 answers      accepts what has arrived,
//!                       "connection: close", HTTP/2 GOAWAY then nothing; idle connections close
//! ```
//!
//! The drain waits for requests, because every request ends. A tunnel might never end by itself, so
//! tunnels are closed when their grace period is over.
//!
//! This group of modules turns a client's request into an invocation, and the node's reply into a
//! response:
//!
//! - [`thread`]: the part of the router that one thread runs; [`opening`]: delays clients until the
//!   thread has a table.
//! - [`siblings`]: hands connections to the threads of other shards.
//! - [`connection`]: serves one connection until it ends; [`fast_path`]: without hyper, while its
//!   client sends plain requests; [`http3`]: the connections of HTTP/3.
//! - [`path`]: the steps of a client's request, in order.
//! - [`target`], [`scheme`], [`headers`], [`fields`], [`session`], [`body`], [`handshake`],
//!   [`accept_encoding`]: the parts of a request that the router interprets.
//! - [`rule`]: the changes that rules of HTTPRoutes make to a request and its response.
//! - [`head`]: the request, as its Worker gets it.
//! - [`span`]: the span of a request, and its trace.
//! - [`forwarded`], [`proxy_protocol`]: the client behind proxies; [`https`](mod@https): redirects
//!   to https, and the way to HTTP/3.
//! - [`response`], [`error`]: the response that the client receives; [`streaming`]: a body that
//!   arrives from the node while it is sent; [`trailers`]: the fields after a body, in both
//!   directions.
//! - [`pages`]: the pages that a developer's browser gets instead of failures.
//! - [`compress`], [`compressed`]: responses in the content codings that clients accept.
//! - [`assets`]: static files, which need no Worker.
//! - [`internal`]: calls from other processes of the platform.
//!
//! The group is the top of the crate: it depends on every other group, and no group depends on it.

mod accept_encoding;
pub(crate) mod assets;
pub(crate) mod body;
mod compress;
mod compressed;
mod connection;
pub(crate) mod error;
pub(crate) mod fast_path;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod handshake;
mod head;
pub(crate) mod headers;
mod http3;
pub(crate) mod https;
pub(crate) mod internal;
pub(crate) mod opening;
pub(crate) mod pages;
pub(crate) mod path;
mod proxy_protocol;
pub(crate) mod response;
mod rule;
pub(crate) mod scheme;
mod session;
mod siblings;
mod span;
mod streaming;
pub(crate) mod target;
mod thread;
mod trailers;

use std::future::{pending, poll_fn};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{FutureExt as _, OptionFuture};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tenon_clients::SWEEP;
use tenon_lifecycle::{drain, readiness::Readiness};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::front::connection::{Served, Stage};
use crate::front::path::Caller;
use crate::front::scheme::Scheme;
use crate::front::siblings::Handover;
use crate::thread::RouterThread;

pub use thread::FrontThread;

/// The maximum number of connections that wait to be accepted. The kernel's own limit may be lower.
pub const BACKLOG: i32 = 4096;

/// The maximum number of connections that are accepted before the other tasks of the thread run.
/// With a larger number, a crowd of clients that reconnect as soon as they are disconnected would
/// delay each step of each request by the time that it takes to accept all queued connections.
const MAX_ACCEPTS: usize = 8;

/// The pause after a failed accept. The cause is nearly always a temporary lack of file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The time for which a load balancer may delay the header of the PROXY protocol.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// The listeners of one serving thread.
#[derive(Debug)]
pub struct Listeners<L = std::net::TcpListener> {
    pub clients: L,
    /// The listener for clients that use TLS, if there is one.
    pub https: Option<L>,
    /// The listener for the platform's own processes, if there is one.
    pub internal: Option<L>,
}

impl<L> Listeners<L> {
    fn all(&self) -> impl Iterator<Item = &L> {
        std::iter::once(&self.clients).chain(&self.https).chain(&self.internal)
    }
}

/// The origin of a connection: a listener of this thread, or another thread.
#[derive(Clone, Copy)]
enum Origin {
    Clients(Scheme),
    /// A thread of another shard, which has handed the client's connection over.
    Sibling,
    Internal,
}

impl Listeners<TcpListener> {
    async fn accept(&self) -> io::Result<(Origin, TcpStream, SocketAddr)> {
        let https = OptionFuture::from(self.https.as_ref().map(TcpListener::accept));
        let internal = OptionFuture::from(self.internal.as_ref().map(TcpListener::accept));
        let (origin, accepted) = tokio::select! {
            accepted = self.clients.accept() => (Origin::Clients(Scheme::Http), accepted),
            Some(accepted) = https => (Origin::Clients(Scheme::Https), accepted),
            Some(accepted) = internal => (Origin::Internal, accepted),
        };
        accepted.map(|(stream, peer)| (origin, stream, peer))
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
    if addr.port() == 0 {
        // A socket that stops listening keeps its port only if it was bound to the port by number.
        let chosen = socket.local_addr()?.as_socket();
        return chosen.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()).and_then(listen);
    }
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Serves until the drain is complete.
///
/// # Arguments
/// * `linger` - how long new connections are accepted after the drain has begun.
/// * `tunnel_grace` - how long tunnels may stay open after `linger`.
///
/// # Errors
/// Fails if a listener or the socket of HTTP/3 cannot be added to the event loop.
pub(crate) async fn run(
    thread: Rc<RouterThread>,
    listeners: Listeners<std::net::TcpListener>,
    http3: Option<tenon_http3::Listener>,
    drain: drain::Watch,
    readiness: Readiness,
    linger: Duration,
    tunnel_grace: Duration,
) -> io::Result<()> {
    let listeners = Listeners {
        clients: TcpListener::from_std(listeners.clients)?,
        https: listeners.https.map(TcpListener::from_std).transpose()?,
        internal: listeners.internal.map(TcpListener::from_std).transpose()?,
    };
    let (stage_tx, stage_rx) = watch::channel(Stage::Serving);
    let endpoint = http3.map(tenon_http3::Listener::open).transpose()?.map(Rc::new);
    let http3 = endpoint.as_ref().map(|endpoint| {
        spawn_local(http3::serve(thread.clone(), endpoint.clone(), stage_rx.clone()))
    });
    let front = Front { thread: thread.clone(), stage_rx };
    let tunnels = &thread.tunnels;

    let sweeper = spawn_local(sweep(thread.clone()));
    let figures = spawn_local(thread.upstream.figures.clone().run());

    front.accept_until(&listeners, drain.signaled()).await;
    let leaving = readiness.hold("drain");
    thread.leaving.set(true);
    stage_tx.send_replace(Stage::Leaving);
    front.accept_until(&listeners, tokio::time::sleep(linger)).await;
    // Connections that the kernel has established are served: closing the listener would reset
    // them.
    front.admit_all(Origin::Clients(Scheme::Http), listeners.clients);
    if let Some(listener) = listeners.https {
        front.admit_all(Origin::Clients(Scheme::Https), listener);
    }
    if let Some(listener) = listeners.internal {
        front.admit_all(Origin::Internal, listener);
    }
    front.admit_given();
    stage_tx.send_replace(Stage::Closing);
    drop(front);
    // Every connection holds a receiver, and every tunnel holds a slot.
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
    figures.abort();
    if let (Some(endpoint), Some(http3)) = (endpoint, http3) {
        http3.abort();
        endpoint.finish().await;
    }
    thread.meters.flush();
    thread.spans.as_ref().inspect(|spans| spans.flush());
    drop((leaving, drain));
    Ok(())
}

struct Front {
    thread: Rc<RouterThread>,
    stage_rx: watch::Receiver<Stage>,
}

impl Front {
    async fn accept_until(
        &self,
        listeners: &Listeners<TcpListener>,
        end: impl Future<Output = ()>,
    ) {
        let mut end = pin!(end);
        for accepted_so_far in 1_usize.. {
            if accepted_so_far.is_multiple_of(MAX_ACCEPTS) {
                tokio::task::yield_now().await;
            }
            let accepted = tokio::select! {
                biased;
                () = &mut end => return,
                accepted = listeners.accept() => accepted,
                given = self.given() => Ok(given),
            };
            match accepted {
                Ok((origin, stream, peer)) => self.admit(origin, stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Returns the next connection that another thread has given to this one.
    async fn given(&self) -> (Origin, TcpStream, SocketAddr) {
        let own = self.thread.colocated.as_ref();
        let Some(siblings) = own.and_then(|own| own.siblings.as_ref()) else {
            return pending().await;
        };
        loop {
            let given = poll_fn(|cx| siblings.poll_given(cx)).await;
            let opened = given.set_nonblocking(true).and_then(|()| {
                let peer = given.peer_addr()?;
                Ok((Origin::Sibling, TcpStream::from_std(given)?, peer))
            });
            match opened {
                Ok(opened) => return opened,
                // The client has disconnected already.
                Err(error) => tracing::debug!(%error, "lost a connection"),
            }
        }
    }

    /// Accepts the connections that other threads have given to this one so far.
    fn admit_given(&self) {
        while let Some((origin, stream, peer)) = self.given().now_or_never() {
            self.admit(origin, stream, peer);
        }
    }

    /// Accepts all established connections, and stops listening.
    fn admit_all(&self, origin: Origin, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else { return };
        self.admit_established(origin, &listener);
        // Another process may hold the same socket, so connections would still arrive in its queue.
        if let Err(error) = SockRef::from(&listener).shutdown(Shutdown::Read) {
            tracing::debug!(%error, "cannot stop listening");
        }
    }

    /// Accepts all established connections, and asks the kernel for them directly, because the
    /// event loop may not know of all of them yet.
    fn admit_established(&self, origin: Origin, listener: &std::net::TcpListener) {
        let accept = || {
            let (stream, peer) = listener.accept()?;
            stream.set_nonblocking(true)?;
            io::Result::Ok((TcpStream::from_std(stream)?, peer))
        };
        // The kernel's queue has at most this length.
        for _ in 0..BACKLOG {
            match accept() {
                Ok((stream, peer)) => self.admit(origin, stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has disconnected already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    return tracing::warn!(%error, "cannot accept the remaining connections");
                }
            }
        }
    }

    /// Serves a connection on a task of its own.
    fn admit(&self, origin: Origin, stream: TcpStream, peer: SocketAddr) {
        let (thread, stage_rx) = (self.thread.clone(), self.stage_rx.clone());
        let gauge = ConnectionCount::new(&thread);
        match origin {
            Origin::Clients(_) | Origin::Sibling => {
                let (scheme, handover) = match origin {
                    Origin::Clients(scheme) => (scheme, Handover::Allowed),
                    _ => (Scheme::Http, Handover::Forbidden),
                };
                let handover = match thread.shared.trusted_proxies.use_proxy_protocol(peer.ip()) {
                    true => Handover::Forbidden,
                    false => handover,
                };
                let tls = match scheme {
                    Scheme::Http => tenon_https::TlsMemory::default(),
                    Scheme::Https => tenon_https::MEMORY,
                };
                // The connection is closed if there is no memory for it and no waiting connection
                // that could be ended instead.
                let Some(admitted) = thread.clients.admit(peer.ip(), tls) else { return };
                spawn_local(async move {
                    let served = async {
                        let (stream, address) = identify(&thread, stream, peer.ip()).await?;
                        // The clients of a load balancer do not share its resources.
                        let admitted = match address == peer.ip() {
                            true => Some(admitted),
                            false => thread.clients.admit(address, tls),
                        };
                        let Some(admitted) = admitted else { return Ok(()) };
                        let (accounts, client) =
                            (thread.accounts(address), admitted.client().clone());
                        let caller = Caller { address, scheme, client, accounts };
                        connection::serve_client(thread, stream, handover, caller, stage_rx).await
                    };
                    log_end(peer, served.await);
                    drop(gauge);
                });
            }
            Origin::Internal => {
                spawn_local(async move {
                    log_end(
                        peer,
                        connection::serve_internal(thread, stream, peer.ip(), stage_rx).await,
                    );
                    drop(gauge);
                });
            }
        }
    }
}

/// Returns the stream of a connection and the address of its client, which a trusted load balancer
/// states in a header of the PROXY protocol.
async fn identify(
    thread: &RouterThread,
    mut stream: TcpStream,
    peer: IpAddr,
) -> io::Result<(TcpStream, IpAddr)> {
    if !thread.shared.trusted_proxies.use_proxy_protocol(peer) {
        return Ok((stream, peer));
    }
    let header = tokio::time::timeout(HEADER_TIMEOUT, proxy_protocol::read(&mut stream)).await;
    let client = header.map_err(io::Error::from)??;
    Ok((stream, client.unwrap_or(peer)))
}

fn log_end(peer: SocketAddr, served: Served) {
    if let Err(error) = served {
        // Clients disconnect, time out and send invalid data all the time; they have already
        // received whatever response was possible.
        tracing::debug!(%error, %peer, "lost a connection");
    }
}

/// Periodically examines the clients' connections.
async fn sweep(thread: Rc<RouterThread>) {
    let mut shed = 0;
    loop {
        tokio::time::sleep(SWEEP).await;
        thread.clients.sweep();
        thread.metrics.memory.set(thread.clients.memory() as i64);
        let before = std::mem::replace(&mut shed, thread.clients.shed());
        thread.metrics.shed.inc_by(shed - before);
    }
}

/// Counts a connection in the gauge until this value is dropped.
struct ConnectionCount(Rc<RouterThread>);

impl ConnectionCount {
    fn new(thread: &Rc<RouterThread>) -> Self {
        thread.metrics.connections.inc();
        Self(thread.clone())
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
