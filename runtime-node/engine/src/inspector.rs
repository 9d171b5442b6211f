//! Lets clients debug isolates over the inspector protocol of Chrome's DevTools, for `tenon dev`.
//!
//! ```text
//!  any thread                               │ the thread of the isolate
//!  a WebSocket ─► Client ─► Target: commands ─► Agent ─► a session of V8
//!       ▲                                   │                    │
//!       └─────────── Outbox ◄────────────────────────────────────┘
//! ```
//!
//! The command line announces each Worker as a [`Target`] and serves the WebSockets. The isolate
//! that runs the target's revision has an [`Agent`] with a session of V8 for each client. Commands
//! reach the agent in one of three ways: in a separate turn while no code runs, in an interrupt
//! while code runs, and in a loop that blocks the thread while code is paused. A paused isolate
//! therefore blocks every Worker of the shard.
//!
//! While a client is attached, CPU limits do not apply: a Worker that a developer pauses, steps
//! through and profiles has no meaningful CPU time. The limits apply again when the last client has
//! left.
//!
//! An engine without an [`Inspector`] makes isolates without agents. Nodes on a cluster have none.
//!
//! - [`target`]: the commands from clients to an isolate; [`client`]: one client and its outbox.
//! - [`agent`]: the isolate's side; [`console`]: reports calls of `console` to clients.
//! - [`cpu_profiler`]: records a CPU profile for the node itself, without a client or an agent.

pub(crate) mod agent;
mod client;
mod console;
pub(crate) mod cpu_profiler;
mod target;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::Revision;
use tokio::sync::Notify;

pub use client::Client;
pub use target::{Script, Target};

/// The targets of a process. Any thread may use an inspector.
#[derive(Debug)]
pub struct Inspector {
    waits: bool,
    targets: Mutex<BTreeMap<WorkerId, Arc<Target>>>,
    /// Targets that have clients, but no isolate.
    wanted: Mutex<VecDeque<Arc<Target>>>,
    wanted_changed: Notify,
}

impl Inspector {
    /// Creates an inspector without targets.
    ///
    /// # Arguments
    /// * `waits` - whether an isolate waits for a client before it runs its Worker's code, which
    ///   then pauses at its first statement.
    pub fn new(waits: bool) -> Arc<Self> {
        Arc::new(Self {
            waits,
            targets: Mutex::default(),
            wanted: Mutex::default(),
            wanted_changed: Notify::new(),
        })
    }

    /// Announces the revision that serves its Worker from now on. The clients of the previous
    /// revision are detached.
    ///
    /// # Arguments
    /// * `scripts` - descriptions of the modules for clients, by module name.
    pub fn announce(
        &self,
        revision: &Revision,
        digest: RevisionDigest,
        scripts: BTreeMap<String, Script>,
    ) {
        let (worker, mut targets) = (&revision.worker, lock(&self.targets));
        if targets.get(worker).is_some_and(|target| target.digest() == digest) {
            return;
        }
        let target = Arc::new(Target::new(revision, digest, scripts));
        let replaced = targets.insert(worker.clone(), target);
        drop(targets);
        replaced.iter().for_each(|target| target.close());
    }

    /// Removes a Worker, and detaches its clients.
    pub fn remove(&self, worker: &WorkerId) {
        let removed = lock(&self.targets).remove(worker);
        removed.iter().for_each(|target| target.close());
    }

    /// Removes every Worker, so that paused code continues.
    pub fn close(&self) {
        let removed = std::mem::take(&mut *lock(&self.targets));
        removed.values().for_each(|target| target.close());
    }

    /// Returns all targets.
    pub fn targets(&self) -> Vec<Arc<Target>> {
        lock(&self.targets).values().cloned().collect()
    }

    /// Attaches a client to a Worker, and requests a start if the Worker has no isolate. Returns
    /// `None` if there is no such Worker.
    ///
    /// # Arguments
    /// * `worker` - the Worker's id.
    pub fn connect(&self, worker: &str) -> Option<Client> {
        let target = lock(&self.targets)
            .values()
            .find(|target| target.worker().as_str() == worker)
            .cloned()?;
        let client = target.connect()?;
        if !target.has_isolate() {
            lock(&self.wanted).push_back(target);
            self.wanted_changed.notify_one();
        }
        Some(client)
    }

    /// Waits for a client of a Worker without an isolate. Returns the Worker's target.
    pub async fn wanted(&self) -> Arc<Target> {
        loop {
            if let Some(target) = lock(&self.wanted).pop_front() {
                return target;
            }
            self.wanted_changed.notified().await;
        }
    }

    /// Returns the target of a revision, or `None` if the revision does not serve its Worker.
    pub(crate) fn target(&self, worker: &WorkerId, digest: RevisionDigest) -> Option<Arc<Target>> {
        lock(&self.targets).get(worker).filter(|target| target.digest() == digest).cloned()
    }

    /// Returns whether isolates wait for a client before they run code.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and a panic would leave consistent data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
