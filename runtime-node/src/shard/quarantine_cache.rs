//! Remembers which revisions the supervisor refuses, and until when. This module is pure.
//!
//! The supervisor serves every process of a node. With this cache, a shard asks the supervisor only
//! once about each quarantine of a revision, however many requests arrive for that revision.

use std::time::Instant;

use rustc_hash::FxHashMap;
use tenon_proto::id::RevisionDigest;

/// Maximum number of remembered revisions. More revisions are quarantined only in a severe
/// incident; the supervisor is then asked repeatedly about some of them.
const MAX_ENTRIES: usize = 1024;

/// Refused revisions and the time at which each refusal ends.
#[derive(Default)]
pub(super) struct QuarantineCache(FxHashMap<RevisionDigest, Instant>);

impl QuarantineCache {
    pub(super) fn add(&mut self, digest: RevisionDigest, until: Instant, now: Instant) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= MAX_ENTRIES
            && let Some(first) =
                self.0.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| *digest)
        {
            self.0.remove(&first);
        }
        self.0.insert(digest, until);
    }

    /// Returns whether the revision is refused at `now`.
    pub(super) fn has(&mut self, digest: &RevisionDigest, now: Instant) -> bool {
        match self.0.get(digest) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.0.remove(digest);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn digest(i: usize) -> RevisionDigest {
        RevisionDigest::new(std::array::from_fn(|at| (i >> (8 * (at % 8))) as u8))
    }

    #[test]
    fn a_quarantine_is_cached_until_it_ends() {
        let (mut quarantines, now) = (QuarantineCache::default(), Instant::now());
        let until = now + Duration::from_secs(10);
        quarantines.add(digest(1), until, now);
        assert!(quarantines.has(&digest(1), now) && !quarantines.has(&digest(2), now));
        assert!(!quarantines.has(&digest(1), until) && quarantines.0.is_empty());
    }

    #[test]
    fn a_full_cache_evicts_the_quarantine_that_ends_first() {
        let (mut quarantines, now) = (QuarantineCache::default(), Instant::now());
        (1..=2 * MAX_ENTRIES)
            .for_each(|i| quarantines.add(digest(i), now + Duration::from_millis(i as u64), now));
        assert_eq!(quarantines.0.len(), MAX_ENTRIES);
        assert!(
            quarantines.has(&digest(2 * MAX_ENTRIES), now) && !quarantines.has(&digest(1), now)
        );
    }
}
