//! The reasons why a Worker is not ready. This module is pure.

use crate::kstatus::Progress;
use crate::refusal::Refusal;

/// The reason why a condition is false.
#[derive(Clone)]
pub(super) struct Fault {
    pub reason: &'static str,
    pub message: String,
    pub progress: Progress,
}

impl Fault {
    /// A fault that lasts until the Worker, or what stands in its way, is changed.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), progress: Progress::Stalled }
    }

    /// A fault that ends when something else happens, such as the creation of a Secret.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), progress: Progress::Reconciling }
    }
}

impl From<Refusal> for Fault {
    fn from(Refusal { reason, message, progress }: Refusal) -> Self {
        Self { reason, message, progress }
    }
}

/// Returns the fault that summarizes several: the first one that a person must end, because the
/// others may end by themselves.
pub(super) fn summary<'a>(faults: impl Iterator<Item = &'a Fault> + Clone) -> Option<&'a Fault> {
    let stalls = |fault: &&Fault| fault.progress == Progress::Stalled;
    faults.clone().find(stalls).or_else(|| faults.into_iter().next())
}
