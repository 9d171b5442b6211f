//! Remembers from the responses of nodes whether a Worker runs on its shard or in a lane.
//!
//! ```text
//!             "moved" from the shard
//!   Unknown ──────────────────────────► in a lane ── its time is over ──► asks the shard again
//!      ▲                                    │                                      │
//!      └──── "moved" from the lane ─────────┘ ◄── "moved" from the shard: twice ───┘
//!                                                 the time
//! ```
//!
//! A revision that the catalog has just announced is known to no node, so its first request goes
//! directly to a lane.
//!
//! The node decides, and the router follows: a wrong or forgotten entry costs a request one more
//! hop within the node. The memory may therefore be small. It has a fixed size, and evicts entries
//! when it is full.
//!
//! This module is pure.

use std::time::{Duration, Instant};

use tenon_proto::id::RevisionDigest;

/// The minimum time for which a placement is remembered.
const MIN_REMEMBERED: Duration = Duration::from_secs(1);
/// The maximum time for which a placement is remembered.
const MAX_REMEMBERED: Duration = Duration::from_secs(60);

/// The number of sets. All sets together remember 4,096 revisions, in about 260 KB. The set of a
/// revision is derived from its digest and a seed that no tenant knows, so that no tenant can
/// choose code that evicts the entry of another tenant.
const SETS: usize = 1024;
/// The number of revisions in one set.
const WAYS: usize = 4;

/// The maximum number of redirects of one request between the processes of a node. The last one
/// goes to a lane that must run the request.
const MAX_MOVES: u32 = 2;

/// The placements that a thread remembers.
pub(crate) struct Placements {
    /// The sets. There are none until the first entry.
    sets: Vec<[Option<Entry>; WAYS]>,
    seed: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    digest: RevisionDigest,
    until: Instant,
    /// The time from the last renewal to `until`.
    lasts: Duration,
}

impl Placements {
    /// Creates an empty memory.
    ///
    /// # Arguments
    /// * `seed` - random bits.
    pub(crate) fn new(seed: u64) -> Self {
        Self { sets: Vec::new(), seed }
    }

    /// Returns whether a request should go to a lane first.
    pub(crate) fn is_in_lane(&self, digest: &RevisionDigest, now: Instant) -> bool {
        let set = self.sets.get(self.set_of(digest)).into_iter().flatten().flatten();
        set.filter(|entry| entry.digest == *digest).any(|entry| now < entry.until)
    }

    /// Returns whether there is no entry for the revision, and creates the missing entry.
    ///
    /// The caller sends the first request to a lane. The second request goes to the shard, so that
    /// the node knows on which shard to start the revision when it moves out of the lane.
    pub(crate) fn is_first_sight(&mut self, digest: &RevisionDigest, now: Instant) -> bool {
        let (_, is_new) = self.entry(digest, now);
        is_new
    }

    /// Records that the shard has reported that the revision runs in a lane.
    pub(crate) fn moved_to_lane(&mut self, digest: &RevisionDigest, now: Instant) {
        let (entry, _) = self.entry(digest, now);
        entry.renew(now);
    }

    /// Records that a lane has reported that the revision runs on its shard.
    pub(crate) fn moved_to_shard(&mut self, digest: &RevisionDigest, now: Instant) {
        let (entry, _) = self.entry(digest, now);
        entry.until = entry.until.min(now);
        entry.lasts = Duration::ZERO;
    }

    /// Returns the entry of a revision, and whether the entry is new.
    fn entry(&mut self, digest: &RevisionDigest, now: Instant) -> (&mut Entry, bool) {
        if self.sets.is_empty() {
            self.sets.resize(SETS, [None; WAYS]);
        }
        let at = self.set_of(digest);
        let set = &mut self.sets[at];
        let known = set.iter().position(|entry| entry.is_some_and(|entry| entry.digest == *digest));
        // An unknown revision gets an empty way, or that of the entry that expires first.
        let until = |way: &usize| set[*way].map(|entry| entry.until);
        let way = known.or_else(|| (0..WAYS).min_by_key(until)).expect("the set has no ways");
        let fresh = Entry { digest: *digest, until: now, lasts: Duration::ZERO };
        let entry = &mut set[way];
        if known.is_none() {
            *entry = Some(fresh);
        }
        (entry.get_or_insert(fresh), known.is_none())
    }

    fn set_of(&self, digest: &RevisionDigest) -> usize {
        let (first, _) =
            digest.as_bytes().split_first_chunk().expect("the digest has fewer than 8 bytes");
        let mixed = (u64::from_le_bytes(*first) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % SETS
    }
}

impl Entry {
    fn renew(&mut self, now: Instant) {
        if now < self.until {
            // The request was sent before the entry was renewed.
            return;
        }
        let right_after = now < self.until + self.lasts;
        self.lasts =
            if right_after { (self.lasts * 2).min(MAX_REMEMBERED) } else { MIN_REMEMBERED };
        self.until = now + self.lasts;
    }
}

/// The target of a redirect within a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Lane,
    Shard,
    /// A lane that must run the request, wherever the Worker is placed.
    Stay,
}

/// The number of redirects of one request within nodes.
#[derive(Debug, Default)]
pub(crate) struct Moves(u32);

impl Moves {
    /// Returns the target of a redirect, or `None` if the request was redirected although it had to
    /// stay.
    pub(crate) fn follow(&mut self, from_lane: bool) -> Option<Move> {
        self.0 += 1;
        match self.0 {
            MAX_MOVES => Some(Move::Stay),
            more if more > MAX_MOVES => None,
            _ if from_lane => Some(Move::Shard),
            _ => Some(Move::Lane),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u64) -> RevisionDigest {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        RevisionDigest::new(bytes)
    }

    #[test]
    fn a_move_to_a_lane_is_remembered_for_twice_as_long_each_time() {
        let mut now = Instant::now();
        let mut placements = Placements::new(5);
        assert!(!placements.is_in_lane(&digest(1), now));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            placements.moved_to_lane(&digest(1), now);
            now += Duration::from_secs(seconds) - Duration::from_millis(1);
            assert!(placements.is_in_lane(&digest(1), now), "just before {seconds} s");
            now += Duration::from_millis(1);
            assert!(!placements.is_in_lane(&digest(1), now), "after {seconds} s");
        }
    }

    #[test]
    fn a_much_later_move_starts_with_the_shortest_time() {
        let mut now = Instant::now();
        let mut placements = Placements::new(5);
        placements.moved_to_lane(&digest(1), now);
        now += MIN_REMEMBERED;
        placements.moved_to_lane(&digest(1), now);
        now += 2 * MIN_REMEMBERED + 2 * MIN_REMEMBERED;
        placements.moved_to_lane(&digest(1), now);
        assert!(!placements.is_in_lane(&digest(1), now + MIN_REMEMBERED));
    }

    #[test]
    fn simultaneous_moves_count_as_one() {
        let now = Instant::now();
        let mut placements = Placements::new(5);
        (0..10).for_each(|_| placements.moved_to_lane(&digest(1), now));
        assert!(!placements.is_in_lane(&digest(1), now + MIN_REMEMBERED));
    }

    #[test]
    fn a_revision_moved_back_to_its_shard_is_forgotten() {
        let now = Instant::now();
        let mut placements = Placements::new(5);
        placements.moved_to_shard(&digest(1), now);
        placements.moved_to_lane(&digest(1), now);
        placements.moved_to_lane(&digest(2), now);
        placements.moved_to_shard(&digest(1), now);
        assert!(!placements.is_in_lane(&digest(1), now));
        assert!(placements.is_in_lane(&digest(2), now));
        placements.moved_to_lane(&digest(1), now);
        assert!(
            !placements.is_in_lane(&digest(1), now + MIN_REMEMBERED),
            "the time in the lane does not start at the shortest again"
        );
    }

    #[test]
    fn a_revision_is_new_only_once() {
        let now = Instant::now();
        let mut placements = Placements::new(5);
        assert!(placements.is_first_sight(&digest(1), now));
        assert!(!placements.is_in_lane(&digest(1), now), "the second request goes to a lane");
        assert!(!placements.is_first_sight(&digest(1), now));
        placements.moved_to_lane(&digest(2), now);
        placements.moved_to_shard(&digest(3), now);
        assert!(
            !placements.is_first_sight(&digest(2), now)
                && !placements.is_first_sight(&digest(3), now)
        );
    }

    #[test]
    fn the_number_of_placements_is_bounded_and_the_latest_are_kept() {
        let now = Instant::now();
        let mut placements = Placements::new(5);
        let many = 10 * (SETS * WAYS) as u64;
        for number in 0..many {
            let now = now + Duration::from_nanos(number);
            placements.moved_to_lane(&digest(number), now);
            assert!(placements.is_in_lane(&digest(number), now));
        }
        let remembered =
            (0..many).filter(|number| placements.is_in_lane(&digest(*number), now)).count();
        let expected = SETS * WAYS * 9 / 10..=SETS * WAYS;
        assert!(expected.contains(&remembered), "{remembered} placements are remembered");
    }

    #[test]
    fn a_request_moved_back_and_forth_must_stay() {
        let moves = |from: [bool; 3]| {
            let mut moves = Moves::default();
            from.map(|from_lane| moves.follow(from_lane))
        };
        assert_eq!(moves([false, true, true]), [Some(Move::Lane), Some(Move::Stay), None]);
        assert_eq!(moves([true, false, true]), [Some(Move::Shard), Some(Move::Stay), None]);
    }
}
