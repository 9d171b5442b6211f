//! Tests of what a Worker's status says about its progress, by the rules of kstatus.

use super::*;
use crate::kstatus::Progress;
use crate::kstatus::tests::{Computed, check_golden, compute, keeps_contract, state};

/// Returns what kstatus computes for the Worker after the plan was performed.
fn computed(candidate: &Candidate, plan: Plan) -> Computed {
    let after = perform(candidate.clone(), plan).worker;
    let status = after.status.as_ref().expect("the Worker has no status");
    assert!(keeps_contract(&status.conditions), "{:?}", status.conditions);
    compute(after.metadata.generation, status.observed_generation, &status.conditions)
}

fn changed(candidate: &Candidate, change: impl FnOnce(&mut Worker)) -> Candidate {
    let mut worker = (*candidate.worker).clone();
    change(&mut worker);
    Candidate { worker: Arc::new(worker), ..candidate.clone() }
}

#[test]
fn kstatus_distinguishes_current_failed_and_unfinished_workers() {
    let good = candidate(GOOD);
    let secret = json!([{"name": "T", "secretKeyRef": {"name": "s", "key": "k"}}]);
    let needs_secret =
        changed(&good, |worker| worker.spec.secrets = serde_json::from_value(secret).unwrap());
    let greedy = changed(&good, |worker| worker.spec.limits.cpu_ms = Some(11));
    let at_most_ten = PoolLimits {
        max: Limits { cpu_ms: Some(10), ..Limits::default() },
        ..PoolLimits::default()
    };
    let never = json!([{"cron": "0 0 31 2 *", "timeZone": "Etc/UTC"}]);
    let never = serde_json::from_value::<Vec<Schedule>>(never).unwrap();
    let missing = SourceState::MissingConfigMap("code".to_owned());
    let taken = Holder::Worker(WorkerId::new("other", "cart"));
    let route = good.routes[0].0.clone();
    let new = state("Worker", "new", Computed::InProgress, Some(1), Some(-1), &[]);
    let mut states = vec![new];
    for (expected, reason, candidate) in [
        (Computed::Current, "Serving", good.clone()),
        (Computed::Failed, "SyntaxError", candidate(BAD)),
        (Computed::InProgress, "ConfigMapMissing", Candidate { source: missing, ..good.clone() }),
        (Computed::InProgress, "SecretMissing", needs_secret.clone()),
        (Computed::InProgress, "PoolMissing", Candidate { pool: None, ..good.clone() }),
        (Computed::Failed, "LimitOverMaximum", Candidate { pool: Some(at_most_ten), ..greedy }),
        (
            Computed::Failed,
            "RouteConflict",
            Candidate { routes: vec![(route.clone(), taken.clone())], ..good.clone() },
        ),
        (Computed::Failed, "PoolNotAllowed", Candidate { access: Access::Refused, ..good.clone() }),
        (
            Computed::InProgress,
            "PoolNotAllowed",
            Candidate { access: Access::Unknown, ..good.clone() },
        ),
        (
            Computed::Failed,
            "HostNotGranted",
            Candidate { routes: vec![(route.clone(), Holder::NotGranted)], ..good.clone() },
        ),
        (
            Computed::Failed,
            "InvalidSchedule",
            changed(&good, |worker| worker.spec.schedules = never),
        ),
        // A missing Secret may still appear, and does not hide a fault that a person must resolve.
        (
            Computed::Failed,
            "RouteConflict",
            Candidate { routes: vec![(route, taken)], ..needs_secret },
        ),
    ] {
        let plan = plan(&candidate, now());
        assert_eq!(condition_of(&plan, "Ready").reason, reason);
        let after = plan.status.clone().unwrap();
        let observed = after.observed_generation;
        states.push(state("Worker", reason, expected, Some(3), observed, &after.conditions));
        assert_eq!(computed(&candidate, plan), expected, "{reason}");
    }
    let waiting = unacknowledged(&good, now()).status.unwrap();
    let (observed, expected) = (waiting.observed_generation, Computed::InProgress);
    states.push(state("Worker", "Propagating", expected, Some(3), observed, &waiting.conditions));
    let ready = plan(&good, now()).status.unwrap().conditions;
    states.push(state("Worker", "a new spec", expected, Some(4), Some(3), &ready));
    check_golden("kstatus-worker.json", &states);
}

#[test]
fn a_worker_is_in_progress_until_its_newest_spec_is_planned() {
    let done = perform(candidate(GOOD), plan(&candidate(GOOD), now()));
    let newer = changed(&done, |worker| worker.metadata.generation = Some(4));
    let status = newer.worker.status.clone().unwrap();
    let observed = |observed| compute(Some(4), observed, &status.conditions);
    assert_eq!(observed(status.observed_generation), Computed::InProgress);
    // This is the default of the schema.
    assert_eq!(compute(Some(1), Some(-1), &[]), Computed::InProgress);
}

#[test]
fn a_refused_revision_is_reported_while_what_was_accepted_keeps_serving() {
    let served = perform(candidate(GOOD), plan(&candidate(GOOD), now()));
    let next = with_code(served.clone(), "export default { fetch() {} };\n");
    for (progress, expected) in
        [(Progress::Stalled, Computed::Failed), (Progress::Reconciling, Computed::InProgress)]
    {
        let refusal = Refusal { reason: "QuotaExceeded", message: "no more".to_owned(), progress };
        let plan = super::super::plan(&next, &draft(&next).compiled_here(), Some(refusal), now());
        assert!(plan.apply.is_none());
        let ready = condition_of(&plan, "Ready").clone();
        assert_eq!((ready.status, &*ready.reason), (ConditionStatus::False, "QuotaExceeded"));
        assert_eq!(condition_of(&plan, "Compiled").status, ConditionStatus::True);
        let (before, after) = (served.worker.status.clone().unwrap(), plan.status.clone().unwrap());
        assert_eq!(before.latest_revision, after.latest_revision);
        assert_eq!(before.accepted, after.accepted);
        assert_eq!(computed(&next, plan), expected);
    }
}

#[test]
fn a_compiler_without_a_result_is_reported() {
    let candidate = candidate(GOOD);
    let failed = draft(&candidate).not_compiled(&CompilerError::NoResult);
    let plan = super::super::plan(&candidate, &failed, None, now());
    assert_eq!(condition_of(&plan, "Ready").reason, "CompilerFailed");
    assert_eq!(computed(&candidate, plan), Computed::InProgress);
}

#[test]
fn a_new_revision_is_ready_once_a_router_has_acknowledged_it() {
    let first = candidate(GOOD);
    let applied = unacknowledged(&first, now());
    assert!(!applied.asks_routers, "routers are asked before the catalog has an entry");
    assert!(applied.apply.is_some() && applied.events.is_empty());
    let ready = condition_of(&applied, "Ready");
    assert_eq!((ready.status, &*ready.reason), (ConditionStatus::Unknown, "Propagating"));
    let status = applied.status.clone().unwrap();
    assert_eq!(computed(&first, unacknowledged(&first, now())), Computed::InProgress);
    let deployed = perform(first, applied);

    let pending = announced(&deployed, &status, Acknowledgement::Pending);
    let asked = unacknowledged(&pending, now());
    assert!(asked.asks_routers && asked.status.is_none());
    let why = Acknowledgement::Missing("no router can be reached".to_owned());
    let missing = unacknowledged(&announced(&deployed, &status, why), now());
    assert!(missing.asks_routers);
    let ready = condition_of(&missing, "Ready");
    assert_eq!((ready.status, &*ready.reason), (ConditionStatus::False, "NotAcknowledged"));
    assert!(ready.message.contains("no router can be reached"), "{}", ready.message);
    let given = announced(&deployed, &status, Acknowledgement::Given);
    let done = unacknowledged(&given, now());
    assert!(!done.asks_routers);
    // Together with the earlier writes of the revision and of the status, the Worker has cost three
    // writes.
    assert!(done.apply.is_none() && done.delete.is_empty() && done.events.is_empty());
    assert_eq!(condition_of(&done, "Ready").status, ConditionStatus::True);
    assert_eq!(computed(&deployed, done), Computed::Current);
}

#[test]
fn an_acknowledged_revision_stays_ready_without_an_entry_in_the_catalog() {
    let ready = perform(candidate(GOOD), plan(&candidate(GOOD), now()));
    let restarted = Candidate { serving: Vec::new(), published: None, ..ready.clone() };
    let plan = unacknowledged(&restarted, now());
    assert!(plan.status.is_none() && !plan.asks_routers);
    let newer = changed(&restarted, |worker| worker.metadata.generation = Some(4));
    let plan = unacknowledged(&newer, now());
    assert_eq!(condition_of(&plan, "Ready").status, ConditionStatus::True);
}

#[test]
fn an_acknowledgement_of_another_placement_does_not_count() {
    let ready = perform(candidate(GOOD), plan(&candidate(GOOD), now()));
    let mut moved = changed(&ready, |worker| worker.spec.pool = "other".to_owned());
    let status = ready.worker.status.clone().unwrap();
    moved = announced(&moved, &status, Acknowledgement::Given);
    let plan = unacknowledged(&moved, now());
    assert_eq!(condition_of(&plan, "Ready").reason, "Propagating");
    assert!(!plan.asks_routers, "routers are asked about the entry of the previous pool");
}
