//! Tests which scheduled times lead to a call.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn worker(crons: &[&str]) -> Worker {
    let schedules: Vec<_> = crons.iter().map(|cron| json!({"cron": cron})).collect();
    serde_json::from_value(json!({
        "apiVersion": "tenon.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"source": {"modules": {"worker.js": ""}}, "schedules": schedules},
        "status": {"latestRevision": "cart-0123456789"},
    }))
    .unwrap()
}

/// Returns the Worker after the claim was written.
fn write_claim(mut worker: Worker, due: &Due) -> Worker {
    if let Some(claim) = &due.claim {
        worker.status.get_or_insert_default().schedules.clone_from(claim);
    }
    worker
}

/// Returns a Worker that was first observed at `since`.
fn worker_since(crons: &[&str], since: &str) -> Worker {
    let worker = worker(crons);
    let due = Due::of(&worker, at(since));
    assert!(due.calls.is_empty(), "a time before the first observation is due");
    write_claim(worker, &due)
}

fn times(due: &Due) -> Vec<String> {
    due.calls.iter().map(|call| call.time.to_string()).collect()
}

#[test]
fn a_new_schedule_starts_when_it_is_first_observed() {
    let worker = worker_since(&["*/10 * * * *"], "2026-11-21T18:35:12Z");
    let due = Due::of(&worker, at("2026-11-21T18:36:00Z"));
    assert_eq!(
        (due.claim, due.calls, due.next),
        (None, Vec::new(), Some(at("2026-11-21T18:40:00Z")))
    );
}

#[test]
fn each_time_leads_to_one_call_when_it_is_due() {
    let worker = worker_since(&["*/10 * * * *"], "2026-11-21T18:35:12Z");
    assert!(Due::of(&worker, at("2026-11-21T18:39:59.999Z")).calls.is_empty());
    let due = Due::of(&worker, at("2026-11-21T18:40:00Z"));
    assert_eq!(times(&due), ["2026-11-21T18:40:00Z"]);
    assert_eq!(due.next, Some(at("2026-11-21T18:50:00Z")));
    let again = Due::of(&write_claim(worker, &due), at("2026-11-21T18:40:00.5Z"));
    assert_eq!((again.claim, again.calls), (None, Vec::new()));
}

#[test]
fn a_new_leader_makes_the_missed_calls_within_the_window() {
    let worker = worker_since(&["* * * * *"], "2026-11-21T18:35:12Z");
    let due = Due::of(&worker, at("2026-11-21T18:38:20Z"));
    assert_eq!(
        times(&due),
        ["2026-11-21T18:36:00Z", "2026-11-21T18:37:00Z", "2026-11-21T18:38:00Z"]
    );
    assert!(due.passed_over.is_empty());
}

#[test]
fn a_time_outside_the_window_is_skipped_and_reported_once() {
    let worker = worker_since(&["* * * * *", "0 18 * * *"], "2026-11-21T17:35:12Z");
    let due = Due::of(&worker, at("2026-11-21T18:35:30Z"));
    assert_eq!(times(&due).first().map(String::as_str), Some("2026-11-21T18:31:00Z"));
    assert_eq!(due.calls.len(), 5);
    let crons: Vec<_> = due.passed_over.iter().map(|schedule| schedule.cron.as_str()).collect();
    assert_eq!(crons, ["* * * * *", "0 18 * * *"]);
    let again = Due::of(&write_claim(worker, &due), at("2026-11-21T18:35:40Z"));
    assert!(again.passed_over.is_empty() && again.calls.is_empty() && again.claim.is_none());
}

#[test]
fn a_time_at_the_start_of_the_window_leads_to_a_call() {
    let worker = worker_since(&["0 18 * * *"], "2026-11-21T17:35:12Z");
    let due = Due::of(&worker, at("2026-11-21T18:05:00Z"));
    assert_eq!((times(&due), due.passed_over.len()), (vec!["2026-11-21T18:00:00Z".to_owned()], 0));
}

#[test]
fn a_removed_schedule_is_forgotten_and_the_others_continue() {
    let mut worker = worker_since(&["*/10 * * * *", "0 * * * *"], "2026-11-21T18:35:12Z");
    worker.spec.schedules.remove(0);
    let claim = Due::of(&worker, at("2026-11-21T18:36:00Z")).claim.unwrap();
    assert_eq!(claim.len(), 1);
    assert_eq!(
        (claim[0].cron.as_str(), claim[0].last_schedule_time.0),
        ("0 * * * *", at("2026-11-21T18:35:12Z"))
    );
    worker.spec.schedules.clear();
    assert_eq!(Due::of(&worker, at("2026-11-21T18:36:00Z")).claim, Some(Vec::new()));
}

#[test]
fn a_worker_without_a_serving_revision_is_not_called() {
    let mut worker = worker(&["* * * * *"]);
    worker.status = None;
    assert_eq!(Due::of(&worker, at("2026-11-21T18:36:00Z")), Due::default());
}

#[test]
fn an_invalid_schedule_does_not_stop_the_others() {
    let worker = worker_since(&["61 * * * *", "*/10 * * * *"], "2026-11-21T18:35:12Z");
    assert_eq!(Due::of(&worker, at("2026-11-21T18:40:10Z")).calls.len(), 1);
}

#[test]
fn a_clock_that_is_set_back_does_not_repeat_calls() {
    let worker = worker_since(&["* * * * *"], "2026-11-21T18:35:12Z");
    let due = Due::of(&worker, at("2026-11-21T18:36:10Z"));
    let worker = write_claim(worker, &due);
    let back = Due::of(&worker, at("2026-11-21T18:35:30Z"));
    assert!(back.calls.is_empty() && back.claim.is_none());
}

proptest! {
    /// Leaders decide at arbitrary times, and some of them stop before they write.
    #[test]
    fn every_time_leads_to_exactly_one_call_whichever_replica_leads(
        runs in prop::collection::vec((1_i64..280, any::<bool>()), 1..60),
        cron in prop::sample::select(vec![
            "* * * * *", "*/7 * * * *", "0,30 * * * *", "15 3 * * *",
        ]),
    ) {
        let begin = at("2026-10-24T23:58:30Z");
        let mut worker = worker_since(&[cron], "2026-10-24T23:58:30Z");
        let (mut now, mut written_at, mut calls) = (begin, begin, Vec::new());
        for (seconds, writes) in runs {
            // At least one leader writes within each catch-up window.
            let next = now + SignedDuration::from_secs(seconds);
            let writes = writes || next.duration_since(written_at) > CATCH_UP;
            now += SignedDuration::from_secs(if writes { seconds.min(20) } else { seconds });
            if now.duration_since(written_at) > CATCH_UP {
                now = written_at + CATCH_UP;
            }
            let due = Due::of(&worker, now);
            prop_assert!(due.passed_over.is_empty());
            prop_assert!(due.next.is_some_and(|next| next > now));
            if writes {
                worker = write_claim(worker, &due);
                calls.extend(due.calls.into_iter().map(|call| call.time));
                written_at = now;
            }
        }
        let schedule = &worker.spec.schedules[0];
        let timetable = Timetable::of(schedule).unwrap();
        let next = |time: &Timestamp| timetable.next_after(*time);
        let times = std::iter::successors(next(&begin), next);
        let expected: Vec<_> = times.take_while(|time| *time <= written_at).collect();
        prop_assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len());
        prop_assert_eq!(calls, expected);
    }
}
