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
//! - [`assets`]: the static files of revisions.
//! - [`code`]: the modules of revisions whose code is in OCI artifacts.
//! - [`service`], [`incoming`]: the gRPC edge; [`watchers`]: the connected watchers, and how far
//!   behind they are.
//!
//! The crate does not depend on Kubernetes. The lock is held for one map operation or to build one
//! message, never across an await.

mod assets;
mod code;
mod deployment;
mod incoming;
mod quarantine;
mod report;
mod revisions;
mod service;
mod state;
mod traffic;
mod watchers;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tenon_proto::catalog::{Cursor, Node, Route, WatchResponse, Worker};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::watch;

pub use assets::AssetsSource;
pub use code::{CodeSource, Modules};
pub use deployment::{Deployment, Digest, Share};
use quarantine::{Entry, Quarantine};
use report::Part;
pub use report::{Cause, HealthReport, MalformedReport, Outcome, ReportSink, WorkerHealth};
use revisions::Revisions;
pub use service::serve;
use state::{FellBehind, State, Walk};
pub use traffic::{FiguresSink, MalformedTraffic, TrafficReport};
pub use watchers::CatalogMetrics;
use watchers::Watchers;

/// A handle on the catalog of this process. Clones share it; any thread may use it.
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
    watchers: Watchers,
    /// Whether nodes may do what routers do, because some of them have fronts.
    admits_fronts: AtomicBool,
}

struct Deployed {
    state: State,
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
        let deployed = Deployed { state: State::new(new_epoch()), revisions, quarantine };
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
                watchers: Watchers::new(),
                admits_fronts: AtomicBool::new(false),
            }),
        }
    }

    /// Makes `revision` serve its Worker on the nodes of `pool`, reachable by `routes`, and returns
    /// the revision's digest. Nodes can still fetch the revision that it supersedes for a while.
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
    /// before. Nodes can still fetch the revisions that this supersedes for a while.
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
        deployed.state.set_node(node);
        self.announce(&deployed);
    }

    pub fn remove_node(&self, name: &str) {
        let mut deployed = self.write();
        deployed.state.remove_node(name);
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

    /// Gives nodes static files and takes their figures from now on, because a node with a front
    /// serves clients as a router does.
    pub fn admit_fronts(&self) {
        self.shared.admits_fronts.store(true, Relaxed);
    }

    fn admits_fronts(&self) -> bool {
        self.shared.admits_fronts.load(Relaxed)
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

    /// Returns the revision with this digest, if it serves or did so recently.
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

    /// Sends nodes' reports to `sink` from now on. Reports before the first call are lost; later
    /// calls have no effect.
    pub fn set_report_sink(&self, sink: ReportSink) {
        let _ = self.shared.sink.set(sink);
    }

    /// Processes a node's report.
    ///
    /// # Errors
    /// Fails if a part of the report did not fit into the channel. The node must send the report
    /// again.
    fn take_report(&self, node: &str, parts: Vec<Part>) -> Result<(), Full> {
        let Some(sink) = self.shared.sink.get() else { return Ok(()) };
        let mut result = Ok(());
        for part in parts {
            let digest = part.1;
            let outcome = match self.check_report(node, part) {
                Ok((report, serves)) => {
                    // The other nodes are told now, not only once the Worker's status has been
                    // written.
                    if let WorkerHealth::Quarantined { duration, times, .. } = report.health {
                        self.refuse(digest, &report.worker, duration, times);
                    }
                    // A status is only about revisions that serve.
                    let is_sent = !serves || sink.reports_tx.try_send(report).is_ok();
                    if is_sent { Outcome::Taken } else { Outcome::Full }
                }
                Err(outcome) => outcome,
            };
            sink.outcomes.with_label_values(&[outcome.as_str()]).inc();
            if outcome == Outcome::Full {
                result = Err(Full);
            }
        }
        result
    }

    /// Checks a part of a node's report. Returns the report, and whether its revision serves now. A
    /// quarantine may also be about a recently superseded revision: a tenant cannot
    /// avoid the quarantine by replacing a revision and restoring it.
    fn check_report(
        &self,
        node: &str,
        (worker, digest, health): Part,
    ) -> Result<(HealthReport, bool), Outcome> {
        let deployed = self.read();
        let pool = deployed.state.node(node).map(|node| &node.pool).ok_or(Outcome::UnknownNode)?;
        let serves = deployed.revisions.serving(&worker).contains(&digest);
        let is_current = serves || matches!(health, WorkerHealth::Quarantined { .. });
        let revision = deployed
            .revisions
            .get(&digest)
            .filter(|revision| is_current && revision.worker == worker);
        let revision = revision.ok_or(Outcome::Outdated)?;
        if deployed.state.worker(&worker).is_none_or(|worker| worker.pool != *pool) {
            return Err(Outcome::UnknownNode);
        }
        Ok((
            HealthReport { worker, revision: revision.name.clone(), node: node.to_owned(), health },
            serves,
        ))
    }

    /// Sends routers' figures to `sink` from now on. Figures before the first call are lost; later
    /// calls have no effect.
    pub fn set_figures_sink(&self, sink: FiguresSink) {
        let _ = self.shared.figures.set(sink);
    }

    /// Processes a router's figures. Those that are not about a current measurement are dropped.
    ///
    /// # Errors
    /// Fails if the figures did not fit into the channel. The router must send them again.
    fn take_figures(&self, parts: Vec<traffic::Part>) -> Result<(), Full> {
        let Some(sink) = self.shared.figures.get() else { return Ok(()) };
        let current = {
            let deployed = self.read();
            let current = parts.into_iter().filter_map(|part| deployed.check_figures(part));
            current.collect::<Vec<_>>()
        };
        if current.is_empty() { Ok(()) } else { sink.try_send(current).map_err(|_| Full) }
    }

    fn refuse(&self, digest: RevisionDigest, worker: &WorkerId, remaining: Duration, times: u32) {
        let now = Instant::now();
        let entry = Entry { digest, worker: worker.clone(), until: now + remaining, times };
        if self.write().quarantine.add(entry, now) {
            self.shared.quarantine_tx.send_replace(());
        }
    }

    /// Returns the entries that a node must refuse: those of its pool. A node that is not known yet
    /// gets the entries of all pools.
    fn refused_by(&self, node: &str, now: Instant) -> Vec<Entry> {
        let deployed = self.read();
        let pool = deployed.state.node(node).map(|node| node.pool.as_str());
        deployed.quarantine.list(now, |worker| match (pool, deployed.state.worker(worker)) {
            (Some(pool), Some(worker)) => worker.pool == pool,
            _ => true,
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

    fn walk(&self, resume: Option<&Cursor>) -> Walk {
        self.read().state.walk(resume)
    }

    fn next(&self, walk: &mut Walk) -> Result<Option<WatchResponse>, FellBehind> {
        self.read().state.next(walk)
    }

    /// Returns the time since the latest change.
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
        // State and revisions are maps, and each change is one call, so a panic cannot leave one
        // half changed.
        self.shared.deployed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Deployed> {
        self.shared.deployed.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a name that no other run of any operator has: 64 random bits, from the seed that the
/// standard library draws for its hash maps.
fn new_epoch() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests;
