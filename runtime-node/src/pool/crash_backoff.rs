//! Remembers revisions whose code fails, and decides how long each is in back-off. This module is
//! pure.
//!
//! There are two kinds of failure, kept apart because a successful start ends only one of them:
//!
//! | | back-off | ends |
//! | --- | --- | --- |
//! | the revision does not start | doubles with each failure in a row | when a start succeeds |
//! | its isolates are condemned | begins after ten of them, grows with each | as time passes |
//!
//! Failed starts are also forgotten once the last back-off has been over for 30 s.
//!
//! Only time makes a condemned isolate count for less: a revision that has an isolate condemned
//! after a hundred cheap requests costs its neighbors as many starts as one that only fails. Time
//! spent in back-off does not count, because nothing can be condemned during it.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::id::{RevisionDigest, WorkerId};

use super::{Notice, Retry};

/// First and longest back-off of a revision whose code failed; the back-off doubles with each
/// failure.
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
pub(super) const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// Back-off of a revision that could not be fetched: during a storm of requests for the revision,
/// the node asks the catalog ten times a second rather than ten thousand times.
pub(super) const MISSING_PAUSE: Duration = Duration::from_millis(100);

/// Time after which a condemned isolate counts for half as much.
pub(super) const HALF_LIFE: Duration = Duration::from_secs(30);

/// Largest total weight at which a revision does not back off, and the first pause above it. One
/// condemned isolate every 4.6 seconds adds up to this weight in the long run.
pub(super) const TOLERATED: u32 = 10;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Upper bound on the total weight: at this weight, the pause is the longest one, and a revision
/// that stops failing recovers a minute after the pause.
const MAX_WEIGHT: f64 = 20.0;

/// A revision whose total weight falls below `RECOVERED` has recovered; below `FORGOTTEN`, its
/// streak is removed.
const RECOVERED: f64 = TOLERATED as f64 / 2.0;
const FORGOTTEN: f64 = 0.5;

/// Revisions of a shard that have failed recently.
#[derive(Default)]
pub(super) struct CrashBackoff {
    failures: FxHashMap<RevisionDigest, BackOff>,
    streaks: FxHashMap<RevisionDigest, Streak>,
    notices: Vec<Notice>,
}

struct BackOff {
    failure: Failure,
    /// Number of consecutive failures of the revision's code or, after a condemned isolate, of the
    /// streak's condemned isolates.
    failures: u32,
    pause: Duration,
    until: Instant,
}

/// Condemned isolates of one revision.
struct Streak {
    /// Number of the condemned isolates.
    times: u32,
    /// Total weight of the condemned isolates at `as_of`. This is the time of the latest condemned
    /// isolate, or the end of the back-off that this isolate caused.
    weight: f64,
    as_of: Instant,
    /// Set by a `Failing` notice, and cleared by a `Recovered` notice.
    was_reported: bool,
}

impl Streak {
    fn weight(&self, now: Instant) -> f64 {
        let half_lives =
            now.saturating_duration_since(self.as_of).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.weight * (-half_lives).exp2()
    }
}

impl CrashBackoff {
    /// Returns the failure with which the revision is refused now, or `None` if it may start.
    pub(super) fn refusal(&self, digest: &RevisionDigest, now: Instant) -> Option<Failure> {
        self.failures
            .get(digest)
            .filter(|failed| now < failed.until)
            .map(|failed| failed.failure.clone())
    }

    /// Records a successful start.
    pub(super) fn started(&mut self, digest: &RevisionDigest) {
        self.failures.remove(digest);
    }

    /// Records a failed start. Returns how many times in a row the revision's code has failed.
    pub(super) fn failed(
        &mut self,
        digest: RevisionDigest,
        failure: Failure,
        retry: Retry,
        now: Instant,
    ) -> u32 {
        // Old failures must not pile up: tenants choose how many revisions fail.
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
        self.failures.insert(digest, BackOff { failure, failures, pause, until: now + pause });
        failures
    }

    /// Records a condemned isolate. A revision whose isolates keep being condemned backs off,
    /// longer each time, because a start costs its neighbors more than a refusal.
    pub(super) fn condemned(
        &mut self,
        worker: WorkerId,
        digest: RevisionDigest,
        why: FailureCode,
        now: Instant,
    ) {
        self.review(now);
        let streak = self.streaks.entry(digest).or_insert(Streak {
            times: 0,
            weight: 0.0,
            as_of: now,
            was_reported: false,
        });
        streak.times = streak.times.saturating_add(1);
        (streak.weight, streak.as_of) = ((streak.weight(now) + 1.0).min(MAX_WEIGHT), now);
        // The weight is rounded, because an isolate that was condemned a few milliseconds ago
        // counts for a little less than one.
        let Some(over) = (streak.weight.round() as u32).checked_sub(TOLERATED + 1) else { return };
        let pause = (FIRST_PAUSE * 2_u32.pow(over)).min(LONGEST_BACK_OFF);
        (streak.as_of, streak.was_reported) = (now + pause, true);
        let times = streak.times;
        let what =
            format!("the Worker was stopped {times} times in a short time and is in back-off");
        let failure = Failure::new(why, Phase::Admission, what);
        self.failures
            .insert(digest, BackOff { failure, failures: times, pause, until: now + pause });
        self.notices.push(Notice::Failing { worker, digest, why, times });
    }

    /// Returns whether the revision was reported as failing and has not been reported as recovered.
    pub(super) fn is_reported(&self, digest: &RevisionDigest) -> bool {
        self.streaks.get(digest).is_some_and(|streak| streak.was_reported)
    }

    /// Adds a notice for each revision that has recovered, and removes streaks of little weight.
    pub(super) fn review(&mut self, now: Instant) {
        self.streaks.retain(|digest, streak| {
            let weight = streak.weight(now);
            if streak.was_reported && weight < RECOVERED {
                streak.was_reported = false;
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

    /// Condemns `times` isolates of the revision, each `gap` after the end of the previous pause.
    /// Returns the pause after each condemned isolate.
    fn condemn_repeatedly(
        backoff: &mut CrashBackoff,
        gap: Duration,
        times: usize,
        now: &mut Instant,
    ) -> Vec<Duration> {
        let strikes = (0..times).map(|_| {
            *now += gap;
            backoff.condemned(
                WorkerId::new("shop", "cart"),
                DIGEST,
                FailureCode::CpuLimitExceeded,
                *now,
            );
            let began = *now;
            while backoff.refusal(&DIGEST, *now).is_some() {
                *now += FIRST_PAUSE;
            }
            *now - began
        });
        strikes.collect()
    }

    #[test]
    fn the_more_often_a_revision_is_condemned_the_longer_it_backs_off() {
        // The interval between condemned isolates and the pause to which it leads, in milliseconds.
        let table =
            [(0, 30_000), (1_000, 30_000), (3_000, 1_600), (4_000, 100), (5_000, 0), (60_000, 0)];
        for (gap, pause) in table {
            let (mut backoff, mut now) = (CrashBackoff::default(), Instant::now());
            let pauses = condemn_repeatedly(&mut backoff, Duration::from_millis(gap), 60, &mut now);
            assert_eq!(pauses[..10], [Duration::ZERO; 10], "every {gap} ms");
            assert!(pauses.is_sorted(), "every {gap} ms: {pauses:?}");
            assert_eq!(pauses[59], Duration::from_millis(pause), "every {gap} ms");
        }
    }

    #[test]
    fn only_time_clears_the_strikes_of_a_revision() {
        let (mut backoff, mut now) = (CrashBackoff::default(), Instant::now());
        // Each isolate is condemned one second after the end of the previous back-off.
        assert!(
            condemn_repeatedly(&mut backoff, Duration::from_secs(1), 20, &mut now)[19]
                > Duration::ZERO
        );
        assert!(backoff.is_reported(&DIGEST));
        backoff.take_notices();
        backoff.review(now + HALF_LIFE * 2);
        assert_eq!(backoff.take_notices(), [Notice::Recovered(DIGEST)]);
        assert!(!backoff.is_reported(&DIGEST));
        backoff.review(now + HALF_LIFE * 6);
        assert!(backoff.streaks.is_empty() && backoff.take_notices().is_empty());
    }

    #[test]
    fn old_failures_are_forgotten() {
        let (mut backoff, now) = (CrashBackoff::default(), Instant::now());
        for n in 1..100 {
            backoff.failed(RevisionDigest::new([n; 32]), failure(), Retry::BackOff, now);
        }
        backoff.failed(DIGEST, failure(), Retry::BackOff, now + FIRST_BACK_OFF + LONGEST_BACK_OFF);
        assert_eq!(backoff.failures.len(), 1);
    }

    proptest! {
        #[test]
        fn strikes_a_minute_apart_never_cause_a_back_off_and_strikes_a_second_apart_do(
            slow in 60_000..600_000_u64, fast in 0..1_000_u64, times in 13..60_usize,
        ) {
            let (mut backoff, mut now) = (CrashBackoff::default(), Instant::now());
            let gap = Duration::from_millis(slow);
            let pauses = condemn_repeatedly(&mut backoff, gap, times, &mut now);
            prop_assert!(pauses.iter().all(Duration::is_zero));
            prop_assert!(backoff.take_notices().is_empty());
            let (mut backoff, mut now) = (CrashBackoff::default(), Instant::now());
            let gap = Duration::from_millis(fast);
            let pauses = condemn_repeatedly(&mut backoff, gap, times, &mut now);
            prop_assert!(pauses.last().is_some_and(|pause| !pause.is_zero()));
            prop_assert!(pauses.iter().all(|pause| *pause <= LONGEST_BACK_OFF));
        }
    }
}
