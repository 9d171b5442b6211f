//! Decides what a Worker's status says about its health. This module is pure: the verdict follows
//! from the status and the pending reports.
//!
//! ```text
//!  quarantine in the status ──► of the serving revision, and not over? ──────────┐
//!  crash loops in the status ─► of the serving revision, and recently renewed? ──┤
//!  pending reports of nodes ─────────────────────────────────────────────────────┤
//!                                                                                ▼
//!   a quarantine ─► Healthy=False Quarantined, else
//!   crash loops ──► Healthy=False CrashLoopBackOff, else
//!   neither ──────► Healthy=True Running
//! ```
//!
//! A Worker that never had a crash loop or quarantine has no `Healthy` condition, because nodes
//! know nothing about code that gets no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::events::{Event, EventType};
use tenon_crds::{
    CRASH_LOOPS, Condition, ConditionStatus, CrashLoop, Quarantine, QuarantineCause, WorkerStatus,
    condition,
};
use tenon_proto::failure::{FailureCode, Place};

/// A crash loop that was not renewed for this long has expired. Nodes renew their crash loops every
/// minute.
pub const EXPIRY: Duration = Duration::from_secs(300);

/// Minimum interval between two writes of a crash loop whose code and place have not changed,
/// because a status is not a heartbeat.
const FRESH: Duration = Duration::from_secs(120);

/// A quarantine is not written again if it is extended by no more than this, because all nodes of a
/// large pool may report the same revision within moments.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

pub const CONDITION: &str = "Healthy";
pub const CRASH_LOOP: &str = "CrashLoopBackOff";
pub const QUARANTINED: &str = "Quarantined";
const RUNNING: &str = "Running";

/// Maximum number of distinct failures that a condition names. The note of an Event with the same
/// text may have at most 1024 bytes.
const NAMED: usize = 3;

/// The reports about a Worker that are not in its status yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingReports {
    /// The latest report of each node.
    pub by_node: BTreeMap<String, NodeReport>,
    /// The quarantine that ends last among those that nodes have reported.
    pub quarantine: Option<Quarantine>,
    /// Time from which reports count: earlier reports may be about a revision with its previous
    /// bindings. `None` if all reports count.
    pub redeployed_at: Option<Timestamp>,
}

/// A node's report about a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    pub revision: String,
    /// `None` if the revision has recovered.
    pub crash_loop: Option<ReportedCrashLoop>,
}

/// A crash loop as reported by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCrashLoop {
    pub code: FailureCode,
    pub failures: u32,
    pub place: Option<Place>,
    pub since: Timestamp,
}

/// The fields to write, and the Event to record.
pub struct Verdict {
    pub crash_loops: Vec<CrashLoop>,
    pub quarantine: Option<Quarantine>,
    pub condition: Condition,
    pub event: Option<Event>,
}

/// Returns the fields to write, or `None` if the status is up to date.
pub fn verdict(status: &WorkerStatus, pending: &PendingReports, now: Timestamp) -> Option<Verdict> {
    let (crash_loops, quarantine) =
        (crash_loops(status, pending, now), quarantine(status, pending, now));
    let before = status.conditions.iter().find(|condition| condition.type_ == CONDITION);
    let is_well = crash_loops.is_empty() && quarantine.is_none();
    if before.is_none() && is_well && status.crash_loops.is_empty() && status.quarantine.is_none() {
        return None;
    }
    let (holds, reason, message) = match &quarantine {
        Some(quarantine) => (false, QUARANTINED, quarantine_message(quarantine)),
        None if is_well => (true, RUNNING, "no node reports a failure of the code".to_owned()),
        None => (false, CRASH_LOOP, crash_loop_message(&crash_loops)),
    };
    let condition = condition(
        &status.conditions,
        CONDITION,
        holds,
        reason,
        message,
        status.observed_generation,
        now,
    );
    let text = |condition: &Condition| {
        (condition.status, condition.reason.clone(), condition.message.clone())
    };
    let is_same = before.map(text) == Some(text(&condition));
    if is_same && crash_loops == status.crash_loops && quarantine == status.quarantine {
        return None;
    }
    let stage = |condition: &Condition| (condition.status, condition.reason.clone());
    let event = (before.map(stage) != Some(stage(&condition))).then(|| event(&condition));
    Some(Verdict { crash_loops, quarantine, condition, event })
}

/// Returns the quarantine for the status: of those in the status and in the reports that have not
/// ended and are about a serving revision, the one that ends last. The one in the status is kept if
/// the reported one ends less than `SLACK` later. The one in the status is kept if
/// the reported one ends less than `SLACK` later.
fn quarantine(
    status: &WorkerStatus,
    pending: &PendingReports,
    now: Timestamp,
) -> Option<Quarantine> {
    let holds = |quarantine: &&Quarantine| {
        status.serves(&quarantine.revision)
            && quarantine.until.0 > now
            && !is_void(&quarantine.since, pending)
    };
    let [known, reported] = [&status.quarantine, &pending.quarantine]
        .map(|quarantine| quarantine.as_ref().filter(holds).cloned());
    match (known, reported) {
        (Some(known), Some(reported)) if is_newer(&known, &reported) => {
            Some(longer(known, reported))
        }
        (known, reported) => known.or(reported),
    }
}

fn is_newer(known: &Quarantine, reported: &Quarantine) -> bool {
    reported.times > known.times || reported.until.0.duration_since(known.until.0) > SLACK
}

/// Returns the quarantine that ends later. If both are of one revision, the result has the higher
/// number of times.
pub fn longer(one: Quarantine, other: Quarantine) -> Quarantine {
    let times = (one.revision == other.revision).then(|| one.times.max(other.times));
    // Compares all fields, so that replicas agree on two quarantines that end in the same second.
    let rank = |quarantine: &Quarantine| {
        let Quarantine { until, since, cause, node, .. } = quarantine;
        (until.0, since.0, *cause as u8, node.clone())
    };
    let longer = if rank(&other) > rank(&one) { other } else { one };
    Quarantine { times: times.unwrap_or(longer.times), ..longer }
}

/// Returns whether a report of this time may be about a revision with its previous bindings. A
/// status stores whole seconds, so whole seconds are compared.
fn is_void(at: &Time, pending: &PendingReports) -> bool {
    pending.redeployed_at.is_some_and(|redeployed_at| at.0.as_second() < redeployed_at.as_second())
}

/// Returns the crash loops, sorted by node. If several revisions serve and fail on a node, the one
/// that is listed keeps the node's place until it recovers or falls silent.
fn crash_loops(status: &WorkerStatus, pending: &PendingReports, now: Timestamp) -> Vec<CrashLoop> {
    let holds = |known: &&CrashLoop| {
        status.serves(&known.revision)
            && !is_void(&known.renewed, pending)
            && since(&known.renewed, now) < EXPIRY
    };
    let known = status.crash_loops.iter().filter(holds);
    let mut loops: BTreeMap<&str, CrashLoop> =
        known.map(|known| (known.node.as_str(), known.clone())).collect();
    let listed: BTreeSet<&str> = loops.keys().copied().collect();
    for (node, report) in &pending.by_node {
        let is_other = |known: &CrashLoop| known.revision != report.revision;
        if !status.serves(&report.revision) || loops.get(node.as_str()).is_some_and(is_other) {
            continue;
        }
        let Some(reported) = &report.crash_loop else {
            loops.remove(node.as_str());
            continue;
        };
        match loops.get_mut(node.as_str()) {
            Some(known)
                if known.code == reported.code.as_str()
                    && known.place == place(reported)
                    && since(&known.renewed, now) < FRESH => {}
            Some(known) => {
                let since = known.since.clone();
                *known = CrashLoop { since, ..crash_loop(node, &report.revision, reported, now) };
            }
            None => drop(loops.insert(node, crash_loop(node, &report.revision, reported, now))),
        }
    }
    shorten(loops, &listed)
}

/// Limits crash loops to the number that a status holds. A listed node keeps its place until it
/// recovers or falls silent, and free places are assigned by name after all reports are merged, so
/// that replicas with reports of different nodes do not replace each other's entries.
fn shorten(loops: BTreeMap<&str, CrashLoop>, listed: &BTreeSet<&str>) -> Vec<CrashLoop> {
    let (old, new): (Vec<_>, Vec<_>) =
        loops.into_iter().partition(|(node, _)| listed.contains(node));
    let mut kept: Vec<_> =
        old.into_iter().chain(new).map(|(_, known)| known).take(CRASH_LOOPS).collect();
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    kept
}

fn crash_loop(
    node: &str,
    revision: &str,
    reported: &ReportedCrashLoop,
    now: Timestamp,
) -> CrashLoop {
    CrashLoop {
        node: node.to_owned(),
        revision: revision.to_owned(),
        code: reported.code.to_string(),
        place: place(reported),
        failures: i32::try_from(reported.failures).unwrap_or(i32::MAX),
        since: whole_seconds(reported.since),
        renewed: whole_seconds(now),
    }
}

fn place(reported: &ReportedCrashLoop) -> Option<String> {
    reported.place.as_ref().map(Place::to_string)
}

/// Truncates a time to whole seconds, as a status stores it. Otherwise a stored time would look
/// changed when it is read back.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).expect("whole seconds are in range"))
}

/// Returns the absolute time difference, because the clock of the replica that wrote `at` may be
/// ahead.
fn since(at: &Time, now: Timestamp) -> Duration {
    SignedDuration::unsigned_abs(now.duration_since(at.0))
}

fn quarantine_message(
    Quarantine { revision, cause, node, times, until, .. }: &Quarantine,
) -> String {
    let how = match cause {
        QuarantineCause::Crashed => "ended a process of node",
        QuarantineCause::Hung => {
            "did not stop when it was terminated, which ended a process of node"
        }
    };
    let often = if *times > 1 { format!(", {times} times so far") } else { String::new() };
    format!(
        "revision {revision} {how} {node}{often}: nodes refuse it until {}, and for twice as long \
         each time; fix the code and apply it again",
        until.0
    )
}

fn crash_loop_message(loops: &[CrashLoop]) -> String {
    let revision = loops.first().map(|known| known.revision.as_str()).unwrap_or_default();
    let failures: BTreeSet<_> = loops
        .iter()
        .map(|CrashLoop { code, place, .. }| match place {
            Some(place) => format!("{code} at {place}"),
            None => code.clone(),
        })
        .collect();
    let (first, others) = (failures.len().min(NAMED), failures.len().saturating_sub(NAMED));
    let mut failures: Vec<_> = failures.into_iter().take(first).collect();
    if others > 0 {
        failures.push(format!("{others} others"));
    }
    let nodes = match loops.len() {
        1 => "1 node".to_owned(),
        count if count < CRASH_LOOPS => format!("{count} nodes"),
        count => format!("{count} nodes or more"),
    };
    format!(
        "revision {revision} fails repeatedly with {} on {nodes}, which back off for longer each \
         time; see the Worker's log",
        failures.join(", ")
    )
}

fn event(condition: &Condition) -> Event {
    let type_ = if condition.status == ConditionStatus::True {
        EventType::Normal
    } else {
        EventType::Warning
    };
    Event {
        type_,
        reason: condition.reason.clone(),
        note: Some(condition.message.clone()),
        action: "Run".to_owned(),
        secondary: None,
    }
}

#[cfg(test)]
mod tests;
