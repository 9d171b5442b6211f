//! The requests of one revision during a measurement, as routers count them and operators add them
//! up.
//!
//! ```text
//!  µs   0        1024   1280   1536   1792   2048     2560 …          50,331,648
//!       ├─ 0 ────┼─ 1 ──┼─ 2 ──┼─ 3 ──┼─ 4 ──┼─ 5 ────┼─ …  ─ 62 ─────┼─ 63 ──►
//! ```
//!
//! Latencies are counted in buckets. As in HdrHistogram, each doubling of the latency has the same
//! number of buckets of equal width. The width of a bucket, except the first, is therefore at most
//! a quarter of the latency at which the bucket begins, and finding a bucket takes a few operations
//! on integers.

use std::time::Duration;

use crate::catalog::RevisionTraffic;

/// Number of buckets of latencies.
pub const BUCKETS: usize = 64;

/// Binary logarithm of the number of buckets for each doubling of the latency.
const LOG_STEPS: u32 = 2;

/// Binary logarithm of the width of the narrowest bucket after the first one, in microseconds.
const LOG_UNIT: u32 = 8;

/// The requests of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of requests, except those that failed because of their clients.
    pub requests: u64,
    /// Number of requests with a status of 500 or more.
    pub failed: u64,
    pub latencies: Latencies,
}

/// Number of requests in each bucket of latencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies([u64; BUCKETS]);

impl Figures {
    /// Adds figures of other requests.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.failed = self.failed.saturating_add(other.failed);
        for (count, more) in self.latencies.0.iter_mut().zip(other.latencies.0) {
            *count = count.saturating_add(more);
        }
    }
}

impl From<&RevisionTraffic> for Figures {
    fn from(reported: &RevisionTraffic) -> Self {
        let RevisionTraffic { requests, failed, latencies, .. } = reported;
        Self {
            requests: *requests,
            // No more requests can have failed than were counted.
            failed: *failed.min(requests),
            latencies: Latencies::of(latencies.iter().copied()),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Latencies {
    /// Returns latencies with these counts. Counts after the last bucket are ignored.
    pub fn of(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut latencies = Self::default();
        for (count, given) in latencies.0.iter_mut().zip(counts) {
            *count = given;
        }
        latencies
    }

    /// Counts one request.
    pub fn record(&mut self, latency: Duration) {
        let count = &mut self.0[bucket(latency)];
        *count = count.saturating_add(1);
    }

    /// Returns the counts, without the empty buckets at the end.
    pub fn counts(&self) -> &[u64] {
        let used = self.0.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.0[..used]
    }

    /// Returns the number of requests in all buckets.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// Returns the number of requests that took at least the time at which the bucket `first`
    /// begins.
    pub fn from_bucket(&self, first: usize) -> u64 {
        self.0.iter().skip(first).fold(0, |total, count| total.saturating_add(*count))
    }
}

/// Returns the bucket of a latency.
pub fn bucket(latency: Duration) -> usize {
    let units = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX) >> LOG_UNIT;
    // Latencies below 2^(LOG_UNIT + LOG_STEPS) µs are in the first bucket.
    let Some(doubling) = units.checked_ilog2().and_then(|log| log.checked_sub(LOG_STEPS)) else {
        return 0;
    };
    let step = (units >> doubling) & ((1 << LOG_STEPS) - 1);
    let index = (u64::from(doubling) << LOG_STEPS) + step + 1;
    usize::try_from(index).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// Returns the latency at which a bucket begins, or `None` if there is no such bucket.
pub fn beginning(bucket: usize) -> Option<Duration> {
    if bucket >= BUCKETS {
        return None;
    }
    let Some(index) = bucket.checked_sub(1) else { return Some(Duration::ZERO) };
    let (doubling, step) = (index >> LOG_STEPS, index & ((1 << LOG_STEPS) - 1));
    let units = ((1 << LOG_STEPS) + step as u64) << doubling;
    Some(Duration::from_micros(units << LOG_UNIT))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_latency_is_in_the_last_bucket_that_begins_no_later(micros: u64) {
            let latency = Duration::from_micros(micros);
            let bucket = bucket(latency);
            prop_assert!(beginning(bucket).unwrap() <= latency);
            prop_assert!(beginning(bucket + 1).is_none_or(|next| latency < next));
        }
    }

    #[test]
    fn a_bucket_is_at_most_a_quarter_wider_than_its_beginning() {
        for bucket in 1..BUCKETS - 1 {
            let [from, to] = [bucket, bucket + 1].map(|bucket| beginning(bucket).unwrap());
            assert!(from < to && (to - from) * 4 <= from, "{from:?} to {to:?}");
        }
        assert_eq!(beginning(1), Some(Duration::from_micros(1024)));
        assert_eq!(beginning(BUCKETS - 1), Some(Duration::from_micros(50_331_648)));
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn figures_add_up_and_omit_the_empty_buckets_at_their_end() {
        let mut sum = Figures::default();
        assert!(sum.latencies.counts().is_empty());
        let mut one = Figures { requests: 2, failed: 1, ..Figures::default() };
        one.latencies.record(Duration::ZERO);
        one.latencies.record(Duration::from_micros(1300));
        sum.add(&one);
        sum.add(&one);
        assert_eq!((sum.requests, sum.failed, sum.latencies.total()), (4, 2, 4));
        assert_eq!(sum.latencies.counts(), [2, 0, 2]);
        assert_eq!([0, 1, 3].map(|first| sum.latencies.from_bucket(first)), [4, 2, 0]);
        assert_eq!(Latencies::of([2, 0, 2]), sum.latencies);
        sum.add(&Figures { requests: u64::MAX, ..Figures::default() });
        assert_eq!(sum.requests, u64::MAX);
    }
}
