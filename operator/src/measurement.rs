//! The current step of a Worker's rollout, and the figures that its status has about each revision.
//! This module is pure.

use tenon_crds::{RevisionFigures, RolloutPhase, RolloutStatus, WorkerStatus};
use tenon_proto::figures::{Figures, Latencies};

/// Returns the number that identifies the current step of a Worker's rollout: the second in which
/// it began. Returns 0 if no rollout is in progress.
pub fn measurement(status: &WorkerStatus) -> u64 {
    match &status.rollout {
        Some(RolloutStatus { phase: RolloutPhase::Progressing, step_started_at, .. }) => {
            u64::try_from(step_started_at.0.as_second()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns the figures that a status has about a revision.
pub fn counts(known: &RevisionFigures) -> Figures {
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    let requests = count(known.requests);
    Figures {
        requests,
        failed: count(known.failed).min(requests),
        latencies: Latencies::of(known.latencies.iter().copied().map(count)),
    }
}
