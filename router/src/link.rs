//! One thread's connection to one shard: opened on first use, kept, opened again.
//!
//! ```text
//!            first request                 both sides shook hands
//!   Idle ─────────────────► Connecting ─────────────────────────► Open ──┐
//!    ▲  ◄── refused, silent ────┘                                        │
//!    └────────── the connection ended: its requests are told ◄───────────┘
//! ```
//!
//! A node that dies takes its connections with it, which the kernel tells at once. One that vanishes (its
//! machine, or the network) is noticed by the kernel's own probes within `VANISHED`. HTTP/2 pings would not do:
//! a shard answers them only between turns, and a long turn is no death. So is TLS's handshake, for which it is given time.
//!
//! Belongs to one thread.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, LocalBoxFuture, Shared};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_lifecycle::tls::{Role, Stream, Tls};
use tenon_proto::runtime::INVOKE_PATH;
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use crate::health::{ConnectFailure, Health};
use crate::metrics::{Gauges, Metrics, Spill};
use crate::table::Shard;
use crate::upload::Attempt;

/// A node in the same cluster answers within a millisecond; a lost SYN is sent again after one second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The kernel answers a SYN, and TLS's handshake the shard's thread, between turns: the longest may take 30 seconds. Without
/// TLS a request waits for such a turn just so.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(40);

/// After this long without a sign of life from the other machine the connection is dead.
const VANISHED: Duration = Duration::from_secs(3);

/// How much of one response may wait for its client, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 64 * 1024;

/// The connection's own window is out of the way: a few clients that read slowly would otherwise use it up and
/// stop everybody's responses.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// How much of one request may wait in the connection, in bytes: the node's flow control is the buffer.
const SEND_BUFFER: usize = 64 * 1024;

pub(crate) struct Link {
    shard: Arc<Shard>,
    /// Of [`INVOKE_PATH`] there.
    uri: Uri,
    tls: Option<Tls>,
    state: RefCell<State>,
    health: Cell<Health>,
    metrics: Metrics,
    gauges: Gauges,
}

type Sender = SendRequest<Attempt>;

enum State {
    Idle,
    /// Everybody who comes meanwhile waits for the same connection.
    Connecting(Shared<LocalBoxFuture<'static, Result<Sender, Unreachable>>>),
    Open(Sender),
}

/// There is no connection, for reasons that have been logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreachable;

impl Link {
    pub(crate) fn new(shard: Arc<Shard>, tls: Option<Tls>, metrics: Metrics, gauges: Gauges) -> Rc<Self> {
        let uri = invoke_uri(&shard, tls.is_some());
        let (state, health) = (RefCell::new(State::Idle), Cell::new(Health::connected()));
        Rc::new(Self { shard, uri, tls, state, health, metrics, gauges })
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Why it takes no requests, if it does not.
    pub(crate) fn refuses(&self, nodes_version: u64) -> Option<Spill> {
        let health = self.health.get();
        let why = if health.is_ejected() { Spill::Ejected } else { Spill::Draining };
        (!health.takes_requests(nodes_version)).then_some(why)
    }

    /// The node has said that it drains.
    pub(crate) fn drains(&self, nodes_version: u64) {
        if !self.health.get().is_ejected() {
            self.health.set(Health::Draining { nodes_version });
        }
    }

    /// The connection, if need be a new one.
    pub(crate) async fn sender(self: &Rc<Self>) -> Result<Sender, Unreachable> {
        let connecting = match &mut *self.state.borrow_mut() {
            State::Open(sender) if !sender.is_closed() => return Ok(sender.clone()),
            State::Connecting(connecting) => connecting.clone(),
            idle => {
                // A task of its own: it comes to its end even if all who wait for it leave.
                let task = spawn_local(self.clone().connect());
                let connecting = task.map(|ended| ended.unwrap_or(Err(Unreachable))).boxed_local().shared();
                *idle = State::Connecting(connecting.clone());
                connecting
            }
        };
        connecting.await
    }

    async fn connect(self: Rc<Self>) -> Result<Sender, Unreachable> {
        match self.handshake().await {
            Ok((sender, connection)) => {
                self.change(Health::connected());
                *self.state.borrow_mut() = State::Open(sender.clone());
                let (link, open) = (Rc::downgrade(&self), self.gauges.links.clone());
                open.inc();
                spawn_local(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection to a shard broke");
                    }
                    open.dec();
                    link.upgrade().inspect(Self::disconnected);
                });
                Ok(sender)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(self.failed(ConnectFailure::Silent, &error)),
            Err(error) => Err(self.failed(ConnectFailure::Refused, &error)),
        }
    }

    async fn handshake(&self) -> io::Result<(Sender, impl Future<Output = hyper::Result<()>> + use<>)> {
        let address = (&*self.shard.address, self.shard.port);
        let stream = in_time(CONNECT_TIMEOUT, TcpStream::connect(address)).await?;
        watch_over(&stream)?;
        let stream = match &self.tls {
            Some(tls) => {
                let connecting = tls.connect(Role::RuntimeNode, address.0, stream);
                in_time(HANDSHAKE_TIMEOUT, async { Ok(connecting.await?) }).await?
            }
            None => Stream::Plain(stream),
        };
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)
    }

    fn failed(self: &Rc<Self>, how: ConnectFailure, error: &io::Error) -> Unreachable {
        tracing::debug!(node = &*self.shard.node, shard = %self.shard.id, %error, "cannot connect to a shard");
        *self.state.borrow_mut() = State::Idle;
        self.change(self.health.get().failed_to_connect(how));
        Unreachable
    }

    fn disconnected(self: &Rc<Self>) {
        // A newer connection may have taken its place.
        let closed = matches!(&*self.state.borrow(), State::Open(sender) if sender.is_closed());
        if closed {
            *self.state.borrow_mut() = State::Idle;
            self.change(self.health.get().disconnected());
        }
    }

    fn change(self: &Rc<Self>, health: Health) {
        let before = self.health.replace(health);
        if before.is_ejected() && !health.is_ejected() {
            self.gauges.ejected.dec();
        }
        if health.is_ejected() && !before.is_ejected() {
            self.metrics.ejections.inc();
            self.gauges.ejected.inc();
            tracing::warn!(node = &*self.shard.node, shard = %self.shard.id, "a shard is ejected");
            spawn_local(probe(Rc::downgrade(self)));
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.health.get().is_ejected() {
            self.gauges.ejected.dec();
        }
    }
}

/// Tries to connect until that works, or nobody wants the link any more.
async fn probe(link: Weak<Link>) {
    loop {
        let Some(pause) = link.upgrade().and_then(|link| link.health.get().probe_pause(fastrand::f64())) else {
            return;
        };
        tokio::time::sleep(pause).await;
        let Some(link) = link.upgrade() else { return };
        if link.sender().await.is_ok() {
            tracing::info!(node = &*link.shard.node, shard = %link.shard.id, "a shard is back");
            return;
        }
    }
}

async fn in_time<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Sends small writes at once, and has the kernel notice a machine that is no longer there.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let interval = VANISHED / 3;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(interval).with_interval(interval).with_retries(2))?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// Where Invoke is on a shard. An address that fits no URI is connected to all the same, and then called by a
/// name that fits: nodes do not look at it.
fn invoke_uri(shard: &Shard, tls: bool) -> Uri {
    let host = if shard.address.contains(':') { format!("[{}]", shard.address) } else { shard.address.to_string() };
    let authority = Authority::try_from(format!("{host}:{}", shard.port))
        .unwrap_or_else(|_| Authority::from_static("node.invalid"));
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(authority);
    parts.path_and_query = Some(PathAndQuery::from_static(INVOKE_PATH));
    Uri::from_parts(parts).expect("a scheme, an authority and a path make a URI")
}

/// Runs hyper's tasks on the thread they come from.
#[derive(Clone, Copy)]
pub(crate) struct Local;

impl<F> hyper::rt::Executor<F> for Local
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}
