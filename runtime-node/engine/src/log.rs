//! Writes a Worker's log output, and messages about the Worker, as structured log lines with the
//! target `tenon::worker`.

use std::rc::Rc;

use tenon_proto::revision::Revision;
use tokio::time::Instant;
use tracing::Level;

use super::log_rate::{LineDecision, LogRate};

/// Maximum number of bytes that one invocation may log; each message of a WebSocket renews it. If a
/// line exceeds it, one further line states that the rest is dropped. Code outside invocations may
/// log what the invocation that ended last has left.
pub const BUDGET: usize = 64 * 1024;

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

/// The log of one isolate's Worker.
pub(crate) struct Log {
    revision: Rc<Revision>,
    rate: Rc<LogRate>,
}

impl Log {
    pub(crate) fn new(revision: Rc<Revision>, rate: Rc<LogRate>) -> Self {
        Self { revision, rate }
    }

    /// Writes a line, subject to the Worker's log rate.
    ///
    /// # Arguments
    /// * `request_id` - the id of the request, or an empty string.
    /// * `allowed` - number of bytes of the text that the invocation may log.
    pub(crate) fn line(&self, request_id: &str, severity: Severity, text: &str, allowed: usize) {
        match self.rate.admit(allowed, Instant::now()) {
            LineDecision::Written => {}
            LineDecision::FirstDropped => {
                self.write(
                    request_id,
                    Severity::Warn,
                    "the Worker exceeds its log rate; dropping lines",
                );
                return;
            }
            LineDecision::Dropped => return,
        }
        self.write(request_id, severity, &text[..text.floor_char_boundary(allowed)]);
        if allowed < text.len() {
            self.write(
                request_id,
                Severity::Warn,
                "the invocation has logged too much; dropping the rest",
            );
        }
    }

    fn write(&self, request_id: &str, severity: Severity, text: &str) {
        let (worker, revision) = (self.revision.worker.as_str(), self.revision.name.as_str());
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "tenon::worker", $level, worker, revision, invocation = request_id,
                    "{text}"
                )
            };
        }
        match severity {
            Severity::Debug => line!(Level::DEBUG),
            Severity::Info => line!(Level::INFO),
            Severity::Warn => line!(Level::WARN),
            Severity::Error => line!(Level::ERROR),
        }
    }
}
