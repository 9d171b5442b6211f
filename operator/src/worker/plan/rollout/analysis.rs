//! Compares the requests of a new revision with those of the revision that it replaces. This module
//! is pure.
//!
//! Shares of few requests vary by chance, and a rollout is judged again with each report. A
//! difference therefore counts only if it exceeds what is allowed by more than three standard
//! deviations. The interval of a share is Wilson's
//! score interval (E. B. Wilson, "Probable Inference, the Law of
//! Succession, and Statistical Inference", 1927), which also holds for few requests and for shares
//! near 0. The least difference of two shares follows from both intervals by method 10 of R. G.
//! Newcombe ("Interval Estimation for the Difference Between Independent Proportions", 1998).

use std::time::Duration;

use tenon_crds::RolloutAnalysis;
use tenon_proto::figures::{BUCKETS, Figures, Latencies, beginning};

/// Number of standard deviations. By chance, one of about 740 comparisons exceeds it in the
/// direction that matters.
const DEVIATIONS: f64 = 3.0;

/// Share of the requests that may be slower than the 99th percentile.
const SLOW: f64 = 0.01;

/// Delay of the 99th percentile that is always allowed. A new revision has fewer requests at first,
/// so more of them meet code that is not optimized yet.
const LEAST_DELAY: Duration = Duration::from_millis(5);

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The new revision is worse than allowed, for this reason.
    Worse(String),
    /// More requests of the new revision have failed than allowed, which may be by chance.
    Suspect,
    /// There is no sign that the new revision is worse than allowed.
    Sound,
}

/// Compares a new revision with the stable one.
///
/// # Arguments
/// * `name` - the name of the stable revision.
pub(super) fn judge(
    analysis: &RolloutAnalysis,
    new: &Figures,
    stable: &Figures,
    name: &str,
) -> Verdict {
    let allowed = f64::from(analysis.max_error_percent) / 100.0;
    let (of_new, of_stable) =
        (Share::of(new.failed, new.requests), Share::of(stable.failed, stable.requests));
    if of_new.least_above(&of_stable) > allowed {
        return Verdict::Worse(format!(
            "{} of its {} requests failed, and {} of the {} requests to {name}",
            of_new.percent(),
            new.requests,
            of_stable.percent(),
            stable.requests
        ));
    }
    if let Some(first) = first_slow_bucket(&stable.latencies, analysis.max_p99_percent) {
        let timed = new.latencies.total();
        let slow = Share::of(new.latencies.from_bucket(first), timed);
        let is_enough = timed >= u64::try_from(analysis.min_requests).unwrap_or(0);
        if is_enough && slow.low > SLOW {
            let limit = beginning(first).unwrap_or_default().as_millis();
            return Verdict::Worse(format!(
                "{} of its requests took longer than {limit} ms, which the 99th percentile of \
                 {name} allows for 1 %",
                slow.percent()
            ));
        }
    }
    if of_new.estimate - of_stable.estimate > allowed { Verdict::Suspect } else { Verdict::Sound }
}

/// An observed share of requests, with the bounds of its interval for [`DEVIATIONS`].
struct Share {
    estimate: f64,
    low: f64,
    high: f64,
}

impl Share {
    fn of(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self { estimate: 0.0, low: 0.0, high: 1.0 };
        }
        let (n, z) = (whole as f64, DEVIATIONS);
        let estimate = part as f64 / n;
        let center = (estimate + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let variance = estimate * (1.0 - estimate) / n + z * z / (4.0 * n * n);
        let half = z * variance.sqrt() / (1.0 + z * z / n);
        Self { estimate, low: (center - half).max(0.0), high: (center + half).min(1.0) }
    }

    /// Returns the lower bound of the interval of the difference between this share and another.
    fn least_above(&self, other: &Self) -> f64 {
        let (below, above) = (self.estimate - self.low, other.high - other.estimate);
        self.estimate - other.estimate - below.hypot(above)
    }

    fn percent(&self) -> String {
        format!("{:.1} %", 100.0 * self.estimate)
    }
}

/// Returns the first bucket whose requests are slower than the 99th percentile of the new revision
/// may be. Returns `None` if the stable revision has had no requests, or no latency is too slow.
fn first_slow_bucket(stable: &Latencies, max_percent: i32) -> Option<usize> {
    // The lowest bucket that the percentile does not exceed with the certainty of [`DEVIATIONS`].
    // If there are too few requests for that, this is the bucket of the slowest request.
    let total = stable.total();
    let mut faster = 0_u64;
    let highest = stable.counts().iter().position(|count| {
        faster = faster.saturating_add(*count);
        faster == total || Share::of(faster, total).low >= 1.0 - SLOW
    })?;
    let p99 = beginning(highest + 1)?;
    let allowed = p99.mul_f64(1.0 + f64::from(max_percent.max(0)) / 100.0);
    let allowed = allowed.max(p99 + LEAST_DELAY);
    (highest + 1..BUCKETS).find(|bucket| beginning(*bucket).is_some_and(|at| at >= allowed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_proto::figures::bucket;

    use super::*;

    fn figures(requests: u64, failed: u64, latencies: &[(u64, u64)]) -> Figures {
        let mut counts = [0; BUCKETS];
        for (millis, count) in latencies {
            counts[bucket(Duration::from_millis(*millis))] += count;
        }
        Figures { requests, failed, latencies: Latencies::of(counts) }
    }

    fn verdict(new: &Figures, stable: &Figures) -> Verdict {
        judge(&RolloutAnalysis::default(), new, stable, "cart-1")
    }

    fn failing(new: (u64, u64), stable: (u64, u64)) -> Verdict {
        verdict(&figures(new.1, new.0, &[]), &figures(stable.1, stable.0, &[]))
    }

    #[test]
    fn a_revision_of_which_far_more_requests_fail_is_worse() {
        let Verdict::Worse(why) = failing((30, 100), (0, 900)) else { panic!("it is not worse") };
        let expected = "30.0 % of its 100 requests failed, and 0.0 % of the 900 requests to cart-1";
        assert_eq!(why, expected);
        assert!(matches!(failing((500, 1_000), (10, 100)), Verdict::Worse(_)));
        // If most requests fail anyway, the new revision is not to blame.
        assert_eq!(failing((90, 100), (810, 900)), Verdict::Sound);
    }

    #[test]
    fn a_difference_that_may_be_chance_is_suspect_until_more_requests_decide() {
        assert_eq!(failing((3, 100), (0, 900)), Verdict::Suspect);
        assert_eq!(failing((1, 100), (0, 900)), Verdict::Sound);
        assert!(matches!(failing((30, 1_000), (0, 9_000)), Verdict::Worse(_)));
        assert_eq!(failing((10, 1_000), (0, 9_000)), Verdict::Sound);
    }

    #[test]
    fn nothing_is_worse_than_a_revision_without_requests() {
        assert_eq!(failing((100, 100), (0, 0)), Verdict::Suspect);
        assert_eq!(failing((0, 0), (0, 900)), Verdict::Sound);
    }

    #[test]
    fn a_revision_whose_99th_percentile_is_far_slower_is_worse() {
        let stable = figures(900, 0, &[(20, 900)]);
        let slow = figures(200, 0, &[(20, 180), (100, 20)]);
        let Verdict::Worse(why) = verdict(&slow, &stable) else { panic!("it is not worse") };
        assert!(why.starts_with("10.0 % of its requests took longer than "), "{why}");
        // A few slow requests may be chance, and a slightly slower revision is allowed.
        assert_eq!(verdict(&figures(200, 0, &[(20, 197), (100, 3)]), &stable), Verdict::Sound);
        assert_eq!(verdict(&figures(200, 0, &[(26, 200)]), &stable), Verdict::Sound);
        // Fewer timed requests than `minRequests` are not compared.
        assert_eq!(verdict(&figures(200, 0, &[(100, 99)]), &stable), Verdict::Sound);
    }

    #[test]
    fn a_delay_that_no_client_notices_is_allowed() {
        let (stable, slower) = (figures(900, 0, &[(1, 900)]), figures(200, 0, &[(5, 200)]));
        assert_eq!(verdict(&slower, &stable), Verdict::Sound);
        let slow = figures(200, 0, &[(9, 200)]);
        assert!(matches!(verdict(&slow, &stable), Verdict::Worse(_)));
    }

    #[test]
    fn rare_slow_requests_of_the_stable_revision_do_not_hide_a_slow_one() {
        let stable = figures(10_000, 0, &[(20, 9_950), (2_000, 50)]);
        let slow = figures(1_000, 0, &[(20, 900), (100, 100)]);
        assert!(matches!(verdict(&slow, &stable), Verdict::Worse(_)));
        // With few requests, the slowest of them bounds the percentile.
        let few = figures(100, 0, &[(20, 99), (2_000, 1)]);
        assert_eq!(verdict(&slow, &few), Verdict::Sound);
    }

    #[test]
    fn a_share_has_the_bounds_that_its_formula_gives() {
        let share = Share::of(30, 100);
        assert!((share.low - 0.184).abs() < 0.001 && (share.high - 0.449).abs() < 0.001);
        let none = Share::of(0, 900);
        assert!(none.low.abs() < 1e-12 && (none.high - 9.0 / 909.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn equal_revisions_are_never_worse(
            requests in 0..10_000_u64, failed in 0..10_000_u64,
            counts in prop::collection::vec(0..1_000_u64, 0..BUCKETS),
        ) {
            let latencies = Latencies::of(counts);
            let same = Figures { requests, failed: failed.min(requests), latencies };
            prop_assert_eq!(verdict(&same, &same), Verdict::Sound);
        }

        #[test]
        fn any_figures_have_a_verdict(
            new: (u64, u64), stable: (u64, u64),
            fast in prop::collection::vec(any::<u64>(), 0..=BUCKETS),
            slow in prop::collection::vec(any::<u64>(), 0..=BUCKETS),
            min_requests: i32, max_error_percent: i32, max_p99_percent: i32,
        ) {
            let analysis = RolloutAnalysis { min_requests, max_error_percent, max_p99_percent };
            let figures = |(requests, failed): (u64, u64), counts: Vec<u64>| {
                Figures { requests, failed: failed.min(requests), latencies: Latencies::of(counts) }
            };
            let _ = judge(&analysis, &figures(new, slow), &figures(stable, fast), "cart-1");
        }
    }
}
