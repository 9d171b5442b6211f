//! The Events that follow from a changed status. This module is pure.

use kube::runtime::events::{Event, EventType};
use tenon_crds::{Condition, ConditionStatus, RolloutPhase, RolloutStatus, WorkerStatus};

/// Returns the Events for a changed outcome and a changed rollout. A revision that is on its way to
/// routers gets no Event yet, so that each deployment, or step of a rollout, has exactly one Event.
pub(super) fn events(before: &WorkerStatus, after: &WorkerStatus) -> Vec<Event> {
    let ready =
        |status: &WorkerStatus| status.conditions.iter().find(|c| c.type_ == "Ready").cloned();
    let mut events = Vec::new();
    let (was, is) = (ready(before), ready(after));
    let content = |c: &Condition| (c.status, c.reason.clone(), c.message.clone());
    if let Some(is) = is
        && is.status != ConditionStatus::Unknown
        && was.as_ref().map(content) != Some(content(&is))
    {
        let (type_, note) = match is.status {
            ConditionStatus::True => (EventType::Normal, format!("Revision {} serves", is.message)),
            _ => (EventType::Warning, is.message),
        };
        events.push(event(type_, &is.reason, "Program", note));
    }
    events.extend(of_rollout(before.rollout.as_ref(), after.rollout.as_ref()));
    events
}

/// Returns the Event for the beginning or the end of a rollout.
fn of_rollout(before: Option<&RolloutStatus>, after: Option<&RolloutStatus>) -> Option<Event> {
    let after = after?;
    let was = before.filter(|before| before.revision == after.revision).map(|it| it.phase);
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
