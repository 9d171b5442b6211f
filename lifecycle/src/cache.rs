//! A least-recently-used cache, bounded in bytes. This module is pure.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// An estimate of the bytes that an entry takes besides its content, for names, map nodes and the
/// entry itself. Counting them bounds the number of entries even if these are empty.
const OVERHEAD: usize = 1024;

/// A cache with a capacity in bytes.
pub struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Keys by their last use, oldest first.
    order: BTreeMap<u64, K>,
    /// Number of uses so far.
    uses: u64,
    bytes: usize,
    capacity: usize,
}

struct Entry<V> {
    value: V,
    /// Size of the value, plus [`OVERHEAD`].
    bytes: usize,
    last_use: u64,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    /// Creates a cache.
    ///
    /// # Arguments
    /// * `capacity` - the capacity in bytes.
    pub fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, bytes: 0, capacity }
    }

    /// Returns every entry, in no particular order. The call does not count as a use of the
    /// entries.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.entries.iter_mut().map(|(key, entry)| (*key, &mut entry.value))
    }

    /// Returns every value, in no particular order. The call does not count as a use of the values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Returns the value of a key, if there is one. The call counts as a use of the value.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.get_mut(key).map(|value| &*value)
    }

    /// Returns the value of a key, if there is one. The call counts as a use of the value.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.last_use);
        self.order.insert(self.uses, *key);
        entry.last_use = self.uses;
        Some(&mut entry.value)
    }

    /// Inserts a value, and evicts the least recently used values while the cache exceeds its
    /// capacity. A value larger than the capacity is kept alone. Returns the evicted keys.
    ///
    /// # Arguments
    /// * `bytes` - the size of the value, in bytes.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) -> Vec<K> {
        self.remove(&key);
        self.uses += 1;
        let bytes = bytes + OVERHEAD;
        self.bytes += bytes;
        self.order.insert(self.uses, key);
        self.entries.insert(key, Entry { value, bytes, last_use: self.uses });
        let mut evicted = Vec::new();
        while self.bytes > self.capacity && self.entries.len() > 1 {
            let oldest = self.order.first_key_value().map(|(_, key)| *key);
            let oldest = oldest.expect("no entry is in the order");
            self.remove(&oldest);
            evicted.push(oldest);
        }
        evicted
    }

    /// Removes the value of a key, if there is one.
    pub fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.last_use);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 1 << 20;

    #[test]
    fn a_full_cache_evicts_the_least_recently_used_entry() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(0, (), CAPACITY / 5 * 2);
        cache.insert(1, (), CAPACITY / 5 * 2);
        assert!(cache.get(&0).is_some());
        assert_eq!(cache.insert(2, (), CAPACITY / 5 * 2), [1]);
        assert!(cache.get(&0).is_some() && cache.get(&1).is_none());
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_kept_alone() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(0, (), 1);
        cache.insert(1, (), CAPACITY + 1);
        assert!(cache.get(&0).is_none() && cache.get(&1).is_some());
    }

    #[test]
    fn an_entry_inserted_twice_is_counted_once() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(0, (), 1);
        let once = cache.bytes;
        cache.insert(0, (), 1);
        assert_eq!((cache.bytes, cache.order.len()), (once, 1));
    }
}
