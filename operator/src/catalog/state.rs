//! What is deployed, with a version for every change. Pure: no clock, no lock, no socket.
//!
//! Every key (a Worker or a node) stands in one index under the version of its last change, and nowhere else:
//!
//! ```text
//!  version   3        7        8        12       13
//!  key       cart     node-a   menu ✝   node-b   shop        ✝ removed: a tombstone
//!            └────────────────────────► a walk reads on from where it stands
//! ```
//!
//! So a snapshot is a walk from the beginning and a delta is a walk from a cursor. A walk holds two numbers: a
//! slow watcher costs no memory, skips what was overtaken while it slept, and a key that changed a hundred
//! times is sent to it once. Only tombstones pile up, so they are bounded: who falls behind the last one
//! forgotten starts over with a snapshot.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use prost::Message;
use tenon_proto::catalog::{Cursor, Node, WatchResponse, Worker, watch_response::Kind};
use tenon_proto::id::WorkerId;

/// How far a message grows before it is sent, in bytes. With the one item that went over, it stays well under
/// gRPC's default limit of 4 MiB.
const PART_BYTES: usize = 1024 * 1024 - 64 * 1024;

/// How many removals are remembered. At 100 removals a second, a client may be away for minutes before it
/// needs a snapshot again; the cost is some 100 bytes each.
const TOMBSTONES: usize = 32 * 1024;

/// Everything that is deployed.
pub struct State {
    /// Names this history, so that a cursor of another process is not taken for one of ours.
    epoch: String,
    /// The version of the latest change; 0 before the first.
    version: u64,
    entries: HashMap<Key, Entry>,
    by_version: BTreeMap<u64, Key>,
    /// In order of removal. A key that came back is still in here, and is passed over when its turn comes.
    tombstones: VecDeque<(u64, Key)>,
    /// Removals up to this version have been forgotten.
    forgotten: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Worker(WorkerId),
    Node(Arc<str>),
}

struct Entry {
    version: u64,
    /// `None` is a tombstone.
    value: Option<Value>,
}

#[derive(PartialEq)]
enum Value {
    Worker(Worker),
    Node(Node),
}

/// Where one watcher stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The watcher knows of changes up to here.
    position: u64,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The snapshot began at this version: older removals do not concern it.
    Snapshot {
        begun_at: u64,
    },
    Deltas,
}

/// A watcher reads its snapshot so slowly that what it has of it can no longer be put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client fell too far behind within a snapshot; watch again")]
pub struct FellBehind;

impl Walk {
    /// What the watcher knows of.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether it is told of changes, and not of the whole state.
    pub fn is_abreast(&self) -> bool {
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

    /// Puts a Worker, under `id`, in the place of what had that id. Returns whether that changed anything.
    pub fn set_worker(&mut self, id: WorkerId, worker: Worker) -> bool {
        self.set(Key::Worker(id), Value::Worker(worker))
    }

    /// Returns whether it was there.
    pub fn remove_worker(&mut self, id: &WorkerId) -> bool {
        self.remove(Key::Worker(id.clone()))
    }

    /// Puts a node in the place of the one with its name. Returns whether that changed anything.
    pub fn set_node(&mut self, node: Node) -> bool {
        self.set(Key::Node(node.name.as_str().into()), Value::Node(node))
    }

    /// Returns whether it was there.
    pub fn remove_node(&mut self, name: &str) -> bool {
        self.remove(Key::Node(name.into()))
    }

    pub fn worker(&self, id: &WorkerId) -> Option<&Worker> {
        match self.entries.get(&Key::Worker(id.clone()))?.value.as_ref()? {
            Value::Worker(worker) => Some(worker),
            Value::Node(_) => None,
        }
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        match self.entries.get(&Key::Node(name.into()))?.value.as_ref()? {
            Value::Node(node) => Some(node),
            Value::Worker(_) => None,
        }
    }

    /// The nodes that are there now, in no order.
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

    /// The walk of a watcher that applied `resume` last: by deltas where they are known, else by a snapshot.
    pub fn walk(&self, resume: Option<&Cursor>) -> Walk {
        match resume {
            Some(cursor) if cursor.epoch == self.epoch && (self.forgotten..=self.version).contains(&cursor.version) => {
                Walk { position: cursor.version, phase: Phase::Deltas }
            }
            _ => self.begin(),
        }
    }

    fn begin(&self) -> Walk {
        Walk { position: 0, phase: Phase::Snapshot { begun_at: self.version } }
    }

    /// What the watcher is to be told next, or `None` when it knows everything.
    ///
    /// # Errors
    /// When removals have been forgotten that concern a snapshot of which a part has been sent. The client has
    /// to begin anew.
    ///
    /// A snapshot goes on until it has met the present. What changes meanwhile is met further on; what is
    /// removed after an earlier part has brought it, is taken back by a later one. That way no watcher ever
    /// holds a table in which something is missing only because it was changing.
    pub fn next(&self, walk: &mut Walk) -> Result<Option<WatchResponse>, FellBehind> {
        match walk.phase {
            Phase::Snapshot { begun_at } if begun_at.max(walk.position) < self.forgotten => return Err(FellBehind),
            Phase::Deltas if walk.position < self.forgotten => *walk = self.begin(),
            Phase::Deltas if walk.position == self.version => return Ok(None),
            Phase::Snapshot { .. } | Phase::Deltas => {}
        }
        let mut response = WatchResponse::default();
        self.fill(walk, &mut response);
        let met_present = walk.position == self.version;
        let kind = match walk.phase {
            Phase::Deltas => Kind::Delta,
            Phase::Snapshot { .. } if met_present => Kind::SnapshotEnd,
            Phase::Snapshot { .. } => Kind::Snapshot,
        };
        if kind != Kind::Snapshot {
            // A part of a snapshot is not a place to resume from.
            walk.phase = Phase::Deltas;
            response.cursor = Some(Cursor { epoch: self.epoch.clone(), version: walk.position });
        }
        response.set_kind(kind);
        Ok(Some(response))
    }

    /// Walks on until the response is full or the present is met.
    fn fill(&self, walk: &mut Walk, response: &mut WatchResponse) {
        let mut bytes = 0;
        for (&version, key) in self.by_version.range((Bound::Excluded(walk.position), Bound::Unbounded)) {
            walk.position = version;
            let value = &self.entries.get(key).expect("an indexed key has an entry").value;
            match (value, key) {
                (Some(Value::Worker(worker)), _) => {
                    bytes += worker.encoded_len();
                    response.workers.push(worker.clone());
                }
                (Some(Value::Node(node)), _) => {
                    bytes += node.encoded_len();
                    response.nodes.push(node.clone());
                }
                (None, _) if matches!(walk.phase, Phase::Snapshot { begun_at } if version <= begun_at) => {}
                (None, Key::Worker(id)) => {
                    bytes += id.as_str().len();
                    response.removed_workers.push(id.to_string());
                }
                (None, Key::Node(name)) => {
                    bytes += name.len();
                    response.removed_nodes.push(name.to_string());
                }
            }
            if bytes >= PART_BYTES {
                return;
            }
        }
        // The newest change may have left no trace: its key was forgotten.
        walk.position = self.version;
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
