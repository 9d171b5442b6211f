//! Limits how much a Worker may log over time, with a token bucket of bytes for each Worker of a
//! shard. This module is pure: the time is an argument.
//!
//! ```text
//!  full, 1 MiB ──► lines take their lengths ──► empty: lines are dropped ──► half full again ──┐
//!                        ▲                          └─ one line states this                    │
//!                        └─────────────────────────────────────────────────────────────────────┘
//!  256 KiB are added per second
//! ```
//!
//! The output of one invocation is limited as well, but there may be thousands of invocations per
//! second, and all Workers of a node share one log. An empty bucket stays shut until it is half
//! full again, so that the lines that report dropped lines do not become a flood themselves. The
//! bucket belongs to the Worker rather than to its isolate, so that a Worker whose isolates end
//! repeatedly does not get a full bucket each time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tenon_proto::id::WorkerId;
use tokio::time::Instant;

/// Maximum number of bytes that a Worker may log in a burst: the full budgets of about 16
/// invocations.
const BURST: u64 = 1 << 20;

/// Number of bytes per second that a Worker may log in the long run: more than 500 lines of 200
/// characters.
const RATE: u64 = 256 << 10;

/// Number of bytes that are counted for a line besides its text: for the time, the level, and the
/// names of the Worker, its revision and the invocation.
const FIELDS: u64 = 256;

/// The buckets of one shard's Workers. They belong to the shard's thread.
#[derive(Default)]
pub struct LogRates(RefCell<FxHashMap<WorkerId, Rc<LogRate>>>);

impl LogRates {
    /// Returns the Worker's bucket, which all its isolates share.
    pub fn of(&self, worker: &WorkerId, now: Instant) -> Rc<LogRate> {
        let mut rates = self.0.borrow_mut();
        // A full bucket of a Worker that has no isolate can be dropped.
        rates.retain(|_, rate| Rc::strong_count(rate) > 1 || !rate.0.get().at(now).is_full());
        Rc::clone(rates.entry(worker.clone()).or_insert_with(|| Rc::new(LogRate::full(now))))
    }
}

/// The bucket of one Worker.
pub struct LogRate(Cell<Bucket>);

/// The decision on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineDecision {
    Written,
    /// The line is the first that is dropped, which the log should state.
    FirstDropped,
    Dropped,
}

impl LogRate {
    fn full(now: Instant) -> Self {
        Self(Cell::new(Bucket { bytes: BURST, as_of: now, shut: false }))
    }

    /// Takes the bytes of a line with `length` bytes of text from the bucket. Returns whether the
    /// line is written.
    pub fn admit(&self, length: usize, now: Instant) -> LineDecision {
        let (bucket, decision) = self.0.get().at(now).take(length as u64 + FIELDS);
        self.0.set(bucket);
        decision
    }
}

/// The state of a token bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Number of bytes that may be logged at `as_of`.
    bytes: u64,
    as_of: Instant,
    /// Whether every line is dropped until the bucket is half full.
    shut: bool,
}

impl Bucket {
    /// Returns the bucket at a later time.
    fn at(self, now: Instant) -> Self {
        let gain = u128::from(RATE) * now.saturating_duration_since(self.as_of).as_nanos() / NANOS;
        let gain = u64::try_from(gain).unwrap_or(BURST).min(BURST);
        let bytes = BURST.min(self.bytes + gain);
        // `as_of` excludes the time that has not added a whole byte yet.
        let as_of =
            if bytes == BURST { now } else { self.as_of + Duration::from_secs(gain) / RATE as u32 };
        Self { bytes, as_of, shut: self.shut && bytes < BURST / 2 }
    }

    fn take(self, length: u64) -> (Self, LineDecision) {
        match self.bytes.checked_sub(length) {
            _ if self.shut => (self, LineDecision::Dropped),
            Some(bytes) => (Self { bytes, ..self }, LineDecision::Written),
            None => (Self { shut: true, ..self }, LineDecision::FirstDropped),
        }
    }

    fn is_full(self) -> bool {
        self.bytes == BURST
    }
}

const NANOS: u128 = Duration::from_secs(1).as_nanos();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// The length of the text of a line that empties a full bucket.
    const WHOLE: usize = (BURST - FIELDS) as usize;

    fn worker(name: &str) -> WorkerId {
        WorkerId::new("default", name)
    }

    #[test]
    fn a_worker_may_log_a_burst_and_the_first_dropped_line_is_reported() {
        let now = Instant::now();
        let rate = LogRate::full(now);
        let decisions: Vec<_> =
            (0..6).map(|_| rate.admit((BURST / 4 - FIELDS) as usize, now)).collect();
        use LineDecision::{Dropped, FirstDropped, Written};
        assert_eq!(decisions, [Written, Written, Written, Written, FirstDropped, Dropped]);
    }

    #[test]
    fn lines_are_written_again_when_the_bucket_is_half_full() {
        let now = Instant::now();
        let rate = LogRate::full(now);
        rate.admit(WHOLE, now);
        assert_eq!(rate.admit(1, now), LineDecision::FirstDropped);
        let half_full = SECOND * (BURST / 2 / RATE) as u32;
        assert_eq!(rate.admit(1, now + half_full / 2), LineDecision::Dropped);
        assert_eq!(rate.admit(1, now + half_full), LineDecision::Written);
    }

    #[test]
    fn time_that_passes_in_short_steps_counts() {
        let now = Instant::now();
        let mut bucket = Bucket { bytes: 0, as_of: now, shut: false };
        let steps = 100_000;
        for step in 1..=steps {
            bucket = bucket.at(now + SECOND / steps * step);
        }
        assert!(bucket.bytes.abs_diff(RATE) < RATE / 1_000, "{} bytes of {RATE}", bucket.bytes);
    }

    #[test]
    fn isolates_of_a_worker_share_its_log_bucket() {
        let (rates, now) = (LogRates::default(), Instant::now());
        rates.of(&worker("loud"), now).admit(WHOLE, now);
        assert_eq!(rates.of(&worker("loud"), now).admit(1, now), LineDecision::FirstDropped);
        assert_eq!(rates.of(&worker("quiet"), now).admit(1, now), LineDecision::Written);
    }

    #[test]
    fn the_bucket_of_an_absent_worker_is_forgotten_when_it_is_full() {
        let (rates, now) = (LogRates::default(), Instant::now());
        rates.of(&worker("loud"), now).admit(WHOLE, now);
        let kept = rates.of(&worker("kept"), now);
        rates.of(&worker("third"), now + SECOND);
        assert_eq!(rates.0.borrow().len(), 3);
        rates.of(&worker("third"), now + SECOND * 60);
        assert_eq!(rates.0.borrow().len(), 2, "the buckets of `kept` and `third` should remain");
        drop(kept);
    }

    proptest! {
        #[test]
        fn no_interval_exceeds_the_burst_plus_the_rate(
            lines in prop::collection::vec((0_usize..400_000, 0_u64..2_000), 1..100),
        ) {
            let begin = Instant::now();
            let rate = LogRate::full(begin);
            let (mut now, mut written) = (begin, 0);
            for (length, pause) in lines {
                now += Duration::from_millis(pause);
                if rate.admit(length, now) == LineDecision::Written {
                    written += length as u64 + FIELDS;
                }
                let elapsed = (now - begin).as_millis() as u64;
                prop_assert!(written <= BURST + RATE * elapsed / 1_000 + 1);
            }
        }
    }
}
