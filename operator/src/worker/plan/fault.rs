//! The reasons why a Worker is not ready. This module is pure.

use tenon_artifact::sites::SiteError;
use tenon_compiler::CompileError;
use tenon_crds::ConditionStatus;

use crate::artifacts::ArtifactError;
use crate::kstatus::Progress;
use crate::refusal::Refusal;

/// The reason why a condition is not true.
#[derive(Clone)]
pub(super) struct Fault {
    pub reason: &'static str,
    pub message: String,
    pub progress: Progress,
}

/// The reason for a revision that is on its way to routers. This is not a failure.
pub(super) const PROPAGATING: &str = "Propagating";

/// The reason for a revision that has waited too long for the acknowledgement of a router.
pub(super) const NOT_ACKNOWLEDGED: &str = "NotAcknowledged";

/// The reason for a host that is not granted to the Worker's namespace. The host is not served,
/// even if it was accepted before.
pub(super) const HOST_NOT_GRANTED: &str = "HostNotGranted";

/// The reasons for a revision that routers have not acknowledged yet.
pub const PROPAGATION_REASONS: [&str; 2] = [PROPAGATING, NOT_ACKNOWLEDGED];

impl Fault {
    /// Returns a fault that lasts until the Worker, or what it conflicts with, is changed.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), progress: Progress::Stalled }
    }

    /// Returns a fault that may end without a change of the Worker, for example when a Secret is
    /// created.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), progress: Progress::Reconciling }
    }

    /// Returns the fault of code that does not compile.
    pub fn from_compile_errors(errors: &[CompileError]) -> Self {
        Self::stalled("SyntaxError", tenon_compiler::report(errors))
    }

    /// Returns whether the fault is that routers do not serve the latest revision yet.
    pub fn is_propagation(&self) -> bool {
        PROPAGATION_REASONS.contains(&self.reason)
    }

    /// Returns the status of the conditions that the fault keeps from being true.
    pub fn status(&self) -> ConditionStatus {
        if self.reason == PROPAGATING { ConditionStatus::Unknown } else { ConditionStatus::False }
    }
}

impl From<Refusal> for Fault {
    fn from(Refusal { reason, message, progress }: Refusal) -> Self {
        Self { reason, message, progress }
    }
}

impl From<&ArtifactError> for Fault {
    fn from(error: &ArtifactError) -> Self {
        let reason = match error {
            ArtifactError::NotAllowed(_) => "RegistryNotAllowed",
            ArtifactError::Credentials { .. } => "InvalidPullSecret",
            ArtifactError::Entrypoint(_) => "InvalidSource",
            ArtifactError::Compiler(_) => "CompilerFailed",
            ArtifactError::NoAssets { .. } | ArtifactError::Site(SiteError::Assets(_)) => {
                "InvalidAssets"
            }
            ArtifactError::Invalid { errors } => return Self::from_compile_errors(errors),
            ArtifactError::Reference(_)
            | ArtifactError::Registry(_)
            | ArtifactError::TimedOut { .. }
            | ArtifactError::Site(SiteError::Disk(_)) => "ArtifactUnavailable",
        };
        let progress = if error.is_transient() { Progress::Reconciling } else { Progress::Stalled };
        Self { reason, message: error.to_string(), progress }
    }
}

/// Returns the fault that the summary states: the first one that a person must resolve, because the
/// others may end by themselves. If there is none of this kind, returns the first fault.
pub(super) fn summary<'a>(faults: impl Iterator<Item = &'a Fault> + Clone) -> Option<&'a Fault> {
    let stalls = |fault: &&Fault| fault.progress == Progress::Stalled;
    faults.clone().find(stalls).or_else(|| faults.into_iter().next())
}
