//! The pool's policy: which isolate serves a revision, and which one makes room. Pure.
//!
//! ```text
//!            start                    started                     least recently used
//!   (cold) ────────► Starting ──────────────────► Warm ◄──► busy ────────────────────► out
//!      ▲                │ failed                    │ condemned, superseded
//!      └──── back-off ──┴───────────────────────────┘
//! ```
//!
//! It knows neither V8 nor time: isolates are [`Occupant`]s, and `now` is an argument. What it lets go of it hands
//! out, for its caller to end. Belongs to one thread.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};

/// How long a revision whose code failed is left alone at first, and at most. Doubled with each failure.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// How long a revision that could not be had is left alone: enough that a storm of requests for it asks the catalog
/// ten times a second and not ten thousand.
const MISSING_PAUSE: Duration = Duration::from_millis(100);

/// An isolate that has served so many requests and then is condemned says nothing about the revision.
const SETTLED: u32 = 100;

/// How many isolates in a row may be condemned before that before the revision is left alone, at first for so long, and
/// how long without one until all is forgotten.
const TOLERATED: u32 = 10;
const FIRST_REST: Duration = Duration::from_millis(100);
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);

/// An older revision of a Worker that had no request for so long is not one that shares its traffic.
const SUPERSEDED_AFTER: Duration = Duration::from_secs(60);

/// What a slot holds.
pub trait Occupant: Clone {
    /// Whose code it runs.
    fn worker(&self) -> &WorkerId;
    /// It has invocations in flight and must not be taken away.
    fn is_busy(&self) -> bool;
    /// Why it must not get another invocation, if it must not.
    fn condemned(&self) -> Option<FailureCode>;
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

/// Why the pool let go of an isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Another one needed its slot.
    Room,
    /// It went over a limit and could not be trusted any more.
    Condemned,
    /// A newer revision of its Worker has come, and nobody asks for this one.
    Superseded,
    /// Nobody has asked for it for a long time.
    Idle,
    /// The node's memory was short.
    Memory,
}

impl Eviction {
    pub const ALL: [Self; 5] = [Self::Room, Self::Condemned, Self::Superseded, Self::Idle, Self::Memory];

    /// As metrics see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Condemned => "condemned",
            Self::Superseded => "superseded",
            Self::Idle => "idle",
            Self::Memory => "memory",
        }
    }
}

/// How a revision that did not start is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It could not be had, and may be there the next moment.
    Soon,
    /// Its code failed, and will most likely fail again: later each time.
    BackOff,
}

/// A shard's slots: `O` is an isolate, `S` a start that is under way.
pub struct Pool<O, S> {
    slots: FxHashMap<RevisionDigest, Slot<O, S>>,
    failures: FxHashMap<RevisionDigest, FailedStart>,
    streaks: FxHashMap<RevisionDigest, Streak>,
    notices: Vec<Notice>,
    evicted: Vec<(Eviction, O)>,
    capacity: usize,
    /// Counts uses, as a clock for "least recently" on which no two uses are at the same time.
    uses: u64,
}

enum Slot<O, S> {
    Starting(S),
    Warm { occupant: O, last_use: u64, used_at: Instant, served: u32 },
}

/// Isolates of one revision that were condemned soon after their starts, one after another.
struct Streak {
    length: u32,
    last: Instant,
}

/// What others may want to know of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its isolates are condemned again and again, and it is left alone for a while.
    Failing { worker: WorkerId, digest: RevisionDigest, why: FailureCode, times: u32 },
    /// It was failing, and has been well since.
    Recovered(RevisionDigest),
}

struct FailedStart {
    failure: Failure,
    /// How many times in a row its code has failed.
    failures: u32,
    pause: Duration,
    until: Instant,
}

impl<O: Occupant, S: Clone> Pool<O, S> {
    /// # Arguments
    /// * `capacity` - how many isolates there may be, those that are starting included; at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: FxHashMap::default(),
            failures: FxHashMap::default(),
            streaks: FxHashMap::default(),
            notices: Vec::new(),
            evicted: Vec::new(),
            capacity: capacity.max(1),
            uses: 0,
        }
    }

    /// Where a request for `digest` goes. A condemned isolate is let go, and an idle one where there is no room.
    pub fn look_up(&mut self, digest: &RevisionDigest, now: Instant) -> Lookup<O, S> {
        self.uses += 1;
        match self.slots.get_mut(digest) {
            Some(Slot::Starting(start)) => return Lookup::Join(start.clone()),
            Some(Slot::Warm { occupant, last_use, used_at, served }) => match occupant.condemned() {
                None => {
                    (*last_use, *used_at, *served) = (self.uses, now, served.saturating_add(1));
                    let (occupant, settled) = (occupant.clone(), *served == SETTLED);
                    if settled && self.streaks.remove(digest).is_some() {
                        self.notices.push(Notice::Recovered(*digest));
                    }
                    return Lookup::Warm(occupant);
                }
                Some(why) => {
                    let (worker, served) = (occupant.worker().clone(), *served);
                    self.let_go(*digest, Eviction::Condemned);
                    if served < SETTLED {
                        self.struck(worker, *digest, why, now);
                    }
                }
            },
            None => {}
        }
        if let Some(failed) = self.failures.get(digest)
            && now < failed.until
        {
            return Lookup::Failed(failed.failure.clone());
        }
        if self.slots.len() >= self.capacity && !self.let_one_go(Eviction::Room) {
            return Lookup::Full;
        }
        Lookup::Start
    }

    /// A start is under way, after [`Lookup::Start`].
    pub fn starting(&mut self, digest: RevisionDigest, start: S) {
        self.slots.insert(digest, Slot::Starting(start));
    }

    /// The start has succeeded. Idle isolates of older revisions that nobody has asked for of late are let go.
    pub fn started(&mut self, digest: RevisionDigest, occupant: O, now: Instant) {
        self.failures.remove(&digest);
        let superseded = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm { occupant: older, used_at, .. } => {
                let out = older.worker() == occupant.worker()
                    && !older.is_busy()
                    && now.duration_since(*used_at) >= SUPERSEDED_AFTER;
                out.then_some(*digest)
            }
            Slot::Starting(_) => None,
        });
        for digest in superseded.collect::<Vec<_>>() {
            self.let_go(digest, Eviction::Superseded);
        }
        self.slots.insert(digest, Slot::Warm { occupant, last_use: self.uses, used_at: now, served: 0 });
    }

    /// The start has failed. For a while requests for the revision are told so. Returns how many times in a row its
    /// code has failed.
    pub fn failed(&mut self, digest: RevisionDigest, failure: Failure, retry: Retry, now: Instant) -> u32 {
        self.slots.remove(&digest);
        // Long forgotten failures must not pile up: tenants choose how many revisions fail.
        self.failures.retain(|_, failed| now < failed.until + LONGEST_BACK_OFF);
        let last = self.failures.get(&digest);
        let before = last.map_or(0, |last| last.failures);
        let (failures, pause) = match (retry, last) {
            (Retry::Soon, _) => (before, MISSING_PAUSE),
            (Retry::BackOff, None) => (1, FIRST_BACK_OFF),
            (Retry::BackOff, Some(last)) => {
                (before.saturating_add(1), (last.pause * 2).clamp(FIRST_BACK_OFF, LONGEST_BACK_OFF))
            }
        };
        self.failures.insert(digest, FailedStart { failure, failures, pause, until: now + pause });
        failures
    }

    /// An isolate of the revision was condemned soon after its start. When that goes on happening the revision is left
    /// alone for a while, longer each time: a start costs its neighbours more than a refusal.
    fn struck(&mut self, worker: WorkerId, digest: RevisionDigest, why: FailureCode, now: Instant) {
        self.streaks.retain(|_, streak| now < streak.last + FORGIVEN_AFTER);
        let streak = self.streaks.entry(digest).or_insert(Streak { length: 0, last: now });
        (streak.length, streak.last) = (streak.length + 1, now);
        let times = streak.length;
        let Some(over) = times.checked_sub(TOLERATED + 1) else { return };
        let pause = (FIRST_REST * 2_u32.pow(over.min(16))).min(LONGEST_BACK_OFF);
        let what = format!("the Worker was stopped {times} times in a row and rests for a while");
        let failure = Failure::new(why, Phase::Admission, what);
        self.failures.insert(digest, FailedStart { failure, failures: times, pause, until: now + pause });
        self.notices.push(Notice::Failing { worker, digest, why, times });
    }

    /// Whether the revision's isolates have been condemned of late, and it has not shown since that it is well.
    pub fn is_on_trial(&self, digest: &RevisionDigest) -> bool {
        self.streaks.contains_key(digest)
    }

    /// What there is to tell since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// What the pool has let go of since the last call, and why. It may still have invocations in flight.
    pub fn take_evicted(&mut self) -> Vec<(Eviction, O)> {
        std::mem::take(&mut self.evicted)
    }

    /// How many isolates there are, and how many more are starting.
    pub fn count(&self) -> (usize, usize) {
        let warm = self.slots.values().filter(|slot| matches!(slot, Slot::Warm { .. })).count();
        (warm, self.slots.len() - warm)
    }

    /// Lets those go that have been idle since then.
    pub fn evict_unused(&mut self, since: Instant) {
        let unused = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm { occupant, used_at, .. } if *used_at <= since && !occupant.is_busy() => Some(*digest),
            _ => None,
        });
        for digest in unused.collect::<Vec<_>>() {
            self.let_go(digest, Eviction::Idle);
        }
    }

    /// Lets the isolate go that was used least recently among those that are idle, if there is one. A look over all
    /// slots costs less than the start or the end of an isolate.
    pub fn let_one_go(&mut self, why: Eviction) -> bool {
        let idle = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm { occupant, last_use, .. } if !occupant.is_busy() => Some((*last_use, *digest)),
            _ => None,
        });
        let Some((_, digest)) = idle.min() else { return false };
        self.let_go(digest, why);
        true
    }

    fn let_go(&mut self, digest: RevisionDigest, why: Eviction) {
        if let Some(Slot::Warm { occupant, .. }) = self.slots.remove(&digest) {
            self.evicted.push((why, occupant));
        }
    }
}

#[cfg(test)]
mod tests;
