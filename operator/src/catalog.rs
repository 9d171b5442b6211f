//! The catalog: what is deployed, as routers and nodes learn of it.
//!
//! ```text
//!  index of Kubernetes objects ──set/remove──► Catalog ──► state: what, at which version
//!  or files on a disk                             │    └──► revisions: code, by digest
//!                                                 ▼
//!                                              service ──Watch, GetRevision──► routers, nodes
//!                                                 │ ▲
//!                                 WatchQuarantine ▼ └ Report
//!                                                nodes
//! ```
//!
//! - [`state`]: pure; every change has a version, every watcher has a place.
//! - [`revisions`]: pure; what nodes may ask for.
//! - [`report`]: pure; what nodes say of the Workers that they run.
//! - [`quarantine`]: pure; what no node may run now, because it ended processes.
//! - [`service`], [`incoming`]: the gRPC edge; [`watchers`]: who is told, and how far behind they are.
//!
//! The lock is held for a map operation or for the making of one message, never across an await.

mod incoming;
mod quarantine;
mod report;
mod revisions;
mod service;
mod state;
mod watchers;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tenon_proto::catalog::{Cursor, Node, Route, WatchResponse, Worker};
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::watch;

use quarantine::{Entry, Quarantine};
use report::Part;
pub use report::{Cause, Ear, Heard, MalformedReport, Outcome, Word};
use revisions::Revisions;
pub use service::serve;
use state::{FellBehind, State, Walk};
pub use watchers::CatalogMetrics;
use watchers::Watchers;

const MIB: u64 = 1024 * 1024;

/// A handle on the catalog of this process. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    deployed: RwLock<Deployed>,
    /// What watchers wait on: they read the state itself when it moves.
    progress_tx: watch::Sender<Progress>,
    /// What watchers of the quarantine wait on.
    quarantine_tx: watch::Sender<()>,
    ear: OnceLock<Ear>,
    watchers: Watchers,
}

struct Deployed {
    state: State,
    revisions: Revisions,
    quarantine: Quarantine,
}

/// Too much has been said that nobody has listened to yet.
struct Full;

#[derive(Clone, Copy, Default)]
struct Progress {
    version: u64,
    /// When that came, if any has.
    at: Option<Instant>,
    /// Everything that is deployed has been set at least once.
    synced: bool,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// An empty catalog that answers no watcher before [`mark_synced`](Self::mark_synced).
    pub fn new() -> Self {
        let (revisions, quarantine) = (Revisions::default(), Quarantine::default());
        let deployed = Deployed { state: State::new(new_epoch()), revisions, quarantine };
        let ((progress_tx, _), (quarantine_tx, _)) = (watch::channel(Progress::default()), watch::channel(()));
        let (deployed, ear, watchers) = (RwLock::new(deployed), OnceLock::new(), Watchers::new());
        Self { shared: Arc::new(Shared { deployed, progress_tx, quarantine_tx, ear, watchers }) }
    }

    /// Lets `revision` serve its Worker on the nodes of `pool`, reached by `routes`. What it supersedes can
    /// still be had by nodes for a while. Returns the revision's digest.
    pub fn set_worker(&self, revision: Arc<Revision>, pool: impl Into<String>, routes: Vec<Route>) -> RevisionDigest {
        let mut deployed = self.write();
        let now = Instant::now();
        deployed.revisions.expire(now);
        let digest = deployed.revisions.serve(revision.clone(), now);
        let worker = Worker {
            id: revision.worker.to_string(),
            pool: pool.into(),
            digest: digest.as_bytes().to_vec(),
            routes,
            wall_ms: revision.limits.wall_ms,
            request_body_bytes: u64::from(revision.limits.request_body_mib) * MIB,
            services: revision.services.values().map(ToString::to_string).collect(),
        };
        deployed.state.set_worker(revision.worker.clone(), worker);
        self.announce(&deployed);
        digest
    }

    /// Takes the Worker out of service.
    pub fn remove_worker(&self, id: &WorkerId) {
        let mut deployed = self.write();
        let now = Instant::now();
        deployed.revisions.expire(now);
        deployed.revisions.retire(id, now);
        deployed.state.remove_worker(id);
        self.announce(&deployed);
    }

    /// Puts a node in the place of the one with its name.
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

    /// The nodes that are in the catalog now, by name.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<_> = self.read().state.nodes().cloned().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// Has every node of its pool refuse what serves the Worker now.
    ///
    /// # Arguments
    /// * `remaining` - for how much longer. What was said before of a longer time stands.
    /// * `times` - how often it has been refused like this.
    pub fn quarantine(&self, worker: &WorkerId, remaining: Duration, times: u32) {
        let digest = self.read().revisions.serving(worker).copied();
        digest.into_iter().for_each(|digest| self.refuse(digest, worker, remaining, times));
    }

    /// Call when everything that is deployed has been set: from now on watchers are answered.
    pub fn mark_synced(&self) {
        self.shared.progress_tx.send_modify(|progress| progress.synced = true);
    }

    pub fn is_synced(&self) -> bool {
        self.shared.progress_tx.borrow().synced
    }

    /// The revision of that digest, if it serves or did not long ago.
    pub fn revision(&self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        self.read().revisions.get(digest)
    }

    /// What there is to tell of it, to be registered.
    ///
    /// # Errors
    /// Never: the names are names.
    pub fn metrics(&self) -> prometheus::Result<CatalogMetrics> {
        CatalogMetrics::of(self.clone())
    }

    /// Has `ear` told of what nodes say, from now on. Where nobody listens it is lost; the first to listen stays.
    pub fn listen(&self, ear: Ear) {
        let _ = self.shared.ear.set(ear);
    }

    /// Takes in what a node says.
    ///
    /// # Errors
    /// When not all of it could be: what was said last is to be said again.
    fn hear(&self, node: &str, parts: Vec<Part>) -> Result<(), Full> {
        let Some(ear) = self.shared.ear.get() else { return Ok(()) };
        let mut result = Ok(());
        for part in parts {
            let digest = part.1;
            let outcome = match self.believe(node, part) {
                Ok((heard, serves)) => {
                    // The other nodes are told at once, and not only when the Worker's status has been written.
                    if let Word::Quarantined { duration, times, .. } = heard.word {
                        self.refuse(digest, &heard.worker, duration, times);
                    }
                    // A status is about what serves.
                    let tells = !serves || ear.heard_tx.try_send(heard).is_ok();
                    if tells { Outcome::Taken } else { Outcome::Full }
                }
                Err(outcome) => outcome,
            };
            ear.reports.with_label_values(&[outcome.as_str()]).inc();
            if outcome == Outcome::Full {
                result = Err(Full);
            }
        }
        result
    }

    /// What a node says, and whether that is about what serves now. A quarantine may also be of what served until lately:
    /// replacing a revision at once, and coming back to it, is no way around the quarantine.
    fn believe(&self, node: &str, (worker, digest, word): Part) -> Result<(Heard, bool), Outcome> {
        let deployed = self.read();
        let pool = deployed.state.node(node).map(|node| &node.pool).ok_or(Outcome::Stranger)?;
        let serves = deployed.revisions.serving(&worker) == Some(&digest);
        let counts = serves || matches!(word, Word::Quarantined { .. });
        let revision = deployed.revisions.get(&digest).filter(|revision| counts && revision.worker == worker);
        let revision = revision.ok_or(Outcome::Outdated)?;
        if deployed.state.worker(&worker).is_none_or(|worker| worker.pool != *pool) {
            return Err(Outcome::Stranger);
        }
        Ok((Heard { worker, revision: revision.name.clone(), node: node.to_owned(), word }, serves))
    }

    fn refuse(&self, digest: RevisionDigest, worker: &WorkerId, remaining: Duration, times: u32) {
        let now = Instant::now();
        let entry = Entry { digest, worker: worker.clone(), until: now + remaining, times };
        if self.write().quarantine.add(entry, now) {
            self.shared.quarantine_tx.send_replace(());
        }
    }

    /// What a node is to refuse: what is of its pool. Of a node that is not known yet, that may be anything.
    fn refused_by(&self, node: &str, now: Instant) -> Vec<Entry> {
        let deployed = self.read();
        let pool = deployed.state.node(node).map(|node| node.pool.as_str());
        deployed.quarantine.list(now, |worker| match (pool, deployed.state.worker(worker)) {
            (Some(pool), Some(worker)) => worker.pool == pool,
            _ => true,
        })
    }

    /// How many revisions no node may run now.
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

    /// How long ago the latest change was.
    fn age(&self) -> Option<Duration> {
        self.shared.progress_tx.borrow().at.map(|at| at.elapsed())
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress_tx.subscribe()
    }

    /// Wakes the watchers if there is anything new. The write lock is still held, so versions are announced
    /// in order.
    fn announce(&self, deployed: &Deployed) {
        let version = deployed.state.version();
        self.shared.progress_tx.send_if_modified(|progress| {
            let moved = progress.version != version;
            if moved {
                (progress.version, progress.at) = (version, Some(Instant::now()));
            }
            moved
        });
    }

    fn read(&self) -> RwLockReadGuard<'_, Deployed> {
        // State and revisions are maps that are changed by single calls: a panic leaves no half of one.
        self.shared.deployed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Deployed> {
        self.shared.deployed.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that no other run of any operator has: 64 random bits, from the seed that the standard library
/// draws for its hash maps.
fn new_epoch() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests;
