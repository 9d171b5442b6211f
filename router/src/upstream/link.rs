//! One thread's connection to one shard, opened on first use, kept, and reopened.
//!
//! ```text
//!            first request                    handshake complete
//!   Idle ─────────────────► Connecting ─────────────────────────► Open ──┐
//!    ▲  ◄── refused, silent ────┘                                        │
//!    └────────── the connection ended: its requests fail ◄───────────────┘
//! ```
//!
//! The kernel reports at once that a node has died, because its connections end. It detects a node
//! that has vanished (machine or network) by keepalive probes within `VANISHED`. A node that is
//! stopped, or whose turn does not end, is detected by its silence: while requests wait for their
//! first byte, a task watches the connection's [`pulse`](super::pulse), and HTTP/2 pings give an
//! otherwise idle shard something to answer. The connection stays open, because a shard answers
//! pings and TLS handshakes only between turns, and a long turn is not a failure;
//! [`silence`](super::silence) decides what happens to the requests that wait.
//!
//! Belongs to one thread.

use std::cell::{Cell, RefCell};
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{FutureExt, LocalBoxFuture, Shared};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Uri, header};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tenon_lifecycle::tls::{Role, Stream, Tls};
use tenon_proto::runtime::INVOKE_PATH;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, MissedTickBehavior};

use crate::executor::Local;
use crate::quota::Peer;
use crate::table::Shard;
use crate::upstream::bulkhead::{Berth, Bulkhead};
use crate::upstream::health::{ConnectFailure, Disconnect, Health};
use crate::upstream::heard::{Counts, Heard};
use crate::upstream::inquiry::Inquiry;
use crate::upstream::metrics::{Spill, UpstreamMetrics};
use crate::upstream::pulse::{self, Beat, Pulse};
use crate::upstream::upload::AttemptBody;

/// The timeout of a TCP connect. A node in the same cluster answers within a millisecond; a lost
/// SYN is retransmitted after one second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The timeout of a TLS handshake. The kernel answers a SYN, but the shard's thread answers a TLS
/// handshake between turns, and the longest turn may take 30 seconds. Without TLS a request waits
/// for such a turn just as long. Requests that have an alternative do not wait for the handshake,
/// and a shard that has been unavailable gets less time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(40);

/// A connection on which a ping has not been answered for this long is closed. The time is twice
/// the longest turn.
const PING_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout for a shard to answer a probe of whether its node is alive. The requests that
/// depend on the probe have waited for nearly two seconds already.
const KNOCK_TIMEOUT: Duration = Duration::from_millis(400);

/// After this long without a sign of life from the other machine the connection is dead.
const VANISHED: Duration = Duration::from_secs(3);

/// The maximum part of one response that is buffered for its client, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 64 * 1024;

/// The connection's own window is the maximum of HTTP/2: a few clients that read slowly would
/// otherwise exhaust it and block all other responses.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// The maximum part of one request that is buffered in the connection, in bytes: the node's flow
/// control is the actual buffer.
const SEND_BUFFER: usize = 64 * 1024;

pub(crate) struct Link {
    shard: Arc<Shard>,
    /// The URI of [`INVOKE_PATH`] on this shard.
    uri: Uri,
    tls: Option<Tls>,
    state: RefCell<State>,
    health: Cell<Health>,
    /// Counts reads from the shard's connections and writes to them.
    counts: Rc<Counts>,
    /// The number of requests that wait for the first byte of their answer, or for a connection.
    waiting: Cell<usize>,
    /// A task watches the pulse.
    watched: Cell<bool>,
    /// Wakes the waiting requests when the shard falls silent.
    fallen_silent: Notify,
    bulkhead: Bulkhead,
    pub(crate) inquiry: Inquiry,
    metrics: Rc<UpstreamMetrics>,
}

type Sender = SendRequest<AttemptBody>;

enum State {
    Idle,
    /// All concurrent requests wait for the same connection.
    Connecting(Shared<LocalBoxFuture<'static, Result<Sender, Unreachable>>>),
    Open(Sender),
}

/// There is no connection. The reason has been logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreachable(pub(crate) ConnectFailure);

/// A request that waits for the first byte of its answer.
pub(crate) struct Waiting<'a>(&'a Link);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

impl Link {
    /// Creates a link without a connection.
    ///
    /// # Arguments
    /// * `bulkhead`: bounds the requests of this thread that the shard may have.
    pub(crate) fn new(
        shard: Arc<Shard>,
        tls: Option<Tls>,
        metrics: Rc<UpstreamMetrics>,
        bulkhead: Bulkhead,
    ) -> Rc<Self> {
        Rc::new(Self {
            uri: uri(&shard, tls.is_some(), INVOKE_PATH),
            shard,
            tls,
            state: RefCell::new(State::Idle),
            health: Cell::new(Health::connected()),
            counts: Rc::default(),
            waiting: Cell::default(),
            watched: Cell::default(),
            fallen_silent: Notify::new(),
            bulkhead,
            inquiry: Inquiry::default(),
            metrics,
        })
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns why the shard takes no requests, or `None` if it takes them.
    pub(crate) fn refuses(&self, nodes_version: u64) -> Option<Spill> {
        let health = self.health.get();
        let why = if health.ejection().is_some() { Spill::Ejected } else { Spill::Draining };
        (!health.takes_requests(nodes_version)).then_some(why)
    }

    /// Returns whether requests pass the shard by because it is out of order.
    pub(crate) fn is_passed_by(&self) -> bool {
        self.health.get().ejection().is_some()
    }

    /// Records that the node has said that it drains.
    pub(crate) fn drains(&self, nodes_version: u64) {
        if !self.is_passed_by() {
            self.health.set(Health::Draining { nodes_version });
        }
    }

    /// Returns a counter that increases with every write to the shard's connections.
    pub(crate) fn writes(&self) -> u64 {
        self.counts.writes()
    }

    /// Takes a berth for one more request, unless the shard has its maximum of this thread's
    /// requests.
    pub(crate) fn berth(&self, peer: Peer) -> Option<Berth> {
        self.bulkhead.berth(peer)
    }

    /// Has a task watch the pulse until the returned value is dropped.
    pub(crate) fn wait(self: &Rc<Self>) -> Waiting<'_> {
        self.waiting.set(self.waiting.get() + 1);
        if !self.watched.replace(true) {
            spawn_local(watch(Rc::downgrade(self)));
        }
        Waiting(self)
    }

    /// Waits until the shard is silent.
    pub(crate) async fn silence(&self) {
        while !self.health.get().is_silent() {
            self.fallen_silent.notified().await;
        }
    }

    /// Returns whether the shard sends anything now, in answer to a request for a path that no
    /// shard serves. No JavaScript is involved.
    pub(crate) async fn answers(self: &Rc<Self>) -> bool {
        let _waiting = self.wait();
        let reads = self.counts.reads();
        let knock = async {
            if let Ok(sender) = self.sender().await {
                self.knock(sender).await;
            }
        };
        // A byte of any other message is an answer too.
        _ = tokio::time::timeout(KNOCK_TIMEOUT, knock).await;
        self.counts.reads() != reads
    }

    async fn knock(&self, mut sender: Sender) {
        let mut request = Request::new(AttemptBody::new(Bytes::new(), None));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri(&self.shard, self.tls.is_some(), KNOCK_PATH);
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        _ = sender.try_send_request(request).await;
    }

    /// Returns the connection, and opens a new one if necessary.
    pub(crate) async fn sender(self: &Rc<Self>) -> Result<Sender, Unreachable> {
        let connecting = match &mut *self.state.borrow_mut() {
            State::Open(sender) if !sender.is_closed() => return Ok(sender.clone()),
            State::Connecting(connecting) => connecting.clone(),
            idle => {
                // The task completes even if all requests that wait for it are cancelled.
                let task = spawn_local(self.clone().connect());
                let ended =
                    task.map(|ended| ended.unwrap_or(Err(Unreachable(ConnectFailure::Refused))));
                let connecting = ended.boxed_local().shared();
                *idle = State::Connecting(connecting.clone());
                connecting
            }
        };
        connecting.await
    }

    async fn connect(self: Rc<Self>) -> Result<Sender, Unreachable> {
        let (reads, prove_by) =
            (self.counts.reads(), self.health.get().proof().map(|within| Instant::now() + within));
        match self.handshake(prove_by).await {
            Ok((sender, connection)) => {
                let (link, open) = (Rc::downgrade(&self), self.metrics.links.clone());
                open.inc();
                spawn_local(async move {
                    let ended = connection.await;
                    if let Err(error) = &ended {
                        tracing::debug!(%error, "lost the connection to a shard");
                    }
                    open.dec();
                    link.upgrade().inspect(|link| link.disconnected(disconnect(&ended)));
                });
                if let Some(by) = prove_by {
                    if !self.is_answered(&sender, reads, by).await {
                        return Err(
                            self.failed(ConnectFailure::Silent, &io::ErrorKind::TimedOut.into())
                        );
                    }
                    if sender.is_closed() {
                        return Err(self.failed(
                            ConnectFailure::Refused,
                            &io::ErrorKind::ConnectionAborted.into(),
                        ));
                    }
                }
                self.change(Health::connected());
                *self.state.borrow_mut() = State::Open(sender.clone());
                Ok(sender)
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(self.failed(ConnectFailure::Silent, &error))
            }
            Err(error) => Err(self.failed(ConnectFailure::Refused, &error)),
        }
    }

    /// Returns whether the peer of a new connection sends anything, or has since there were so many
    /// reads.
    async fn is_answered(&self, sender: &Sender, reads: u64, by: Instant) -> bool {
        if self.counts.reads() == reads {
            _ = tokio::time::timeout_at(by, self.knock(sender.clone())).await;
        }
        self.counts.reads() != reads
    }

    /// Connects and shakes hands.
    ///
    /// # Arguments
    /// * `prove_by`: the deadline for the TLS handshake, if the peer has yet to prove that it is
    ///   there.
    async fn handshake(
        &self,
        prove_by: Option<Instant>,
    ) -> io::Result<(Sender, impl Future<Output = hyper::Result<()>> + use<>)> {
        let address = (&*self.shard.address, self.shard.port);
        let stream = in_time(CONNECT_TIMEOUT, TcpStream::connect(address)).await?;
        watch_over(&stream)?;
        let stream = match &self.tls {
            Some(tls) => {
                let connecting = tls.connect(Role::RuntimeNode, address.0, stream);
                let within = prove_by
                    .map_or(HANDSHAKE_TIMEOUT, |by| by.saturating_duration_since(Instant::now()));
                let stream = in_time(within, async { Ok(connecting.await?) }).await?;
                // The handshake is an answer by the shard's thread.
                self.counts.count_read();
                stream
            }
            None => Stream::Plain(stream),
        };
        http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            // No pings are sent while there is no stream.
            .keep_alive_interval(pulse::PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(Heard::new(stream, self.counts.clone())))
            .await
            .map_err(io::Error::other)
    }

    fn failed(self: &Rc<Self>, how: ConnectFailure, error: &io::Error) -> Unreachable {
        tracing::debug!(node = &*self.shard.node, shard = %self.shard.id, %error, "cannot connect to a shard");
        *self.state.borrow_mut() = State::Idle;
        self.change(self.health.get().failed_to_connect(how));
        Unreachable(how)
    }

    fn disconnected(self: &Rc<Self>, how: Disconnect) {
        // A newer connection may have replaced it.
        let closed = matches!(&*self.state.borrow(), State::Open(sender) if sender.is_closed());
        if closed {
            *self.state.borrow_mut() = State::Idle;
            self.change(self.health.get().disconnected(how));
        }
    }

    fn change(self: &Rc<Self>, health: Health) {
        let before = self.health.replace(health);
        let (node, shard) = (&*self.shard.node, self.shard.id);
        match (before.ejection(), health.ejection()) {
            (None, Some(why)) => {
                self.metrics.ejections.inc(why);
                self.metrics.ejected.inc();
                tracing::warn!(node, %shard, ?why, "ejected a shard");
            }
            (Some(_), None) => self.metrics.ejected.dec(),
            _ => {}
        }
        if health != before && health == Health::AwaitsSuccessor {
            tracing::info!(node, %shard, "a shard's process ended; requests wait for its successor");
        } else if health == Health::connected() && before.ejection().is_some() {
            tracing::info!(node, %shard, "a shard accepts requests again");
        }
        if health.is_ejected() && !before.is_ejected() {
            spawn_local(probe(Rc::downgrade(self)));
        }
        if health.is_silent() {
            self.fallen_silent.notify_waiters();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.health.get().ejection().is_some() {
            self.metrics.ejected.dec();
        }
    }
}

/// Returns how a connection has ended, from its error.
fn disconnect(ended: &hyper::Result<()>) -> Disconnect {
    let Err(error) = ended else { return Disconnect::Closed };
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let mut kinds =
        causes.filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    let vanished = error.is_timeout() || kinds.any(|kind| !HANGS_UP.contains(&kind));
    if vanished { Disconnect::Vanished } else { Disconnect::HungUp }
}

/// The errors with which the kernel ends a connection whose other process has ended.
const HANGS_UP: [io::ErrorKind; 3] =
    [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];

/// Tries to connect until that succeeds or the link has been dropped.
async fn probe(link: Weak<Link>) {
    loop {
        let Some(pause) =
            link.upgrade().and_then(|link| link.health.get().probe_pause(fastrand::f64()))
        else {
            return;
        };
        tokio::time::sleep(pause).await;
        let Some(link) = link.upgrade() else { return };
        if link.sender().await.is_ok() {
            return;
        }
    }
}

/// Watches the pulse while requests wait, and after that until a silent shard is heard again or
/// loses its connection.
async fn watch(link: Weak<Link>) {
    let mut ticks = tokio::time::interval_at(Instant::now() + pulse::TICK, pulse::TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let Some(mut pulse) = link.upgrade().map(|link| Pulse::new(link.counts.reads())) else {
        return;
    };
    loop {
        ticks.tick().await;
        let Some(link) = link.upgrade() else { return };
        let health = link.health.get();
        if link.waiting.get() == 0 && !health.is_silent() {
            link.watched.set(false);
            return;
        }
        let changed = match pulse.tick(link.counts.reads()) {
            Beat::Silent => health.fell_silent(),
            Beat::Heard => health.heard(),
            Beat::Quiet => health,
        };
        if changed != health {
            link.change(changed);
        }
    }
}

async fn in_time<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Disables Nagle's algorithm, and has the kernel detect a machine that has vanished.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let interval = VANISHED / 3;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(interval).with_interval(interval).with_retries(2),
    )?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// A path that no shard serves.
const KNOCK_PATH: &str = "/";

/// Returns the URI of a path on a shard. An address that is not valid in a URI is still connected
/// to, but its authority is a placeholder: nodes do not read it.
fn uri(shard: &Shard, tls: bool, path: &'static str) -> Uri {
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
    Uri::from_parts(parts).expect("a scheme, an authority and a path make a URI")
}
