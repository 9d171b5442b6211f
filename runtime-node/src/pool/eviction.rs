//! Decides which isolate is evicted when another needs its slot, when memory is short, or when an
//! isolate has been idle for a long time.
//!
//! A spent isolate is evicted first, then an idle one of a tenant with more than half of the slots,
//! then any other idle one; among isolates of one rank, the least recently used. A busy isolate
//! never makes room: only [`Pool::release`] evicts one. A tenant whose share of the slots is used
//! up makes room among its own isolates.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_engine::share::Share;
use tenon_proto::id::RevisionDigest;

use super::{Condition, Eviction, Obstacle, Occupant, Pool, Slot, Spent, Warm};

/// Rank in the order of eviction; the least is evicted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Spent,
    /// The isolate is idle, and its tenant has more than half of the slots.
    Surplus,
    Idle,
}

impl<O: Occupant, S: Clone> Pool<O, S> {
    /// Returns the isolate that must be evicted for a start, or `None` if a slot is free and the
    /// tenant has not used up its share.
    pub(super) fn find_room(
        &self,
        digest: &RevisionDigest,
        tenant: &str,
        share: Share,
        now: Instant,
    ) -> Result<Option<RevisionDigest>, Obstacle> {
        if let Some(failure) = self.backoff.refusal(digest, now) {
            return Err(Obstacle::Failed(failure));
        }
        let by_tenant = self.by_tenant();
        let is_over = by_tenant.get(tenant).is_some_and(|own| *own >= share.of(self.capacity));
        let is_full = self.slots.len() >= self.capacity;
        let victim = self.select_victim(&by_tenant, |_, _| true);
        if is_full && victim.is_none() {
            return Err(Obstacle::Full);
        }
        if is_over {
            let is_own = |warm: &Warm<O>, rank| rank != Rank::Spent && warm.belongs_to(tenant);
            return self.select_victim(&by_tenant, is_own).map(Some).ok_or(Obstacle::OverShare);
        }
        Ok(victim.filter(|_| is_full))
    }

    /// Evicts isolates that are spent or have been idle for `idle`, and adds a notice for each
    /// revision that has recovered.
    pub fn evict_idle(&mut self, idle: Duration, now: Instant) {
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
            self.evict(digest, Eviction::Idle, now);
        }
        self.backoff.review(now);
    }

    /// Evicts the revision's isolate, if it has one, even if it is busy, because new requests go
    /// elsewhere.
    pub fn release(&mut self, digest: &RevisionDigest, now: Instant) {
        // A start continues for the requests that wait for it.
        if matches!(self.slots.get(digest), Some(Slot::Warm(_))) {
            self.evict(*digest, Eviction::Moved, now);
        }
    }

    /// Evicts one isolate that is spent or idle. Returns whether there was such an isolate.
    pub fn evict_one(&mut self, why: Eviction, now: Instant) -> bool {
        let victim = self.select_victim(&self.by_tenant(), |_, _| true);
        victim.into_iter().for_each(|digest| self.evict(digest, why, now));
        victim.is_some()
    }

    /// Returns whether an isolate is spent or idle.
    pub fn can_evict(&self) -> bool {
        self.warm().any(|(_, warm)| warm.occupant.condition() != Condition::Busy)
    }

    /// Counts each tenant's slots. A spent isolate counts for no tenant: it is evicted as soon as
    /// its slot is needed.
    fn by_tenant(&self) -> FxHashMap<&str, usize> {
        let mut by_tenant = FxHashMap::default();
        for slot in self.slots.values() {
            match slot {
                Slot::Starting { tenant, .. } => *by_tenant.entry(&**tenant).or_default() += 1,
                Slot::Warm(warm) if matches!(warm.occupant.condition(), Condition::Spent(_)) => {}
                Slot::Warm(warm) => {
                    *by_tenant.entry(warm.occupant.worker().namespace()).or_default() += 1
                }
            }
        }
        by_tenant
    }

    /// Returns the isolate to evict first among those that `is_eligible` accepts: by rank, then
    /// least recently used. Scanning all slots costs less than starting or ending an isolate.
    fn select_victim(
        &self,
        by_tenant: &FxHashMap<&str, usize>,
        is_eligible: impl Fn(&Warm<O>, Rank) -> bool,
    ) -> Option<RevisionDigest> {
        let half = Share::Half.of(self.capacity);
        let candidates = self.warm().filter_map(|(digest, warm)| {
            let rank = match warm.occupant.condition() {
                Condition::Busy => return None,
                Condition::Spent(_) => Rank::Spent,
                Condition::Idle if by_tenant[warm.occupant.worker().namespace()] > half => {
                    Rank::Surplus
                }
                Condition::Idle => Rank::Idle,
            };
            is_eligible(warm, rank).then_some(((rank, warm.last_use), digest))
        });
        candidates.min_by_key(|(order, _)| *order).map(|(_, digest)| digest)
    }

    /// Evicts the revision's isolate.
    ///
    /// # Arguments
    /// * `why` - the reason, unless the isolate is spent, which is a reason of its own.
    pub(super) fn evict(&mut self, digest: RevisionDigest, why: Eviction, now: Instant) {
        let Some(Slot::Warm(Warm { occupant, .. })) = self.slots.remove(&digest) else { return };
        let why = match occupant.condition() {
            Condition::Idle | Condition::Busy => why,
            Condition::Spent(Spent::Retired) => Eviction::Retired,
            Condition::Spent(Spent::Condemned(code)) => {
                self.backoff.condemned(occupant.worker().clone(), digest, code, now);
                Eviction::Condemned
            }
        };
        self.evicted.push((why, occupant));
    }
}

impl<O: Occupant> Warm<O> {
    fn belongs_to(&self, tenant: &str) -> bool {
        self.occupant.worker().namespace() == tenant
    }
}
