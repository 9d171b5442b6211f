//! Status conditions in the form of `metav1.Condition`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One observation of an object's state (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Reason for the status, for programs: one CamelCase word.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Human-readable explanation of the status.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Time of the last change of the status.
    pub last_transition_time: Time,
    /// The `metadata.generation` on which the condition is based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Maximum length of a condition's message, in bytes. A message may repeat a tenant's text, and a
/// status must leave room for the rest of its object.
const LONGEST_MESSAGE: usize = 4096;
const ELLIPSIS: &str = "…";

/// Returns a condition that was observed at `now`. If `before` contains a condition of the same
/// type and status, the new condition keeps the old transition time. A message that is too long is
/// truncated.
pub fn condition(
    before: &[Condition],
    type_: &str,
    status: impl Into<ConditionStatus>,
    reason: &str,
    message: impl Into<String>,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let status = status.into();
    let since = before
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == status)
        .map_or(Time(now), |condition| condition.last_transition_time.clone());
    let mut message: String = message.into();
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - ELLIPSIS.len()));
        message.push_str(ELLIPSIS);
    }
    Condition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let early = Timestamp::from_second(1_000).unwrap();
        let late = Timestamp::from_second(2_000).unwrap();
        let first = condition(&[], "Ready", true, "Serving", "", Some(1), early);
        let same =
            condition(std::slice::from_ref(&first), "Ready", true, "Other", "", Some(2), late);
        let changed =
            condition(std::slice::from_ref(&first), "Ready", false, "Broken", "", Some(2), late);
        assert_eq!(same.last_transition_time.0, early);
        assert_eq!(changed.last_transition_time.0, late);
    }

    #[test]
    fn a_message_that_is_too_long_is_truncated_between_characters() {
        let at = Timestamp::from_second(1_000).unwrap();
        let message = |text: &str| condition(&[], "Ready", false, "Broken", text, None, at).message;
        let longest = "x".repeat(LONGEST_MESSAGE);
        assert_eq!(message(&longest), longest);
        let cut = message(&"é".repeat(LONGEST_MESSAGE));
        assert!(cut.ends_with("é…") && cut.len() <= LONGEST_MESSAGE, "{}", cut.len());
    }
}
