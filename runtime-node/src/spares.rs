//! Decides how many spare isolates a shard should have. This module is pure.
//!
//! The demand is the number of recent cold starts, and at least one, so that a wave of starts finds
//! as many spares as the previous wave needed. The count halves in every [`HALF_LIFE`].

use std::time::{Duration, Instant};

const HALF_LIFE: Duration = Duration::from_secs(2);

/// A shard's demand for spare isolates.
#[derive(Debug)]
pub struct Demand {
    /// Number of cold starts up to `as_of`, weighted by their age.
    starts: f64,
    as_of: Instant,
}

impl Demand {
    pub fn new(now: Instant) -> Self {
        Self { starts: 0.0, as_of: now }
    }

    /// Counts a cold start.
    pub fn started(&mut self, now: Instant) {
        self.starts = self.starts_at(now) + 1.0;
        self.as_of = now;
    }

    /// Returns how many spare isolates there should be.
    ///
    /// # Arguments
    /// * `max` - maximum number of spare isolates.
    pub fn wanted(&self, now: Instant, max: usize) -> usize {
        // The count is rounded; otherwise the last start would never be forgotten.
        (self.starts_at(now).round() as usize).max(1).min(max)
    }

    fn starts_at(&self, now: Instant) -> f64 {
        let half_lives =
            now.saturating_duration_since(self.as_of).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.starts * (-half_lives).exp2()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the demand after starts that follow these pauses in milliseconds, and the time of
    /// the last start.
    fn after(pauses: &[u64], begin: Instant) -> (Demand, Instant) {
        let (mut demand, mut now) = (Demand::new(begin), begin);
        for pause in pauses {
            now += Duration::from_millis(*pause);
            demand.started(now);
        }
        (demand, now)
    }

    #[test]
    fn the_demand_for_spares_decays_after_a_wave_of_starts() {
        let (demand, now) = after(&[0; 6], Instant::now());
        assert_eq!(demand.wanted(now, 10), 6);
        assert_eq!(demand.wanted(now + HALF_LIFE, 10), 3);
        assert_eq!(demand.wanted(now + HALF_LIFE * 10, 10), 1);
    }

    #[test]
    fn a_limit_of_zero_means_no_spares() {
        let (demand, now) = after(&[0; 6], Instant::now());
        assert_eq!(demand.wanted(now, 0), 0);
    }

    proptest! {
        #[test]
        fn the_number_of_spares_is_between_one_and_the_limit(
            starts in prop::collection::vec(0..10_000_u64, 0..50),
            max in 1..20_usize,
        ) {
            let (demand, now) = after(&starts, Instant::now());
            prop_assert!((1..=max).contains(&demand.wanted(now, max)));
        }

        #[test]
        fn starts_never_lower_and_time_never_raises_the_demand(
            starts in prop::collection::vec(0..10_000_u64, 0..50),
            pause in 0..100_000_u64,
        ) {
            let (mut demand, now) = after(&starts, Instant::now());
            let later = now + Duration::from_millis(pause);
            let before = demand.wanted(later, usize::MAX);
            prop_assert!(before <= demand.wanted(now, usize::MAX));
            demand.started(later);
            prop_assert!(demand.wanted(later, usize::MAX) >= before);
        }
    }
}
