//! Which revisions are too heavy for a shard: those with a turn or a collection that its neighbours would feel, and those whose
//! limit allows one that would make requests leave the shard.
//!
//! ```text
//!  each request ─► longest stretch ─┬─ over 5 ms ─► heavy ──┐
//!                                   └─ in a lane: one more ─┴─ light, 8 at a time ─► supervisor
//! ```
//!
//! The supervisor decides what follows; see its `placement`. Where a shard is no process of its own, nothing does.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Shard;
use super::resident::Resident;
use crate::engine::{BytecodeLookup, Isolate};

/// CPU time in one stretch that a neighbour need not wait for.
const LIGHT: Duration = Duration::from_millis(5);

/// CPU time in one stretch of a start that had to compile, and of which bytecode will spare the next one most. What
/// evaluation takes, bytecode spares nobody.
const COMPILED: Duration = Duration::from_millis(50);

/// CPU time that a revision may take by its limit and still run on a shard. However lightly it answers, one turn may take all
/// of it; a router looks for another shard before twice as long.
const BORNE: Duration = Duration::from_secs(1);

/// Light requests that the supervisor hears of at once.
const BATCH: u32 = 8;

/// How often a heavy revision is told of. In a lane it may be heavy with each request.
const PAUSE: Duration = Duration::from_secs(1);

/// What an isolate's requests have cost since the supervisor was told.
#[derive(Default)]
pub(super) struct Weight {
    /// It would start as slowly on a shard, or may hold it.
    stays: bool,
    light: Cell<u32>,
    heavy_told: Cell<Option<Instant>>,
}

/// What the supervisor is to hear.
#[derive(Debug, PartialEq, Eq)]
enum Tell {
    Heavy,
    Light(u32),
}

impl Weight {
    /// # Arguments
    /// * `start` - the longest stretch of the start; `lookup`, whether that had bytecode. One that had none makes some for
    ///   the next, which is faster.
    /// * `limit` - the CPU time that an invocation may take.
    pub(super) fn new(start: Duration, lookup: Option<BytecodeLookup>, limit: Duration) -> Self {
        let compiled = matches!(lookup, Some(BytecodeLookup::Miss | BytecodeLookup::Rejected));
        let is_slow = start > if compiled { COMPILED } else { LIGHT };
        Self { stays: is_slow || limit > BORNE, ..Self::default() }
    }

    /// A request has been answered, and its longest stretch took this long.
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
    /// What a start has cost. On a shard one that was long sends the revision back to the lanes, unless the next one will
    /// have bytecode.
    pub(super) fn weigh_start(&self, isolate: &Isolate) -> Weight {
        let weight = Weight::new(isolate.longest_stretch(), isolate.bytecode_lookup(), isolate.cpu_limit());
        if let Some(supervisor) = self.supervisor.as_ref().filter(|supervisor| !supervisor.is_lane())
            && weight.stays
        {
            supervisor.is_heavy(&isolate.digest());
        }
        weight
    }

    /// Has the supervisor hear of turns that belong to no answer: messages of WebSockets, timers, `waitUntil`. What has begun
    /// goes on, but new requests find the revision in a lane. An isolate that was let go and is heavy again loses what
    /// goes on after its answers: its neighbours would wait for that for as long as it likes.
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

    /// Has the supervisor hear what a request cost that has been answered. One that went over a limit has cost as much.
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

    /// Whether light requests move it to a shard.
    fn moves(weight: Weight) -> bool {
        (0..BATCH).any(|_| weight.add(LIGHT, Instant::now()).is_some())
    }
}
