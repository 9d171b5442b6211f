//! The lines of nodes' logs that belong to Workers. This module is pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::output::printable;

/// The target of the lines that belong to Workers.
const TARGET: &str = "tenon::worker";

/// A line that a Worker has logged, or that a node has logged about a Worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The time, in RFC 3339.
    pub(super) timestamp: String,
    level: String,
    /// The id of the Worker, `namespace/name`.
    worker: String,
    revision: String,
    /// The id of the request, or of the scheduled call.
    invocation: String,
    message: String,
    #[serde(skip_serializing)]
    target: String,
}

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Severity {
    Debug,
    Info,
    Warn,
    Error,
}

impl FromStr for Severity {
    type Err = ();

    fn from_str(level: &str) -> Result<Self, ()> {
        Ok(match level {
            "TRACE" | "DEBUG" => Self::Debug,
            "INFO" => Self::Info,
            "WARN" => Self::Warn,
            "ERROR" => Self::Error,
            _ => return Err(()),
        })
    }
}

/// The conditions that a line must meet to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    /// The namespace of the Worker. `None` selects all namespaces.
    pub(super) namespace: Option<String>,
    /// The name of the Worker. `None` selects all Workers.
    pub(super) name: Option<String>,
    pub(super) at_least: Severity,
    pub(super) invocation: Option<String>,
    /// Text that the message must contain.
    pub(super) search: Option<String>,
}

impl Line {
    /// Parses a line of a node's log. Returns `None` if the line does not belong to a Worker, or is
    /// in another format.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // Most lines are about the node itself, and this check costs less than parsing them.
        if !text.contains(TARGET) {
            return None;
        }
        serde_json::from_str::<Self>(text).ok().filter(|line| line.target == TARGET)
    }

    /// Returns whether the line passes a filter.
    pub(super) fn passes(&self, filter: &Filter) -> bool {
        let Some((namespace, name)) = self.worker.split_once('/') else { return false };
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        is(&filter.namespace, namespace)
            && is(&filter.name, name)
            && is(&filter.invocation, &self.invocation)
            && self.level.parse().is_ok_and(|level: Severity| level >= filter.at_least)
            && filter.search.as_ref().is_none_or(|part| self.message.contains(part))
    }
}

/// Writes the line as text for a terminal.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp, level, worker, message, .. } = self;
        // The time of day, with milliseconds.
        let time = timestamp.get(11..23).unwrap_or(timestamp);
        write!(f, "{time} {level:<5} {worker}  {}", printable(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"timestamp":"2026-03-01T10:11:12.345678Z","level":"WARN","message":"low \u001b[31mon stock","worker":"shop/cart","revision":"cart-1","invocation":"r-7","target":"tenon::worker","shard":"0"}"#;

    fn filter() -> Filter {
        Filter {
            namespace: None,
            name: None,
            at_least: Severity::Debug,
            invocation: None,
            search: None,
        }
    }

    #[test]
    fn a_line_of_a_worker_is_shown_without_control_characters() {
        let line = Line::parse(TEXT).unwrap();
        assert_eq!(line.to_string(), "10:11:12.345 WARN  shop/cart  low \\u{1b}[31mon stock");
        let json = serde_json::to_string(&line).unwrap();
        assert!(json.contains(r#""invocation":"r-7""#) && !json.contains("target"), "{json}");
    }

    #[test]
    fn lines_that_do_not_belong_to_a_worker_are_not_shown() {
        let other = TEXT.replace("tenon::worker", "tenon_runtime_node::pool");
        let forged = other.replace("low", "tenon::worker");
        for text in [other.as_str(), &forged, "plain text of tenon::worker", ""] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_filter_selects_by_worker_level_invocation_and_text() {
        let line = Line::parse(TEXT).unwrap();
        let some = |text: &str| Some(text.to_owned());
        for (passes, filter) in [
            (true, filter()),
            (true, Filter { namespace: some("shop"), name: some("cart"), ..filter() }),
            (false, Filter { namespace: some("other"), ..filter() }),
            (false, Filter { name: some("car"), ..filter() }),
            (true, Filter { at_least: Severity::Warn, ..filter() }),
            (false, Filter { at_least: Severity::Error, ..filter() }),
            (true, Filter { invocation: some("r-7"), search: some("stock"), ..filter() }),
            (false, Filter { search: some("Stock"), ..filter() }),
        ] {
            assert_eq!(line.passes(&filter), passes, "{filter:?}");
        }
    }
}
