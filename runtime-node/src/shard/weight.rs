//! Detects revisions that are too heavy for a shard: those with a turn or a garbage collection that
//! delays their neighbors, and those whose CPU limit allows a turn so long that routers would send
//! their neighbors' requests to other shards.
//!
//! ```text
//!  each request ─► blocking time ─┬─ over 5 ms ─► heavy ──┐
//!                                 └─ in a lane: one more ─┴─ light, 8 at a time ─► supervisor
//! ```
//!
//! This module is pure; `weighing` sends the reports to the supervisor, which moves revisions.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tenon_engine::BytecodeLookup;

/// CPU time for which a Worker may block the thread without a delay that its neighbors notice.
pub(super) const LIGHT: Duration = Duration::from_millis(5);

/// CPU time for which a start that had to compile may block the thread. Bytecode saves the next
/// start most of this time, but not the time of evaluation.
const COMPILED: Duration = Duration::from_millis(50);

/// Largest CPU limit of a revision that may run on a shard. A single turn may use the whole limit,
/// however light the other turns are, and routers try another shard before twice this time has
/// passed.
const MAX_CPU_LIMIT: Duration = Duration::from_secs(1);

/// Number of light requests in one report to the supervisor.
const BATCH: u32 = 8;

/// Minimum time between two reports that a revision is heavy, because every request of a revision
/// in a lane may be heavy.
const PAUSE: Duration = Duration::from_secs(1);

/// The cost of an isolate's requests since the last report to the supervisor.
#[derive(Default)]
pub(super) struct Weight {
    /// Whether the revision must not move to a shard, because its start would be as slow there as
    /// it was here, or because its CPU limit would let it occupy the shard.
    stays: bool,
    /// Number of light requests since the last report.
    light: Cell<u32>,
    heavy_reported_at: Cell<Option<Instant>>,
    /// Whether the cost is never reported.
    is_unreported: bool,
}

/// A report to the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WeightReport {
    Heavy,
    Light(u32),
}

impl Weight {
    /// Judges a start.
    ///
    /// # Arguments
    /// * `start` - longest CPU time for which the start blocked the thread.
    /// * `lookup` - whether the start found bytecode. A start without bytecode makes some for the
    ///   next start, which is then faster.
    /// * `limit` - CPU time that an invocation may take.
    pub(super) fn new(start: Duration, lookup: Option<BytecodeLookup>, limit: Duration) -> Self {
        let compiled = matches!(lookup, Some(BytecodeLookup::Miss | BytecodeLookup::Rejected));
        let is_slow = start > if compiled { COMPILED } else { LIGHT };
        Self { stays: is_slow || limit > MAX_CPU_LIMIT, ..Self::default() }
    }

    /// Returns a weight whose cost is not reported, for an isolate that is being profiled.
    pub(super) fn unreported() -> Self {
        Self { is_unreported: true, ..Self::default() }
    }

    /// Returns whether the revision must not move to a shard.
    pub(super) fn stays(&self) -> bool {
        self.stays
    }

    /// Adds an answered request, where `blocking` is the longest CPU time for which the request
    /// blocked the thread. Returns the report to send now, if there is one.
    pub(super) fn add(&self, blocking: Duration, now: Instant) -> Option<WeightReport> {
        if self.is_unreported {
            return None;
        }
        if blocking > LIGHT {
            self.light.set(0);
            let was_reported = self
                .heavy_reported_at
                .get()
                .is_some_and(|at| now.saturating_duration_since(at) < PAUSE);
            return (!was_reported).then(|| {
                self.heavy_reported_at.set(Some(now));
                WeightReport::Heavy
            });
        }
        if self.stays {
            return None;
        }
        let light = self.light.get() + 1;
        self.light.set(light % BATCH);
        (light == BATCH).then_some(WeightReport::Light(light))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_requests_are_reported_in_batches_and_heavy_ones_immediately() {
        let (weight, now) = (Weight::default(), Instant::now());
        let lights = |requests: u32| -> Vec<_> {
            (0..requests).filter_map(|_| weight.add(LIGHT, now)).collect()
        };
        assert_eq!(lights(BATCH - 1), []);
        assert_eq!(lights(BATCH + 1), [WeightReport::Light(BATCH), WeightReport::Light(BATCH)]);
        assert_eq!(lights(BATCH - 1), []);
        assert_eq!(weight.add(LIGHT * 2, now), Some(WeightReport::Heavy));
        assert_eq!(weight.add(LIGHT * 2, now), None, "within PAUSE of a heavy request");
        assert_eq!(weight.add(LIGHT * 2, now + PAUSE), Some(WeightReport::Heavy));
        assert_eq!(lights(BATCH - 1), [], "light requests before a heavy one were counted");
    }

    #[test]
    fn the_cost_of_an_isolate_that_is_being_profiled_is_not_reported() {
        let (weight, now) = (Weight::unreported(), Instant::now());
        assert!(!moves(Weight::unreported()) && weight.add(LIGHT * 2, now).is_none());
    }

    #[test]
    fn a_revision_that_starts_slowly_stays_unless_bytecode_will_speed_it_up() {
        let moves = |start, lookup| moves(Weight::new(start, lookup, MAX_CPU_LIMIT));
        assert!(moves(LIGHT, None) && moves(LIGHT * 2, Some(BytecodeLookup::Miss)));
        assert!(!moves(LIGHT * 2, None) && !moves(LIGHT * 2, Some(BytecodeLookup::Hit)));
        assert!(!moves(COMPILED * 2, Some(BytecodeLookup::Miss)));
    }

    #[test]
    fn a_revision_with_a_high_cpu_limit_stays_in_its_lane() {
        let with_limit = |limit| moves(Weight::new(LIGHT, None, limit));
        assert!(with_limit(MAX_CPU_LIMIT) && !with_limit(MAX_CPU_LIMIT + Duration::from_millis(1)));
    }

    /// Returns whether light requests move the revision to a shard.
    fn moves(weight: Weight) -> bool {
        (0..BATCH).any(|_| weight.add(LIGHT, Instant::now()).is_some())
    }
}
