//! What is remembered of revisions whose code fails, and for how long each is left alone. Pure.
//!
//! Two kinds of failing, told apart because a start that succeeds ends only one of them:
//!
//! | | back-off | over |
//! | --- | --- | --- |
//! | it does not start | doubled with each failure in a row | with the first start that succeeds |
//! | it starts, and its isolates are condemned | from so many of late on, longer with each | as time goes by |
//!
//! Only time makes a condemned isolate count for less: a revision that serves a hundred cheap requests and then breaks
//! costs its neighbours as many starts as one that does nothing else. The time for which it rests does not count: it
//! could not have broken anything.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};

use super::{Notice, Retry};

/// How long a revision whose code failed is left alone at first, and at most. Doubled with each failure.
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
pub(super) const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// How long a revision that could not be had is left alone: enough that a storm of requests for it asks the catalog
/// ten times a second and not ten thousand.
pub(super) const MISSING_PAUSE: Duration = Duration::from_millis(100);

/// A condemned isolate counts for half as much after so long.
pub(super) const HALF_LIFE: Duration = Duration::from_secs(30);

/// How much they may count together before the revision is left alone, at first for so long. One every four seconds
/// comes to that.
pub(super) const TOLERATED: u32 = 10;
pub(super) const FIRST_REST: Duration = Duration::from_millis(100);

/// The most that they count together: from there on each rest is the longest, and when they stop the revision is well
/// a minute later.
const MOST: f64 = 20.0;

/// Below this the revision is well again, and below that there is nothing left to remember.
const WELL: f64 = TOLERATED as f64 / 2.0;
const FORGOTTEN: f64 = 0.5;

/// The revisions of a shard that have failed of late.
#[derive(Default)]
pub(super) struct Trouble {
    failures: FxHashMap<RevisionDigest, FailedStart>,
    streaks: FxHashMap<RevisionDigest, Streak>,
    notices: Vec<Notice>,
}

struct FailedStart {
    failure: Failure,
    /// How many times in a row its code has failed.
    failures: u32,
    pause: Duration,
    until: Instant,
}

/// Isolates of one revision that were condemned.
struct Streak {
    times: u32,
    /// What they count, as of then: in the future if the revision rests until then.
    weight: f64,
    as_of: Instant,
    /// It has been told of.
    told: bool,
}

impl Streak {
    fn weight(&self, now: Instant) -> f64 {
        let half_lives = now.saturating_duration_since(self.as_of).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.weight * (-half_lives).exp2()
    }
}

impl Trouble {
    /// Why the revision is left alone now, if it is.
    pub(super) fn refusal(&self, digest: &RevisionDigest, now: Instant) -> Option<Failure> {
        self.failures.get(digest).filter(|failed| now < failed.until).map(|failed| failed.failure.clone())
    }

    /// It has started.
    pub(super) fn started(&mut self, digest: &RevisionDigest) {
        self.failures.remove(digest);
    }

    /// It has not started. Returns how many times in a row its code has failed.
    pub(super) fn failed(&mut self, digest: RevisionDigest, failure: Failure, retry: Retry, now: Instant) -> u32 {
        // Long forgotten failures must not pile up: tenants choose how many revisions fail.
        self.failures.retain(|_, failed| now < failed.until + LONGEST_BACK_OFF);
        let last = self.failures.get(&digest);
        let before = last.map_or(0, |last| last.failures);
        let (failures, pause) = match (retry, last) {
            (Retry::Soon, _) => (before, MISSING_PAUSE),
            (Retry::BackOff, None) => (1, FIRST_BACK_OFF),
            (Retry::BackOff, Some(last)) => {
                (before.saturating_add(1), (last.pause * 2).clamp(FIRST_BACK_OFF, LONGEST_BACK_OFF))
            }
        };
        self.failures.insert(digest, FailedStart { failure, failures, pause, until: now + pause });
        failures
    }

    /// An isolate of the revision was condemned. When that goes on happening the revision is left alone for a while,
    /// longer each time: a start costs its neighbours more than a refusal.
    pub(super) fn struck(&mut self, worker: WorkerId, digest: RevisionDigest, why: FailureCode, now: Instant) {
        self.review(now);
        let streak = self.streaks.entry(digest).or_insert(Streak { times: 0, weight: 0.0, as_of: now, told: false });
        streak.times = streak.times.saturating_add(1);
        (streak.weight, streak.as_of) = ((streak.weight(now) + 1.0).min(MOST), now);
        // Rounded: those of a few milliseconds ago count for a little less than one.
        let Some(over) = (streak.weight.round() as u32).checked_sub(TOLERATED + 1) else { return };
        let pause = (FIRST_REST * 2_u32.pow(over)).min(LONGEST_BACK_OFF);
        (streak.as_of, streak.told) = (now + pause, true);
        let times = streak.times;
        let what = format!("the Worker was stopped {times} times in a short time and rests for a while");
        let failure = Failure::new(why, Phase::Admission, what);
        self.failures.insert(digest, FailedStart { failure, failures: times, pause, until: now + pause });
        self.notices.push(Notice::Failing { worker, digest, why, times });
    }

    /// Whether it has been told of the revision that its isolates are condemned, and not yet that they are well.
    pub(super) fn is_on_trial(&self, digest: &RevisionDigest) -> bool {
        self.streaks.get(digest).is_some_and(|streak| streak.told)
    }

    /// Notices who is well again.
    pub(super) fn review(&mut self, now: Instant) {
        self.streaks.retain(|digest, streak| {
            let weight = streak.weight(now);
            if streak.told && weight < WELL {
                streak.told = false;
                self.notices.push(Notice::Recovered(*digest));
            }
            weight >= FORGOTTEN
        });
    }

    pub(super) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: RevisionDigest = RevisionDigest::new([1; 32]);

    fn failure() -> Failure {
        Failure::new(FailureCode::WorkerStartFailed, Phase::Start, "")
    }

    /// Has the revision break every `gap` in which it may run, so many times. Returns how long it rested after each.
    fn rests(trouble: &mut Trouble, gap: Duration, times: usize, now: &mut Instant) -> Vec<Duration> {
        let breaks = (0..times).map(|_| {
            *now += gap;
            trouble.struck(WorkerId::new("shop", "cart"), DIGEST, FailureCode::CpuLimitExceeded, *now);
            let began = *now;
            while trouble.refusal(&DIGEST, *now).is_some() {
                *now += FIRST_REST;
            }
            *now - began
        });
        breaks.collect()
    }

    #[test]
    fn the_oftener_a_revision_breaks_the_longer_it_rests() {
        // A break every so often, and the rest that comes of it in the end.
        let table = [(0, 30_000), (1_000, 30_000), (3_000, 1_600), (4_000, 100), (5_000, 0), (60_000, 0)];
        for (gap, rest) in table {
            let (mut trouble, mut now) = (Trouble::default(), Instant::now());
            let rests = rests(&mut trouble, Duration::from_millis(gap), 60, &mut now);
            assert_eq!(rests[..10], [Duration::ZERO; 10], "every {gap} ms");
            assert!(rests.is_sorted(), "every {gap} ms: {rests:?}");
            assert_eq!(rests[59], Duration::from_millis(rest), "every {gap} ms");
        }
    }

    #[test]
    fn requests_served_in_between_do_not_help_and_time_does() {
        let (mut trouble, mut now) = (Trouble::default(), Instant::now());
        // A hundred requests in a second, of which the last breaks it.
        assert!(rests(&mut trouble, Duration::from_secs(1), 20, &mut now)[19] > Duration::ZERO);
        assert!(trouble.is_on_trial(&DIGEST));
        trouble.take_notices();
        trouble.review(now + HALF_LIFE * 2);
        assert_eq!(trouble.take_notices(), [Notice::Recovered(DIGEST)]);
        assert!(!trouble.is_on_trial(&DIGEST));
        trouble.review(now + HALF_LIFE * 6);
        assert!(trouble.streaks.is_empty() && trouble.take_notices().is_empty());
    }

    #[test]
    fn failures_of_long_ago_are_forgotten() {
        let (mut trouble, now) = (Trouble::default(), Instant::now());
        for n in 1..100 {
            trouble.failed(RevisionDigest::new([n; 32]), failure(), Retry::BackOff, now);
        }
        trouble.failed(DIGEST, failure(), Retry::BackOff, now + FIRST_BACK_OFF + LONGEST_BACK_OFF);
        assert_eq!(trouble.failures.len(), 1);
    }

    proptest! {
        #[test]
        fn a_break_a_minute_never_rests_and_one_a_second_always_does(
            slow in 60_000..600_000_u64, fast in 0..1_000_u64, times in 13..60_usize,
        ) {
            let (mut trouble, mut now) = (Trouble::default(), Instant::now());
            let rested = rests(&mut trouble, Duration::from_millis(slow), times, &mut now);
            prop_assert!(rested.iter().all(Duration::is_zero));
            prop_assert!(trouble.take_notices().is_empty());
            let (mut trouble, mut now) = (Trouble::default(), Instant::now());
            let rested = rests(&mut trouble, Duration::from_millis(fast), times, &mut now);
            prop_assert!(rested.last().is_some_and(|rest| !rest.is_zero()));
            prop_assert!(rested.iter().all(|rest| *rest <= LONGEST_BACK_OFF));
        }
    }
}
