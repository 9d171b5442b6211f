//! Tests of rollouts in the plan of a Worker.

use tenon_crds::{RevisionFigures, RolloutFigures, RolloutPhase};

use super::*;

const HALF: &str = "export default { fetch() { return new Response('half'); } };\n";

fn changed(candidate: &Candidate, change: impl FnOnce(&mut Worker)) -> Candidate {
    let mut worker = (*candidate.worker).clone();
    change(&mut worker);
    Candidate { worker: Arc::new(worker), ..candidate.clone() }
}

fn with_rollout(candidate: Candidate) -> Candidate {
    let rollout = json!({"steps": [{"percent": 10, "durationSeconds": 60}]});
    changed(&candidate, |worker| worker.spec.rollout = serde_json::from_value(rollout).unwrap())
}

/// Plans a Worker whose routers acknowledge everything, and performs the plan.
fn performed(candidate: Candidate, now: Timestamp) -> Candidate {
    let done = plan(&candidate, now);
    perform(candidate, done)
}

/// Returns a Worker and the names of its two revisions. The rollout of the second revision began
/// one second after [`now`] and is in progress.
fn rolling() -> (Candidate, [String; 2]) {
    let first = performed(with_rollout(candidate(GOOD)), now());
    let one = latest(&first);
    let second = performed(with_code(first, HALF), after(1));
    let two = latest(&second);
    (second, [one, two])
}

fn status(candidate: &Candidate) -> &WorkerStatus {
    candidate.worker.status.as_ref().unwrap()
}

fn latest(candidate: &Candidate) -> String {
    status(candidate).latest_revision.clone().unwrap()
}

fn shares(candidate: &Candidate) -> Vec<(&str, i32)> {
    let accepted = status(candidate).accepted.as_ref().unwrap();
    accepted.traffic.iter().map(|target| (target.revision.as_str(), target.percent)).collect()
}

fn phase(candidate: &Candidate) -> RolloutPhase {
    status(candidate).rollout.as_ref().unwrap().phase
}

/// Reports requests of the step: their number and the number of failures, for the stable and for
/// the new revision.
fn reported(candidate: &Candidate, stable: (i64, i64), new: (i64, i64)) -> Candidate {
    let rollout = status(candidate).rollout.clone().unwrap();
    let figures = |revision: String, (requests, failed)| RevisionFigures {
        revision,
        requests,
        failed,
        latencies: Vec::new(),
    };
    let revisions = vec![figures(rollout.stable.unwrap(), stable), figures(rollout.revision, new)];
    let figures = RolloutFigures { since: rollout.step_started_at, revisions };
    changed(candidate, |worker| {
        worker.status.as_mut().unwrap().rollout_figures = Some(figures);
    })
}

fn after(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() + seconds).unwrap()
}

#[test]
fn a_new_revision_is_rolled_out_step_by_step() {
    let first = with_rollout(candidate(GOOD));
    let done = plan(&first, now());
    assert!(done.next.is_none() && condition_of(&done, "RolledOut").reason == "Completed");
    assert!(done.events.is_empty(), "the first revision is not rolled out");
    let first = perform(first, done);
    assert!(shares(&first).is_empty());

    let second = with_code(first, HALF);
    let begun = plan(&second, after(1));
    assert_eq!(begun.next, Some(after(61)));
    let rolled_out = condition_of(&begun, "RolledOut");
    assert_eq!((rolled_out.status, &*rolled_out.reason), (ConditionStatus::Unknown, "Progressing"));
    assert_eq!(condition_of(&begun, "Ready").status, ConditionStatus::True);
    let second = perform(second, begun);
    let (one, two) = (second.revisions[0].name_any(), latest(&second));
    assert_eq!(shares(&second), [(&*one, 90), (&*two, 10)]);
    assert_ne!(crate::measurement::measurement(status(&second)), 0);

    let unchanged = plan(&second, after(2));
    assert!(unchanged.status.is_none() && unchanged.next == Some(after(61)));
    let settled = reported(&second, (900, 0), (100, 0));
    let done = plan(&settled, after(61));
    assert!(done.next.is_none() && done.delete.is_empty());
    assert_eq!(condition_of(&done, "RolledOut").status, ConditionStatus::True);
    let done = perform(settled, done);
    assert!(shares(&done).is_empty());
    assert_eq!(crate::measurement::measurement(status(&done)), 0);
    assert!(plan(&done, after(62)).status.is_none());
}

#[test]
fn the_events_of_a_rollout_are_its_beginning_and_its_end() {
    let first = performed(with_rollout(candidate(GOOD)), now());
    let reasons =
        |plan: &Plan| plan.events.iter().map(|event| event.reason.clone()).collect::<Vec<_>>();
    let second = with_code(first, HALF);
    let accepted = unacknowledged(&second, now());
    assert_eq!(reasons(&accepted), ["RolloutStarted"]);
    let (rolling, _) = rolling();
    let bad = reported(&rolling, (900, 0), (100, 40));
    let taken_back = unacknowledged(&bad, after(2));
    assert_eq!(reasons(&taken_back), ["RolloutTakenBack"]);
    assert_eq!(taken_back.events[0].type_, EventType::Warning);
    let good = reported(&rolling, (900, 0), (100, 0));
    assert_eq!(reasons(&unacknowledged(&good, after(61))), ["RolloutCompleted"]);
}

#[test]
fn a_bad_revision_is_taken_back_and_the_stable_one_is_kept() {
    let (rolling, [one, _]) = rolling();
    let bad = reported(&rolling, (900, 0), (100, 40));
    let taken_back = plan(&bad, after(2));
    let rolled_out = condition_of(&taken_back, "RolledOut");
    assert_eq!((rolled_out.status, &*rolled_out.reason), (ConditionStatus::False, "TakenBack"));
    let ready = condition_of(&taken_back, "Ready");
    assert_eq!((ready.status, &*ready.message), (ConditionStatus::True, &*one));
    let mut candidate = perform(bad, taken_back);
    assert_eq!(shares(&candidate), [(&*one, 100)]);
    // Later revisions that are bad too do not push the stable one out of the history.
    for version in 0..4 {
        let at = 10 * (version + 1);
        candidate = performed(with_code(candidate, &format!("{GOOD}// {version}\n")), after(at));
        candidate = performed(reported(&candidate, (900, 0), (100, 40)), after(at + 1));
        assert_eq!(phase(&candidate), RolloutPhase::TakenBack);
    }
    let settled = plan(&candidate, after(100));
    assert!(!settled.delete.is_empty() && !settled.delete.contains(&one));
}

#[test]
fn a_rollout_proceeds_and_is_taken_back_while_the_newest_spec_is_not_accepted() {
    let (rolling, [one, two]) = rolling();
    let broken = with_code(rolling, BAD);
    let done = plan(&broken, after(1));
    assert_eq!(condition_of(&done, "Ready").reason, "SyntaxError");
    let broken = perform(broken, done);
    assert_eq!(shares(&broken), [(&*one, 90), (&*two, 10)]);
    let completed = performed(reported(&broken, (900, 0), (100, 0)), after(61));
    assert_eq!((latest(&completed), phase(&completed)), (two, RolloutPhase::Completed));
    let taken_back = performed(reported(&broken, (900, 0), (100, 40)), after(2));
    assert_eq!(shares(&taken_back), [(&*one, 100)]);
}

#[test]
fn the_latest_revision_serves_once_the_rollout_is_removed() {
    let (rolling, [one, _]) = rolling();
    let taken_back = performed(reported(&rolling, (900, 0), (100, 40)), after(2));
    assert_eq!(shares(&taken_back), [(&*one, 100)]);
    let without = |candidate: &Candidate| changed(candidate, |worker| worker.spec.rollout = None);
    let done = performed(without(&taken_back), after(3));
    assert!(shares(&done).is_empty() && status(&done).rollout.is_none());
    assert!(status(&done).conditions.iter().all(|condition| condition.type_ != "RolledOut"));
    // A spec that is not accepted does not end the rollout.
    let broken = performed(with_code(without(&taken_back), BAD), after(3));
    assert_eq!((shares(&broken), phase(&broken)), (vec![(&*one, 100)], RolloutPhase::TakenBack));
}

#[test]
fn a_rollback_by_hand_ends_the_rollout() {
    let (rolling, [one, _]) = rolling();
    let pinned = changed(&rolling, |worker| {
        worker.spec.rollout = None;
        let traffic = json!([{"revision": one, "percent": 100}]);
        worker.spec.traffic = serde_json::from_value(traffic).unwrap();
    });
    let pinned = performed(pinned, after(1));
    assert_eq!(shares(&pinned), [(&*one, 100)]);
    assert!(status(&pinned).rollout.is_none());
}

#[test]
fn a_stable_revision_that_was_deleted_after_the_other_was_taken_back_is_reported() {
    let (rolling, [one, _]) = rolling();
    let taken_back = performed(reported(&rolling, (900, 0), (100, 40)), after(2));
    let mut deleted = taken_back.clone();
    deleted.revisions.retain(|revision| revision.name_any() != one);
    let refused = plan(&deleted, after(3));
    let programmed = condition_of(&refused, "Programmed");
    assert_eq!(programmed.reason, "RevisionMissing");
    assert!(programmed.message.starts_with("spec.rollout: "), "{}", programmed.message);
    // The next revision has nothing to replace.
    let next = performed(with_code(deleted, &format!("{GOOD}// next\n")), after(4));
    assert_eq!((shares(&next), phase(&next)), (vec![], RolloutPhase::Completed));
}

#[test]
fn a_step_waits_for_its_acknowledgement() {
    let (rolling, _) = rolling();
    let next = with_code(rolling, &format!("{GOOD}// next\n"));
    let accepted = unacknowledged(&next, now());
    let next = perform(next, accepted);
    let next = reported(&next, (900, 0), (100, 0));
    assert_eq!(
        phase(&perform(next.clone(), unacknowledged(&next, after(600)))),
        RolloutPhase::Progressing
    );
    let known = announced(&next, status(&next), Acknowledgement::Given);
    let known = perform(known.clone(), unacknowledged(&known, after(600)));
    let known = reported(&known, (900, 0), (100, 0));
    assert_eq!(
        phase(&perform(known.clone(), unacknowledged(&known, after(600)))),
        RolloutPhase::Completed
    );
}
