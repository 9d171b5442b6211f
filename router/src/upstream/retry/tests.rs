//! Tests which failed attempts are repeated.

use super::*;

fn retried(error: AttemptError, method: Method, replayable: bool) -> bool {
    let now = Instant::now();
    Attempts::new(Idempotency::of(&method)).may_go_on(
        &error,
        replayable,
        &mut Budget::new(now),
        now,
    )
}

fn refusal(code: FailureCode) -> AttemptError {
    AttemptError::Failed(Failure::new(code, Phase::Admission, ""))
}

#[test]
fn a_request_that_has_not_begun_is_retried_whatever_its_method() {
    assert!(retried(AttemptError::Unreachable(ConnectFailure::Refused), Method::POST, true));
    assert!(retried(AttemptError::Unresponsive { sent: false }, Method::POST, true));
    assert!(retried(AttemptError::Full, Method::POST, true));
    assert!(retried(refusal(FailureCode::Moved), Method::POST, true));
    assert!(retried(AttemptError::NotBegun, Method::POST, true));
    assert!(retried(refusal(FailureCode::Draining), Method::POST, true));
    assert!(retried(refusal(FailureCode::Overloaded), Method::POST, true));
}

#[test]
fn a_request_that_may_have_run_is_retried_only_if_it_is_idempotent() {
    for (method, expected) in
        [(Method::GET, true), (Method::PUT, true), (Method::POST, false), (Method::PATCH, false)]
    {
        assert_eq!(retried(AttemptError::Lost, method.clone(), true), expected, "{method}");
        assert_eq!(
            retried(AttemptError::Unresponsive { sent: true }, method.clone(), true),
            expected,
            "{method}"
        );
    }
}

#[test]
fn a_request_whose_body_is_consumed_is_not_retried() {
    assert!(!retried(AttemptError::NotBegun, Method::GET, false));
    assert!(!retried(refusal(FailureCode::Draining), Method::GET, false));
}

#[test]
fn failures_of_the_worker_are_not_retried() {
    for code in [
        FailureCode::WorkerException,
        FailureCode::CpuLimitExceeded,
        FailureCode::NoResponse,
        FailureCode::WorkerQuarantined,
    ] {
        assert!(!retried(refusal(code), Method::GET, true));
        assert_eq!(refusal(code).into_failure().code, code);
    }
    assert!(!retried(AttemptError::Silent, Method::GET, true));
}

#[test]
fn the_third_attempt_that_reaches_a_node_is_the_last() {
    let now = Instant::now();
    let (mut attempts, mut budget) = (Attempts::new(Idempotency::Idempotent), Budget::new(now));
    let mut after = |error| attempts.may_go_on(&error, true, &mut budget, now);
    assert!(after(AttemptError::Lost));
    assert!(after(AttemptError::Unreachable(ConnectFailure::Silent)));
    assert!(after(AttemptError::NotBegun));
    assert!(!after(AttemptError::NotBegun));
}

#[test]
fn a_request_that_has_lost_two_processes_is_not_repeated() {
    let now = Instant::now();
    let (mut attempts, mut budget) = (Attempts::new(Idempotency::Idempotent), Budget::new(now));
    assert!(attempts.may_go_on(&AttemptError::Lost, true, &mut budget, now));
    assert!(!attempts.may_go_on(&AttemptError::Lost, true, &mut budget, now));
}

#[test]
fn a_request_may_leave_one_silent_shard_and_then_lose_one_process() {
    let now = Instant::now();
    let (mut attempts, mut budget) = (Attempts::new(Idempotency::Idempotent), Budget::new(now));
    let left = || AttemptError::Unresponsive { sent: true };
    assert!(attempts.may_go_on(&left(), true, &mut budget, now));
    assert!(!attempts.may_be_repeated(&left()), "a request may leave two silent shards");
    assert!(attempts.may_go_on(&AttemptError::Lost, true, &mut budget, now));
    for error in [left(), AttemptError::Lost] {
        assert!(!attempts.may_be_repeated(&error));
    }
    assert!(!Attempts::new(Idempotency::NonIdempotent).may_go_on(&left(), true, &mut budget, now));
}

#[test]
fn a_request_that_loses_its_whole_node_is_repeated_once_more() {
    let now = Instant::now();
    let (mut attempts, mut budget) = (Attempts::new(Idempotency::Idempotent), Budget::new(now));
    assert!(!attempts.depends_on_node(&AttemptError::Lost));
    assert!(attempts.may_go_on(&AttemptError::Lost, true, &mut budget, now));
    assert!(attempts.depends_on_node(&AttemptError::Lost));
    assert!(attempts.may_go_on(&AttemptError::NodeLost, true, &mut budget, now));
    assert!(!attempts.may_go_on(&AttemptError::Lost, true, &mut budget, now));
    assert!(!Attempts::new(Idempotency::NonIdempotent).depends_on_node(&AttemptError::Lost));
    assert!(!retried(AttemptError::NodeLost, Method::POST, true));
}

#[test]
fn the_code_moved_is_not_returned_to_callers() {
    assert_eq!(refusal(FailureCode::Moved).into_failure().code, FailureCode::NoNode);
}
