//! Keeps connections for later requests of the same tenant to the same origin.
//!
//! ```text
//!  take ─┬─► idle HTTP/1.1, or HTTP/2 with room ─► exchange ─► put back (HTTP/1.1, once idle)
//!        └─► none: open one; over TLS, concurrent requests wait: HTTP/2 may serve all of them
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use hyper::client::conn::{http1, http2};
use prometheus::IntGauge;
use rustc_hash::FxHashMap;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::concurrency::EgressBounds;
use super::connection::{STREAMS, Sender};
use super::message::UploadBody;
use super::origin::Origin;

/// A shard's connections.
pub(super) struct ConnectionPool {
    origins: RefCell<FxHashMap<Origin, OriginConnections>>,
    bounds: EgressBounds,
    /// Whether there is a task that closes connections that were idle for too long.
    has_pruner: Cell<bool>,
    idle_gauge: IntGauge,
}

#[derive(Default)]
struct OriginConnections {
    /// Idle connections, the most recently used one last.
    idle_http1: VecDeque<IdleHttp1>,
    shared: Vec<Shared>,
    opening: Weak<Semaphore>,
}

struct IdleHttp1 {
    sender: http1::SendRequest<UploadBody>,
    since: Instant,
}

struct Shared {
    sender: http2::SendRequest<UploadBody>,
    /// The time at which the latest exchange ended. Each exchange in flight holds a clone.
    last_used: Rc<Cell<Instant>>,
}

/// An exchange in flight on a [`Shared`] connection.
struct Exchange(Rc<Cell<Instant>>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.set(Instant::now());
    }
}

/// A connection that is leased for one exchange.
pub(super) struct Lease {
    pub(super) sender: Sender,
    /// Whether the connection was used before: the origin may have closed it since.
    pub(super) is_used: bool,
    /// `None` for an HTTP/1.1 connection, which serves no other exchange meanwhile.
    _exchange: Option<Exchange>,
}

/// The result of looking for a connection.
pub(super) enum PooledConnection {
    Lease(Lease),
    /// Another request is opening a connection. The semaphore is closed when the attempt ends.
    Opening(Rc<Semaphore>),
    Nothing,
}

/// A guard that is held while a connection is being opened.
pub(super) struct OpeningGuard(Rc<Semaphore>);

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl ConnectionPool {
    pub(super) fn new(bounds: EgressBounds, idle_gauge: IntGauge) -> Rc<Self> {
        Rc::new(Self {
            origins: RefCell::default(),
            bounds,
            has_pruner: Cell::new(false),
            idle_gauge,
        })
    }

    pub(super) fn take(&self, origin: &Origin) -> PooledConnection {
        let mut origins = self.origins.borrow_mut();
        let Some(kept) = origins.get_mut(origin) else { return PooledConnection::Nothing };
        let found = kept.take();
        self.update_idle_gauge(&origins);
        found
    }

    /// Records that a connection to the origin is being opened.
    pub(super) fn open(&self, origin: &Origin) -> OpeningGuard {
        let opening = Rc::new(Semaphore::new(0));
        self.origins.borrow_mut().entry(origin.clone()).or_default().opening =
            Rc::downgrade(&opening);
        OpeningGuard(opening)
    }

    /// Leases a newly opened connection for one exchange. An HTTP/2 connection is added to the pool
    /// immediately, and an HTTP/1.1 connection by [`put_back`](Self::put_back).
    pub(super) fn lease(self: &Rc<Self>, origin: &Origin, sender: Sender) -> Lease {
        let Sender::Http2(sender) = sender else {
            return Lease { sender, is_used: false, _exchange: None };
        };
        let shared = Shared { sender, last_used: Rc::new(Cell::new(Instant::now())) };
        let lease = Lease { is_used: false, ..shared.lease() };
        self.keep(origin, |kept| kept.shared.push(shared));
        lease
    }

    /// Puts an HTTP/1.1 connection back once its exchange is over, if the connection can be used
    /// again.
    pub(super) fn put_back(self: &Rc<Self>, origin: Origin, lease: Lease) {
        let Sender::Http1(mut sender) = lease.sender else { return };
        let pool = Rc::downgrade(self);
        spawn_local(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                let idle = IdleHttp1 { sender, since: Instant::now() };
                let limit = pool.bounds.idle_per_origin;
                pool.keep(&origin, |kept| {
                    kept.idle_http1.push_back(idle);
                    if kept.idle_http1.len() > limit {
                        kept.idle_http1.pop_front();
                    }
                });
            }
        });
    }

    fn keep(self: &Rc<Self>, origin: &Origin, add: impl FnOnce(&mut OriginConnections)) {
        let mut origins = self.origins.borrow_mut();
        add(origins.entry(origin.clone()).or_default());
        if origins.values().map(OriginConnections::idle_count).sum::<usize>()
            > self.bounds.idle_per_shard
        {
            let oldest = origins
                .values_mut()
                .filter(|kept| kept.idle_count() > 0)
                .min_by_key(|kept| kept.oldest_use());
            oldest.into_iter().for_each(OriginConnections::drop_oldest);
        }
        self.update_idle_gauge(&origins);
        if !self.has_pruner.replace(true) {
            spawn_local(prune_while_any(Rc::downgrade(self)));
        }
    }

    fn update_idle_gauge(&self, origins: &FxHashMap<Origin, OriginConnections>) {
        self.idle_gauge
            .set(origins.values().map(OriginConnections::idle_count).sum::<usize>() as i64);
    }

    /// Drops connections that are closed or were idle for too long. Returns whether any connection,
    /// or attempt to open one, is left.
    fn prune(&self, now: Instant) -> bool {
        let mut origins = self.origins.borrow_mut();
        origins.retain(|_, kept| {
            kept.idle_http1.retain(|idle| {
                !idle.sender.is_closed() && now < idle.since + self.bounds.idle_timeout
            });
            kept.shared.retain(|shared| {
                !shared.sender.is_closed()
                    && (!shared.is_idle()
                        || now < shared.last_used.get() + self.bounds.idle_timeout)
            });
            !kept.idle_http1.is_empty()
                || !kept.shared.is_empty()
                || kept.opening.strong_count() > 0
        });
        self.update_idle_gauge(&origins);
        !origins.is_empty()
    }
}

async fn prune_while_any(pool: Weak<ConnectionPool>) {
    while let Some(pause) = pool.upgrade().map(|pool| pool.bounds.idle_timeout / 2) {
        tokio::time::sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.prune(Instant::now()) {
            pool.has_pruner.set(false);
            return;
        }
    }
}

impl OriginConnections {
    fn take(&mut self) -> PooledConnection {
        self.shared.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = self.shared.iter().find(|shared| shared.has_room()) {
            return PooledConnection::Lease(shared.lease());
        }
        // The most recently used connection comes first, because the origin is least likely to have
        // closed it.
        while let Some(idle) = self.idle_http1.pop_back() {
            if idle.sender.is_ready() {
                return PooledConnection::Lease(Lease {
                    sender: Sender::Http1(idle.sender),
                    is_used: true,
                    _exchange: None,
                });
            }
        }
        self.opening.upgrade().map_or(PooledConnection::Nothing, PooledConnection::Opening)
    }

    /// Returns the number of idle connections.
    fn idle_count(&self) -> usize {
        self.idle_http1.len() + self.shared.iter().filter(|shared| shared.is_idle()).count()
    }

    /// Returns the time at which the oldest idle connection was last used.
    fn oldest_use(&self) -> Option<Instant> {
        let shared = self
            .shared
            .iter()
            .filter(|shared| shared.is_idle())
            .map(|shared| shared.last_used.get());
        self.idle_http1.front().map(|idle| idle.since).into_iter().chain(shared).min()
    }

    fn drop_oldest(&mut self) {
        let oldest = self.oldest_use();
        if self.idle_http1.front().is_some_and(|idle| Some(idle.since) == oldest) {
            self.idle_http1.pop_front();
        } else if let Some(at) = self
            .shared
            .iter()
            .position(|shared| shared.is_idle() && Some(shared.last_used.get()) == oldest)
        {
            self.shared.swap_remove(at);
        }
    }
}

impl Shared {
    fn exchanges(&self) -> usize {
        Rc::strong_count(&self.last_used) - 1
    }

    fn is_idle(&self) -> bool {
        self.exchanges() == 0
    }

    fn has_room(&self) -> bool {
        self.exchanges() < STREAMS && self.sender.is_ready()
    }

    fn lease(&self) -> Lease {
        let exchange = Exchange(Rc::clone(&self.last_used));
        Lease {
            sender: Sender::Http2(self.sender.clone()),
            is_used: true,
            _exchange: Some(exchange),
        }
    }
}
