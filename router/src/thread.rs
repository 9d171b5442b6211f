//! All that one router thread owns, and no other touches.
//!
//! ```text
//!  Published (shared) ─► View ─┐
//!  links, by shard ────────────┼─► the path of a request
//!  retry budget, placements ───┤
//!  meters, ids ────────────────┘
//! ```
//!
//! `!Send`, and without locks: the one thing read that others write is the published table.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::{ArcSwap, Cache};
use prometheus::IntGauge;
use rustc_hash::FxHashMap;
use tenon_lifecycle::tls::Tls;

use crate::bulkhead::Bulkhead;
use crate::link::Link;
use crate::metrics::{Gauges, Meters, Metrics};
use crate::placement::Placements;
use crate::retry::Budget;
use crate::table::{Published, Shard, Table};
use crate::tunnels::Tunnels;

/// Requests a thread has in hand at once. Each may hold its windows' worth of memory.
const MAX_IN_FLIGHT: usize = 16_384;

/// The table as a request sees it from its beginning to its end. Cloning it touches this thread's memory only,
/// while all threads would share the count of an `Arc`.
pub(crate) type View = Rc<Arc<Table>>;

pub(crate) struct RouterThread {
    pub(crate) settings: Settings,
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: Metrics,
    pub(crate) gauges: Gauges,
    pub(crate) meters: Rc<Meters>,
    pub(crate) budget: RefCell<Budget>,
    pub(crate) placements: RefCell<Placements>,
    /// Clients are told to come back on another connection.
    pub(crate) leaving: Cell<bool>,
    pub(crate) tunnels: Tunnels,
    table: RefCell<TableCache>,
    links: RefCell<FxHashMap<Arc<Shard>, Rc<Link>>>,
    in_flight: Rc<Cell<usize>>,
    random: RefCell<fastrand::Rng>,
}

/// What of the configuration the path of a request looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) access_log: bool,
    pub(crate) debug_headers: bool,
}

struct TableCache {
    published: Cache<Published, Arc<Table>>,
    view: View,
}

impl RouterThread {
    /// # Arguments
    /// * `name` - by which metrics tell it from the others.
    pub(crate) fn new(
        name: &str,
        settings: Settings,
        tls: Option<Tls>,
        published: &Arc<ArcSwap<Table>>,
        metrics: Metrics,
    ) -> Rc<Self> {
        let view = Rc::new(published.load_full());
        let mut random = fastrand::Rng::new();
        Rc::new(Self {
            settings,
            tls,
            meters: Meters::new(&metrics, name),
            gauges: metrics.gauges(name),
            tunnels: Tunnels::new(metrics.tunnels.clone()),
            metrics,
            budget: RefCell::new(Budget::new(Instant::now())),
            placements: RefCell::new(Placements::new(random.u64(..))),
            leaving: Cell::new(false),
            table: RefCell::new(TableCache { published: Cache::new(published.clone()), view }),
            links: RefCell::default(),
            in_flight: Rc::default(),
            random: RefCell::new(random),
        })
    }

    /// The current table.
    pub(crate) fn view(&self) -> View {
        let TableCache { published, view } = &mut *self.table.borrow_mut();
        let current = published.load();
        if !Arc::ptr_eq(current, view) {
            if current.nodes_version() != view.nodes_version() {
                // Requests under way keep their link, and it its connection, until they are done.
                self.links.borrow_mut().retain(|shard, _| current.has_shard(shard));
            }
            *view = Rc::new(current.clone());
        }
        view.clone()
    }

    pub(crate) fn link(&self, shard: &Arc<Shard>) -> Rc<Link> {
        let mut links = self.links.borrow_mut();
        match links.get(shard) {
            Some(link) => link.clone(),
            None => {
                let bulkhead = Bulkhead::new(MAX_IN_FLIGHT);
                let (metrics, gauges) = (self.metrics.clone(), self.gauges.clone());
                let link = Link::new(shard.clone(), self.tls.clone(), metrics, gauges, bulkhead);
                links.insert(shard.clone(), link.clone());
                link
            }
        }
    }

    /// Room for one more request, if there is any.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let in_flight = self.in_flight.get();
        (in_flight < MAX_IN_FLIGHT).then(|| {
            let permit = Permit { in_flight: self.in_flight.clone(), gauge: self.gauges.in_flight.clone() };
            permit.now(in_flight + 1);
            permit
        })
    }

    /// A request id: 128 random bits.
    pub(crate) fn request_id(&self) -> String {
        format!("{:032x}", self.random())
    }

    /// Bits that need not be hard to guess.
    pub(crate) fn random(&self) -> u128 {
        self.random.borrow_mut().u128(..)
    }
}

/// A request in hand.
pub(crate) struct Permit {
    in_flight: Rc<Cell<usize>>,
    gauge: IntGauge,
}

impl Permit {
    fn now(&self, in_flight: usize) {
        self.in_flight.set(in_flight);
        self.gauge.set(in_flight as i64);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.now(self.in_flight.get() - 1);
    }
}
