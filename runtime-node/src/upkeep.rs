//! Upkeep: what a shard does for itself between requests. Pure; [`crate::shard`] does it.
//!
//! | memory | idle isolates | spare ones | cold starts |
//! | --- | --- | --- | --- |
//! | eased | go when nobody has used them for long | as the demand is | yes |
//! | tight | the largest is collected, and if that has not helped they go one after another | none | yes, each for an idle one |
//! | critical | go one after another | none | no |

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use crate::memory::Pressure;

/// Between two collections that a shortage forces: each stops the thread for as long as its heap is large.
pub const COLLECTION_INTERVAL: Duration = Duration::from_secs(1);

/// How long until what a collection has freed shows: the use of memory has been looked at again.
const RELIEF_SHOWS: Duration = Duration::from_millis(150);

/// The pause between two steps against a shortage: what one has freed shows in the next look at its use.
const STEP: Duration = Duration::from_millis(20);

/// The longest pause: what has become of late of revisions that failed is looked at as well.
const REVIEW: Duration = Duration::from_secs(10);

/// One step against a shortage of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    Nothing,
    /// Collect the garbage of the largest idle isolate, or let one go if there is none to collect.
    Collect,
    /// Let the idle isolate go that was used least recently.
    LetGo,
}

/// What to do about spare isolates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stock {
    Make,
    Drop,
    Keep,
}

/// What has been done against a shortage.
#[derive(Debug, Default)]
pub struct Upkeep {
    collected: Option<Instant>,
}

impl Upkeep {
    /// The next step.
    pub fn relief(&mut self, pressure: Pressure, now: Instant) -> Relief {
        let since = self.collected.map(|at| now.saturating_duration_since(at));
        match pressure {
            Pressure::Eased => Relief::Nothing,
            // There is no time to look for garbage.
            Pressure::Critical => Relief::LetGo,
            Pressure::Tight if since.is_none_or(|since| since >= COLLECTION_INTERVAL) => {
                self.collected = Some(now);
                Relief::Collect
            }
            Pressure::Tight if since.is_some_and(|since| since < RELIEF_SHOWS) => Relief::Nothing,
            Pressure::Tight => Relief::LetGo,
        }
    }
}

/// How long until the next step, unless the pressure changes before.
///
/// # Arguments
/// * `idle` - how long an isolate may be unused.
pub fn pause(pressure: Pressure, idle: Duration) -> Duration {
    match pressure {
        Pressure::Eased => (idle / 4).clamp(STEP, REVIEW),
        Pressure::Tight | Pressure::Critical => STEP,
    }
}

/// # Arguments
/// * `spares` - how many there are.
/// * `wanted` - how many the demand asks for.
pub fn stock(pressure: Pressure, spares: usize, wanted: usize) -> Stock {
    let wanted = if pressure == Pressure::Eased { wanted } else { 0 };
    match spares.cmp(&wanted) {
        Ordering::Less => Stock::Make,
        Ordering::Greater => Stock::Drop,
        Ordering::Equal => Stock::Keep,
    }
}

/// Whether a cold isolate may be started.
pub fn admits_starts(pressure: Pressure) -> bool {
    pressure < Pressure::Critical
}

/// Whether one that is started takes the place of an idle one. The steps against a shortage come too slowly for many
/// starts, which would go on until there are no more.
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
    fn when_memory_is_tight_a_collection_comes_before_the_first_eviction_and_has_time_to_show() {
        let (mut upkeep, begin) = (Upkeep::default(), Instant::now());
        let steps = [0, 100, 149, 150, 500, 999, 1_000, 1_100];
        let steps = steps.map(|ms| upkeep.relief(Pressure::Tight, begin + Duration::from_millis(ms)));
        use Relief::{Collect, LetGo, Nothing};
        assert_eq!(steps, [Collect, Nothing, Nothing, LetGo, LetGo, LetGo, Collect, Nothing]);
    }

    proptest! {
        #[test]
        fn collections_are_an_interval_apart_whatever_the_pressure_does(
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
                        let shows = last.is_some_and(|last| now - last >= RELIEF_SHOWS);
                        prop_assert_eq!(relief == Relief::LetGo, shows);
                    }
                    (Pressure::Eased, relief) => prop_assert_eq!(relief, Relief::Nothing),
                    (Pressure::Critical, relief) => prop_assert_eq!(relief, Relief::LetGo),
                }
            }
        }

        #[test]
        fn a_shortage_is_worked_on_until_it_is_over(idle in 0..10_000_u64, pressure in pressure()) {
            let pause = pause(pressure, Duration::from_millis(idle));
            prop_assert!((STEP..=REVIEW).contains(&pause));
            prop_assert!(pressure == Pressure::Eased || pause == STEP);
        }

        #[test]
        fn the_stock_comes_to_what_is_wanted_and_to_nothing_in_a_shortage(
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
        fn more_pressure_never_admits_what_less_refuses(one in pressure(), other in pressure()) {
            prop_assert!(one > other || admits_starts(one) || !admits_starts(other));
        }
    }
}
