//! The revisions that no node may run, because they ended processes. This module is pure: the time
//! is an argument.
//!
//! ```text
//!  a node's report here ─────────────────────────┐
//!  Workers' statuses: reports of other replicas ─┴─► Quarantine ─► every node of the Worker's pool
//! ```
//!
//! An entry ends only when its time has elapsed, unless more than [`MAX_ENTRIES`] entries displace
//! the one that ends first.
//! It does not end if another revision serves in the meantime and the quarantined revision then
//! serves again.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use tenon_proto::catalog::QuarantinedRevision;
use tenon_proto::id::{RevisionDigest, WorkerId};

/// Maximum number of entries in one message.
const MAX_LISTED: usize = 1_000;

/// Maximum number of stored entries, several times as many as one message lists. Beyond it, the
/// entry that ends first is dropped.
const MAX_ENTRIES: usize = 10_000;

/// An extension of an entry by this duration or less is ignored, because nodes report one revision
/// within moments of each other, and statuses have a resolution of one second.
const SLACK: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Quarantine {
    entries: HashMap<RevisionDigest, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub digest: RevisionDigest,
    pub worker: WorkerId,
    pub until: Instant,
    /// The number of quarantines of the revision so far, including this one.
    pub times: u32,
}

impl Entry {
    /// Returns the entry as a message, with the duration that remains at `now`.
    pub fn to_message(&self, now: Instant) -> QuarantinedRevision {
        let remaining = self.until.saturating_duration_since(now);
        QuarantinedRevision {
            digest: self.digest.as_bytes().to_vec(),
            worker: self.worker.to_string(),
            remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
            times: self.times,
        }
    }
}

impl Quarantine {
    /// Merges an entry; the later end and the higher count win, but an end that is later by at most
    /// [`SLACK`] is ignored. Returns whether this changed anything.
    pub fn add(&mut self, entry: Entry, now: Instant) -> bool {
        self.expire(now);
        if entry.until <= now {
            return false;
        }
        let Some(known) = self.entries.get_mut(&entry.digest) else {
            self.make_room();
            self.entries.insert(entry.digest, entry);
            return true;
        };
        let is_extended = entry.times > known.times || entry.until > known.until + SLACK;
        if is_extended {
            known.until = known.until.max(entry.until);
            known.times = known.times.max(entry.times);
        }
        is_extended
    }

    /// Returns the entries that `choose` selects, sorted by digest. If these are more than
    /// [`MAX_LISTED`], only those that last longest are returned.
    pub fn list(&self, now: Instant, choose: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let mut list: Vec<_> = self
            .entries
            .values()
            .filter(|entry| entry.until > now && choose(entry))
            .cloned()
            .collect();
        if list.len() > MAX_LISTED {
            list.sort_by_key(|entry| (Reverse(entry.until), entry.digest));
            list.truncate(MAX_LISTED);
        }
        list.sort_by_key(|entry| entry.digest);
        list
    }

    /// Returns the number of current entries.
    pub fn len(&self, now: Instant) -> usize {
        self.entries.values().filter(|entry| entry.until > now).count()
    }

    fn expire(&mut self, now: Instant) {
        self.entries.retain(|_, entry| entry.until > now);
    }

    fn make_room(&mut self) {
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        let first = self
            .entries
            .values()
            .min_by_key(|entry| (entry.until, entry.digest))
            .map(|entry| entry.digest);
        if let Some(first) = first {
            self.entries.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u16, until: Instant, times: u32) -> Entry {
        let mut digest = [0; 32];
        digest[..2].copy_from_slice(&number.to_be_bytes());
        Entry {
            digest: RevisionDigest::new(digest),
            worker: WorkerId::new("shop", "cart"),
            until,
            times,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_longest_time_and_the_highest_count_are_kept() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        assert!(quarantine.add(entry(1, now + seconds(10), 1), now));
        assert!(
            !quarantine.add(entry(1, now + seconds(11), 1), now),
            "the same quarantine, reported by another node, counts as a change"
        );
        assert!(!quarantine.add(entry(1, now + seconds(5), 1), now));
        assert!(quarantine.add(entry(1, now + seconds(5), 3), now));
        assert!(quarantine.add(entry(1, now + seconds(20), 2), now));
        assert_eq!(quarantine.list(now, |_| true), [entry(1, now + seconds(20), 3)]);
    }

    #[test]
    fn an_entry_expires_and_its_count_starts_again() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        quarantine.add(entry(1, now + seconds(10), 4), now);
        let over = now + seconds(10);
        assert!(quarantine.list(over, |_| true).is_empty());
        assert_eq!(quarantine.len(over), 0);
        assert!(!quarantine.add(entry(1, over, 4), over));
        assert!(quarantine.add(entry(1, over + seconds(10), 1), over));
        assert_eq!(quarantine.list(over, |_| true)[0].times, 1);
    }

    #[test]
    fn a_message_carries_the_remaining_duration() {
        let now = Instant::now();
        let entry = entry(1, now + seconds(10), 1);
        assert_eq!(entry.to_message(now + seconds(4)).remaining_ms, 6_000);
        assert_eq!(entry.to_message(now + seconds(11)).remaining_ms, 0);
    }

    #[test]
    fn the_longest_entries_are_listed_and_kept() {
        let (mut quarantine, now) = (Quarantine::default(), Instant::now());
        let until = |number: u16| now + seconds(10 + u64::from(number));
        for number in 0..MAX_ENTRIES as u16 + 100 {
            quarantine.add(entry(number, until(number), 1), now);
        }
        assert_eq!(quarantine.len(now), MAX_ENTRIES);
        let listed = quarantine.list(now, |_| true);
        assert_eq!(listed.len(), MAX_LISTED);
        let shortest = listed.iter().map(|entry| entry.until).min();
        assert_eq!(shortest, Some(until((MAX_ENTRIES + 100 - MAX_LISTED) as u16)));
    }
}
