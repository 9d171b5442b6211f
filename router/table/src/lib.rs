//! The table: everything a router knows of the catalog, as one immutable value.
//!
//! The catalog's thread derives each table from the previous one and a message; the serving threads
//! read the published table ([`Published`]). Workers and routes are persistent maps, so that a
//! change among 100,000 Workers costs one change; the ring of a pool is rebuilt only when the
//! pool's nodes change.
//!
//! - [`route`]: which Worker a host and path belong to.
//! - [`rules`]: which rule of a host's HTTPRoutes a request takes.
//! - [`traffic`]: which of a Worker's revisions serves a request.
//! - [`ring`]: which shards a Worker's requests go to, in order.
//! - [`Rates`]: the rate limits of a Worker.
//! - [`shares`]: how evenly the ring distributes Workers, as metrics.
//!
//! The crate knows nothing of the router that uses it. It is pure, except that [`Table::apply`]
//! reads the clock and that tables are published.

mod rates;
pub mod ring;
pub mod route;
pub mod rules;
pub mod shares;
pub mod traffic;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;
use tenon_proto::catalog::watch_response::Kind;
use tenon_proto::catalog::{self, WatchResponse, node};
use tenon_proto::id::{RevisionDigest, ShardId, SiteId, WorkerId};

use crate::rates::NamespaceRates;
pub use crate::rates::{Limited, Rates};
use crate::ring::{Key, Ring, Seed};
use crate::route::{Found, Route, Routes};
use crate::rules::{Request, Rule, Rules};
use crate::traffic::Traffic;

/// The number of possible ids of shards, and of lanes: the ids of lanes begin where those of shards
/// end. No node has as many shards or lanes.
const POSITIONS: u16 = ShardId::lane(0).0;

/// The time for which a revision is new. After a longer time, nodes that have learned of the
/// revision would send its requests back.
const NEW_FOR: Duration = Duration::from_secs(5);

/// The current table, which any thread reads without a lock.
pub type Published = Arc<ArcSwap<Table>>;

/// The Workers by id.
type Workers = GenericHashMap<WorkerId, Arc<Worker>, foldhash::fast::RandomState, DefaultSharedPtr>;

/// Everything a router knows of the catalog, as one immutable value.
#[derive(Clone, Default)]
pub struct Table {
    workers: Workers,
    routes: Routes<Arc<Worker>>,
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    pools: BTreeMap<Arc<str>, Arc<Pool>>,
    /// Increases whenever a node has changed.
    nodes_version: u64,
    /// The number of routers, which share rate limits, or 0 if the number is unknown.
    routers: u32,
    /// The state of the rate limits of namespaces, by namespace and pool.
    namespaces: NamespaceRates,
    /// The Workers before the snapshot that is arriving. Empty at other times.
    workers_before_snapshot: Workers,
}

/// The parts of a Worker, with one of its revisions, that the path of a request needs.
#[derive(Debug)]
pub struct Worker {
    pub id: WorkerId,
    pub digest: RevisionDigest,
    pub pool: Arc<str>,
    pub key: Key,
    /// The wall-clock limit of an invocation.
    pub wall: Duration,
    /// The maximum size of a request body, in bytes.
    pub body_limit: u64,
    /// The time at which the catalog announced the revision as a change. `None` if the revision
    /// came with a snapshot.
    announced: Option<Instant>,
    routes: Vec<Route>,
    /// The Workers that this one may call.
    services: Vec<WorkerId>,
    pub assets: Option<Assets>,
    /// The division of the Worker's requests, if several revisions serve them.
    traffic: Option<Box<Traffic>>,
    /// Whether all requests go to the first candidate, however hot the Worker is.
    pub is_strict: bool,
    /// The limits on the rates of clients' requests, if there are any. All revisions share them.
    pub rates: Option<Arc<Rates>>,
    /// The measurement for which the requests of each revision are counted, if the Worker is
    /// measured.
    pub measurement: Option<NonZeroU64>,
}

/// The static files of a Worker.
#[derive(Debug, PartialEq, Eq)]
pub struct Assets {
    pub site: SiteId,
    pub settings: tenon_assets::Settings,
}

/// Compares by identity: a changed Worker is a different value.
impl PartialEq for Worker {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// One node of the catalog: a supervisor with its shards and lanes.
#[derive(Debug, PartialEq)]
pub struct Node {
    pub name: Arc<str>,
    pub pool: Arc<str>,
    pub ready: bool,
    shards: Vec<Arc<Shard>>,
    lanes: Lanes,
}

/// A node's lanes: shards that the kernel schedules last, and that are in no ring. They run the
/// Workers that are not known yet, those that are heavy, and requests that are repeated after a
/// shard was lost. A node without lanes runs all of these on its shards.
pub type Lanes = Arc<[Arc<Shard>]>;

/// One shard, or one lane, and where it listens.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    pub node: Arc<str>,
    /// The RuntimePool of the node.
    pub pool: Arc<str>,
    pub id: ShardId,
    /// An IP address or host name.
    pub address: Box<str>,
    pub port: u16,
}

/// The nodes that take new work for the Workers of a pool.
#[derive(Debug, Default)]
pub struct Pool {
    pub ring: Ring,
    /// The shards, by their index in the ring.
    pub shards: Vec<Arc<Shard>>,
    /// The lanes of each shard's node, by the shard's index in the ring.
    pub lanes: Vec<Lanes>,
}

/// The shard that runs a Worker as long as the shard is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub node: Arc<str>,
    pub shard: ShardId,
}

impl Table {
    /// Applies one message of the catalog.
    ///
    /// Invalid Workers and rules are skipped and logged: one bad entry must not block the others.
    pub fn apply(&mut self, message: WatchResponse) {
        let mut changed = Vec::with_capacity(message.workers.len());
        let kind = message.kind();
        let announced = (kind == Kind::Delta).then(Instant::now);
        for worker in message.workers {
            match Worker::new(worker) {
                Ok(mut worker) => {
                    let last = self.workers.get(&worker.id).map(|last| &**last);
                    worker.announce(last, announced);
                    let last = last.or_else(|| {
                        self.workers_before_snapshot.get(&worker.id).map(|last| &**last)
                    });
                    worker.keep_rates(last, &mut self.namespaces);
                    changed.push(Arc::new(worker));
                }
                Err(error) => tracing::error!(%error, "skipped an invalid Worker of the catalog"),
            }
        }
        let removed = message.removed_workers.iter().filter_map(|id| id.parse().ok());
        // All old routes are removed before new ones are inserted, so that a route can move between
        // Workers within a message.
        for id in removed.chain(changed.iter().map(|worker| worker.id.clone())) {
            if let Some(old) = self.workers.remove(&id) {
                old.routes.iter().for_each(|route| self.routes.remove(route, &old));
                old.previews().for_each(|(route, variant)| self.routes.remove(route, variant));
            }
        }
        for worker in changed {
            worker.routes.iter().for_each(|route| self.routes.insert(route, worker.clone()));
            worker
                .previews()
                .for_each(|(route, variant)| self.routes.insert(route, variant.clone()));
            self.workers.insert(worker.id.clone(), worker);
        }
        for host in message.removed_hosts {
            self.routes.set_rules(&host, None);
        }
        for host in message.hosts {
            match Rules::new(&host) {
                Ok(rules) => self.routes.set_rules(&host.host, Some(Arc::new(rules))),
                Err(error) => {
                    tracing::error!(host = host.host, %error, "skipped invalid rules of the catalog");
                }
            }
        }
        self.apply_nodes(message.nodes, &message.removed_nodes);
        if message.routers != 0 {
            self.routers = message.routers;
        }
        if kind == Kind::SnapshotEnd {
            self.workers_before_snapshot = Workers::default();
            self.namespaces =
                self.workers.values().filter_map(|worker| worker.namespace_rate()).collect();
        }
    }

    fn apply_nodes(&mut self, nodes: Vec<catalog::Node>, removed: &[String]) {
        let mut pools = Vec::new();
        for name in removed {
            if let Some(old) = self.nodes.remove(name.as_str()) {
                pools.push(old.pool.clone());
            }
        }
        for node in nodes {
            let node = Arc::new(Node::new(node));
            match self.nodes.entry(node.name.clone()) {
                Entry::Occupied(same) if *same.get() == node => continue,
                Entry::Occupied(mut entry) => {
                    pools.push(entry.get().pool.clone());
                    entry.insert(node.clone());
                }
                Entry::Vacant(entry) => _ = entry.insert(node.clone()),
            }
            pools.push(node.pool.clone());
        }
        self.nodes_version += u64::from(!pools.is_empty());
        pools.sort_unstable();
        pools.dedup();
        for name in pools {
            let pool =
                Pool::new(self.nodes.values().filter(|node| node.ready && node.pool == name));
            if pool.shards.is_empty() {
                self.pools.remove(&name);
            } else {
                self.pools.insert(name, Arc::new(pool));
            }
        }
    }

    /// Returns the Worker that serves a host and path, without regard to rules, or `None` if no
    /// route matches.
    #[inline]
    pub fn route(&self, host: &str, path: &str) -> Option<&Arc<Worker>> {
        self.routes.find(host, path)
    }

    /// Returns the Worker or the rule that serves a request, or `None` if nothing matches.
    #[inline]
    pub fn find(
        &self,
        host: &str,
        request: &Request<'_>,
    ) -> Option<Found<'_, Arc<Worker>, Rule<'_>>> {
        self.routes.find_with(host, request.path, |rules| rules.find(request))
    }

    /// Returns the Worker with this id, or `None` if there is none.
    #[inline]
    pub fn worker(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.workers.get(id)
    }

    /// Returns the existing Workers that `worker` may call, except those whose revision depends on
    /// the request: a call of such a Worker goes through a router.
    pub fn services_of(&self, worker: &Worker) -> impl Iterator<Item = &Arc<Worker>> {
        let services = worker.services.iter().filter_map(|id| self.workers.get(id));
        services.filter(|service| !service.has_sessions())
    }

    /// Returns the number of routers, which share rate limits, or 1 if the number is unknown.
    #[inline]
    pub fn routers(&self) -> NonZeroU32 {
        NonZeroU32::new(self.routers).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns a pool by name, or `None` if none of its nodes is ready.
    #[inline]
    pub fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.get(name)
    }

    /// Returns the pools that have a ready node, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Pool>)> {
        self.pools.iter()
    }

    /// Returns the shard that runs a Worker, or `None` if there is no such Worker or no ready node.
    pub fn pinned(&self, worker: &WorkerId) -> Option<Pin> {
        let worker = self.workers.get(worker)?;
        let pool = self.pool(&worker.pool)?;
        let shard = &pool.shards[pool.ring.first(worker.key)?.get()];
        Some(Pin { node: shard.node.clone(), shard: shard.id })
    }

    /// Returns every shard of every node, including draining ones, but no lanes.
    pub fn shards(&self) -> impl Iterator<Item = &Arc<Shard>> {
        self.nodes.values().flat_map(|node| &node.shards)
    }

    /// Returns the shards of a node, and then its lanes.
    pub fn processes_of(&self, node: &str) -> impl Iterator<Item = &Arc<Shard>> {
        self.nodes.get(node).into_iter().flat_map(|node| node.shards.iter().chain(&*node.lanes))
    }

    /// Returns whether this shard or lane still exists.
    pub fn has_shard(&self, shard: &Shard) -> bool {
        self.processes_of(&shard.node).any(|other| **other == *shard)
    }

    /// Returns the version of the nodes. Two tables of one router with the same version have the
    /// same nodes.
    #[inline]
    pub fn nodes_version(&self) -> u64 {
        self.nodes_version
    }

    /// Returns the number of Workers.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// Returns the number of routes.
    pub fn route_count(&self) -> usize {
        self.routes.len()
    }

    /// Returns the number of nodes, including draining ones.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the table to which a snapshot is applied. The table has no Workers, hosts or nodes
    /// yet. It keeps the state of the rate limits, and continues the version of the nodes, so that
    /// the new nodes are not mistaken for the old ones.
    pub fn begin_snapshot(&self) -> Self {
        Self {
            nodes_version: self.nodes_version,
            namespaces: self.namespaces.clone(),
            workers_before_snapshot: self.workers.clone(),
            ..Self::default()
        }
    }
}

/// The reason why an entry of the catalog is not a valid Worker.
#[derive(Debug, thiserror::Error)]
pub enum MalformedWorker {
    #[error(transparent)]
    Id(#[from] tenon_proto::id::InvalidWorkerId),
    #[error("Worker {0}: {1}")]
    Digest(WorkerId, tenon_proto::id::InvalidDigest),
    #[error("Worker {0}: {1}")]
    Assets(WorkerId, tenon_assets::pattern::InvalidPattern),
}

impl Worker {
    /// Returns the Worker that an entry of the catalog describes.
    ///
    /// # Errors
    /// Fails if the entry is not valid.
    pub fn new(entry: catalog::Worker) -> Result<Self, MalformedWorker> {
        let id: WorkerId = entry.id.parse()?;
        let pool: Arc<str> = entry.pool.as_str().into();
        let is_strict = entry.strict_affinity;
        let revision = |variant: &_| Self::with_revision(&id, &pool, is_strict, variant);
        let traffic = Traffic::new(&entry, revision)?;
        let own = catalog::Variant {
            digest: entry.digest,
            wall_ms: entry.wall_ms,
            request_body_bytes: entry.request_body_bytes,
            services: entry.services,
            assets: entry.assets,
            percent: 0,
            routes: Vec::new(),
        };
        let routes = entry.routes.iter().map(|route| Route::new(&route.host, &route.path));
        let worker = revision(&own)?;
        let mut worker = Self { routes: routes.collect(), traffic, ..worker };
        worker.set_measurement(NonZeroU64::new(entry.measurement));
        worker.set_rates(entry.rate_limits.as_ref().and_then(Rates::new).map(Arc::new));
        Ok(worker)
    }

    /// Returns a Worker with the revision of a variant, and without routes.
    fn with_revision(
        id: &WorkerId,
        pool: &Arc<str>,
        is_strict: bool,
        revision: &catalog::Variant,
    ) -> Result<Self, MalformedWorker> {
        let digest = RevisionDigest::try_from(&revision.digest[..])
            .map_err(|error| MalformedWorker::Digest(id.clone(), error))?;
        Ok(Self {
            id: id.clone(),
            digest,
            pool: Arc::clone(pool),
            key: Key::of(id),
            wall: Duration::from_millis(revision.wall_ms.into()),
            body_limit: revision.request_body_bytes,
            announced: None,
            routes: Vec::new(),
            services: revision.services.iter().map(|id| id.parse()).collect::<Result<_, _>>()?,
            assets: revision.assets.as_ref().map(|assets| Assets::new(id, assets)).transpose()?,
            traffic: None,
            is_strict,
            rates: None,
            measurement: None,
        })
    }

    /// Returns whether this has the same content as another entry of the catalog.
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.is_same_revision(other)
            && self.pool == other.pool
            && self.routes == other.routes
            && self.traffic == other.traffic
            && self.is_strict == other.is_strict
            && self.measurement == other.measurement
            && self.rates.as_ref().map(|rates| rates.all())
                == other.rates.as_ref().map(|rates| rates.all())
    }

    /// Returns whether this runs the same revision as another.
    fn is_same_revision(&self, other: &Self) -> bool {
        let content = |worker: &Self| (worker.digest, worker.wall, worker.body_limit);
        content(self) == content(other)
            && self.services == other.services
            && self.assets == other.assets
    }

    /// Returns whether the revision is so new that nodes are unlikely to know it.
    #[inline]
    pub fn is_new(&self, now: Instant) -> bool {
        self.announced.is_some_and(|announced| now.saturating_duration_since(announced) < NEW_FOR)
    }
}

impl Assets {
    fn new(id: &WorkerId, assets: &catalog::Assets) -> Result<Self, MalformedWorker> {
        let site = SiteId::try_from(&assets.site[..]);
        let settings = tenon_assets::Settings::of(assets);
        Ok(Self {
            site: site.map_err(|error| MalformedWorker::Digest(id.clone(), error))?,
            settings: settings.map_err(|error| MalformedWorker::Assets(id.clone(), error))?,
        })
    }
}

impl Node {
    fn new(node: catalog::Node) -> Self {
        let (name, pool): (Arc<str>, Arc<str>) = (node.name.into(), node.pool.into());
        let shard = |(id, port): (ShardId, u32)| {
            // A port beyond 16 bits is invalid; port 0 fails like any port without a listener.
            let port = u16::try_from(port).unwrap_or(0);
            let address = node.address.as_str().into();
            Arc::new(Shard { node: name.clone(), pool: pool.clone(), id, address, port })
        };
        let positions = || 0..POSITIONS;
        Self {
            ready: node.state == i32::from(node::State::Ready),
            shards: positions().map(ShardId).zip(node.shard_ports).map(shard).collect(),
            lanes: positions().map(ShardId::lane).zip(node.lane_ports).map(shard).collect(),
            pool,
            name,
        }
    }
}

impl Pool {
    /// Builds a pool. Nodes come in the order of their names, which is the same in every router.
    fn new<'a>(nodes: impl Iterator<Item = &'a Arc<Node>>) -> Self {
        let slots = nodes
            .flat_map(|node| node.shards.iter().map(|shard| (shard.clone(), node.lanes.clone())));
        let (shards, lanes): (Vec<Arc<Shard>>, Vec<Lanes>) = slots.unzip();
        Self {
            ring: Ring::new(shards.iter().map(|shard| Seed::of(&shard.node, shard.id))),
            shards,
            lanes,
        }
    }
}

#[cfg(test)]
mod tests;
