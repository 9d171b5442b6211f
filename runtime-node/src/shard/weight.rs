//! Detects revisions that are too heavy for a shard: those with a turn or a collection that delays
//! their neighbours, and those whose CPU limit allows a turn so long that requests would leave the
//! shard.
//!
//! ```text
//!  each request ─► longest stretch ─┬─ over 5 ms ─► heavy ──┐
//!                                   └─ in a lane: one more ─┴─ light, 8 at a time ─► supervisor
//! ```
//!
//! The supervisor decides what follows; see its `placement`. A shard that is not a process of its
//! own has no supervisor, and nothing follows.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenon_engine::{BytecodeLookup, Isolate};

use super::Shard;
use super::resident::Resident;

/// CPU time in one stretch that neighbours do not notice.
const LIGHT: Duration = Duration::from_millis(5);

/// CPU time allowed in one stretch of a start that had to compile, most of which bytecode saves the
/// next start. Bytecode does not save evaluation time.
const COMPILED: Duration = Duration::from_millis(50);

/// Largest CPU limit of a revision that may run on a shard. A single turn may use all of it,
/// however light the others are, and routers try another shard before twice this time.
const BORNE: Duration = Duration::from_secs(1);

/// Light requests reported to the supervisor at once.
const BATCH: u32 = 8;

/// Minimum time between two reports that a revision is heavy. In a lane every request may be heavy.
const PAUSE: Duration = Duration::from_secs(1);

/// The cost of an isolate's requests since the last report to the supervisor.
#[derive(Default)]
pub(super) struct Weight {
    /// The revision does not move to a shard: it would start as slowly there, or its limit would
    /// let it hold the shard.
    stays: bool,
    light: Cell<u32>,
    heavy_told: Cell<Option<Instant>>,
}

/// A report to the supervisor.
#[derive(Debug, PartialEq, Eq)]
enum Tell {
    Heavy,
    Light(u32),
}

impl Weight {
    /// Judges a start.
    ///
    /// # Arguments
    /// * `start` - CPU time of the longest stretch of the start.
    /// * `lookup` - whether the start found bytecode. A start without bytecode makes some for the
    ///   next one, which is faster.
    /// * `limit` - CPU time that an invocation may take.
    pub(super) fn new(start: Duration, lookup: Option<BytecodeLookup>, limit: Duration) -> Self {
        let compiled = matches!(lookup, Some(BytecodeLookup::Miss | BytecodeLookup::Rejected));
        let is_slow = start > if compiled { COMPILED } else { LIGHT };
        Self { stays: is_slow || limit > BORNE, ..Self::default() }
    }

    /// Adds an answered request by the CPU time of its longest stretch. Returns the report that is
    /// due, if one is.
    fn add(&self, stretch: Duration, now: Instant) -> Option<Tell> {
        if stretch > LIGHT {
            self.light.set(0);
            let told = self.heavy_told.get().is_some_and(|told| now.saturating_duration_since(told) < PAUSE);
            return (!told).then(|| {
                self.heavy_told.set(Some(now));
                Tell::Heavy
            });
        }
        if self.stays {
            return None;
        }
        let light = self.light.get() + 1;
        self.light.set(light % BATCH);
        (light == BATCH).then_some(Tell::Light(light))
    }
}

impl Shard {
    /// Judges the cost of a start. On a shard, a long start sends the revision back to the lanes,
    /// unless the next start will have bytecode.
    pub(super) fn weigh_start(&self, isolate: &Isolate) -> Weight {
        let weight = Weight::new(isolate.longest_stretch(), isolate.bytecode_lookup(), isolate.cpu_limit());
        if let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| !supervisor.is_lane())
            && weight.stays
        {
            supervisor.is_heavy(&isolate.digest());
        }
        weight
    }

    /// Reports turns that belong to no response: WebSocket messages, timers, `waitUntil`. Work that
    /// has begun goes on, but new requests find the revision in a lane. If an evicted isolate is
    /// heavy again, its work that outlives responses is ended: its neighbours would otherwise
    /// suffer for as long as it likes.
    pub(super) fn weigh_what_goes_on(&self, isolate: &Rc<Isolate>) {
        let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| !supervisor.is_lane()) else { return };
        if isolate.longest_stretch() <= LIGHT {
            return;
        }
        let digest = isolate.digest();
        if self.pool.borrow().holds(&digest, |resident| Rc::ptr_eq(&resident.isolate, isolate)) {
            supervisor.is_heavy(&digest);
        } else {
            isolate.end_what_lingers();
        }
    }

    /// Reports the cost of an answered request. A request that went over a limit counts as well.
    pub(super) fn weigh(&self, resident: &Resident) {
        let Some(supervisor) = &self.supervisor else { return };
        let (isolate, digest) = (&resident.isolate, resident.isolate.digest());
        match resident.weight.add(isolate.longest_stretch(), Instant::now()) {
            Some(Tell::Heavy) => supervisor.is_heavy(&digest),
            Some(Tell::Light(requests)) if supervisor.is_lane() => supervisor.is_light(&digest, requests),
            Some(Tell::Light(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_requests_are_told_in_batches_and_a_heavy_one_at_once() {
        let (weight, now) = (Weight::default(), Instant::now());
        let lights = |requests: u32| -> Vec<_> { (0..requests).filter_map(|_| weight.add(LIGHT, now)).collect() };
        assert_eq!(lights(BATCH - 1), []);
        assert_eq!(lights(BATCH + 1), [Tell::Light(BATCH), Tell::Light(BATCH)]);
        assert_eq!(lights(BATCH - 1), []);
        assert_eq!(weight.add(LIGHT * 2, now), Some(Tell::Heavy));
        assert_eq!(weight.add(LIGHT * 2, now), None, "it was told of a moment ago");
        assert_eq!(weight.add(LIGHT * 2, now + PAUSE), Some(Tell::Heavy));
        assert_eq!(lights(BATCH - 1), [], "what was light before counts no more");
    }

    #[test]
    fn a_revision_that_starts_slowly_stays_unless_bytecode_will_speed_it_up() {
        let moves = |start, lookup| moves(Weight::new(start, lookup, BORNE));
        assert!(moves(LIGHT, None) && moves(LIGHT * 2, Some(BytecodeLookup::Miss)));
        assert!(!moves(LIGHT * 2, None) && !moves(LIGHT * 2, Some(BytecodeLookup::Hit)));
        assert!(!moves(COMPILED * 2, Some(BytecodeLookup::Miss)));
    }

    #[test]
    fn a_revision_that_may_hold_a_shard_stays_however_lightly_it_answers() {
        let with_limit = |limit| moves(Weight::new(LIGHT, None, limit));
        assert!(with_limit(BORNE) && !with_limit(BORNE + Duration::from_millis(1)));
    }

    /// Returns whether light requests move the revision to a shard.
    fn moves(weight: Weight) -> bool {
        (0..BATCH).any(|_| weight.add(LIGHT, Instant::now()).is_some())
    }
}
