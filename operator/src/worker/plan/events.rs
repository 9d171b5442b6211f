//! The Events that follow from a changed status. This module is pure.

use kube::runtime::events::{Event, EventType};
use tenon_crds::{Condition, ConditionStatus, RolloutPhase, RolloutStatus, WorkerStatus};

/// Returns the Events for a changed outcome and a changed rollout. A deployment that succeeds has
/// none: its revision is an object with a creation time, the condition `Ready` says since when it
/// serves, and an Event for each of many new Workers would be a third of what the API server writes
/// for them. A person has to see a failure, and the beginning and the end of a rollout.
pub(super) fn events(before: &WorkerStatus, after: &WorkerStatus) -> Vec<Event> {
    let ready = |status: &'_ WorkerStatus| {
        status.conditions.iter().find(|condition| condition.type_ == "Ready").cloned()
    };
    let (was, is) = (ready(before), ready(after));
    let content = |c: &Condition| (c.status, c.reason.clone(), c.message.clone());
    let failure = is.filter(|is| {
        is.status == ConditionStatus::False && was.as_ref().map(content) != Some(content(is))
    });
    let failure = failure.map(|is| event(EventType::Warning, &is.reason, "Program", is.message));
    failure.into_iter().chain(of_rollout(before.rollout.as_ref(), after.rollout.as_ref())).collect()
}

/// Returns the Event for the beginning or the end of a rollout.
fn of_rollout(before: Option<&RolloutStatus>, after: Option<&RolloutStatus>) -> Option<Event> {
    let after = after?;
    let was = before.filter(|before| before.revision == after.revision).map(|before| before.phase);
    if was == Some(after.phase) {
        return None;
    }
    let (type_, reason) = match after.phase {
        RolloutPhase::Progressing => (EventType::Normal, "RolloutStarted"),
        // A revision that gets all requests from the start is not rolled out.
        RolloutPhase::Completed if was.is_none() => return None,
        RolloutPhase::Completed => (EventType::Normal, "RolloutCompleted"),
        RolloutPhase::TakenBack => (EventType::Warning, "RolloutTakenBack"),
    };
    Some(event(type_, reason, "Program", after.message.clone()))
}

/// Returns the Event for a failure that the status does not name.
pub fn failed(reason: &str, note: String) -> Event {
    event(EventType::Warning, reason, "Write", note)
}

fn event(type_: EventType, reason: &str, action: &str, mut note: String) -> Event {
    /// The longest note that the API server accepts, in bytes.
    const LONGEST_NOTE: usize = 1024;
    note.truncate(note.floor_char_boundary(LONGEST_NOTE));
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    }
}
