//! The pool's policy: which isolate serves a revision, and which one makes room. Pure.
//!
//! ```text
//!          Vacancy                  Launch                    least recently used
//!   (cold) ──────► Starting ──────────────────► Warm ◄──► busy ────────────────► out
//!      ▲              │ failed                   │ spent, superseded
//!      └── back-off ──┴──────────────────────────┘
//! ```
//!
//! A [`Vacancy`] proves that a slot is free and borrows the pool, so that nobody else takes it; filled it becomes a
//! [`Launch`], which ends once, well or not. What is warm, the pool knows; whether that is in use or spent, it asks the
//! isolate, which alone can know.
//!
//! It knows neither V8 nor time: isolates are [`Occupant`]s, and `now` is an argument. What it lets go of it hands
//! out, for its caller to end. How long a revision that fails is left alone says [`trouble`]. Belongs to one thread.

mod eviction;
mod trouble;

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::failure::{Failure, FailureCode};
use tenon_proto::id::{RevisionDigest, WorkerId};

use crate::tenants::Share;
pub use eviction::Eviction;
use trouble::Trouble;

/// An older revision of a Worker that had no request for so long is not one that shares its traffic.
const SUPERSEDED_AFTER: Duration = Duration::from_secs(60);

/// What a slot holds.
pub trait Occupant: Clone {
    /// Whose code it runs.
    fn worker(&self) -> &WorkerId;
    /// How it is now.
    fn condition(&self) -> Condition;
}

/// How a warm isolate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has nothing in flight: it can serve, and it can be let go.
    Idle,
    /// It has invocations in flight and must not be taken away.
    Busy,
    /// It gets no more invocations. Those it has go on wherever it is, so that it needs no slot for them.
    Spent(Spent),
}

/// Why an isolate gets no more invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// It was stopped at this limit, and what is left of it cannot be trusted. A strike against its revision.
    Condemned(FailureCode),
    /// An invocation went over a limit and came to its end by itself. No strike.
    Retired,
}

/// What to do for a request.
pub enum Lookup<'a, O, S> {
    /// Hand it to this one.
    Warm(O),
    /// Wait with the others for this start.
    Join(S),
    /// Start one here.
    Start(Vacancy<'a, O, S>),
    /// It cannot be started now.
    Refused(Obstacle),
}

/// What stands in the way of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The revision failed a short time ago, so.
    Failed(Failure),
    /// Every slot is busy.
    Full,
    /// Its tenant has as many slots as it may, and all of them are busy.
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

/// A start that is under way: to be [`started`](Pool::started) or [`failed`](Pool::failed), once.
#[must_use = "the slot is taken until the start has ended"]
#[derive(Debug)]
pub struct Launch {
    digest: RevisionDigest,
}

/// How a revision that did not start is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It could not be had, or there was no memory for it, which may be there the next moment.
    Soon,
    /// Its code failed, and will most likely fail again: later each time.
    BackOff,
}

/// What others may want to know of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its isolates are condemned again and again, and it is left alone for a while.
    Failing { worker: WorkerId, digest: RevisionDigest, why: FailureCode, times: u32 },
    /// It was failing, and has been well since.
    Recovered(RevisionDigest),
}

/// A shard's slots: `O` is an isolate, `S` a start that is under way.
pub struct Pool<O, S> {
    slots: FxHashMap<RevisionDigest, Slot<O, S>>,
    trouble: Trouble,
    evicted: Vec<(Eviction, O)>,
    capacity: usize,
    /// Counts uses, as a clock for "least recently" on which no two uses are at the same time.
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
    /// Its garbage has been collected since.
    collected: bool,
}

/// Who makes room first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Spent,
    /// Idle, of a tenant with more than half of the slots.
    Surplus,
    Idle,
}

impl<O: Occupant, S: Clone> Pool<O, S> {
    /// # Arguments
    /// * `capacity` - how many isolates there may be, those that are starting included; at least one.
    pub fn new(capacity: usize) -> Self {
        let slots = FxHashMap::default();
        Self { slots, trouble: Trouble::default(), evicted: Vec::new(), capacity: capacity.max(1), uses: 0 }
    }

    /// Whether a request for `digest` would find it started, and in order.
    pub fn is_warm(&self, digest: &RevisionDigest) -> bool {
        let Some(Slot::Warm(warm)) = self.slots.get(digest) else { return false };
        !matches!(warm.occupant.condition(), Condition::Spent(_))
    }

    /// Whether a request for `digest` would find it started and in order, or starting.
    pub fn is_live(&self, digest: &RevisionDigest) -> bool {
        self.is_starting(digest) || self.is_warm(digest)
    }

    pub fn is_starting(&self, digest: &RevisionDigest) -> bool {
        matches!(self.slots.get(digest), Some(Slot::Starting { .. }))
    }

    /// Whether it has a slot, started or not.
    pub fn has(&self, digest: &RevisionDigest) -> bool {
        self.slots.contains_key(digest)
    }

    /// Whether its slot has the isolate that `is_it` says, which new requests find.
    pub fn holds(&self, digest: &RevisionDigest, is_it: impl Fn(&O) -> bool) -> bool {
        matches!(self.slots.get(digest), Some(Slot::Warm(warm)) if is_it(&warm.occupant))
    }

    /// Where a request for `digest` goes. A spent isolate is let go.
    ///
    /// # Arguments
    /// * `tenant` - who asks, and `share`, how much of the slots that one may have.
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
                // For the reason that it has itself.
                Condition::Spent(_) => self.let_go(*digest, Eviction::Room, now),
            },
            None => {}
        }
        match self.make_room(digest, tenant, share, now) {
            Ok(victim) => {
                Lookup::Start(Vacancy { pool: self, digest: *digest, tenant: Rc::clone(tenant), victim, now })
            }
            Err(obstacle) => Lookup::Refused(obstacle),
        }
    }

    /// Whether a request for `digest`, which is not [live](Self::is_live), would have it started. The arguments are as of
    /// [`look_up`](Self::look_up).
    pub fn has_room(&self, digest: &RevisionDigest, tenant: &str, share: Share, now: Instant) -> bool {
        self.make_room(digest, tenant, share, now).is_ok()
    }

    /// Which isolate would have to go for a start, if one would.
    fn make_room(
        &self,
        digest: &RevisionDigest,
        tenant: &str,
        share: Share,
        now: Instant,
    ) -> Result<Option<RevisionDigest>, Obstacle> {
        if let Some(failure) = self.trouble.refusal(digest, now) {
            return Err(Obstacle::Failed(failure));
        }
        let by_tenant = self.by_tenant();
        let is_over = by_tenant.get(tenant).is_some_and(|own| *own >= share.of(self.capacity));
        let is_full = self.slots.len() >= self.capacity;
        let victim = self.first_to_go(&by_tenant, |_, _| true);
        if is_full && victim.is_none() {
            return Err(Obstacle::Full);
        }
        if is_over {
            let of_tenant = |warm: &Warm<O>, rank| rank != Rank::Spent && warm.is_of(tenant);
            return self.first_to_go(&by_tenant, of_tenant).map(Some).ok_or(Obstacle::OverShare);
        }
        Ok(victim.filter(|_| is_full))
    }

    /// The start has succeeded. Idle isolates of older revisions that nobody has asked for of late are let go.
    pub fn started(&mut self, launch: Launch, occupant: O, now: Instant) {
        let Launch { digest } = launch;
        self.uses += 1;
        self.trouble.started(&digest);
        let superseded = self.slots.iter().filter_map(|(digest, slot)| match slot {
            Slot::Warm(warm) => {
                let unasked = now.saturating_duration_since(warm.used_at) >= SUPERSEDED_AFTER;
                let is_older = warm.occupant.worker() == occupant.worker();
                (is_older && unasked && warm.occupant.condition() != Condition::Busy).then_some(*digest)
            }
            Slot::Starting { .. } => None,
        });
        for digest in superseded.collect::<Vec<_>>() {
            self.let_go(digest, Eviction::Superseded, now);
        }
        self.slots.insert(digest, Slot::Warm(Warm { occupant, last_use: self.uses, used_at: now, collected: false }));
    }

    /// The start has failed. For a while requests for the revision are told so. Returns how many times in a row its
    /// code has failed.
    pub fn failed(&mut self, launch: Launch, failure: Failure, retry: Retry, now: Instant) -> u32 {
        self.slots.remove(&launch.digest);
        self.trouble.failed(launch.digest, failure, retry, now)
    }

    /// Whether the revision's isolates have been condemned again and again, and it has not shown since that it is well.
    pub fn is_on_trial(&self, digest: &RevisionDigest) -> bool {
        self.trouble.is_on_trial(digest)
    }

    /// Whether there is anything to take since the last call of [`take_notices`](Self::take_notices) or
    /// [`take_evicted`](Self::take_evicted).
    pub fn has_news(&self) -> bool {
        !self.evicted.is_empty() || self.trouble.has_notices()
    }

    /// What there is to tell since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.trouble.take_notices()
    }

    /// What the pool has let go of since the last call, and why. It may still have invocations in flight.
    pub fn take_evicted(&mut self) -> Vec<(Eviction, O)> {
        std::mem::take(&mut self.evicted)
    }

    /// How many isolates there are, and how many more are starting.
    pub fn count(&self) -> (usize, usize) {
        let warm = self.warm().count();
        (warm, self.slots.len() - warm)
    }

    /// Lets those go that are spent, or have been idle for so long, and notices which revisions are well again.
    pub fn sweep(&mut self, idle: Duration, now: Instant) {
        let useless = self.warm().filter_map(|(digest, warm)| {
            let unused = now.saturating_duration_since(warm.used_at) >= idle;
            let useless = match warm.occupant.condition() {
                Condition::Idle => unused,
                Condition::Busy => false,
                Condition::Spent(_) => true,
            };
            useless.then_some(digest)
        });
        for digest in useless.collect::<Vec<_>>() {
            self.let_go(digest, Eviction::Idle, now);
        }
        self.trouble.review(now);
    }

    /// Lets the revision's isolate go, if there is one: new requests are not for this pool any more.
    pub fn release(&mut self, digest: &RevisionDigest, now: Instant) {
        // A start goes on for the requests that wait for it.
        if matches!(self.slots.get(digest), Some(Slot::Warm(_))) {
            self.let_go(*digest, Eviction::Moved, now);
        }
    }

    /// Lets one isolate go that is spent or idle, if there is one.
    pub fn let_one_go(&mut self, why: Eviction, now: Instant) -> bool {
        let victim = self.first_to_go(&self.by_tenant(), |_, _| true);
        victim.into_iter().for_each(|digest| self.let_go(digest, why, now));
        victim.is_some()
    }

    /// The largest of the idle isolates that have been used since they were handed out here, so that its garbage can be
    /// collected.
    pub fn largest_idle(&mut self, size: impl Fn(&O) -> usize) -> Option<O> {
        let idle = self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Warm(warm) if !warm.collected && warm.occupant.condition() == Condition::Idle => Some(warm),
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

    /// How many slots each tenant has. A spent isolate is none of anybody's: it goes as soon as its slot is needed.
    fn by_tenant(&self) -> FxHashMap<&str, usize> {
        let mut by_tenant = FxHashMap::default();
        for slot in self.slots.values() {
            match slot {
                Slot::Starting { tenant, .. } => *by_tenant.entry(&**tenant).or_default() += 1,
                Slot::Warm(warm) if matches!(warm.occupant.condition(), Condition::Spent(_)) => {}
                Slot::Warm(warm) => *by_tenant.entry(warm.occupant.worker().namespace()).or_default() += 1,
            }
        }
        by_tenant
    }

    /// Of those that may go whichever does first: by rank, and the least recently used. A look over all slots costs
    /// less than the start or the end of an isolate.
    fn first_to_go(
        &self,
        by_tenant: &FxHashMap<&str, usize>,
        may_go: impl Fn(&Warm<O>, Rank) -> bool,
    ) -> Option<RevisionDigest> {
        let half = Share::Half.of(self.capacity);
        let candidates = self.warm().filter_map(|(digest, warm)| {
            let rank = match warm.occupant.condition() {
                Condition::Busy => return None,
                Condition::Spent(_) => Rank::Spent,
                Condition::Idle if by_tenant[warm.occupant.worker().namespace()] > half => Rank::Surplus,
                Condition::Idle => Rank::Idle,
            };
            may_go(warm, rank).then_some(((rank, warm.last_use), digest))
        });
        candidates.min_by_key(|(order, _)| *order).map(|(_, digest)| digest)
    }

    /// # Arguments
    /// * `why` - unless it is spent, which is a reason of its own.
    fn let_go(&mut self, digest: RevisionDigest, why: Eviction, now: Instant) {
        let Some(Slot::Warm(Warm { occupant, .. })) = self.slots.remove(&digest) else { return };
        let why = match occupant.condition() {
            Condition::Idle | Condition::Busy => why,
            Condition::Spent(Spent::Retired) => Eviction::Retired,
            Condition::Spent(Spent::Condemned(code)) => {
                self.trouble.struck(occupant.worker().clone(), digest, code, now);
                Eviction::Condemned
            }
        };
        self.evicted.push((why, occupant));
    }
}

impl<O: Occupant> Warm<O> {
    fn is_of(&self, tenant: &str) -> bool {
        self.occupant.worker().namespace() == tenant
    }
}

impl<O: Occupant, S: Clone> Vacancy<'_, O, S> {
    /// A start is under way.
    pub fn starting(self, start: S) -> Launch {
        let Self { pool, digest, tenant, victim, now } = self;
        victim.into_iter().for_each(|victim| pool.let_go(victim, Eviction::Room, now));
        pool.slots.insert(digest, Slot::Starting { start, tenant });
        Launch { digest }
    }
}

impl Launch {
    /// What is being started.
    pub fn digest(&self) -> RevisionDigest {
        self.digest
    }
}

#[cfg(test)]
mod tests;
