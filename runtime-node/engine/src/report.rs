//! A Worker's log output, and messages about the Worker, as structured log lines of target
//! `tenon::worker`.

use tokio::time::Instant;
use tracing::Level;

use super::exception::Exception;
use super::invocation::InvocationId;
use super::log_rate::Admission;
use super::state::State;

/// Bytes that one invocation may log; code outside invocations may log as many. After that, one
/// line says that the rest is left out.
pub const LOG_BUDGET: usize = 64 * 1024;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Debug,
    Info,
    Warn,
    Error,
}

impl Severity {
    /// Returns the severity for a method of `console`.
    pub fn of_method(name: &str) -> Self {
        match name {
            "debug" | "trace" => Self::Debug,
            "warn" => Self::Warn,
            "error" | "assert" => Self::Error,
            _ => Self::Info,
        }
    }
}

/// Logs a line for the Worker of `state`, subject to the invocation's log budget and the Worker's
/// log rate.
pub fn log(state: &State, id: Option<InvocationId>, severity: Severity, text: &str) {
    let Some(allowed) = state.charge_log(id, text.len()) else { return };
    match state.log_rate.admit(allowed, Instant::now()) {
        Admission::Written => {}
        Admission::FirstDropped => {
            write(state, id, Severity::Warn, "the Worker exceeds its log rate; dropping lines");
            return;
        }
        Admission::Dropped => return,
    }
    write(state, id, severity, &text[..text.floor_char_boundary(allowed)]);
    if allowed < text.len() {
        write(state, id, Severity::Warn, "the invocation has logged too much; dropping the rest");
    }
}

/// Logs an uncaught exception.
pub fn uncaught(state: &State, id: Option<InvocationId>, what: &str, exception: &Exception) {
    log(state, id, Severity::Error, &format!("{what}: {exception}"));
}

fn write(state: &State, id: Option<InvocationId>, severity: Severity, text: &str) {
    let request_id = id.and_then(|id| state.invocations.borrow().get(id).map(|i| i.request_id.clone()));
    let invocation = request_id.as_deref().unwrap_or_default();
    let (worker, revision) = (state.revision.worker.as_str(), state.revision.name.as_str());
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(target: "tenon::worker", $level, worker, revision, invocation, "{text}")
        };
    }
    match severity {
        Severity::Debug => line!(Level::DEBUG),
        Severity::Info => line!(Level::INFO),
        Severity::Warn => line!(Level::WARN),
        Severity::Error => line!(Level::ERROR),
    }
}
