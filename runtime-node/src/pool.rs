//! The pool's policy: which isolate serves a revision, and which one is evicted to make room.
//! This module is pure.
//!
//! ```text
//!          Vacancy              Launch                       least recently used
//!   (cold) ──────► Starting ──────────► Warm: busy ◄──► idle ────────────────────► out
//!      ▲              │ failed              │ spent, superseded
//!      └── back-off ──┴─────────────────────┘
//! ```
//!
//! A [`Vacancy`] proves that a slot is free or can be freed, and borrows the pool, so that the slot
//! cannot be taken twice. [`Vacancy::starting`] turns it into a [`Launch`], which ends exactly
//! once, in success or failure. The pool knows which isolates are warm, and asks each isolate
//! whether that isolate is busy or spent.
//!
//! The pool depends on neither V8 nor a clock: isolates are [`Occupant`]s, and `now` is an
//! argument. [`eviction`] decides which isolate is evicted; evicted isolates are handed to the
//! caller, which ends them. [`crash_backoff`] decides how long a failing revision is in back-off. A
//! pool belongs to one thread.

mod crash_backoff;
mod eviction;
mod metrics;

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_engine::share::Share;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{RevisionDigest, WorkerId};

use crash_backoff::CrashBackoff;
pub use metrics::{Eviction, PoolFamilies, PoolMetrics};

/// Time without a request after which an older revision of a Worker counts as unused.
const SUPERSEDED_AFTER: Duration = Duration::from_secs(60);

/// An isolate in a slot.
pub trait Occupant: Clone {
    /// Returns the Worker whose code the isolate runs.
    fn worker(&self) -> &WorkerId;
    /// Returns the isolate's current condition.
    fn condition(&self) -> Condition;
}

/// The condition of a warm isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is in flight: the isolate can be evicted.
    Idle,
    /// Invocations are in flight: the isolate must not be evicted to make room.
    Busy,
    /// The isolate gets no more invocations. Those in flight finish outside the pool and need no
    /// slot.
    Spent(Spent),
}

/// The reason why an isolate gets no more invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// The isolate was stopped at this limit, and its state cannot be trusted. This is a strike
    /// against its revision.
    Condemned(FailureCode),
    /// An invocation exceeded a limit and ended by itself, which is not a strike.
    Retired,
}

/// The pool's decision on a request.
pub enum Lookup<'a, O, S> {
    /// Deliver the request to this isolate.
    Warm(O),
    /// Wait for this start, which is under way.
    Join(S),
    /// Start an isolate in this vacancy.
    Start(Vacancy<'a, O, S>),
    /// The revision cannot be started now.
    Refused(Obstacle),
}

/// The reason why a start is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The revision failed a short time ago, with this failure.
    Failed(Failure),
    /// In every slot, an isolate is busy or starting.
    Full,
    /// The tenant has used up its share of the slots, and its isolates are all busy or starting.
    OverShare,
}

/// A slot that is free, or will be made free.
pub struct Vacancy<'a, O, S> {
    pool: &'a mut Pool<O, S>,
    digest: RevisionDigest,
    tenant: Rc<str>,
    victim: Option<RevisionDigest>,
    now: Instant,
}

/// A start that is under way, to be ended by [`started`](Pool::started) or
/// [`failed`](Pool::failed), once.
#[must_use = "the slot is taken until the start has ended"]
#[derive(Debug)]
pub struct Launch {
    digest: RevisionDigest,
}

/// The policy for retrying a revision that did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The revision could not be fetched, or there was no memory for it; either may change at any
    /// moment.
    Soon,
    /// The revision's code failed and will most likely fail again: the back-off grows with each
    /// failure.
    BackOff,
}

/// A change in a revision's health, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `times` isolates of the revision have been condemned, the last one because of `why`, and the
    /// revision is in back-off.
    Failing { worker: WorkerId, digest: RevisionDigest, why: FailureCode, times: u32 },
    /// The revision was failing and is healthy again.
    Recovered(RevisionDigest),
}

/// A shard's slots: `O` is an isolate, `S` a start that is under way.
pub struct Pool<O, S> {
    slots: FxHashMap<RevisionDigest, Slot<O, S>>,
    backoff: CrashBackoff,
    evicted: Vec<(Eviction, O)>,
    capacity: usize,
    /// Number of uses so far: a clock on which no two uses are simultaneous.
    uses: u64,
}

enum Slot<O, S> {
    Starting { start: S, tenant: Rc<str> },
    Warm(Warm<O>),
}

struct Warm<O> {
    occupant: O,
    last_use: u64,
    used_at: Instant,
    /// Whether the isolate's garbage has been collected since its last use.
    collected: bool,
}

impl<O: Occupant, S: Clone> Pool<O, S> {
    /// Creates an empty pool.
    ///
    /// # Arguments
    /// * `capacity` - maximum number of isolates, including those that are starting; 0 counts as 1.
    pub fn new(capacity: usize) -> Self {
        let slots = FxHashMap::default();
        Self {
            slots,
            backoff: CrashBackoff::default(),
            evicted: Vec::new(),
            capacity: capacity.max(1),
            uses: 0,
        }
    }

    /// Returns whether a request for `digest` would find an isolate that can serve it.
    pub fn is_warm(&self, digest: &RevisionDigest) -> bool {
        let Some(Slot::Warm(warm)) = self.slots.get(digest) else { return false };
        !matches!(warm.occupant.condition(), Condition::Spent(_))
    }

    /// Returns whether a request for `digest` would find a serving isolate or a start under way.
    pub fn is_live(&self, digest: &RevisionDigest) -> bool {
        self.is_starting(digest) || self.is_warm(digest)
    }

    pub fn is_starting(&self, digest: &RevisionDigest) -> bool {
        matches!(self.slots.get(digest), Some(Slot::Starting { .. }))
    }

    /// Returns whether the revision has a slot, warm or starting.
    pub fn has(&self, digest: &RevisionDigest) -> bool {
        self.slots.contains_key(digest)
    }

    /// Returns whether the revision's slot holds an isolate that `is_match` accepts. New requests
    /// get that isolate, unless it is spent.
    pub fn holds(&self, digest: &RevisionDigest, is_match: impl Fn(&O) -> bool) -> bool {
        matches!(self.slots.get(digest), Some(Slot::Warm(warm)) if is_match(&warm.occupant))
    }

    /// Returns the revisions of a Worker that have an isolate.
    pub fn revisions_of(&self, worker: &WorkerId) -> Vec<RevisionDigest> {
        let own = self.warm().filter(|(_, warm)| warm.occupant.worker() == worker);
        own.map(|(digest, _)| digest).collect()
    }

    /// Decides what happens to a request for `digest`. Evicts the revision's isolate if that
    /// isolate is spent.
    ///
    /// # Arguments
    /// * `tenant` - the namespace of the request.
    /// * `share` - the tenant's share of the slots.
    pub fn look_up(
        &mut self,
        digest: &RevisionDigest,
        tenant: &Rc<str>,
        share: Share,
        now: Instant,
    ) -> Lookup<'_, O, S> {
        self.uses += 1;
        match self.slots.get_mut(digest) {
            Some(Slot::Starting { start, .. }) => return Lookup::Join(start.clone()),
            Some(Slot::Warm(warm)) => match warm.occupant.condition() {
                Condition::Idle | Condition::Busy => {
                    (warm.last_use, warm.used_at, warm.collected) = (self.uses, now, false);
                    return Lookup::Warm(warm.occupant.clone());
                }
                // `evict` replaces this reason with the spent isolate's own reason.
                Condition::Spent(_) => self.evict(*digest, Eviction::Room, now),
            },
            None => {}
        }
        match self.find_room(digest, tenant, share, now) {
            Ok(victim) => Lookup::Start(Vacancy {
                pool: self,
                digest: *digest,
                tenant: Rc::clone(tenant),
                victim,
                now,
            }),
            Err(obstacle) => Lookup::Refused(obstacle),
        }
    }

    /// Returns whether a request for a revision that is not [live](Self::is_live) would start it.
    /// The arguments are those of [`look_up`](Self::look_up).
    pub fn has_room(
        &self,
        digest: &RevisionDigest,
        tenant: &str,
        share: Share,
        now: Instant,
    ) -> bool {
        self.find_room(digest, tenant, share, now).is_ok()
    }

    /// Ends a start successfully. Evicts each isolate of the Worker's other revisions that is not
    /// busy and has had no request for `SUPERSEDED_AFTER`.
    pub fn started(&mut self, launch: Launch, occupant: O, now: Instant) {
        let Launch { digest } = launch;
        self.uses += 1;
        self.backoff.started(&digest);
        let superseded = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm(warm) => {
                let is_unused = now.saturating_duration_since(warm.used_at) >= SUPERSEDED_AFTER;
                let is_same_worker = warm.occupant.worker() == occupant.worker();
                (is_same_worker && is_unused && warm.occupant.condition() != Condition::Busy)
                    .then_some(*digest)
            }
            Slot::Starting { .. } => None,
        });
        for digest in superseded.collect::<Vec<_>>() {
            self.evict(digest, Eviction::Superseded, now);
        }
        self.slots.insert(
            digest,
            Slot::Warm(Warm { occupant, last_use: self.uses, used_at: now, collected: false }),
        );
    }

    /// Ends a start with a failure. For a while, requests for the revision are refused with this
    /// failure.
    /// Returns how many times in a row the revision's code has failed.
    pub fn failed(&mut self, launch: Launch, failure: Failure, retry: Retry, now: Instant) -> u32 {
        self.slots.remove(&launch.digest);
        self.backoff.failed(launch.digest, failure, retry, now)
    }

    /// Returns whether the revision's isolates were condemned repeatedly and the revision has not
    /// recovered since.
    pub fn is_reported(&self, digest: &RevisionDigest) -> bool {
        self.backoff.is_reported(digest)
    }

    /// Returns whether [`take_notices`](Self::take_notices) or [`take_evicted`](Self::take_evicted)
    /// has anything to return.
    pub fn has_updates(&self) -> bool {
        !self.evicted.is_empty() || self.backoff.has_notices()
    }

    /// Takes the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.backoff.take_notices()
    }

    /// Takes the isolates evicted since the last call, with the reasons. They may still have
    /// invocations in flight.
    pub fn take_evicted(&mut self) -> Vec<(Eviction, O)> {
        std::mem::take(&mut self.evicted)
    }

    /// Returns the number of warm isolates and the number of starting ones.
    pub fn count(&self) -> (usize, usize) {
        let warm = self.warm().count();
        (warm, self.slots.len() - warm)
    }

    /// Returns the largest idle isolate that has been used since this method last returned it, so
    /// that its garbage can be collected.
    pub fn largest_idle(&mut self, size: impl Fn(&O) -> usize) -> Option<O> {
        let idle = self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Warm(warm) if !warm.collected && warm.occupant.condition() == Condition::Idle => {
                Some(warm)
            }
            _ => None,
        });
        let largest = idle.max_by_key(|warm| size(&warm.occupant))?;
        largest.collected = true;
        Some(largest.occupant.clone())
    }

    fn warm(&self) -> impl Iterator<Item = (RevisionDigest, &Warm<O>)> {
        self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm(warm) => Some((*digest, warm)),
            Slot::Starting { .. } => None,
        })
    }
}

impl<O: Occupant, S: Clone> Vacancy<'_, O, S> {
    /// Returns whether the pool has an isolate that is spent or idle.
    pub fn can_replace(&self) -> bool {
        self.pool.can_evict()
    }

    /// Fills the slot with a start that is under way.
    pub fn starting(self, start: S) -> Launch {
        let Self { pool, digest, tenant, victim, now } = self;
        victim.into_iter().for_each(|victim| pool.evict(victim, Eviction::Room, now));
        pool.slots.insert(digest, Slot::Starting { start, tenant });
        Launch { digest }
    }
}

impl Launch {
    /// Returns the revision that is being started.
    pub fn digest(&self) -> RevisionDigest {
        self.digest
    }
}

#[cfg(test)]
mod tests;
