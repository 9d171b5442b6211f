//! What a Worker's status should say of its health. Pure: status and news in, what should be there out.
//!
//! ```text
//!  crash loops in the status ─► still of the revision that serves, and renewed of late? ─┐
//!  what nodes said since ──────────────────────────────────────────────────────────────┬─┘
//!                                                                none left ◄───────────┴──► some
//!                                                    Healthy=True Running      Healthy=False CrashLoopBackOff
//! ```
//!
//! A Worker that never failed again and again has no such condition: no node can vouch for code that nobody asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::events::{Event, EventType};
use tenon_crds::{CRASH_LOOPS, Condition, ConditionStatus, CrashLoop, WorkerStatus, condition};
use tenon_proto::failure::{FailureCode, Place};

/// A crash loop that a node has not renewed for so long is not known to go on. Nodes renew each minute.
pub const EXPIRY: Duration = Duration::from_secs(300);

/// A crash loop that was renewed since is not written again: a status is not a heartbeat.
const FRESH: Duration = Duration::from_secs(120);

pub const CONDITION: &str = "Healthy";
pub const CRASH_LOOP: &str = "CrashLoopBackOff";
const RUNNING: &str = "Running";

/// Failures that differ and are named in a condition, and in the Event that repeats it: a note has 1024 characters.
const NAMED: usize = 3;

/// What has been said of a Worker, and is not in its status yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// By node: the latest.
    pub said: BTreeMap<String, Said>,
    /// What was said before was said of something else: another revision, or this one with other bindings.
    pub redeployed_at: Option<Timestamp>,
}

/// A node's word on a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub revision: String,
    /// `None`: it has recovered.
    pub crash_loop: Option<Told>,
}

/// A crash loop, as a node tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub code: FailureCode,
    pub failures: u32,
    pub place: Option<Place>,
    pub since: Timestamp,
}

/// What is to be written.
pub struct Verdict {
    pub crash_loops: Vec<CrashLoop>,
    pub condition: Condition,
    pub event: Option<Event>,
}

/// What is to be written, if the status is not what it should be.
pub fn verdict(status: &WorkerStatus, news: &News, now: Timestamp) -> Option<Verdict> {
    let crash_loops = crash_loops(status, news, now);
    let before = status.conditions.iter().find(|condition| condition.type_ == CONDITION);
    if before.is_none() && crash_loops.is_empty() && status.crash_loops.is_empty() {
        return None;
    }
    let (holds, reason, message) = if crash_loops.is_empty() {
        (true, RUNNING, "no node tells any more that its code fails again and again".to_owned())
    } else {
        (false, CRASH_LOOP, message(&crash_loops))
    };
    let condition = condition(&status.conditions, CONDITION, holds, reason, message, status.observed_generation, now);
    let told = |condition: &Condition| (condition.status, condition.reason.clone(), condition.message.clone());
    let same = before.map(told) == Some(told(&condition));
    if same && crash_loops == status.crash_loops {
        return None;
    }
    let event = (before.map(|before| before.status) != Some(condition.status)).then(|| event(&condition));
    Some(Verdict { crash_loops, condition, event })
}

/// By node.
fn crash_loops(status: &WorkerStatus, news: &News, now: Timestamp) -> Vec<CrashLoop> {
    let Some(latest) = &status.latest_revision else { return Vec::new() };
    let holds = |known: &&CrashLoop| {
        // A status holds whole seconds.
        let voided = news.redeployed_at.is_some_and(|at| known.renewed.0.as_second() < at.as_second());
        known.revision == *latest && !voided && since(&known.renewed, now) < EXPIRY
    };
    let known = status.crash_loops.iter().filter(holds);
    let mut loops: BTreeMap<&str, CrashLoop> = known.map(|known| (known.node.as_str(), known.clone())).collect();
    let listed: BTreeSet<&str> = loops.keys().copied().collect();
    for (node, said) in &news.said {
        if said.revision != *latest {
            continue;
        }
        let Some(told) = &said.crash_loop else {
            loops.remove(node.as_str());
            continue;
        };
        match loops.get_mut(node.as_str()) {
            Some(known)
                if known.code == told.code.as_str()
                    && known.place == place(told)
                    && since(&known.renewed, now) < FRESH => {}
            Some(known) => {
                let since = known.since.clone();
                *known = CrashLoop { since, ..crash_loop(node, latest, told, now) };
            }
            None => drop(loops.insert(node, crash_loop(node, latest, told, now))),
        }
    }
    shortened(loops, &listed)
}

/// As many as a status names. A node that is listed keeps its place until it recovers or falls silent, and places that
/// are free go by name, once all that was said is known: so replicas that hear different nodes do not replace each
/// other's entries.
fn shortened(loops: BTreeMap<&str, CrashLoop>, listed: &BTreeSet<&str>) -> Vec<CrashLoop> {
    let (old, new): (Vec<_>, Vec<_>) = loops.into_iter().partition(|(node, _)| listed.contains(node));
    let mut kept: Vec<_> = old.into_iter().chain(new).map(|(_, known)| known).take(CRASH_LOOPS).collect();
    kept.sort_by(|a, b| a.node.cmp(&b.node));
    kept
}

fn crash_loop(node: &str, revision: &str, told: &Told, now: Timestamp) -> CrashLoop {
    CrashLoop {
        node: node.to_owned(),
        revision: revision.to_owned(),
        code: told.code.to_string(),
        place: place(told),
        failures: i32::try_from(told.failures).unwrap_or(i32::MAX),
        since: whole_seconds(told.since),
        renewed: whole_seconds(now),
    }
}

fn place(told: &Told) -> Option<String> {
    told.place.as_ref().map(Place::to_string)
}

/// As it is read back: whatever is not a whole second would look like a change.
fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).expect("a timestamp's seconds are a timestamp's"))
}

/// How long ago that was. The clock of the replica that wrote it may be ahead of ours.
fn since(at: &Time, now: Timestamp) -> Duration {
    SignedDuration::unsigned_abs(now.duration_since(at.0))
}

fn message(loops: &[CrashLoop]) -> String {
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
        "revision {revision} fails again and again with {} on {nodes}, which leave it alone for longer each time: see \
         the Worker's log",
        failures.join(", ")
    )
}

fn event(condition: &Condition) -> Event {
    let type_ = if condition.status == ConditionStatus::True { EventType::Normal } else { EventType::Warning };
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
