//! Tests when crash loops and recoveries are reported.

use proptest::prelude::*;

use super::*;

const SHARD: ShardId = ShardId(0);

fn digest(number: u16) -> RevisionDigest {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    RevisionDigest::new(bytes)
}

fn failing(number: u16, failures: u32) -> Failing {
    let worker = WorkerId::new("shop", &format!("worker-{number}"));
    Failing {
        worker,
        digest: digest(number),
        code: FailureCode::WorkerStartFailed,
        failures,
        place: None,
    }
}

/// Returns for each revision whether it is reported to be in a crash loop.
fn states(batch: &Batch) -> Vec<bool> {
    batch.workers.iter().map(|worker| matches!(worker.state, Some(State::CrashLoop(_)))).collect()
}

#[test]
fn a_second_failure_in_a_row_is_a_crash_loop_and_is_reported_immediately() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 1), now);
    assert_eq!((ledger.next_due(), ledger.crash_loops()), (None, 0));
    ledger.failing(SHARD, failing(1, 2), now);
    assert_eq!((ledger.next_due(), ledger.crash_loops()), (Some(now), 1));
    let batch = ledger.next_batch(now);
    assert_eq!(batch.workers[0].worker, "shop/worker-1");
    assert_eq!(states(&batch), [true]);
}

#[test]
fn a_crash_loop_is_reported_once_a_minute_with_its_latest_state() {
    let (mut ledger, start) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), start);
    let batch = ledger.next_batch(start);
    ledger.delivered(&batch, start);
    for second in 1..59 {
        ledger.failing(SHARD, failing(1, 2 + second), start + Duration::from_secs(second.into()));
    }
    assert_eq!(ledger.next_due(), Some(start + RENEWAL));
    let batch = ledger.next_batch(start + RENEWAL);
    let Some(State::CrashLoop(reported)) = &batch.workers[0].state else {
        panic!("the crash loop is not reported again")
    };
    assert_eq!((reported.failures, reported.for_seconds), (60, 60));
}

#[test]
fn an_undelivered_report_stays_due() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), now);
    assert_eq!(states(&ledger.next_batch(now)), [true]);
    assert_eq!(states(&ledger.next_batch(now)), [true]);
}

#[test]
fn a_recovery_is_reported_once() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), now);
    let batch = ledger.next_batch(now);
    ledger.delivered(&batch, now);
    ledger.recovered(SHARD, digest(1), now);
    assert_eq!(ledger.crash_loops(), 0);
    let batch = ledger.next_batch(now);
    assert_eq!(states(&batch), [false]);
    ledger.delivered(&batch, now);
    assert_eq!(ledger.next_due(), None);
}

#[test]
fn a_recovery_from_an_unreported_crash_loop_is_not_reported() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.recovered(SHARD, digest(1), now);
    ledger.failing(SHARD, failing(1, 2), now);
    ledger.recovered(SHARD, digest(1), now);
    assert_eq!(ledger.next_due(), None);
}

#[test]
fn a_revision_has_recovered_once_it_has_recovered_on_every_shard_where_it_failed() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.failing(ShardId(0), failing(1, 2), now);
    ledger.failing(ShardId(1), failing(1, 2), now);
    let batch = ledger.next_batch(now);
    ledger.delivered(&batch, now);
    ledger.recovered(ShardId(0), digest(1), now);
    ledger.recovered(ShardId(2), digest(1), now);
    assert_eq!((ledger.crash_loops(), ledger.next_due()), (1, Some(now + RENEWAL)));
    ledger.recovered(ShardId(1), digest(1), now);
    assert_eq!((ledger.crash_loops(), ledger.next_due()), (0, Some(now)));
}

#[test]
fn a_change_during_a_delivery_is_reported_after_the_delivery() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), now);
    let batch = ledger.next_batch(now);
    ledger.recovered(SHARD, digest(1), now);
    ledger.delivered(&batch, now);
    let batch = ledger.next_batch(now);
    assert_eq!(states(&batch), [false]);
    ledger.failing(SHARD, failing(1, 2), now);
    ledger.delivered(&batch, now);
    assert_eq!(states(&ledger.next_batch(now)), [true]);
}

#[test]
fn a_crash_loop_after_an_unreported_recovery_begins_anew() {
    let (mut ledger, start) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), start);
    let batch = ledger.next_batch(start);
    ledger.delivered(&batch, start);
    let later = start + Duration::from_secs(40);
    ledger.recovered(SHARD, digest(1), later);
    ledger.failing(SHARD, failing(1, 2), later);
    let batch = ledger.next_batch(later + Duration::from_secs(5));
    let Some(State::CrashLoop(reported)) = &batch.workers[0].state else {
        panic!("the crash loop is not reported")
    };
    assert_eq!(reported.for_seconds, 5);
}

#[test]
fn a_revision_without_recent_failures_is_forgotten() {
    let (mut ledger, start) = (Ledger::default(), Instant::now());
    ledger.failing(SHARD, failing(1, 2), start);
    ledger.failing(SHARD, failing(2, 2), start);
    let batch = ledger.next_batch(start);
    ledger.delivered(&batch, start);
    ledger.recovered(SHARD, digest(2), start);
    assert!(ledger.next_batch(start + SILENCE).is_empty());
    assert_eq!((ledger.crash_loops(), ledger.next_due()), (0, None));
}

#[test]
fn a_thousand_crash_loops_are_reported_in_batches_and_each_once() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    (0..1_000).for_each(|number| ledger.failing(SHARD, failing(number, 2), now));
    for _ in 0..10 {
        let batch = ledger.next_batch(now);
        assert_eq!(batch.workers.len(), BATCH);
        ledger.delivered(&batch, now);
    }
    assert!(ledger.next_batch(now).is_empty());
}

#[test]
fn the_size_of_the_ledger_is_bounded() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    (0..=u16::MAX).for_each(|number| ledger.failing(SHARD, failing(number, 2), now));
    assert_eq!(ledger.crash_loops(), REVISIONS);
}

#[derive(Clone, Debug)]
enum Step {
    /// A revision fails on a shard, by the numbers of the shard and of the revision.
    Fails(u16, u16),
    /// A revision recovers on a shard, by the same numbers.
    Recovers(u16, u16),
    /// A message is sent, and is delivered or not.
    Sends(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..2_u16, 0..3_u16).prop_map(|(shard, number)| Step::Fails(shard, number)),
        2 => (0..2_u16, 0..3_u16).prop_map(|(shard, number)| Step::Recovers(shard, number)),
        2 => any::<bool>().prop_map(Step::Sends),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// For any events and any lost messages, the operator knows the true state of every revision
    /// once every report that is due has been delivered.
    #[test]
    fn the_operator_eventually_knows_which_revisions_fail(steps in steps()) {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let mut fails = std::collections::HashSet::new();
        let mut known = std::collections::HashSet::new();
        let mut receive = |batch: &Batch| {
            for worker in &batch.workers {
                let id = worker.digest.clone();
                if matches!(worker.state, Some(State::CrashLoop(_))) {
                    known.insert(id);
                } else {
                    known.remove(&id);
                }
            }
        };
        for step in steps {
            match step {
                Step::Fails(shard, number) => {
                    fails.insert((number, shard));
                    ledger.failing(ShardId(shard), failing(number, 2), now);
                }
                Step::Recovers(shard, number) => {
                    fails.remove(&(number, shard));
                    ledger.recovered(ShardId(shard), digest(number), now);
                }
                Step::Sends(arrives) => {
                    let batch = ledger.next_batch(now);
                    // A message whose response was lost may have been delivered.
                    receive(&batch);
                    if arrives {
                        ledger.delivered(&batch, now);
                    }
                }
            }
        }
        let batch = ledger.next_batch(now);
        receive(&batch);
        ledger.delivered(&batch, now);
        let truth: std::collections::HashSet<_> =
            fails.iter().map(|(number, _)| digest(*number).as_bytes().to_vec()).collect();
        prop_assert_eq!(ledger.crash_loops(), truth.len());
        prop_assert_eq!(known, truth);
        prop_assert!(ledger.next_batch(now).is_empty());
    }
}
