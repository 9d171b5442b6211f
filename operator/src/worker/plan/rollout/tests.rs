//! Tests the steps of a rollout, and when a revision is taken back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;
use tenon_crds::RevisionFigures;

use super::*;

const MINUTE: i64 = 60;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn spec() -> Rollout {
    let step = |percent: i32| json!({"percent": percent, "durationSeconds": MINUTE});
    serde_json::from_value(json!({"steps": [step(10), step(50)]})).unwrap()
}

fn target(revision: &str, percent: i32) -> AcceptedTarget {
    AcceptedTarget { revision: revision.to_owned(), percent, tag: None, host: None, digest: None }
}

/// A Worker with a rollout, and the time of the next decision, in seconds since 1970.
struct Case {
    spec: Rollout,
    known: Option<RolloutStatus>,
    serving: Vec<AcceptedTarget>,
    figures: Option<RolloutFigures>,
    quarantined: Option<&'static str>,
    is_acknowledged: bool,
    missing: Option<&'static str>,
    now: i64,
}

impl Case {
    /// Returns a Worker whose revision `cart-1` serves, and whose rollouts begin at second 1,000.
    fn new() -> Self {
        Self {
            spec: spec(),
            known: None,
            serving: vec![target("cart-1", 100)],
            figures: None,
            quarantined: None,
            is_acknowledged: true,
            missing: None,
            now: 1_000,
        }
    }

    /// Makes the decision about a latest revision, and remembers its status.
    fn decide(&mut self, latest: &str) -> Decision {
        let can_serve = |name: &str| self.missing != Some(name);
        let situation = Situation {
            spec: &self.spec,
            known: self.known.as_ref(),
            serving: &self.serving,
            latest,
            figures: self.figures.as_ref(),
            quarantined: self.quarantined,
            is_acknowledged: self.is_acknowledged,
            can_serve: &can_serve,
            now: at(self.now),
        };
        let decision = situation.decide();
        self.known = Some(decision.status.clone());
        decision
    }

    /// Sets the requests and failures of both revisions in the current step.
    fn report(&mut self, new: (i64, i64), stable: (i64, i64)) {
        let Some(known) = &self.known else { panic!("there is no rollout") };
        let of = |revision: Option<&String>, (requests, failed)| RevisionFigures {
            revision: revision.cloned().unwrap_or_default(),
            requests,
            failed,
            latencies: Vec::new(),
        };
        let revisions = vec![of(Some(&known.revision), new), of(known.stable.as_ref(), stable)];
        let since = known.step_started_at.clone();
        self.figures = Some(RolloutFigures { since, revisions });
    }

    fn phase(&self) -> RolloutPhase {
        self.known.as_ref().unwrap().phase
    }
}

fn shares(decision: &Decision) -> Vec<(&str, i32)> {
    decision.shares()
}

#[test]
fn a_healthy_revision_gets_larger_shares_and_then_all_requests() {
    let mut case = Case::new();
    let first = case.decide("cart-2");
    assert_eq!(shares(&first), [("cart-1", 90), ("cart-2", 10)]);
    assert_eq!(first.next, Some(at(1_000 + MINUTE)));
    case.now += MINUTE - 1;
    case.report((100, 0), (900, 0));
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 90), ("cart-2", 10)]);
    case.now += 1;
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 50), ("cart-2", 50)]);
    case.now += MINUTE;
    let waiting = case.decide("cart-2");
    assert_eq!(
        shares(&waiting),
        [("cart-1", 50), ("cart-2", 50)],
        "figures of an earlier step count"
    );
    case.report((100, 0), (100, 0));
    let done = case.decide("cart-2");
    assert_eq!((shares(&done), done.next), (vec![], None));
    assert_eq!(done.status.phase, RolloutPhase::Completed);
    assert_eq!((done.status.percent, done.status.step), (100, 2));
}

#[test]
fn a_first_revision_gets_all_requests_at_once() {
    let mut case = Case { serving: Vec::new(), ..Case::new() };
    let first = case.decide("cart-1");
    assert_eq!((first.status.phase, first.status.stable.clone()), (RolloutPhase::Completed, None));
    assert!(shares(&first).is_empty() && first.next.is_none());
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 90), ("cart-2", 10)]);
}

#[test]
fn a_rollout_that_is_added_to_a_worker_does_not_roll_out_what_serves_already() {
    let mut case = Case::new();
    assert!(shares(&case.decide("cart-1")).is_empty());
    // A Worker that was rolled back by hand serves a revision other than the latest.
    let mut rolled_back = Case { serving: vec![target("cart-1", 100)], ..Case::new() };
    assert_eq!(shares(&rolled_back.decide("cart-2")), [("cart-1", 90), ("cart-2", 10)]);
    let serving = vec![target("cart-0", 30), target("cart-1", 35), target("cart-2", 35)];
    let mut divided = Case { serving, ..Case::new() };
    assert_eq!(shares(&divided.decide("cart-2")), [("cart-1", 90), ("cart-2", 10)]);
}

#[test]
fn a_revision_that_fails_is_taken_back_at_any_time_and_stays_taken_back() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.now += 1;
    case.report((99, 50), (900, 0));
    assert_eq!(
        case.decide("cart-2").status.phase,
        RolloutPhase::Progressing,
        "it was not judged yet"
    );
    case.report((100, 30), (900, 0));
    let taken_back = case.decide("cart-2");
    assert_eq!(shares(&taken_back), [("cart-1", 100)]);
    let RolloutStatus { phase, percent, message, .. } = taken_back.status;
    assert_eq!((phase, percent), (RolloutPhase::TakenBack, 0));
    assert!(message.contains("30.0 % of its 100 requests failed"), "{message}");
    case.figures = None;
    case.now += 100 * MINUTE;
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 100)]);
    // The next revision replaces the one that serves.
    assert_eq!(shares(&case.decide("cart-3")), [("cart-1", 90), ("cart-3", 10)]);
}

#[test]
fn a_revision_that_ends_a_process_is_taken_back_immediately() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.quarantined = Some("cart-1");
    assert_eq!(case.decide("cart-2").status.phase, RolloutPhase::Progressing);
    case.quarantined = Some("cart-2");
    assert_eq!(case.decide("cart-2").status.phase, RolloutPhase::TakenBack);
}

#[test]
fn a_newer_revision_begins_at_the_first_step_and_the_stable_one_stays() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.now += MINUTE;
    case.report((100, 0), (900, 0));
    case.decide("cart-2");
    let newer = case.decide("cart-3");
    assert_eq!(shares(&newer), [("cart-1", 90), ("cart-3", 10)]);
    assert_eq!(newer.status.step, 0);
    // The author deploys the code of the stable revision again.
    let undone = case.decide("cart-1");
    assert_eq!((shares(&undone), undone.status.phase), (vec![], RolloutPhase::Completed));
}

#[test]
fn the_rollout_of_a_worker_without_requests_proceeds_after_ten_times_the_duration() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.now += MINUTE;
    let waiting = case.decide("cart-2");
    assert!(waiting.status.message.ends_with("it has had fewer than 100 requests"));
    assert_eq!(waiting.next, Some(at(1_000 + 10 * MINUTE)));
    case.now += 9 * MINUTE;
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 50), ("cart-2", 50)]);
}

#[test]
fn a_step_with_few_requests_does_not_end_while_some_of_them_fail() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.now += 20 * MINUTE;
    case.report((5, 1), (50, 0));
    let suspect = case.decide("cart-2");
    assert_eq!((suspect.status.step, suspect.next), (0, None));
    assert!(suspect.status.message.ends_with("which may be chance"), "{}", suspect.status.message);
    case.report((20, 20), (200, 0));
    assert_eq!(case.decide("cart-2").status.phase, RolloutPhase::TakenBack);
}

#[test]
fn a_step_does_not_end_before_a_router_has_acknowledged_it() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.now += 20 * MINUTE;
    case.is_acknowledged = false;
    assert_eq!(case.decide("cart-2").status.step, 0);
    case.report((100, 30), (900, 0));
    assert_eq!(case.decide("cart-2").status.phase, RolloutPhase::TakenBack);
}

#[test]
fn the_latest_revision_serves_if_there_is_none_to_return_to() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.missing = Some("cart-1");
    let only = case.decide("cart-2");
    assert_eq!((shares(&only), only.status.phase), (vec![], RolloutPhase::Completed));
    let mut case = Case { missing: Some("cart-1"), ..Case::new() };
    assert!(shares(&case.decide("cart-2")).is_empty());
}

#[test]
fn changed_steps_apply_to_a_rollout_in_progress() {
    let mut case = Case::new();
    case.decide("cart-2");
    case.spec.steps[0].percent = 20;
    assert_eq!(shares(&case.decide("cart-2")), [("cart-1", 80), ("cart-2", 20)]);
    case.spec.steps.clear();
    assert_eq!(case.decide("cart-2").status.phase, RolloutPhase::Completed);
}

#[test]
fn no_two_steps_begin_at_the_same_time() {
    let mut case = Case::new();
    let first = case.decide("cart-2").status.step_started_at;
    let second = case.decide("cart-3").status.step_started_at;
    assert_eq!((first, second), (Time(at(1_000)), Time(at(1_001))));
}

/// An occurrence during a rollout.
#[derive(Clone, Debug)]
enum Occurrence {
    /// Time passes, in seconds.
    Passes(i64),
    /// Requests are reported, with the failures of the new revision in percent.
    Requests(i64, i64),
    Deployed(u8),
    Acknowledged(bool),
}

fn occurrence() -> impl Strategy<Value = Occurrence> {
    prop_oneof![
        4 => (1..20 * MINUTE).prop_map(Occurrence::Passes),
        4 => (0..2_000_i64, prop_oneof![Just(0_i64), 0..=100_i64])
            .prop_map(|(requests, failed)| Occurrence::Requests(requests, failed)),
        1 => (2..5_u8).prop_map(Occurrence::Deployed),
        1 => any::<bool>().prop_map(Occurrence::Acknowledged),
    ]
}

proptest! {
    #[test]
    fn a_share_only_grows_until_the_rollout_ends_and_an_end_is_final(
        occurrences in prop::collection::vec(occurrence(), 1..60),
    ) {
        let mut case = Case::new();
        let mut latest = "cart-1".to_owned();
        case.decide(&latest);
        for occurrence in occurrences {
            let before = case.known.clone().unwrap();
            match occurrence {
                Occurrence::Passes(seconds) => case.now += seconds,
                Occurrence::Requests(requests, failed) => {
                    case.report((requests, requests * failed / 100), (requests, 0));
                }
                Occurrence::Deployed(number) => latest = format!("cart-{number}"),
                Occurrence::Acknowledged(is_acknowledged) => case.is_acknowledged = is_acknowledged,
            }
            let decision = case.decide(&latest);
            let shares = decision.shares();
            let sum: i32 = shares.iter().map(|(_, percent)| percent).sum();
            prop_assert!(shares.is_empty() || sum == 100, "{shares:?}");
            prop_assert!(decision.next.is_none_or(|next| next > at(case.now)));
            let again = case.decide(&latest);
            prop_assert_eq!(&decision.status, &again.status, "a second decision differs");
            let after = &decision.status;
            if before.revision == after.revision {
                match (before.phase, after.phase) {
                    (RolloutPhase::Progressing, RolloutPhase::TakenBack) => {
                        prop_assert_eq!(after.percent, 0);
                    }
                    (RolloutPhase::Progressing, _) => prop_assert!(after.percent >= before.percent),
                    (before, after) => prop_assert_eq!(before, after),
                }
            }
        }
    }

    #[test]
    fn a_revision_without_failures_is_never_taken_back_and_completes(
        requests in prop::collection::vec(0..5_000_i64, 0..40), failed in 0..=100_i64,
    ) {
        let mut case = Case::new();
        case.decide("cart-2");
        for requests in requests {
            case.report((requests, 0), (requests, requests * failed / 100));
            case.now += MINUTE;
            case.decide("cart-2");
            prop_assert_ne!(case.phase(), RolloutPhase::TakenBack);
        }
        for _ in 0..2 {
            case.now += 10 * MINUTE;
            case.decide("cart-2");
        }
        prop_assert_eq!(case.phase(), RolloutPhase::Completed);
    }
}
