//! Everything that one router thread owns and no other thread touches.
//!
//! ```text
//!  Published (shared) ─► View ─┐
//!  upstream: links, budget ────┼─► the path of a request
//!  clients, permits, tunnels ──┤
//!  compression, spans ─────────┤
//!  meters, ids ────────────────┘
//! ```
//!
//! This state is `!Send` and takes no lock. The state that all threads share is the published table
//! and [`Shared`].

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::Cache;
use http::HeaderValue;
use prometheus::IntGauge;
use tenon_clients::Clients;
use tenon_clients::metrics::ClientMetrics;
use tenon_clients::pace::Pace;
use tenon_clients::quota::{Account, Hold, Peer, Quota};
use tenon_clients::rate;
use tenon_compression::Compression;
use tenon_https::Https;
use tenon_lifecycle::tls::Tls;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_spans::{Recorder, RecorderParts};
use tenon_table::{Published, Table, Worker};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::date::DateCache;
use crate::figures::{Counted, ThreadFigures};
use crate::front::forwarded::TrustedProxies;
use crate::front::pages::Pages;
use crate::meters::Meters;
use crate::metrics::Metrics;
use crate::sites::Sites;
use crate::tunnel::slots::{TunnelSlot, Tunnels};
use crate::upstream::Upstream;
use crate::upstream::inline::Colocated;
use crate::upstream::links::Links;
use crate::upstream::placement::Placements;
use crate::upstream::retry::Budget;

/// The maximum number of requests in flight per thread. Their memory is counted separately.
const MAX_IN_FLIGHT: usize = 16_384;

/// The table as a request sees it from beginning to end. A clone changes a count in this thread's
/// memory only, whereas all threads would share the count of an `Arc`.
pub(crate) type View = Rc<Arc<Table>>;

/// The state of one thread.
pub(crate) struct RouterThread {
    pub(crate) settings: Settings,
    pub(crate) shared: Shared,
    /// The metrics of clients.
    pub(crate) metrics: ClientMetrics,
    pub(crate) meters: Rc<Meters>,
    pub(crate) upstream: Upstream,
    /// The shard that runs on this thread, if there is one.
    pub(crate) colocated: Option<Colocated>,
    /// Whether responses ask clients to use another connection.
    pub(crate) leaving: Cell<bool>,
    pub(crate) tunnels: Tunnels,
    pub(crate) clients: Clients,
    /// The compression of Workers' responses, unless it is disabled.
    pub(crate) compression: Option<Rc<Compression>>,
    /// The spans of requests, unless they are disabled.
    pub(crate) spans: Option<Rc<Recorder>>,
    pub(crate) date: RefCell<DateCache>,
    table: RefCell<TableCache>,
    changes_rx: watch::Receiver<()>,
    permits: Quota,
    random: RefCell<fastrand::Rng>,
}

/// The configuration that the path of a request reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) access_log: bool,
    pub(crate) debug_headers: bool,
    /// Whether responses are compressed.
    pub(crate) compression: bool,
    /// The memory that the clients of a thread may take, in bytes.
    pub(crate) client_memory: usize,
    /// The maximum number of client connections of a thread.
    pub(crate) client_connections: usize,
    /// The maximum idle time of a client's connection between two requests.
    pub(crate) idle_timeout: Duration,
    /// The minimum pace at which clients must send bodies.
    pub(crate) pace: Pace,
    /// Whether shards may be silent without having failed.
    pub(crate) shards_may_pause: bool,
}

/// An address's shares of a thread's resources.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) peer: Peer,
    pub(crate) permits: Account,
    pub(crate) tunnels: Account,
}

/// The published table, and the notifications of its changes.
#[derive(Clone)]
pub(crate) struct Announcements {
    pub(crate) published: Published,
    /// A channel that is notified after each publication.
    pub(crate) changes_rx: watch::Receiver<()>,
}

/// The state that all threads share besides the table.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) tls: Option<Tls>,
    /// TLS with clients.
    pub(crate) https: Option<Https>,
    /// The header that tells clients to use HTTP/3, if the router speaks it.
    pub(crate) http3: Option<HeaderValue>,
    pub(crate) trusted_proxies: TrustedProxies,
    /// The pages for the browser of a developer, if there are any.
    pub(crate) pages: Option<Arc<dyn Pages>>,
    pub(crate) sites: Sites,
    /// The rate limits of clients.
    pub(crate) limited_clients: Arc<rate::ClientBuckets>,
    /// Receives the figures of measured Workers.
    pub(crate) counted_tx: mpsc::Sender<Counted>,
    pub(crate) spans: Option<RecorderParts>,
}

struct TableCache {
    published: Cache<Published, Arc<Table>>,
    view: View,
}

impl RouterThread {
    /// Creates the state of a thread.
    ///
    /// # Arguments
    /// * `name` - identifies the thread in metrics.
    /// * `colocated` - the shard that runs on this thread, if there is one.
    pub(crate) fn new(
        name: &str,
        settings: Settings,
        shared: Shared,
        Announcements { published, changes_rx }: Announcements,
        metrics: &Metrics,
        colocated: Option<Colocated>,
    ) -> Rc<Self> {
        let view = Rc::new(published.load_full());
        let mut random = fastrand::Rng::new();
        let upstream_metrics = metrics.upstream.thread(name);
        Rc::new(Self {
            settings,
            upstream: Upstream {
                links: Links::new(
                    MAX_IN_FLIGHT,
                    shared.tls.clone(),
                    colocated.clone(),
                    settings.shards_may_pause,
                    upstream_metrics.clone(),
                ),
                placements: RefCell::new(Placements::new(random.u64(..))),
                spread: RefCell::default(),
                budget: RefCell::new(Budget::new(Instant::now())),
                metrics: upstream_metrics,
                figures: ThreadFigures::new(shared.counted_tx.clone()),
            },
            colocated,
            meters: metrics.requests.thread(name),
            tunnels: Tunnels::new(metrics.tunnels.clone()),
            metrics: metrics.clients.thread(name),
            clients: Clients::new(
                settings.client_memory,
                settings.client_connections,
                settings.idle_timeout,
            ),
            compression: settings
                .compression
                .then(|| Compression::new(metrics.compression.clone())),
            spans: shared.spans.clone().map(Recorder::new),
            shared,
            date: RefCell::default(),
            leaving: Cell::new(false),
            table: RefCell::new(TableCache { published: Cache::new(published), view }),
            changes_rx,
            permits: Quota::new(MAX_IN_FLIGHT),
            random: RefCell::new(random),
        })
    }

    /// Returns the current table. If the nodes have changed, also drops the links to shards that
    /// are gone.
    pub(crate) fn view(&self) -> View {
        let TableCache { published, view } = &mut *self.table.borrow_mut();
        let current = published.load();
        if !Arc::ptr_eq(current, view) {
            if current.nodes_version() != view.nodes_version() {
                self.upstream.links.retain(current);
            }
            *view = Rc::new(current.clone());
        }
        view.clone()
    }

    /// Waits until the table has a Worker with this content, and this router has its static files.
    ///
    /// # Errors
    /// Fails if the catalog is no longer watched, because the router is shutting down, or if the
    /// files are unavailable.
    pub(crate) async fn await_applied(&self, worker: &Worker) -> Result<(), Status> {
        let mut changes_rx = self.changes_rx.clone();
        loop {
            changes_rx.mark_unchanged();
            let view = self.view();
            if view.worker(&worker.id).is_some_and(|applied| applied.has_same_content(worker)) {
                for revision in std::iter::once(worker).chain(worker.variants()) {
                    if let Some(assets) = &revision.assets {
                        let site = self.shared.sites.get(assets.site, revision.digest).await;
                        site.map_err(|failure| Status::unavailable(failure.message))?;
                    }
                }
                return Ok(());
            }
            let shutting_down = |_| Status::unavailable("the router is shutting down");
            changes_rx.changed().await.map_err(shutting_down)?;
        }
    }

    /// Returns the accounts of an address, which all its connections and requests share.
    pub(crate) fn accounts(&self, address: IpAddr) -> Accounts {
        let peer = Peer::from(address);
        Accounts { peer, permits: self.permits.account(peer), tunnels: self.tunnels.account(peer) }
    }

    /// Takes a permit for one more request.
    ///
    /// # Errors
    /// Fails with `overloaded` if no permit is free, or if this address has reached its share.
    pub(crate) fn admit(&self, accounts: &Accounts) -> Result<Permit, Failure> {
        let hold = accounts.permits.take(1).ok_or_else(overloaded)?;
        self.meters.in_flight.inc();
        Ok(Permit { _hold: hold, gauge: self.meters.in_flight.clone() })
    }

    /// Takes a slot for a tunnel.
    ///
    /// # Errors
    /// Fails with `overloaded` if no slot is free, or if this address has reached its share.
    pub(crate) fn admit_tunnel(&self, accounts: &Accounts) -> Result<TunnelSlot, Failure> {
        self.tunnels.take(&accounts.tunnels).ok_or_else(overloaded)
    }

    /// Returns whether a request that fails has a span even if it is not sampled.
    pub(crate) fn records_failures(&self) -> bool {
        self.spans.as_ref().is_some_and(|spans| spans.records_errors())
    }

    /// Returns a request id of 128 random bits.
    pub(crate) fn request_id(&self) -> String {
        format!("{:032x}", self.random())
    }

    /// Returns the Worker with the revision for a request without session affinity.
    pub(crate) fn draw<'a>(&self, worker: &'a Worker) -> &'a Worker {
        worker.draw(|_| None, || self.random() as u64)
    }

    /// Returns random bits that are not cryptographically secure.
    pub(crate) fn random(&self) -> u128 {
        self.random.borrow_mut().u128(..)
    }
}

/// A request in flight.
pub(crate) struct Permit {
    _hold: Hold,
    gauge: IntGauge,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// Returns the failure of a request for which there is no permit or no memory.
pub(crate) fn overloaded() -> Failure {
    Failure::new(
        FailureCode::Overloaded,
        Phase::Admission,
        "the router has no capacity for the request; retry later",
    )
}
