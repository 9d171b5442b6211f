//! The pool's policy: which isolate serves a revision, and which one makes room. Pure.
//!
//! ```text
//!            start                    started                     least recently used
//!   (cold) ────────► Starting ──────────────────► Warm ◄──► busy ────────────────────► out
//!      ▲                │ failed                    │ condemned
//!      └──── back-off ──┴───────────────────────────┘
//! ```
//!
//! It knows neither V8 nor time: isolates are [`Occupant`]s, and `now` is an argument. Belongs to one thread.

use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::failure::Failure;
use tenon_proto::id::RevisionDigest;

/// How long a revision that failed to start is left alone at first, and at most. Doubled with each failure.
const BACK_OFF: Duration = Duration::from_millis(250);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// What a slot holds.
pub trait Occupant: Clone {
    /// It has invocations in flight and must not be taken away.
    fn is_busy(&self) -> bool;
    /// It must not get another invocation.
    fn is_condemned(&self) -> bool;
}

/// What to do for a request.
pub enum Lookup<O, S> {
    /// Hand it to this one.
    Warm(O),
    /// Wait with the others for this start.
    Join(S),
    /// Start one, and tell the pool: a slot is free.
    Start,
    /// It failed to start a short time ago, so.
    Failed(Failure),
    /// Every slot is busy.
    Full,
}

/// A shard's slots: `O` is an isolate, `S` a start that is under way.
pub struct Pool<O, S> {
    slots: FxHashMap<RevisionDigest, Slot<O, S>>,
    failures: FxHashMap<RevisionDigest, FailedStart>,
    capacity: usize,
    /// Counts uses, as a clock for "least recently".
    uses: u64,
    evictions: u64,
}

enum Slot<O, S> {
    Starting(S),
    Warm { occupant: O, last_use: u64 },
}

struct FailedStart {
    failure: Failure,
    back_off: Duration,
    until: Instant,
}

impl<O: Occupant, S: Clone> Pool<O, S> {
    /// # Arguments
    /// * `capacity` - how many isolates there may be, those that are starting included; at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: FxHashMap::default(),
            failures: FxHashMap::default(),
            capacity: capacity.max(1),
            uses: 0,
            evictions: 0,
        }
    }

    /// Where a request for `digest` goes. A condemned isolate is let go, and an idle one where there is no room.
    pub fn look_up(&mut self, digest: &RevisionDigest, now: Instant) -> Lookup<O, S> {
        self.uses += 1;
        match self.slots.get_mut(digest) {
            Some(Slot::Starting(start)) => return Lookup::Join(start.clone()),
            Some(Slot::Warm { occupant, last_use }) if !occupant.is_condemned() => {
                *last_use = self.uses;
                return Lookup::Warm(occupant.clone());
            }
            Some(Slot::Warm { .. }) => drop(self.slots.remove(digest)),
            None => {}
        }
        if let Some(failed) = self.failures.get(digest)
            && now < failed.until
        {
            return Lookup::Failed(failed.failure.clone());
        }
        if self.slots.len() >= self.capacity && !self.evict() {
            return Lookup::Full;
        }
        Lookup::Start
    }

    /// A start is under way, after [`Lookup::Start`].
    pub fn starting(&mut self, digest: RevisionDigest, start: S) {
        self.slots.insert(digest, Slot::Starting(start));
    }

    pub fn started(&mut self, digest: RevisionDigest, occupant: O) {
        self.failures.remove(&digest);
        self.slots.insert(digest, Slot::Warm { occupant, last_use: self.uses });
    }

    /// The start failed. The next one is not tried before the back-off has passed, if `remember`.
    pub fn failed(&mut self, digest: RevisionDigest, failure: Failure, remember: bool, now: Instant) {
        self.slots.remove(&digest);
        // Long forgotten failures must not pile up: tenants choose how many revisions fail.
        self.failures.retain(|_, failed| now < failed.until + LONGEST_BACK_OFF);
        if !remember {
            return;
        }
        match self.failures.entry(digest) {
            Entry::Occupied(mut entry) => {
                let back_off = (entry.get().back_off * 2).min(LONGEST_BACK_OFF);
                entry.insert(FailedStart { failure, back_off, until: now + back_off });
            }
            Entry::Vacant(entry) => {
                entry.insert(FailedStart { failure, back_off: BACK_OFF, until: now + BACK_OFF });
            }
        }
    }

    /// Every isolate that has started.
    pub fn occupants(&self) -> impl Iterator<Item = &O> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Warm { occupant, .. } => Some(occupant),
            Slot::Starting(_) => None,
        })
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many isolates have made room for others since the pool was made.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Lets the isolate go that was used least recently among those that are idle. A look over all slots costs
    /// less than the start that follows.
    fn evict(&mut self) -> bool {
        let idle = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm { occupant, last_use } if !occupant.is_busy() => Some((*last_use, *digest)),
            _ => None,
        });
        let Some((_, digest)) = idle.min() else { return false };
        self.slots.remove(&digest);
        self.evictions += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tenon_proto::failure::{FailureCode, Phase};

    use super::*;

    #[derive(Clone, Default)]
    struct Fake(Rc<(Cell<bool>, Cell<bool>)>);

    impl Occupant for Fake {
        fn is_busy(&self) -> bool {
            self.0.0.get()
        }
        fn is_condemned(&self) -> bool {
            self.0.1.get()
        }
    }

    fn digest(n: u8) -> RevisionDigest {
        RevisionDigest::new([n; 32])
    }

    fn pool_with(capacity: usize, digests: &[u8]) -> (Pool<Fake, ()>, Vec<Fake>) {
        let mut pool = Pool::new(capacity);
        let fakes = digests.iter().map(|n| {
            let fake = Fake::default();
            assert!(matches!(pool.look_up(&digest(*n), Instant::now()), Lookup::Start));
            pool.started(digest(*n), fake.clone());
            fake
        });
        let fakes = fakes.collect();
        (pool, fakes)
    }

    fn holds(pool: &mut Pool<Fake, ()>, n: u8) -> bool {
        pool.slots.contains_key(&digest(n))
    }

    #[test]
    fn many_requests_for_one_cold_revision_wait_for_one_start() {
        let mut pool = Pool::<Fake, ()>::new(2);
        assert!(matches!(pool.look_up(&digest(1), Instant::now()), Lookup::Start));
        pool.starting(digest(1), ());
        for _ in 0..3 {
            assert!(matches!(pool.look_up(&digest(1), Instant::now()), Lookup::Join(())));
        }
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let (mut pool, _) = pool_with(2, &[1, 2]);
        assert!(matches!(pool.look_up(&digest(1), Instant::now()), Lookup::Warm(_)));
        assert!(matches!(pool.look_up(&digest(3), Instant::now()), Lookup::Start));
        assert!(holds(&mut pool, 1) && !holds(&mut pool, 2));
        assert_eq!(pool.evictions(), 1);
    }

    #[test]
    fn a_busy_one_never_makes_room() {
        let (mut pool, fakes) = pool_with(2, &[1, 2]);
        fakes[0].0.0.set(true);
        assert!(matches!(pool.look_up(&digest(3), Instant::now()), Lookup::Start));
        assert!(holds(&mut pool, 1) && !holds(&mut pool, 2));
        pool.starting(digest(3), ());
        assert!(matches!(pool.look_up(&digest(4), Instant::now()), Lookup::Full));
    }

    #[test]
    fn a_condemned_one_is_replaced_by_the_next_request() {
        let (mut pool, fakes) = pool_with(1, &[1]);
        fakes[0].0.1.set(true);
        assert!(matches!(pool.look_up(&digest(1), Instant::now()), Lookup::Start));
    }

    #[test]
    fn a_revision_that_keeps_failing_is_tried_less_and_less() {
        let mut pool = Pool::<Fake, ()>::new(1);
        let failure = Failure::new(FailureCode::WorkerStartFailed, Phase::Start, "");
        let start = Instant::now();
        pool.failed(digest(1), failure.clone(), true, start);
        assert!(matches!(pool.look_up(&digest(1), start), Lookup::Failed(f) if f == failure));
        let again = start + BACK_OFF;
        assert!(matches!(pool.look_up(&digest(1), again), Lookup::Start));
        pool.failed(digest(1), failure.clone(), true, again);
        assert!(matches!(pool.look_up(&digest(1), again + BACK_OFF), Lookup::Failed(_)));
        assert!(matches!(pool.look_up(&digest(1), again + 2 * BACK_OFF), Lookup::Start));
    }

    #[test]
    fn a_start_that_failed_for_want_of_the_code_is_tried_at_once() {
        let mut pool = Pool::<Fake, ()>::new(1);
        let failure = Failure::new(FailureCode::RevisionUnavailable, Phase::Start, "");
        pool.failed(digest(1), failure, false, Instant::now());
        assert!(matches!(pool.look_up(&digest(1), Instant::now()), Lookup::Start));
    }
}
