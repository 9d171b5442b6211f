//! A least-recently-used cache by digest, bounded in bytes. This module is pure.

use std::collections::{BTreeMap, HashMap};

use tenon_proto::id::RevisionDigest;

/// Overhead of an entry besides its content, in bytes: names, map nodes, the entry itself. It makes
/// even empty entries count, however many there are.
const OVERHEAD: usize = 1024;

/// A cache with a capacity in bytes.
pub(crate) struct Cache<V> {
    entries: HashMap<RevisionDigest, Entry<V>>,
    /// Digests by their last use, oldest first.
    order: BTreeMap<u64, RevisionDigest>,
    uses: u64,
    bytes: usize,
    capacity: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    last_use: u64,
}

impl<V> Cache<V> {
    /// Creates a cache.
    ///
    /// # Arguments
    /// * `capacity` - in bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, bytes: 0, capacity }
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (RevisionDigest, &mut V)> {
        self.entries.iter_mut().map(|(digest, entry)| (*digest, &mut entry.value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    pub(crate) fn get(&mut self, digest: &RevisionDigest) -> Option<&V> {
        self.get_mut(digest).map(|value| &*value)
    }

    pub(crate) fn get_mut(&mut self, digest: &RevisionDigest) -> Option<&mut V> {
        self.uses += 1;
        let entry = self.entries.get_mut(digest)?;
        self.order.remove(&entry.last_use);
        self.order.insert(self.uses, *digest);
        entry.last_use = self.uses;
        Some(&mut entry.value)
    }

    /// Inserts a value, and evicts the least recently used ones beyond the capacity. A value larger
    /// than the whole cache is kept alone.
    ///
    /// # Arguments
    /// * `bytes` - size of the value.
    ///
    /// Returns the digests that were evicted.
    pub(crate) fn insert(
        &mut self,
        digest: RevisionDigest,
        value: V,
        bytes: usize,
    ) -> Vec<RevisionDigest> {
        self.remove(&digest);
        self.uses += 1;
        let bytes = bytes + OVERHEAD;
        self.bytes += bytes;
        self.order.insert(self.uses, digest);
        self.entries.insert(digest, Entry { value, bytes, last_use: self.uses });
        let mut gone = Vec::new();
        while self.bytes > self.capacity && self.entries.len() > 1 {
            let oldest = self.order.first_key_value().map(|(_, digest)| *digest);
            let oldest = oldest.expect("every entry has its place in the order");
            self.remove(&oldest);
            gone.push(oldest);
        }
        gone
    }

    pub(crate) fn remove(&mut self, digest: &RevisionDigest) {
        if let Some(entry) = self.entries.remove(digest) {
            self.order.remove(&entry.last_use);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 1 << 20;

    fn digest(n: u8) -> RevisionDigest {
        RevisionDigest::new([n; 32])
    }

    #[test]
    fn a_full_cache_evicts_the_least_recently_used_entry() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(digest(0), (), CAPACITY / 5 * 2);
        cache.insert(digest(1), (), CAPACITY / 5 * 2);
        assert!(cache.get(&digest(0)).is_some());
        assert_eq!(cache.insert(digest(2), (), CAPACITY / 5 * 2), [digest(1)]);
        assert!(cache.get(&digest(0)).is_some() && cache.get(&digest(1)).is_none());
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_kept_alone() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(digest(0), (), 1);
        cache.insert(digest(1), (), CAPACITY + 1);
        assert!(cache.get(&digest(0)).is_none() && cache.get(&digest(1)).is_some());
    }

    #[test]
    fn an_entry_inserted_twice_is_counted_once() {
        let mut cache = Cache::new(CAPACITY);
        cache.insert(digest(0), (), 1);
        let once = cache.bytes;
        cache.insert(digest(0), (), 1);
        assert_eq!((cache.bytes, cache.order.len()), (once, 1));
    }
}
