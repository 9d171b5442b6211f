//! Connections that are kept for the next request to the same origin, of the same tenant.
//!
//! ```text
//!  take ─► idle HTTP/1.1 connection, or HTTP/2 connection with room ─► exchange ─► put (HTTP/1.1, once it is idle again)
//!    └──► none: open one ── others that come meanwhile wait: if it turns out HTTP/2 they need none of their own
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

use super::connection::{Origin, STREAMS, Sender};
use super::message::Sending;
use super::seats::Bounds;

/// Those of a shard.
pub(super) struct Pool {
    origins: RefCell<FxHashMap<Origin, Kept>>,
    bounds: Bounds,
    /// A task looks after what has been idle for too long.
    is_swept: Cell<bool>,
    idle: IntGauge,
}

#[derive(Default)]
struct Kept {
    /// The latest last.
    idle: VecDeque<Idle>,
    shared: Vec<Shared>,
    opening: Weak<Semaphore>,
}

struct Idle {
    sender: http1::SendRequest<Sending>,
    since: Instant,
}

struct Shared {
    sender: http2::SendRequest<Sending>,
    /// Each exchange holds one more.
    exchanges: Rc<()>,
    used: Instant,
}

/// A connection for one exchange.
pub(super) struct Lease {
    pub(super) sender: Sender,
    /// Whether it served others before: the origin may have had enough of it by now.
    pub(super) is_used: bool,
    /// One of a connection's exchanges.
    _exchange: Option<Rc<()>>,
}

/// What there is for a request.
pub(super) enum Found {
    Lease(Lease),
    /// Somebody is opening one. Once that has come to its end the semaphore is closed.
    Opening(Rc<Semaphore>),
    Nothing,
}

/// Held while a connection is being opened.
pub(super) struct Opening(Rc<Semaphore>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Pool {
    pub(super) fn new(bounds: Bounds, idle: IntGauge) -> Rc<Self> {
        Rc::new(Self { origins: RefCell::default(), bounds, is_swept: Cell::new(false), idle })
    }

    pub(super) fn take(&self, origin: &Origin) -> Found {
        let mut origins = self.origins.borrow_mut();
        let Some(kept) = origins.get_mut(origin) else { return Found::Nothing };
        let found = kept.take();
        self.count(&origins);
        found
    }

    /// Says that a connection to the origin is being opened.
    pub(super) fn open(&self, origin: &Origin) -> Opening {
        let opening = Rc::new(Semaphore::new(0));
        self.origins.borrow_mut().entry(origin.clone()).or_default().opening = Rc::downgrade(&opening);
        Opening(opening)
    }

    /// Takes in a connection that has just been opened, for one exchange of it.
    pub(super) fn lease(self: &Rc<Self>, origin: &Origin, sender: Sender) -> Lease {
        let Sender::Http2(sender) = sender else { return Lease { sender, is_used: false, _exchange: None } };
        let shared = Shared { sender, exchanges: Rc::new(()), used: Instant::now() };
        let lease = Lease { is_used: false, ..shared.lease() };
        self.keep(origin, |kept| kept.shared.push(shared));
        lease
    }

    /// Keeps an HTTP/1.1 connection once its exchange is over, if it can serve another one then.
    pub(super) fn give_back(self: &Rc<Self>, origin: Origin, lease: Lease) {
        let Sender::Http1(mut sender) = lease.sender else { return };
        let pool = Rc::downgrade(self);
        spawn_local(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                let idle = Idle { sender, since: Instant::now() };
                let most = pool.bounds.idle_of_origin;
                pool.keep(&origin, |kept| {
                    kept.idle.push_back(idle);
                    if kept.idle.len() > most {
                        kept.idle.pop_front();
                    }
                });
            }
        });
    }

    fn keep(self: &Rc<Self>, origin: &Origin, keep: impl FnOnce(&mut Kept)) {
        let mut origins = self.origins.borrow_mut();
        keep(origins.entry(origin.clone()).or_default());
        if origins.values().map(Kept::idle).sum::<usize>() > self.bounds.idle_of_shard {
            let oldest = origins.values_mut().filter(|kept| kept.idle() > 0).min_by_key(|kept| kept.idle_since());
            oldest.into_iter().for_each(Kept::drop_oldest);
        }
        self.count(&origins);
        if !self.is_swept.replace(true) {
            spawn_local(sweep(Rc::downgrade(self)));
        }
    }

    fn count(&self, origins: &FxHashMap<Origin, Kept>) {
        self.idle.set(origins.values().map(Kept::idle).sum::<usize>() as i64);
    }

    /// Lets go of what has been idle for too long. Whether anything is left.
    fn prune(&self, now: Instant) -> bool {
        let mut origins = self.origins.borrow_mut();
        origins.retain(|_, kept| {
            kept.idle.retain(|idle| !idle.sender.is_closed() && now < idle.since + self.bounds.idle);
            kept.shared.retain(|shared| {
                !shared.sender.is_closed() && (!shared.is_idle() || now < shared.used + self.bounds.idle)
            });
            !kept.idle.is_empty() || !kept.shared.is_empty() || kept.opening.strong_count() > 0
        });
        self.count(&origins);
        !origins.is_empty()
    }
}

async fn sweep(pool: Weak<Pool>) {
    while let Some(pause) = pool.upgrade().map(|pool| pool.bounds.idle / 2) {
        tokio::time::sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.prune(Instant::now()) {
            pool.is_swept.set(false);
            return;
        }
    }
}

impl Kept {
    fn take(&mut self) -> Found {
        self.shared.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = self.shared.iter_mut().find(|shared| shared.has_room()) {
            shared.used = Instant::now();
            return Found::Lease(shared.lease());
        }
        // The latest first: the origin is least likely to have closed that one.
        while let Some(idle) = self.idle.pop_back() {
            if idle.sender.is_ready() {
                return Found::Lease(Lease { sender: Sender::Http1(idle.sender), is_used: true, _exchange: None });
            }
        }
        self.opening.upgrade().map_or(Found::Nothing, Found::Opening)
    }

    /// Connections that nobody uses.
    fn idle(&self) -> usize {
        self.idle.len() + self.shared.iter().filter(|shared| shared.is_idle()).count()
    }

    /// Since when the oldest of them is idle.
    fn idle_since(&self) -> Option<Instant> {
        let shared = self.shared.iter().filter(|shared| shared.is_idle()).map(|shared| shared.used);
        self.idle.front().map(|idle| idle.since).into_iter().chain(shared).min()
    }

    fn drop_oldest(&mut self) {
        let oldest = self.idle_since();
        if self.idle.front().is_some_and(|idle| Some(idle.since) == oldest) {
            self.idle.pop_front();
        } else if let Some(at) = self.shared.iter().position(|shared| shared.is_idle() && Some(shared.used) == oldest) {
            self.shared.swap_remove(at);
        }
    }
}

impl Shared {
    fn exchanges(&self) -> usize {
        Rc::strong_count(&self.exchanges) - 1
    }

    fn is_idle(&self) -> bool {
        self.exchanges() == 0
    }

    fn has_room(&self) -> bool {
        self.exchanges() < STREAMS && self.sender.is_ready()
    }

    fn lease(&self) -> Lease {
        let exchange = Rc::clone(&self.exchanges);
        Lease { sender: Sender::Http2(self.sender.clone()), is_used: true, _exchange: Some(exchange) }
    }
}
