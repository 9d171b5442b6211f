//! Remembers the Workers that one shard cannot serve alone, and to how many shards their requests
//! go.
//!
//! ```text
//!  width 1 ── hot ──► 2 ── still hot ──► 3 ── still hot ──► 4 ──► 6 ──► …      at most all shards
//!                     ◄── a while without heat: one shard fewer ◄──
//! ```
//!
//! A shard marks the responses of a Worker that uses much of the shard's time, or has its maximum
//! of requests in flight there: the Worker is *hot*. Its requests then go to as many candidates
//! of the ring as the width says, from the first, each to the candidate with the fewest requests of
//! this thread. This bounds the load of each shard, as consistent hashing with bounded loads does
//! (Mirrokni, Thorup and Zadimoghaddam, 2018, <https://arxiv.org/abs/1608.01350>), but only Workers
//! that cause load leave their first shard, and all others stay warm where they are. When a Worker
//! is no longer hot, its requests return to fewer shards, one at a time, because a Worker on fewer
//! shards needs less memory.
//!
//! A shard that is new to the Worker gets one request at a time until it has responded, because it
//! has to start the Worker first.
//!
//! This module is pure. Its state belongs to one thread; threads and routers learn from the
//! responses that they receive, and need not agree.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_table::ring::Key;

/// The time after a change of a width before heat can increase it again. In this time, the shards
/// notice the change: they measure their load in windows of 100 ms.
const SETTLE: Duration = Duration::from_millis(250);

/// The time without heat after which a width decreases by one.
const COOL: Duration = Duration::from_secs(10);

/// The maximum number of Workers with more than one shard. A hot Worker uses a fifth of a shard, so
/// a pool of 200 shards has at most 1,000 of them. Beyond this number, Workers stay on their
/// shards.
const MAX_WORKERS: usize = 1024;

/// The Workers with more than one shard.
#[derive(Default)]
pub(crate) struct Spread {
    widths: FxHashMap<Key, Entry>,
}

/// The number of candidates among which a Worker's requests are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    /// The number of candidates, at least 2.
    pub(crate) candidates: usize,
    /// The number of candidates, counted from the first, that have responded.
    pub(crate) warm: usize,
}

struct Entry {
    width: Width,
    changed_at: Instant,
    hot_at: Instant,
}

impl Spread {
    /// Returns whether all Workers stay on their first shards.
    pub(crate) fn is_empty(&self) -> bool {
        self.widths.is_empty()
    }

    /// Returns the width of a Worker, or `None` if all its requests go to its first shard.
    pub(crate) fn width(&self, key: Key) -> Option<Width> {
        self.widths.get(&key).map(|entry| entry.width)
    }

    /// Records a response of a shard.
    ///
    /// # Arguments
    /// * `rank` - the place of the shard among the candidates of the Worker, from 0.
    /// * `is_hot` - whether the shard reports that the Worker is hot.
    /// * `shards` - the number of candidates in the Worker's pool.
    pub(crate) fn record(
        &mut self,
        key: Key,
        rank: usize,
        is_hot: bool,
        shards: usize,
        now: Instant,
    ) {
        let Some(entry) = self.widths.get_mut(&key) else {
            if is_hot && shards > 1 && self.has_room(now) {
                let width = Width { candidates: 2, warm: 1 };
                self.widths.insert(key, Entry { width, changed_at: now, hot_at: now });
            }
            return;
        };
        let width = &mut entry.width;
        if rank == width.warm && rank < width.candidates {
            width.warm += 1;
        }
        let since = |at: Instant| now.saturating_duration_since(at);
        if is_hot {
            entry.hot_at = now;
            // Other candidates may have failed, so that the response comes from beyond the width.
            if rank < width.candidates && since(entry.changed_at) >= SETTLE {
                let wider = width.candidates + (width.candidates / 2).max(1);
                entry.changed_at = now;
                width.candidates = wider.min(shards.max(2));
            }
        } else if since(entry.hot_at) >= COOL {
            (entry.changed_at, entry.hot_at) = (now, now);
            width.candidates -= 1;
            width.warm = width.warm.min(width.candidates);
            if width.candidates < 2 {
                self.widths.remove(&key);
            }
        }
    }

    /// Returns whether one more Worker can be remembered, and forgets those without requests if
    /// necessary.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.widths.len() >= MAX_WORKERS {
            self.widths.retain(|_, entry| now.saturating_duration_since(entry.hot_at) < 2 * COOL);
        }
        self.widths.len() < MAX_WORKERS
    }
}

#[cfg(test)]
mod tests;
