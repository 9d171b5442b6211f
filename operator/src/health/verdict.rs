//! What a Worker's status should say of its health. Pure: status and news in, what should be there out.
//!
//! ```text
//!  quarantine in the status ──► still of the revision that serves, and not over? ───────┐
//!  crash loops in the status ─► still of the revision that serves, and renewed of late? ─┤
//!  what nodes said since ──────────────────────────────────────────────────────────────┬─┘
//!                                     neither ◄────────────────────────────────────────┼──► a quarantine
//!                         Healthy=True Running               crash loops ◄─────────────┘    Healthy=False Quarantined
//!                                                Healthy=False CrashLoopBackOff
//! ```
//!
//! A Worker that never failed again and again has no such condition: no node can vouch for code that nobody asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::events::{Event, EventType};
use tenon_crds::{
    CRASH_LOOPS, Condition, ConditionStatus, CrashLoop, Quarantine, QuarantineCause, WorkerStatus, condition,
};
use tenon_proto::failure::{FailureCode, Place};

/// A crash loop that a node has not renewed for so long is not known to go on. Nodes renew each minute.
pub const EXPIRY: Duration = Duration::from_secs(300);

/// A crash loop that was renewed since is not written again: a status is not a heartbeat.
const FRESH: Duration = Duration::from_secs(120);

/// A quarantine that a node says ends later by no more than this is not written again: all nodes of a large pool may tell
/// of the same revision within moments.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

pub const CONDITION: &str = "Healthy";
pub const CRASH_LOOP: &str = "CrashLoopBackOff";
pub const QUARANTINED: &str = "Quarantined";
const RUNNING: &str = "Running";

/// Failures that differ and are named in a condition, and in the Event that repeats it: a note has 1024 characters.
const NAMED: usize = 3;

/// What has been said of a Worker, and is not in its status yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// By node: the latest.
    pub said: BTreeMap<String, Said>,
    /// Of all nodes together.
    pub quarantine: Option<Quarantine>,
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
    pub quarantine: Option<Quarantine>,
    pub condition: Condition,
    pub event: Option<Event>,
}

/// What is to be written, if the status is not what it should be.
pub fn verdict(status: &WorkerStatus, news: &News, now: Timestamp) -> Option<Verdict> {
    let (crash_loops, quarantine) = (crash_loops(status, news, now), quarantine(status, news, now));
    let before = status.conditions.iter().find(|condition| condition.type_ == CONDITION);
    let is_well = crash_loops.is_empty() && quarantine.is_none();
    if before.is_none() && is_well && status.crash_loops.is_empty() && status.quarantine.is_none() {
        return None;
    }
    let (holds, reason, message) = match &quarantine {
        Some(quarantine) => (false, QUARANTINED, quarantined(quarantine)),
        None if is_well => (true, RUNNING, "no node tells of a failure of its code any more".to_owned()),
        None => (false, CRASH_LOOP, message(&crash_loops)),
    };
    let condition = condition(&status.conditions, CONDITION, holds, reason, message, status.observed_generation, now);
    let told = |condition: &Condition| (condition.status, condition.reason.clone(), condition.message.clone());
    let same = before.map(told) == Some(told(&condition));
    if same && crash_loops == status.crash_loops && quarantine == status.quarantine {
        return None;
    }
    let stage = |condition: &Condition| (condition.status, condition.reason.clone());
    let event = (before.map(stage) != Some(stage(&condition))).then(|| event(&condition));
    Some(Verdict { crash_loops, quarantine, condition, event })
}

/// The longest that any node has told of, of the revision that serves.
fn quarantine(status: &WorkerStatus, news: &News, now: Timestamp) -> Option<Quarantine> {
    let latest = status.latest_revision.as_ref()?;
    let holds = |it: &&Quarantine| it.revision == *latest && it.until.0 > now && !is_void(&it.since, news);
    let [known, told] = [&status.quarantine, &news.quarantine].map(|it| it.as_ref().filter(holds).cloned());
    match (known, told) {
        (Some(known), Some(told)) if is_news(&known, &told) => Some(longer(known, told)),
        (known, told) => known.or(told),
    }
}

fn is_news(known: &Quarantine, told: &Quarantine) -> bool {
    told.times > known.times || told.until.0.duration_since(known.until.0) > SLACK
}

/// Of two quarantines of one revision the one that ends later, and of both the number of times.
pub fn longer(one: Quarantine, other: Quarantine) -> Quarantine {
    let times = one.times.max(other.times);
    // By all that they say, so that replicas agree on two that end at the same second.
    let rank = |it: &Quarantine| (it.until.0, it.since.0, it.cause as u8, it.node.clone());
    let longer = if rank(&other) > rank(&one) { other } else { one };
    Quarantine { times, ..longer }
}

/// What was said of something else: of another revision, or of this one with other bindings. A status holds whole seconds.
fn is_void(said: &Time, news: &News) -> bool {
    news.redeployed_at.is_some_and(|at| said.0.as_second() < at.as_second())
}

/// By node.
fn crash_loops(status: &WorkerStatus, news: &News, now: Timestamp) -> Vec<CrashLoop> {
    let Some(latest) = &status.latest_revision else { return Vec::new() };
    let holds = |known: &&CrashLoop| {
        known.revision == *latest && !is_void(&known.renewed, news) && since(&known.renewed, now) < EXPIRY
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
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).expect("a timestamp's seconds are a timestamp's"))
}

/// How long ago that was. The clock of the replica that wrote it may be ahead of ours.
fn since(at: &Time, now: Timestamp) -> Duration {
    SignedDuration::unsigned_abs(now.duration_since(at.0))
}

fn quarantined(Quarantine { revision, cause, node, times, until, .. }: &Quarantine) -> String {
    let how = match cause {
        QuarantineCause::Crashed => "ended a process of node",
        QuarantineCause::Hung => "did not stop when it was told to, which ended a process of node",
    };
    let often = if *times > 1 { format!(", {times} times by now") } else { String::new() };
    format!(
        "revision {revision} {how} {node}{often}: no node runs it until {}, and for twice as long each time; mend the \
         code and apply it again",
        until.0
    )
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
