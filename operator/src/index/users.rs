//! The Workers that depend on ConfigMaps or Secrets. This module is pure.

use std::collections::{BTreeSet, HashMap};

use tenon_proto::id::WorkerId;

use super::Key;

/// The Workers that refer to an object, and the objects to which a Worker refers.
#[derive(Default)]
pub(super) struct Users {
    by_object: HashMap<Key, BTreeSet<WorkerId>>,
    by_worker: HashMap<WorkerId, BTreeSet<String>>,
}

impl Users {
    /// Returns the Workers that refer to an object.
    pub(super) fn get(&self, key: &Key) -> BTreeSet<WorkerId> {
        self.by_object.get(key).cloned().unwrap_or_default()
    }

    /// Records that `user` refers to an object of its namespace.
    pub(super) fn add(&mut self, user: &WorkerId, name: String) {
        self.by_object
            .entry((user.namespace().to_owned(), name.clone()))
            .or_default()
            .insert(user.clone());
        self.by_worker.entry(user.clone()).or_default().insert(name);
    }

    /// Replaces the set of objects of its namespace to which `user` refers.
    pub(super) fn set(&mut self, user: &WorkerId, names: BTreeSet<String>) {
        for name in self.by_worker.remove(user).unwrap_or_default() {
            let key = (user.namespace().to_owned(), name);
            if let Some(users) = self.by_object.get_mut(&key) {
                users.remove(user);
                if users.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
        for name in names {
            self.add(user, name);
        }
    }
}
