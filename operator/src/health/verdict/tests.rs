//! Tests how reports of failures change the health of a Worker.

use proptest::prelude::*;

use super::*;

const LATEST: &str = "cart-1";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn serving() -> WorkerStatus {
    WorkerStatus { latest_revision: Some(LATEST.to_owned()), ..WorkerStatus::default() }
}

fn fails(revision: &str, code: FailureCode) -> NodeReport {
    let reported = ReportedCrashLoop { code, failures: 2, place: None, since: at(990) };
    NodeReport { revision: revision.to_owned(), crash_loop: Some(reported) }
}

fn recovered() -> NodeReport {
    NodeReport { revision: LATEST.to_owned(), crash_loop: None }
}

fn pending<'a>(reports: impl IntoIterator<Item = (&'a str, NodeReport)>) -> PendingReports {
    let by_node = reports.into_iter().map(|(node, report)| (node.to_owned(), report)).collect();
    PendingReports { by_node, ..PendingReports::default() }
}

/// Returns the status after the verdict, if any, was written.
fn written(mut status: WorkerStatus, pending: &PendingReports, now: Timestamp) -> WorkerStatus {
    if let Some(Verdict { crash_loops, quarantine, condition, .. }) = verdict(&status, pending, now)
    {
        status.conditions.retain(|condition| condition.type_ != CONDITION);
        status.conditions.push(condition);
        status.crash_loops = crash_loops;
        status.quarantine = quarantine;
    }
    status
}

fn failing_on(nodes: &[&str], now: Timestamp) -> WorkerStatus {
    let code = FailureCode::MemoryLimitExceeded;
    written(serving(), &pending(nodes.iter().map(|node| (*node, fails(LATEST, code)))), now)
}

fn healthy(status: &WorkerStatus) -> Option<ConditionStatus> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION)
        .map(|condition| condition.status)
}

#[test]
fn a_crash_loop_names_code_revision_number_of_nodes_and_remedy() {
    let two = pending([
        ("node-a", fails(LATEST, FailureCode::MemoryLimitExceeded)),
        ("node-b", fails(LATEST, FailureCode::CpuLimitExceeded)),
    ]);
    let verdict = verdict(&serving(), &two, at(1_000)).unwrap();
    let Condition { status, reason, message, .. } = &verdict.condition;
    assert_eq!((*status, reason.as_str()), (ConditionStatus::False, "CrashLoopBackOff"));
    for part in
        [LATEST, "memory_limit_exceeded", "cpu_limit_exceeded", "2 nodes", "see the Worker's log"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(verdict.event.is_some_and(
        |event| event.type_ == EventType::Warning && event.reason == "CrashLoopBackOff"
    ));
    assert_eq!(verdict.crash_loops[0].since.0, at(990));
}

#[test]
fn a_crash_loop_names_the_place_in_the_authors_file() {
    let thrown = |line| {
        let place = Some(Place { file: "src/cart.ts".to_owned(), line, column: 14 });
        let reported = ReportedCrashLoop {
            code: FailureCode::WorkerStartFailed,
            failures: 2,
            place,
            since: at(990),
        };
        NodeReport { revision: LATEST.to_owned(), crash_loop: Some(reported) }
    };
    let once = written(serving(), &pending([("node-a", thrown(3))]), at(1_000));
    assert_eq!(once.crash_loops[0].place.as_deref(), Some("src/cart.ts:3:14"));
    let message = &once.conditions[0].message;
    assert!(
        message.contains("with worker_start_failed at src/cart.ts:3:14 on 1 node"),
        "{message}"
    );
    let nodes: Vec<_> = (1..8).map(|line| format!("node-{line}")).collect();
    let many = pending(nodes.iter().zip(1..).map(|(node, line)| (node.as_str(), thrown(line))));
    let message = written(serving(), &many, at(1_000)).conditions.remove(0).message;
    assert!(message.contains("src/cart.ts:3:14, 4 others on 7 nodes"), "{message}");
    assert!(!message.contains("src/cart.ts:4:14"), "{message}");
}

#[test]
fn a_worker_without_crash_loops_has_no_such_condition() {
    assert!(verdict(&serving(), &PendingReports::default(), at(1_000)).is_none());
    assert!(verdict(&serving(), &pending([("node-a", recovered())]), at(1_000)).is_none());
}

#[test]
fn a_worker_is_healthy_again_when_its_last_failing_node_recovers() {
    let status = failing_on(&["node-a", "node-b"], at(1_000));
    let status = written(status, &pending([("node-a", recovered())]), at(1_010));
    assert_eq!((healthy(&status), status.crash_loops.len()), (Some(ConditionStatus::False), 1));
    let verdict = verdict(&status, &pending([("node-b", recovered())]), at(1_020)).unwrap();
    assert_eq!(
        (verdict.condition.status, verdict.condition.reason.as_str()),
        (ConditionStatus::True, "Running")
    );
    assert!(verdict.event.is_some_and(|event| event.type_ == EventType::Normal));
}

#[test]
fn a_renewed_crash_loop_is_written_every_two_minutes_and_not_each_time() {
    let status = failing_on(&["node-a"], at(1_000));
    let again = pending([("node-a", fails(LATEST, FailureCode::MemoryLimitExceeded))]);
    assert!(verdict(&status, &again, at(1_119)).is_none());
    let renewed = verdict(&status, &again, at(1_120)).unwrap();
    assert_eq!(
        (renewed.crash_loops[0].renewed.0, renewed.crash_loops[0].since.0),
        (at(1_120), at(990))
    );
    assert!(renewed.event.is_none());
}

#[test]
fn a_crash_loop_that_is_not_renewed_is_forgotten() {
    let status = failing_on(&["node-a"], at(1_000));
    assert!(verdict(&status, &PendingReports::default(), at(1_299)).is_none());
    assert_eq!(
        healthy(&written(status, &PendingReports::default(), at(1_300))),
        Some(ConditionStatus::True)
    );
}

#[test]
fn a_new_revision_is_not_blamed_for_its_predecessor() {
    let mut status = failing_on(&["node-a"], at(1_000));
    status.latest_revision = Some("cart-2".to_owned());
    let late = pending([("node-b", fails(LATEST, FailureCode::MemoryLimitExceeded))]);
    assert_eq!(healthy(&written(status, &late, at(1_001))), Some(ConditionStatus::True));
}

#[test]
fn a_revision_is_not_blamed_for_its_previous_bindings() {
    let status = failing_on(&["node-a"], at(1_000));
    let redeployed = PendingReports { redeployed_at: Some(at(1_001)), ..PendingReports::default() };
    let status = written(status, &redeployed, at(1_002));
    assert_eq!((healthy(&status), status.crash_loops.len()), (Some(ConditionStatus::True), 0));
    let since = failing_on(&["node-a"], at(1_001));
    assert!(verdict(&since, &redeployed, at(1_002)).is_none());
}

#[test]
fn a_replica_whose_clock_is_ahead_cannot_make_a_crash_loop_last() {
    let status = failing_on(&["node-a"], at(9_000));
    assert_eq!(
        healthy(&written(status, &PendingReports::default(), at(1_000))),
        Some(ConditionStatus::True)
    );
}

#[test]
fn a_recovery_makes_room_in_a_full_list_for_any_order_of_the_nodes() {
    let nodes: Vec<_> = ('b'..='q').map(|letter| format!("node-{letter}")).collect();
    let nodes: Vec<_> = nodes.iter().map(String::as_str).collect();
    let full = failing_on(&nodes, at(1_000));
    assert_eq!(full.crash_loops.len(), CRASH_LOOPS);
    // The node that needs a place sorts before the one that gives its place up.
    let swap = pending([
        ("node-a", fails(LATEST, FailureCode::MemoryLimitExceeded)),
        ("node-q", recovered()),
    ]);
    let status = written(full, &swap, at(1_010));
    let named: Vec<_> = status.crash_loops.iter().map(|known| known.node.as_str()).collect();
    assert_eq!(named, [&["node-a"], &nodes[..15]].concat());
    assert!(
        verdict(&status, &swap, at(1_010)).is_none(),
        "the same reports are written a second time"
    );
}

#[test]
fn two_replicas_with_reports_of_different_nodes_agree_on_the_list() {
    let nodes: Vec<_> = (0..40).map(|i| format!("node-{i:02}")).collect();
    let received_by = |replica: usize| {
        let nodes = nodes.iter().skip(replica).step_by(2);
        pending(nodes.map(|node| (node.as_str(), fails(LATEST, FailureCode::MemoryLimitExceeded))))
    };
    let status =
        written(written(serving(), &received_by(1), at(1_000)), &received_by(0), at(1_001));
    assert_eq!(status.crash_loops.len(), CRASH_LOOPS);
    for replica in [0, 1] {
        assert!(
            verdict(&status, &received_by(replica), at(1_002)).is_none(),
            "replica {replica} writes again"
        );
    }
}

fn reported_quarantine(node: &str, since: i64, seconds: i64, times: i32) -> Quarantine {
    let (revision, cause) = (LATEST.to_owned(), QuarantineCause::Crashed);
    let (since, until) = (Time(at(since)), Time(at(since + seconds)));
    Quarantine { revision, cause, node: node.to_owned(), times, since, until }
}

fn in_quarantine(quarantine: Quarantine) -> PendingReports {
    PendingReports { quarantine: Some(quarantine), ..PendingReports::default() }
}

#[test]
fn a_quarantine_names_revision_node_cause_end_and_remedy() {
    let crashed = reported_quarantine("node-a", 1_000, 20, 2);
    let verdict = verdict(&serving(), &in_quarantine(crashed.clone()), at(1_000)).unwrap();
    let Condition { status, reason, message, .. } = &verdict.condition;
    assert_eq!((*status, reason.as_str()), (ConditionStatus::False, "Quarantined"));
    for part in [LATEST, "node-a", "2 times", "1970-01-01T00:17:00Z", "apply it again"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let event = verdict.event.unwrap();
    assert_eq!((event.type_, event.reason.as_str()), (EventType::Warning, "Quarantined"));
    let hung = Quarantine { cause: QuarantineCause::Hung, ..crashed };
    let status = written(serving(), &in_quarantine(hung), at(1_000));
    assert!(
        status.conditions[0].message.contains("did not stop"),
        "{}",
        status.conditions[0].message
    );
}

#[test]
fn a_quarantine_ends_by_time_alone_or_with_another_revision() {
    let status =
        written(serving(), &in_quarantine(reported_quarantine("node-a", 1_000, 10, 1)), at(1_000));
    let status = written(status, &pending([("node-a", recovered())]), at(1_009));
    assert_eq!(
        (healthy(&status), status.quarantine.is_some()),
        (Some(ConditionStatus::False), true)
    );
    let over = written(status.clone(), &PendingReports::default(), at(1_010));
    assert_eq!((healthy(&over), over.quarantine), (Some(ConditionStatus::True), None));
    let next = WorkerStatus { latest_revision: Some("cart-2".to_owned()), ..status.clone() };
    assert_eq!(
        healthy(&written(next, &PendingReports::default(), at(1_001))),
        Some(ConditionStatus::True)
    );
    let redeployed = PendingReports { redeployed_at: Some(at(1_001)), ..PendingReports::default() };
    assert_eq!(healthy(&written(status, &redeployed, at(1_002))), Some(ConditionStatus::True));
}

#[test]
fn a_quarantine_that_all_nodes_report_concurrently_is_written_once() {
    let mut status =
        written(serving(), &in_quarantine(reported_quarantine("node-0", 1_000, 10, 1)), at(1_000));
    for node in 1..1_000 {
        let pending =
            in_quarantine(reported_quarantine(&format!("node-{node}"), 1_000 + node / 400, 10, 1));
        assert!(verdict(&status, &pending, at(1_002)).is_none(), "node-{node}");
    }
    let again = in_quarantine(reported_quarantine("node-7", 1_012, 20, 2));
    status = written(status, &again, at(1_009));
    assert_eq!(status.quarantine, again.quarantine);
    let shorter = in_quarantine(reported_quarantine("node-8", 1_012, 10, 5));
    status = written(status, &shorter, at(1_012));
    let quarantine = status.quarantine.unwrap();
    assert_eq!(
        (quarantine.until.0, quarantine.times, quarantine.node.as_str()),
        (at(1_032), 5, "node-7")
    );
}

#[test]
fn a_crash_loop_is_named_again_after_a_quarantine() {
    let status = failing_on(&["node-a"], at(1_000));
    let quarantined =
        verdict(&status, &in_quarantine(reported_quarantine("node-a", 1_000, 10, 1)), at(1_000))
            .unwrap();
    assert_eq!(quarantined.condition.reason, "Quarantined");
    assert!(quarantined.event.is_some());
    let status =
        written(status, &in_quarantine(reported_quarantine("node-a", 1_000, 10, 1)), at(1_000));
    let after = verdict(&status, &PendingReports::default(), at(1_010)).unwrap();
    assert_eq!((after.condition.reason.as_str(), after.crash_loops.len()), ("CrashLoopBackOff", 1));
}

fn any_report() -> impl Strategy<Value = NodeReport> {
    let revision = prop_oneof![4 => Just(LATEST), 1 => Just("cart-0")];
    let code = (0..FailureCode::ALL.len()).prop_map(|code| FailureCode::ALL[code]);
    let failing = proptest::option::weighted(0.8, (code, any::<u32>(), 0..2_000_i64));
    (revision, failing).prop_map(|(revision, reported)| NodeReport {
        revision: revision.to_owned(),
        crash_loop: reported.map(|(code, failures, since)| ReportedCrashLoop {
            code,
            failures,
            place: None,
            since: at(since),
        }),
    })
}

fn any_pending() -> impl Strategy<Value = PendingReports> {
    // There may be more nodes than a status lists, and most of them fail.
    let by_node = proptest::collection::btree_map("node-[a-d][a-p]", any_report(), 0..48);
    (by_node, proptest::option::of(any_quarantine()), proptest::option::of(0..2_000_i64)).prop_map(
        |(by_node, quarantine, redeployed_at)| PendingReports {
            by_node,
            quarantine,
            redeployed_at: redeployed_at.map(at),
        },
    )
}

fn any_quarantine() -> impl Strategy<Value = Quarantine> {
    let revision = prop_oneof![4 => Just(LATEST), 1 => Just("cart-0")];
    (revision, "node-[a-z]", 0..2_000_i64, 1..600_i64, 1..9_i32).prop_map(
        |(revision, node, since, seconds, times)| Quarantine {
            revision: revision.to_owned(),
            ..reported_quarantine(&node, since, seconds, times)
        },
    )
}

proptest! {
    /// If a verdict were written again, two replicas could overwrite each other forever.
    #[test]
    fn a_written_verdict_is_not_written_again(
        first in any_pending(), second in any_pending(), then in 0..2_000_i64, later in 0..400_i64
    ) {
        let status = written(written(serving(), &first, at(then)), &second, at(then + later));
        prop_assert!(verdict(&status, &second, at(then + later)).is_none());
    }

    /// More nodes may fail than a status lists. If replicas wrote more than once, each could list
    /// its own nodes forever.
    #[test]
    fn replicas_with_reports_of_different_nodes_write_once_each(
        reports in proptest::collection::btree_map("node-[a-z]{2}", any_report(), 0..60),
        one_quarantine in proptest::option::of(any_quarantine()),
        other_quarantine in proptest::option::of(any_quarantine()),
        now in 0..2_000_i64
    ) {
        let is_even = |node: &str| node.bytes().last().is_some_and(|letter| letter & 1 == 0);
        let (one, other): (BTreeMap<_, _>, BTreeMap<_, _>) =
            reports.into_iter().partition(|(node, _)| is_even(node));
        let pending = |by_node, quarantine| {
            PendingReports { by_node, quarantine, redeployed_at: None }
        };
        let (one, other) = (pending(one, one_quarantine), pending(other, other_quarantine));
        let status = written(written(serving(), &one, at(now)), &other, at(now));
        prop_assert!(verdict(&status, &one, at(now)).is_none());
        prop_assert!(verdict(&status, &other, at(now)).is_none());
    }

    #[test]
    fn a_worker_is_unhealthy_while_crash_loops_or_a_quarantine_are_named(
        all in proptest::collection::vec((any_pending(), 0..400_i64), 0..6)
    ) {
        let (mut status, mut now) = (serving(), 0);
        for (pending, later) in all {
            now += later;
            status = written(status, &pending, at(now));
            let is_unhealthy = !status.crash_loops.is_empty() || status.quarantine.is_some();
            prop_assert_eq!(healthy(&status) == Some(ConditionStatus::False), is_unhealthy);
            prop_assert!(status.crash_loops.len() <= CRASH_LOOPS);
            prop_assert!(status.crash_loops.iter().all(|known| known.revision == LATEST));
        }
    }

    /// The order of the writes does not matter.
    #[test]
    fn replicas_with_reports_of_different_nodes_agree_on_the_end_of_a_quarantine(
        reported in proptest::collection::vec(any_quarantine(), 1..6), now in 0..2_000_i64
    ) {
        let status = |order: &mut dyn Iterator<Item = &Quarantine>| {
            order.fold(serving(), |status, reported| {
                written(status, &in_quarantine(reported.clone()), at(now))
            })
        };
        let (one, other) = (status(&mut reported.iter()), status(&mut reported.iter().rev()));
        prop_assert_eq!(one.quarantine.is_some(), other.quarantine.is_some());
        if let (Some(one), Some(other)) = (one.quarantine, other.quarantine) {
            prop_assert_eq!(one.times, other.times);
            prop_assert!(since(&one.until, other.until.0) <= SLACK.unsigned_abs());
            let is_valid = |reported: &&Quarantine| {
                reported.revision == LATEST && reported.until.0 > at(now)
            };
            let valid = reported.iter().filter(is_valid);
            let longest = valid.map(|reported| reported.until.0).max().unwrap();
            prop_assert!(since(&one.until, longest) <= SLACK.unsigned_abs());
        }
    }

    #[test]
    fn a_worker_without_further_reports_becomes_healthy(
        pending in any_pending(), then in 0..2_000_i64
    ) {
        let status = written(serving(), &pending, at(then));
        // A quarantine may outlast everything else that was reported.
        let quarantine = pending.quarantine;
        let later = quarantine.map_or(0, |reported| reported.until.0.as_second() - then).max(300);
        let status = written(status, &PendingReports::default(), at(then + later));
        prop_assert_ne!(healthy(&status), Some(ConditionStatus::False));
    }
}
