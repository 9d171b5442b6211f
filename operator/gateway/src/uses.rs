//! An index of which objects use which others, in both directions. This module is pure.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::Key;

/// The users of each used thing, such as a host or a Gateway, and the things that each user uses.
pub(crate) struct Uses<U> {
    users: HashMap<U, BTreeSet<Key>>,
    used: HashMap<Key, BTreeSet<U>>,
}

impl<U> Default for Uses<U> {
    fn default() -> Self {
        Self { users: HashMap::new(), used: HashMap::new() }
    }
}

impl<U: Clone + Eq + Hash + Ord> Uses<U> {
    /// Returns the objects that use `used`.
    pub(crate) fn get<Q>(&self, used: &Q) -> BTreeSet<Key>
    where
        U: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.users.get(used).cloned().unwrap_or_default()
    }

    /// Replaces what an object uses.
    pub(crate) fn set(&mut self, user: &Key, uses: BTreeSet<U>) {
        for used in self.used.remove(user).unwrap_or_default() {
            if let Some(users) = self.users.get_mut(&used) {
                users.remove(user);
                if users.is_empty() {
                    self.users.remove(&used);
                }
            }
        }
        for used in &uses {
            self.users.entry(used.clone()).or_default().insert(user.clone());
        }
        if !uses.is_empty() {
            self.used.insert(user.clone(), uses);
        }
    }
}
