//! The revisions that were asked for last, for all shards of the process. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tenon_proto::id::RevisionDigest;
use tenon_proto::revision::Revision;

/// Bytes of modules and bindings that are kept. A node runs some hundreds of revisions, of which few are large.
const CAPACITY: usize = 64 * 1024 * 1024;

/// What a revision takes besides its content: names, map nodes, the entry here. Keeps a great many of empty ones
/// from being free.
const OVERHEAD: usize = 1024;

#[derive(Default)]
pub(super) struct Cache {
    entries: HashMap<RevisionDigest, Entry>,
    /// Digests by their last use, oldest first.
    order: BTreeMap<u64, RevisionDigest>,
    uses: u64,
    bytes: usize,
}

struct Entry {
    revision: Arc<Revision>,
    last_use: u64,
}

impl Cache {
    pub(super) fn get(&mut self, digest: &RevisionDigest) -> Option<Arc<Revision>> {
        self.uses += 1;
        let entry = self.entries.get_mut(digest)?;
        self.order.remove(&entry.last_use);
        self.order.insert(self.uses, *digest);
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.revision))
    }

    /// Keeps the revision, and lets those go for which there is no room any more. One that is larger than the
    /// whole cache is kept alone.
    pub(super) fn insert(&mut self, digest: RevisionDigest, revision: Arc<Revision>) {
        self.remove(&digest);
        self.uses += 1;
        self.bytes += size(&revision);
        self.order.insert(self.uses, digest);
        self.entries.insert(digest, Entry { revision, last_use: self.uses });
        while self.bytes > CAPACITY && self.entries.len() > 1 {
            let oldest = self.order.first_key_value().map(|(_, digest)| *digest);
            self.remove(&oldest.expect("every entry has its place in the order"));
        }
    }

    fn remove(&mut self, digest: &RevisionDigest) {
        if let Some(entry) = self.entries.remove(digest) {
            self.order.remove(&entry.last_use);
            self.bytes -= size(&entry.revision);
        }
    }
}

fn size(revision: &Revision) -> usize {
    let modules = revision.modules.iter().map(|(name, source)| name.len() + source.len());
    let bindings = revision.vars.iter().chain(&revision.secrets).map(|(name, value)| name.len() + value.len());
    modules.chain(bindings).sum::<usize>() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenon_proto::id::WorkerId;
    use tenon_proto::revision::Limits;

    use super::*;

    fn digest(n: u8) -> RevisionDigest {
        RevisionDigest::new([n; 32])
    }

    fn revision(bytes: usize) -> Arc<Revision> {
        Arc::new(Revision {
            worker: WorkerId::new("shop", "cart"),
            name: "cart-1".to_owned(),
            entrypoint: "worker.js".to_owned(),
            modules: BTreeMap::from([("worker.js".to_owned(), Bytes::from(vec![b' '; bytes]))]),
            vars: BTreeMap::new(),
            secrets: BTreeMap::new(),
            limits: Limits::default(),
        })
    }

    #[test]
    fn those_that_nobody_asks_for_leave_a_cache_that_is_full() {
        let mut cache = Cache::default();
        cache.insert(digest(0), revision(CAPACITY / 5 * 2));
        cache.insert(digest(1), revision(CAPACITY / 5 * 2));
        assert!(cache.get(&digest(0)).is_some());
        cache.insert(digest(2), revision(CAPACITY / 5 * 2));
        assert!(cache.get(&digest(0)).is_some() && cache.get(&digest(1)).is_none());
    }

    #[test]
    fn one_that_is_larger_than_the_cache_is_kept_alone() {
        let mut cache = Cache::default();
        cache.insert(digest(0), revision(1));
        cache.insert(digest(1), revision(CAPACITY + 1));
        assert!(cache.get(&digest(0)).is_none() && cache.get(&digest(1)).is_some());
    }

    #[test]
    fn one_that_comes_twice_is_counted_once() {
        let mut cache = Cache::default();
        cache.insert(digest(0), revision(1));
        let once = cache.bytes;
        cache.insert(digest(0), revision(1));
        assert_eq!((cache.bytes, cache.order.len()), (once, 1));
    }
}
