//! One thread's connection to one shard, opened on first use, kept, and reopened.
//!
//! ```text
//!            first request                    handshake complete
//!   Idle ─────────────────► Connecting ─────────────────────────► Open ──┐
//!    ▲  ◄── refused, silent ────┘                                        │
//!    └────────── the connection ended: its requests fail ◄───────────────┘
//! ```
//!
//! The kernel reports immediately that a shard's process has ended, because its connections end.
//! Keepalive probes detect that a node's machine or network has failed ([`connection`]). A shard
//! that is stopped, or whose turn does not end, is detected by its silence: while requests wait for
//! their first byte, a task watches the connection's [`pulse`](super::pulse), and HTTP/2 pings give
//! an otherwise idle shard something to answer. The connection stays open, because a shard answers
//! pings and TLS handshakes only between turns, and a long turn is not a failure;
//! [`silence`](super::silence) decides what happens to the requests that wait.
//!
//! The link to the shard of this thread has no connection: it bounds the requests of the shard and
//! remembers that the shard drains ([`inline`](super::inline)).
//!
//! A link belongs to one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{FutureExt, LocalBoxFuture, Shared};
use http::{HeaderValue, Method, Request, Uri, header};
use tenon_clients::quota::Peer;
use tenon_lifecycle::tls::Tls;
use tenon_proto::runtime::INVOKE_PATH;
use tenon_table::Shard;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, MissedTickBehavior};

use crate::upstream::bulkhead::{Bulkhead, BulkheadPermit};
use crate::upstream::connection::{self, Sender};
use crate::upstream::counting_stream::IoCounts;
use crate::upstream::health::{ConnectFailure, Disconnect, Health};
use crate::upstream::inline::InlineShard;
use crate::upstream::metrics::{Spill, UpstreamMetrics};
use crate::upstream::pulse::{self, Beat, Pulse};
use crate::upstream::shared_probe::SharedProbe;
use crate::upstream::upload::AttemptBody;

/// A path that no shard serves.
const PROBE_PATH: &str = "/";

/// The timeout for a shard to answer a probe, which determines whether its node is alive. The
/// requests that depend on the probe have already waited for nearly two seconds.
const PROBE_TIMEOUT: Duration = Duration::from_millis(400);

/// One thread's connection to one shard, and what the thread knows of the shard's health.
pub(crate) struct Link {
    shard: Arc<Shard>,
    /// The URI of [`INVOKE_PATH`] on this shard.
    uri: Uri,
    tls: Option<Tls>,
    /// The shard itself, if it runs on this thread.
    inline: Option<Rc<dyn InlineShard>>,
    /// Whether the shard may be silent without having failed.
    may_pause: bool,
    state: RefCell<State>,
    health: Cell<Health>,
    /// Counts reads from the shard's connections and writes to them.
    counts: Rc<IoCounts>,
    /// The number of requests that wait for the first byte of their response, or for a connection.
    waiting: Cell<usize>,
    /// Whether a task watches the pulse.
    watched: Cell<bool>,
    /// Wakes the waiting requests when the shard falls silent.
    fallen_silent: Notify,
    bulkhead: Bulkhead,
    pub(crate) probe: SharedProbe,
    metrics: Rc<UpstreamMetrics>,
}

enum State {
    Idle,
    /// All concurrent requests wait for the same connection.
    Connecting(Shared<LocalBoxFuture<'static, Result<Sender, Unreachable>>>),
    Open(Sender),
}

/// The error for a shard that cannot be connected to. The reason has been logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreachable(pub(crate) ConnectFailure);

/// A request that waits for the first byte of its response.
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
    /// * `inline` - the shard itself, if it runs on this thread.
    /// * `may_pause` - whether the shard may be silent without having failed.
    /// * `bulkhead` - bounds the requests of this thread that the shard may have.
    pub(crate) fn new(
        shard: Arc<Shard>,
        tls: Option<Tls>,
        inline: Option<Rc<dyn InlineShard>>,
        may_pause: bool,
        metrics: Rc<UpstreamMetrics>,
        bulkhead: Bulkhead,
    ) -> Rc<Self> {
        Rc::new(Self {
            uri: connection::uri(&shard, tls.is_some(), INVOKE_PATH),
            shard,
            tls,
            inline,
            may_pause,
            state: RefCell::new(State::Idle),
            health: Cell::new(Health::connected()),
            counts: Rc::default(),
            waiting: Cell::default(),
            watched: Cell::default(),
            fallen_silent: Notify::new(),
            bulkhead,
            probe: SharedProbe::default(),
            metrics,
        })
    }

    pub(crate) fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Returns the shard itself, if it runs on this thread.
    pub(crate) fn inline(&self) -> Option<&Rc<dyn InlineShard>> {
        self.inline.as_ref()
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the reason why the shard gets no requests, or `None` if it gets requests.
    pub(crate) fn refuses(&self, nodes_version: u64) -> Option<Spill> {
        let health = self.health.get();
        let why = if health.ejection().is_some() { Spill::Ejected } else { Spill::Draining };
        (!health.takes_requests(nodes_version)).then_some(why)
    }

    /// Returns whether requests avoid the shard because of a failure.
    pub(crate) fn is_avoided(&self) -> bool {
        self.health.get().ejection().is_some()
    }

    /// Records that the shard has reported that it drains.
    pub(crate) fn record_drain(&self, nodes_version: u64) {
        if !self.is_avoided() {
            self.health.set(Health::Draining { nodes_version });
        }
    }

    /// Returns a counter that increases with every write to the shard's connections.
    pub(crate) fn writes(&self) -> u64 {
        self.counts.writes()
    }

    /// Returns the number of this thread's requests that the shard has.
    pub(crate) fn in_flight(&self) -> usize {
        self.bulkhead.in_flight()
    }

    /// Takes a permit for one more request, unless the shard has its maximum of this thread's
    /// requests.
    pub(crate) fn acquire(&self, peer: Peer) -> Option<BulkheadPermit> {
        self.bulkhead.acquire(peer)
    }

    /// Counts a waiting request until the returned value is dropped. Meanwhile a task watches the
    /// pulse, unless the shard may be silent.
    pub(crate) fn begin_wait(self: &Rc<Self>) -> Waiting<'_> {
        self.waiting.set(self.waiting.get() + 1);
        if !self.may_pause && !self.watched.replace(true) {
            spawn_local(watch(Rc::downgrade(self)));
        }
        Waiting(self)
    }

    /// Waits until the shard is silent.
    pub(crate) async fn until_silent(&self) {
        while !self.health.get().is_silent() {
            self.fallen_silent.notified().await;
        }
    }

    /// Returns whether the shard sends anything within [`PROBE_TIMEOUT`], after a ping or a request
    /// for a path that no shard serves. The answer involves no JavaScript. A shard of this thread
    /// always answers.
    pub(crate) async fn answers(self: &Rc<Self>) -> bool {
        if self.inline.is_some() {
            return true;
        }
        let _waiting = self.begin_wait();
        let reads = self.counts.reads();
        let probe = async {
            if let Ok(sender) = self.sender().await {
                self.send_probe(sender).await;
            }
        };
        // A byte of any other message is an answer too.
        _ = tokio::time::timeout(PROBE_TIMEOUT, probe).await;
        self.counts.reads() != reads
    }

    async fn send_probe(&self, sender: Sender) {
        let mut sender = match sender {
            Sender::Hop(sender) => return sender.ping().await,
            Sender::Complete(sender) => sender,
        };
        let mut request = Request::new(AttemptBody::new(Bytes::new(), None));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = connection::uri(&self.shard, self.tls.is_some(), PROBE_PATH);
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        _ = sender.try_send_request(request).await;
    }

    /// Returns the connection, and opens a new one if necessary.
    ///
    /// # Errors
    /// Fails if the shard cannot be connected to, or does not prove in time that it responds.
    pub(crate) async fn sender(self: &Rc<Self>) -> Result<Sender, Unreachable> {
        let connecting = match &mut *self.state.borrow_mut() {
            State::Open(sender) if !sender.is_closed() => return Ok(sender.clone()),
            State::Connecting(connecting) => connecting.clone(),
            idle => {
                // The task completes even if all requests that wait for it are canceled.
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
        let reads = self.counts.reads();
        let prove_by = self.health.get().proof().map(|timeout| Instant::now() + timeout);
        let (shard, tls) = (&self.shard, self.tls.as_ref());
        match connection::open(shard, tls, !self.may_pause, &self.counts, prove_by).await {
            Ok((sender, driver)) => {
                let (link, open) = (Rc::downgrade(&self), self.metrics.links.clone());
                open.inc();
                spawn_local(async move {
                    let how = driver.await;
                    open.dec();
                    link.upgrade().inspect(|link| link.disconnected(how));
                });
                if let Some(by) = prove_by {
                    if !self.is_answered(&sender, reads, by).await {
                        return Err(self.connect_failed(
                            ConnectFailure::Silent,
                            &io::ErrorKind::TimedOut.into(),
                        ));
                    }
                    if sender.is_closed() {
                        return Err(self.connect_failed(
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
                Err(self.connect_failed(ConnectFailure::Silent, &error))
            }
            Err(error) => Err(self.connect_failed(ConnectFailure::Refused, &error)),
        }
    }

    /// Returns whether the peer of a new connection has sent anything since the counter of reads
    /// was `reads`, or sends anything by the deadline.
    async fn is_answered(&self, sender: &Sender, reads: u64, by: Instant) -> bool {
        if self.counts.reads() == reads {
            _ = tokio::time::timeout_at(by, self.send_probe(sender.clone())).await;
        }
        self.counts.reads() != reads
    }

    fn connect_failed(self: &Rc<Self>, how: ConnectFailure, error: &io::Error) -> Unreachable {
        let (node, shard) = (&*self.shard.node, self.shard.id);
        tracing::debug!(node, %shard, %error, "cannot connect to a shard");
        *self.state.borrow_mut() = State::Idle;
        self.change(self.health.get().failed_to_connect(how));
        Unreachable(how)
    }

    fn disconnected(self: &Rc<Self>, how: Disconnect) {
        // A newer connection may have replaced the one that ended.
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
            tracing::info!(
                node,
                %shard,
                "a shard's process ended; requests wait for its successor"
            );
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

/// Tries to connect until that succeeds, the shard is no longer ejected, or the link has been
/// dropped.
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

/// Watches the pulse while requests wait, and then until a silent shard sends data again or loses
/// its connection.
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
            Beat::Alive => health.resumed(),
            Beat::Quiet => health,
        };
        if changed != health {
            link.change(changed);
        }
    }
}
