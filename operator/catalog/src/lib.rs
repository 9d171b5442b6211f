//! The catalog of deployed Workers, revisions and nodes, which is served to routers and nodes.
//!
//! ```text
//!  index of Kubernetes objects ──set/remove──► Catalog ──► state: current content, with a version
//!  or files on a disk                             │    └──► revisions: code, by digest
//!                                                 ▼
//!                                              service ──Watch, GetRevision──► routers, nodes
//!                                                 │ ▲
//!                                 WatchQuarantine ▼ └ Report, ReportTraffic
//!                                                nodes, routers
//! ```
//!
//! - [`deployment`]: pure; a Worker with the shares of its revisions.
//! - [`state`]: pure; every change has a version, every watcher a position.
//! - [`revisions`]: pure; the revisions that nodes may fetch.
//! - [`report`]: pure; nodes' reports about the Workers that they run.
//! - [`traffic`]: pure; routers' figures about the revisions of measured Workers.
//! - [`quarantine`]: pure; the revisions that no node may run, because they ended processes.
//! - [`access`]: pure; the calls that a caller may make, and the pool to which a node belongs.
//! - [`denials`]: counts and logs the calls that are refused.
//! - [`assets`]: the static files of revisions.
//! - [`code`]: the modules of revisions whose code is in OCI artifacts.
//! - [`early`]: revisions that nodes request before the catalog is complete.
//! - [`intake`]: reports and figures, checked against what is deployed and passed on.
//! - [`service`], [`incoming`]: the gRPC edge; [`watchers`]: the connected watchers, and how far
//!   behind they are.
//!
//! The crate does not depend on Kubernetes. The lock is held for one map operation or to build one
//! message, never across an await.

mod access;
mod assets;
mod code;
mod denials;
mod deployment;
mod early;
mod incoming;
mod intake;
mod quarantine;
mod report;
mod revisions;
mod service;
mod state;
mod traffic;
mod watchers;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tenon_lifecycle::permits::NamespacePermits;
use tenon_proto::catalog::{
    Cursor, GatewayCertificate, HostRules, Node, Route, WatchResponse, Worker,
};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::watch;

use access::{Addresses, Caller, CallerPool, Denial};
pub use assets::AssetsSource;
pub use code::{CodeSource, Modules};
use denials::Denials;
pub use deployment::{Deployment, Digest, Share};
pub use early::{Early, EarlySource};
pub use incoming::Authentication;
use quarantine::{Entry, Quarantine};
pub use report::{Cause, HealthReport, MalformedReport, Outcome, ReportSink, WorkerHealth};
use revisions::Revisions;
pub use service::serve;
use state::{FellBehind, State, Walk};
pub use traffic::{FiguresSink, MalformedTraffic, TrafficReport};
pub use watchers::CatalogMetrics;
use watchers::Watchers;

/// A handle to the catalog of this process. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    deployed: RwLock<Deployed>,
    /// Wakes the watchers, which then read the state itself.
    progress_tx: watch::Sender<Progress>,
    /// Wakes the watchers of the quarantine.
    quarantine_tx: watch::Sender<()>,
    sink: OnceLock<ReportSink>,
    figures: OnceLock<FiguresSink>,
    code: OnceLock<CodeSource>,
    assets: OnceLock<AssetsSource>,
    early: OnceLock<EarlySource>,
    search_permits: NamespacePermits,
    watchers: Watchers,
    denials: Denials,
}

struct Deployed {
    state: State,
    addresses: Addresses,
    /// The pools whose nodes serve clients.
    fronts: BTreeSet<String>,
    revisions: Revisions,
    quarantine: Quarantine,
}

/// The error for a report that does not fit into its channel.
struct Full;

#[derive(Clone, Copy, Default)]
struct Progress {
    version: u64,
    /// Time of the change that made this version, if there was any.
    at: Option<Instant>,
    /// Set once everything that is deployed has been set at least once.
    synced: bool,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// Returns an empty catalog, which answers no watcher before
    /// [`mark_synced`](Self::mark_synced).
    pub fn new() -> Self {
        let (revisions, quarantine) = (Revisions::default(), Quarantine::default());
        let (state, addresses) = (State::new(new_epoch()), Addresses::default());
        let fronts = BTreeSet::new();
        let deployed = Deployed { state, addresses, fronts, revisions, quarantine };
        let ((progress_tx, _), (quarantine_tx, _)) =
            (watch::channel(Progress::default()), watch::channel(()));
        Self {
            shared: Arc::new(Shared {
                deployed: RwLock::new(deployed),
                progress_tx,
                quarantine_tx,
                sink: OnceLock::new(),
                figures: OnceLock::new(),
                code: OnceLock::new(),
                assets: OnceLock::new(),
                early: OnceLock::new(),
                search_permits: early::permits(),
                watchers: Watchers::new(),
                denials: Denials::new(),
            }),
        }
    }

    /// Makes `revision` serve its Worker on the nodes of `pool`, reachable through `routes`, and
    /// returns the revision's digest. For a while, nodes can still fetch the revision that served
    /// before.
    pub fn set_worker(
        &self,
        revision: Arc<Revision>,
        pool: impl Into<String>,
        routes: Vec<Route>,
    ) -> RevisionDigest {
        let deployment = Deployment::new(revision, pool, routes);
        let digest = deployment.shares[0].digest.get();
        self.deploy(deployment);
        digest
    }

    /// Deploys a Worker, or changes its deployment, and returns the revisions that did not serve it
    /// before. For a while, nodes can still fetch the revisions that no longer serve.
    pub fn deploy(&self, mut deployment: Deployment) -> Vec<Arc<Revision>> {
        let mut deployed = self.write();
        let now = Instant::now();
        deployed.revisions.expire(now);
        let added = deployed.revisions.deploy(&mut deployment, now);
        if let Some(entry) = deployment.entry() {
            deployed.state.set_worker(deployment.worker, entry);
        }
        self.announce(&deployed);
        added
    }

    /// Stops serving the Worker.
    pub fn remove_worker(&self, id: &WorkerId) {
        let mut deployed = self.write();
        let now = Instant::now();
        deployed.revisions.expire(now);
        deployed.revisions.retire(id, now);
        deployed.state.remove_worker(id);
        self.announce(&deployed);
    }

    /// Adds a node, or replaces the one with the same name.
    pub fn set_node(&self, node: Node) {
        let mut deployed = self.write();
        deployed.addresses.set(&node);
        deployed.state.set_node(node);
        self.announce(&deployed);
    }

    pub fn remove_node(&self, name: &str) {
        let mut deployed = self.write();
        deployed.addresses.remove(name);
        deployed.state.remove_node(name);
        self.announce(&deployed);
    }

    /// Sets the rules of hosts and the certificates of Gateways. Those that are `None` are removed.
    pub fn set_hosts(
        &self,
        hosts: BTreeMap<String, Option<HostRules>>,
        certificates: BTreeMap<String, Option<GatewayCertificate>>,
    ) {
        if hosts.is_empty() && certificates.is_empty() {
            return;
        }
        let mut deployed = self.write();
        // Routers get the certificate of a host before its rules.
        for (host, certificate) in certificates {
            deployed.state.set_certificate(&host, certificate);
        }
        for (host, rules) in hosts {
            deployed.state.set_host(&host, rules);
        }
        self.announce(&deployed);
    }

    /// Sets the number of routers that are ready, which share rate limits. If none is ready, the
    /// number is set to 1, because the next router will be the only one.
    pub fn set_routers(&self, count: u32) {
        let mut deployed = self.write();
        deployed.state.set_routers(count.max(1));
        self.announce(&deployed);
    }

    /// Returns the nodes in the catalog, sorted by name.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<_> = self.read().state.nodes().cloned().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// Makes every node of the Worker's pool refuse a revision, if the revision serves the Worker.
    ///
    /// # Arguments
    /// * `revision` - the name of the WorkerRevision.
    /// * `remaining` - the remaining duration. A longer one that was set before stays in effect.
    /// * `times` - the number of quarantines of the revision so far.
    pub fn quarantine(&self, worker: &WorkerId, revision: &str, remaining: Duration, times: u32) {
        let digest = self.read().revisions.named(worker, revision);
        digest.into_iter().for_each(|digest| self.refuse(digest, worker, remaining, times));
    }

    /// Sets the pools whose nodes count as routers too, because they have fronts. All other nodes
    /// get only what the Workers of their own pool need.
    pub fn set_fronts(&self, pools: BTreeSet<String>) {
        self.write().fronts = pools;
        // If a pool has lost its front, the streams of its nodes must end now, not at the next
        // change.
        self.shared.progress_tx.send_modify(|_| {});
    }

    /// Marks the catalog as complete; watchers are answered from then on. This method must be
    /// called once everything that is deployed has been set.
    pub fn mark_synced(&self) {
        self.shared.progress_tx.send_modify(|progress| progress.synced = true);
    }

    pub fn is_synced(&self) -> bool {
        self.shared.progress_tx.borrow().synced
    }

    /// Waits until the catalog is complete.
    pub async fn synced(&self) {
        // The sender lives as long as the catalog.
        let _ = self.progress().wait_for(|progress| progress.synced).await;
    }

    /// Returns the revision with this digest, if it serves or did so recently, and is resolved.
    pub fn revision(&self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        self.read().revisions.get(digest)
    }

    /// Returns the resolved revisions that serve the Worker, with their digests.
    pub fn serving(&self, worker: &WorkerId) -> Vec<(Arc<Revision>, RevisionDigest)> {
        let deployed = self.read();
        let digests = deployed.revisions.serving(worker).iter();
        digests.filter_map(|digest| Some((deployed.revisions.get(digest)?, *digest))).collect()
    }

    /// Returns the Worker's entry for routers, if there is one.
    pub fn entry(&self, worker: &WorkerId) -> Option<Worker> {
        self.read().state.worker(worker).cloned()
    }

    /// Returns the pool of the node that calls.
    ///
    /// # Errors
    /// Fails if the caller is not a node, or belongs to no pool.
    fn pool_of(&self, caller: &Caller) -> Result<CallerPool, Denial> {
        caller.pool(&self.read().addresses)
    }

    /// Checks that the caller is a router, or a node of a pool with a front.
    ///
    /// # Errors
    /// Fails if the caller is neither.
    fn check_router(&self, caller: &Caller) -> Result<(), Denial> {
        caller.check_router(&self.read().fronts)
    }

    /// Checks that a node of this pool may have a revision. An unknown revision belongs to no pool,
    /// and passes the check.
    ///
    /// # Errors
    /// Fails if only nodes of other pools run the revision.
    fn check_access(&self, digest: &RevisionDigest, caller: CallerPool) -> Result<(), Denial> {
        let deployed = self.read();
        let mut pools = deployed.revisions.pools(digest).peekable();
        if pools.peek().is_none() || pools.any(|pool| caller.covers(pool)) {
            return Ok(());
        }
        let pools = deployed.revisions.pools(digest).map(str::to_owned).collect();
        Err(Denial::OtherPool { caller, pools })
    }

    fn is_unresolved(&self, digest: &RevisionDigest) -> bool {
        self.read().revisions.is_unresolved(digest)
    }

    /// Returns the collector of the catalog's metrics, for registration.
    ///
    /// # Errors
    /// Never fails in practice: the metrics' names are valid.
    pub fn metrics(&self) -> prometheus::Result<CatalogMetrics> {
        CatalogMetrics::new(self.clone())
    }

    fn refuse(&self, digest: RevisionDigest, worker: &WorkerId, remaining: Duration, times: u32) {
        let now = Instant::now();
        let entry = Entry { digest, worker: worker.clone(), until: now + remaining, times };
        if self.write().quarantine.add(entry, now) {
            self.shared.quarantine_tx.send_replace(());
        }
    }

    /// Returns the entries whose revisions a node must refuse: those of its pool. Without TLS, the
    /// pool follows from the node's name, and a node that is not known yet gets the entries of all
    /// pools.
    fn refused_by(&self, caller: &CallerPool, node: &str, now: Instant) -> Vec<Entry> {
        let deployed = self.read();
        let pool = match caller {
            CallerPool::Of(pool) => Some(pool.as_str()),
            CallerPool::Any => deployed.state.node(node).map(|node| node.pool.as_str()),
        };
        deployed.quarantine.list(now, |entry| match (pool, deployed.state.worker(&entry.worker)) {
            (Some(pool), Some(worker)) => worker.pool == pool,
            // The Worker was deleted, and may be created again.
            (Some(pool), None) => {
                *caller == CallerPool::Any
                    || deployed.revisions.pools(&entry.digest).any(|former| former == pool)
            }
            (None, _) => true,
        })
    }

    /// Returns the number of revisions in quarantine.
    fn quarantined(&self) -> usize {
        self.read().quarantine.len(Instant::now())
    }

    fn quarantine_changes(&self) -> watch::Receiver<()> {
        self.shared.quarantine_tx.subscribe()
    }

    fn expire(&self) {
        self.write().revisions.expire(Instant::now());
    }

    fn walk(&self, resume: Option<&Cursor>, with_certificates: bool) -> Walk {
        self.read().state.walk(resume, with_certificates)
    }

    fn next(&self, walk: &mut Walk) -> Result<Option<WatchResponse>, FellBehind> {
        self.read().state.next(walk)
    }

    /// Returns the time since the latest change, if there was any.
    fn age(&self) -> Option<Duration> {
        self.shared.progress_tx.borrow().at.map(|at| at.elapsed())
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress_tx.subscribe()
    }

    /// Wakes the watchers if there is a new version. The caller still holds the write lock, so
    /// versions are announced in order.
    fn announce(&self, deployed: &Deployed) {
        let version = deployed.state.version();
        self.shared.progress_tx.send_if_modified(|progress| {
            let is_newer = progress.version != version;
            if is_newer {
                (progress.version, progress.at) = (version, Some(Instant::now()));
            }
            is_newer
        });
    }

    fn read(&self) -> RwLockReadGuard<'_, Deployed> {
        // State and revisions are maps, and each change is one call, so a panic cannot leave a map
        // half changed.
        self.shared.deployed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Deployed> {
        self.shared.deployed.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a name for this run of the operator: 64 random bits, from the seed that the standard
/// library draws for its hash maps. Two runs practically never have the same name.
fn new_epoch() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests;
