//! Decides which maintenance a shard does between requests. This module is pure; [`crate::shard`]
//! carries the decisions out.
//!
//! | memory | idle isolates | spare isolates | cold starts |
//! | --- | --- | --- | --- |
//! | eased | evicted when idle for too long | by demand | yes |
//! | tight | largest collected, then evicted one by one | none | yes; each evicts an idle isolate |
//! | critical | evicted one by one | none | only if an idle isolate is evicted |

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use crate::memory::Pressure;

/// Minimum time between two forced garbage collections: each stops the thread for a time that is
/// proportional to the isolate's heap.
pub const COLLECTION_INTERVAL: Duration = Duration::from_secs(1);

/// Time after a garbage collection until its effect shows: memory use has been measured again by
/// then.
const RELIEF_DELAY: Duration = Duration::from_millis(150);

/// Pause between two steps against a shortage of memory.
const STEP: Duration = Duration::from_millis(20);

/// Longest pause between two steps of maintenance, which also detect the recovery of revisions.
const REVIEW: Duration = Duration::from_secs(10);

/// A step against a shortage of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    Nothing,
    /// Collect the garbage of the largest idle isolate that has been used since its last
    /// collection, or evict an isolate if no collection is possible.
    Collect,
    /// Evict the isolate that is first in the order of eviction.
    Evict,
}

/// A change to the stock of spare isolates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    Make,
    Drop,
    Keep,
}

/// The steps that were taken against a shortage of memory.
#[derive(Debug, Default)]
pub struct Upkeep {
    /// The time of the last garbage collection.
    collected: Option<Instant>,
    /// The time since which no step has freed anything.
    no_relief_since: Option<Instant>,
}

impl Upkeep {
    /// Records whether the last step against a shortage freed anything. Returns the time for which
    /// no step has freed anything under critical pressure.
    pub fn time_without_relief(
        &mut self,
        pressure: Pressure,
        freed: bool,
        now: Instant,
    ) -> Duration {
        if freed || pressure < Pressure::Critical {
            self.no_relief_since = None;
            return Duration::ZERO;
        }
        now.saturating_duration_since(*self.no_relief_since.get_or_insert(now))
    }

    /// Returns the next step against a shortage of memory.
    pub fn relief(&mut self, pressure: Pressure, now: Instant) -> Relief {
        let since = self.collected.map(|at| now.saturating_duration_since(at));
        match pressure {
            Pressure::Eased => Relief::Nothing,
            // A garbage collection would take too long.
            Pressure::Critical => Relief::Evict,
            Pressure::Tight if since.is_none_or(|since| since >= COLLECTION_INTERVAL) => {
                self.collected = Some(now);
                Relief::Collect
            }
            Pressure::Tight if since.is_some_and(|since| since < RELIEF_DELAY) => Relief::Nothing,
            Pressure::Tight => Relief::Evict,
        }
    }
}

/// Returns the time until the next step, unless the pressure changes earlier.
///
/// # Arguments
/// * `idle` - time after which an idle isolate is evicted.
pub fn pause(pressure: Pressure, idle: Duration) -> Duration {
    match pressure {
        Pressure::Eased => (idle / 4).clamp(STEP, REVIEW),
        Pressure::Tight | Pressure::Critical => STEP,
    }
}

/// Decides whether to make or drop a spare isolate.
///
/// # Arguments
/// * `spares` - number of spare isolates.
/// * `wanted` - number of spare isolates for which there is demand.
pub fn stock(pressure: Pressure, spares: usize, wanted: usize) -> Stock {
    let wanted = if pressure == Pressure::Eased { wanted } else { 0 };
    match spares.cmp(&wanted) {
        Ordering::Less => Stock::Make,
        Ordering::Greater => Stock::Drop,
        Ordering::Equal => Stock::Keep,
    }
}

/// Returns whether a cold isolate may be started.
///
/// # Arguments
/// * `replaces` - whether an idle isolate is evicted for the start.
pub fn admits_start(pressure: Pressure, replaces: bool) -> bool {
    pressure < Pressure::Critical || replaces
}

/// Returns whether each start evicts an idle isolate. The steps against a shortage of memory are
/// slower than many starts, which would otherwise use up the memory.
pub fn starts_replace(pressure: Pressure) -> bool {
    pressure > Pressure::Eased
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pressure() -> impl Strategy<Value = Pressure> {
        prop::sample::select(&[Pressure::Eased, Pressure::Tight, Pressure::Critical][..])
    }

    #[test]
    fn a_collection_precedes_the_first_eviction_under_tight_memory() {
        let (mut upkeep, begin) = (Upkeep::default(), Instant::now());
        let steps = [0, 100, 149, 150, 500, 999, 1_000, 1_100];
        let steps =
            steps.map(|ms| upkeep.relief(Pressure::Tight, begin + Duration::from_millis(ms)));
        use Relief::{Collect, Evict, Nothing};
        assert_eq!(steps, [Collect, Nothing, Nothing, Evict, Evict, Evict, Collect, Nothing]);
    }

    #[test]
    fn time_without_relief_is_counted_while_nothing_is_freed_and_no_isolate_may_start() {
        use Pressure::{Critical, Tight};
        let (mut upkeep, start) = (Upkeep::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut ask = |pressure, freed, after: u32| {
            upkeep.time_without_relief(pressure, freed, start + after * second)
        };
        assert_eq!(ask(Critical, false, 0), Duration::ZERO);
        assert_eq!(ask(Critical, false, 2), 2 * second);
        assert_eq!(ask(Critical, true, 3), Duration::ZERO, "after an isolate was evicted");
        assert_eq!(ask(Critical, false, 4), Duration::ZERO);
        assert_eq!(ask(Critical, false, 5), second);
        assert_eq!(ask(Tight, false, 6), Duration::ZERO, "while isolates may be started");
        assert_eq!(ask(Critical, false, 7), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn collections_are_an_interval_apart_under_any_pressure(
            steps in prop::collection::vec((pressure(), 0..400_u64), 0..100),
        ) {
            let (mut upkeep, mut now, mut last) = (Upkeep::default(), Instant::now(), None);
            for (pressure, pause) in steps {
                now += Duration::from_millis(pause);
                match (pressure, upkeep.relief(pressure, now)) {
                    (Pressure::Tight, Relief::Collect) => {
                        prop_assert!(last.is_none_or(|last| now - last >= COLLECTION_INTERVAL));
                        last = Some(now);
                    }
                    (Pressure::Tight, relief) => {
                        let shows = last.is_some_and(|last| now - last >= RELIEF_DELAY);
                        prop_assert_eq!(relief == Relief::Evict, shows);
                    }
                    (Pressure::Eased, relief) => prop_assert_eq!(relief, Relief::Nothing),
                    (Pressure::Critical, relief) => prop_assert_eq!(relief, Relief::Evict),
                }
            }
        }

        #[test]
        fn upkeep_pauses_briefly_during_a_shortage(idle in 0..10_000_u64, pressure in pressure()) {
            let pause = pause(pressure, Duration::from_millis(idle));
            prop_assert!((STEP..=REVIEW).contains(&pause));
            prop_assert!(pressure == Pressure::Eased || pause == STEP);
        }

        #[test]
        fn the_stock_reaches_the_demand_or_zero_in_a_shortage(
            pressure in pressure(), mut spares in 0..20_usize, wanted in 0..20_usize,
        ) {
            let goal = if pressure == Pressure::Eased { wanted } else { 0 };
            for _ in 0..20 {
                match stock(pressure, spares, wanted) {
                    Stock::Make => spares += 1,
                    Stock::Drop => spares -= 1,
                    Stock::Keep => {}
                }
            }
            prop_assert_eq!(spares, goal);
        }

        #[test]
        fn higher_pressure_never_admits_a_start_that_lower_pressure_refuses(
            one in pressure(), other in pressure(), replaces: bool,
        ) {
            let admits = |pressure| admits_start(pressure, replaces);
            prop_assert!(one > other || admits(one) || !admits(other));
        }

        #[test]
        fn a_start_in_the_place_of_an_idle_isolate_is_always_admitted(pressure in pressure()) {
            prop_assert!(admits_start(pressure, starts_replace(pressure)));
        }
    }
}
