//! The deployed Workers and nodes, and the rules of hosts, with a version for every change. This
//! module is pure: it uses no clock, lock or socket.
//!
//! Every key, such as a Worker, a node or a host, is indexed once, under the version of its last
//! change:
//!
//! ```text
//!  version   3        7        8        12       13
//!  key       cart     node-a   menu ✝   node-b   shop        ✝ removed: a tombstone
//!            └────────────────────────► a walk continues from its position
//! ```
//!
//! A snapshot is a walk from the beginning, and a delta is a walk from a cursor. A walk holds
//! little more than two numbers: nothing is queued for a slow watcher, which skips superseded
//! changes, so a key that has changed a hundred times since the last message is sent once. Only
//! tombstones accumulate, so their number is bounded: a watcher behind the last forgotten tombstone
//! starts over with a snapshot.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use prost::Message;
use tenon_proto::catalog::{
    Cursor, GatewayCertificate, HostRules, Node, WatchResponse, Worker, watch_response::Kind,
};
use tenon_proto::id::WorkerId;

/// Size from which on a message is sent, in bytes. Including the item that exceeds it, a message
/// stays well under gRPC's default limit of 4 MiB.
const PART_BYTES: usize = 1024 * 1024 - 64 * 1024;

/// Maximum number of tombstones. At 100 removals a second, a client may be disconnected for minutes
/// before it needs a snapshot again. Each tombstone takes about 100 bytes.
const TOMBSTONES: usize = 32 * 1024;

/// All deployed Workers and nodes.
pub struct State {
    /// Identifies this history, so that a cursor from another process is not mistaken for one of
    /// this process.
    epoch: String,
    /// The version of the latest change; 0 before the first.
    version: u64,
    entries: HashMap<Key, Entry>,
    by_version: BTreeMap<u64, Key>,
    /// The removals in order. A key that was added again remains here, and is skipped when its
    /// removal is forgotten.
    tombstones: VecDeque<(u64, Key)>,
    /// Version up to which removals have been forgotten.
    forgotten: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Worker(WorkerId),
    Node(Arc<str>),
    /// The rules of a host.
    Host(Arc<str>),
    /// The certificate of a host.
    Certificate(Arc<str>),
    Routers,
}

struct Entry {
    version: u64,
    /// `None` marks a tombstone.
    value: Option<Value>,
}

#[derive(PartialEq)]
enum Value {
    Worker(Worker),
    Node(Node),
    Host(HostRules),
    Certificate(GatewayCertificate),
    /// The number of routers that are ready.
    Routers(u32),
}

/// The position of one watcher in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The watcher knows all changes up to this version.
    position: u64,
    phase: Phase,
    /// Whether the watcher gets certificates.
    with_certificates: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The version at which the snapshot began; older removals are not sent.
    Snapshot {
        begun_at: u64,
    },
    Deltas,
}

/// The error for a watcher that reads its snapshot so slowly that the parts already sent can no
/// longer be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is too slow to read the snapshot; watch again")]
pub struct FellBehind;

impl Walk {
    /// Returns the version up to which the watcher knows all changes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns whether the watcher has received its whole snapshot and now receives deltas.
    pub fn is_up_to_date(&self) -> bool {
        self.phase == Phase::Deltas
    }
}

impl State {
    pub fn new(epoch: String) -> Self {
        Self {
            epoch,
            version: 0,
            entries: HashMap::new(),
            by_version: BTreeMap::new(),
            tombstones: VecDeque::new(),
            forgotten: 0,
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Adds a Worker under `id`, or replaces it. Returns whether that changed anything.
    pub fn set_worker(&mut self, id: WorkerId, worker: Worker) -> bool {
        self.set(Key::Worker(id), Value::Worker(worker))
    }

    /// Removes a Worker. Returns whether it existed.
    pub fn remove_worker(&mut self, id: &WorkerId) -> bool {
        self.remove(Key::Worker(id.clone()))
    }

    /// Adds a node, or replaces the one with the same name. Returns whether that changed anything.
    pub fn set_node(&mut self, node: Node) -> bool {
        self.set(Key::Node(node.name.as_str().into()), Value::Node(node))
    }

    /// Removes a node. Returns whether it existed.
    pub fn remove_node(&mut self, name: &str) -> bool {
        self.remove(Key::Node(name.into()))
    }

    /// Sets the rules of a host, or removes them. Returns whether that changed anything.
    pub fn set_host(&mut self, host: &str, rules: Option<HostRules>) -> bool {
        let key = Key::Host(host.into());
        match rules {
            Some(rules) => self.set(key, Value::Host(rules)),
            None => self.remove(key),
        }
    }

    /// Sets the certificate of a host, or removes it. Returns whether that changed anything.
    pub fn set_certificate(&mut self, host: &str, certificate: Option<GatewayCertificate>) -> bool {
        let key = Key::Certificate(host.into());
        match certificate {
            Some(certificate) => self.set(key, Value::Certificate(certificate)),
            None => self.remove(key),
        }
    }

    /// Sets the number of routers that are ready. Returns whether that changed anything.
    pub fn set_routers(&mut self, count: u32) -> bool {
        self.set(Key::Routers, Value::Routers(count))
    }

    pub fn worker(&self, id: &WorkerId) -> Option<&Worker> {
        match self.entries.get(&Key::Worker(id.clone()))?.value.as_ref()? {
            Value::Worker(worker) => Some(worker),
            _ => None,
        }
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        match self.entries.get(&Key::Node(name.into()))?.value.as_ref()? {
            Value::Node(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the current nodes, in no particular order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.entries.values().filter_map(|entry| match &entry.value {
            Some(Value::Node(node)) => Some(node),
            _ => None,
        })
    }

    fn set(&mut self, key: Key, value: Value) -> bool {
        if self.entries.get(&key).is_some_and(|entry| entry.value.as_ref() == Some(&value)) {
            return false;
        }
        self.record(key, Some(value));
        true
    }

    fn remove(&mut self, key: Key) -> bool {
        if self.entries.get(&key).is_none_or(|entry| entry.value.is_none()) {
            return false;
        }
        self.record(key.clone(), None);
        self.tombstones.push_back((self.version, key));
        self.forget();
        true
    }

    fn record(&mut self, key: Key, value: Option<Value>) {
        self.version += 1;
        self.by_version.insert(self.version, key.clone());
        if let Some(before) = self.entries.insert(key, Entry { version: self.version, value }) {
            self.by_version.remove(&before.version);
        }
    }

    fn forget(&mut self) {
        while self.tombstones.len() > TOMBSTONES {
            let Some((version, key)) = self.tombstones.pop_front() else { return };
            if self.entries.get(&key).is_some_and(|entry| entry.version == version) {
                self.entries.remove(&key);
                self.by_version.remove(&version);
                self.forgotten = version;
            }
        }
    }

    /// Returns the walk of a watcher whose last applied cursor is `resume`: by deltas if they are
    /// still known, otherwise by a snapshot.
    ///
    /// # Arguments
    /// * `with_certificates` - whether the watcher gets certificates.
    pub fn walk(&self, resume: Option<&Cursor>, with_certificates: bool) -> Walk {
        match resume {
            Some(cursor)
                if cursor.epoch == self.epoch
                    && (self.forgotten..=self.version).contains(&cursor.version) =>
            {
                Walk { position: cursor.version, phase: Phase::Deltas, with_certificates }
            }
            _ => self.begin_snapshot(with_certificates),
        }
    }

    fn begin_snapshot(&self, with_certificates: bool) -> Walk {
        let phase = Phase::Snapshot { begun_at: self.version };
        Walk { position: 0, phase, with_certificates }
    }

    /// Returns the watcher's next message, or `None` if the watcher knows everything.
    ///
    /// A snapshot continues until it reaches the current version. A key that changes meanwhile is
    /// sent again later; if a key is removed after an earlier part has sent it, a later part
    /// contains the removal. A watcher therefore never holds a table in which something is missing
    /// only because it was changing.
    ///
    /// # Errors
    /// Fails if removals that a partly sent snapshot needs have been forgotten. The client must
    /// watch again.
    pub fn next(&self, walk: &mut Walk) -> Result<Option<WatchResponse>, FellBehind> {
        match walk.phase {
            Phase::Snapshot { begun_at } if begun_at.max(walk.position) < self.forgotten => {
                return Err(FellBehind);
            }
            Phase::Deltas if walk.position < self.forgotten => {
                *walk = self.begin_snapshot(walk.with_certificates);
            }
            Phase::Deltas if walk.position == self.version => return Ok(None),
            Phase::Snapshot { .. } | Phase::Deltas => {}
        }
        let mut response = WatchResponse::default();
        self.fill(walk, &mut response);
        let is_current = walk.position == self.version;
        let kind = match walk.phase {
            Phase::Deltas => Kind::Delta,
            Phase::Snapshot { .. } if is_current => Kind::SnapshotEnd,
            Phase::Snapshot { .. } => Kind::Snapshot,
        };
        if kind != Kind::Snapshot {
            // A partly sent snapshot cannot be resumed.
            walk.phase = Phase::Deltas;
            response.cursor = Some(Cursor { epoch: self.epoch.clone(), version: walk.position });
        }
        response.set_kind(kind);
        Ok(Some(response))
    }

    /// Continues the walk until the response is full or the current version is reached.
    fn fill(&self, walk: &mut Walk, response: &mut WatchResponse) {
        let mut bytes = 0;
        for (&version, key) in
            self.by_version.range((Bound::Excluded(walk.position), Bound::Unbounded))
        {
            walk.position = version;
            let value = &self.entries.get(key).expect("every indexed key has an entry").value;
            let is_older_than_snapshot =
                matches!(walk.phase, Phase::Snapshot { begun_at } if version <= begun_at);
            match (value, key) {
                (Some(Value::Worker(worker)), _) => {
                    bytes += worker.encoded_len();
                    response.workers.push(worker.clone());
                }
                (Some(Value::Node(node)), _) => {
                    bytes += node.encoded_len();
                    response.nodes.push(node.clone());
                }
                (Some(Value::Host(rules)), _) => {
                    bytes += rules.encoded_len();
                    response.hosts.push(rules.clone());
                }
                (_, Key::Certificate(_)) if !walk.with_certificates => {}
                (Some(Value::Certificate(certificate)), _) => {
                    bytes += certificate.encoded_len();
                    response.certificates.push(certificate.clone());
                }
                (Some(Value::Routers(count)), _) => response.routers = *count,
                (None, _) if is_older_than_snapshot => {}
                (None, Key::Worker(id)) => {
                    bytes += id.as_str().len();
                    response.removed_workers.push(id.to_string());
                }
                (None, Key::Node(name)) => {
                    bytes += name.len();
                    response.removed_nodes.push(name.to_string());
                }
                (None, Key::Host(host)) => {
                    bytes += host.len();
                    response.removed_hosts.push(host.to_string());
                }
                (None, Key::Certificate(host)) => {
                    bytes += host.len();
                    response.removed_certificates.push(host.to_string());
                }
                // The number is set and never removed.
                (None, Key::Routers) => {}
            }
            if bytes >= PART_BYTES {
                return;
            }
        }
        // The response contains every change up to the current version.
        walk.position = self.version;
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
