//! Whether routers serve what was accepted. This module is pure.
//!
//! ```text
//!  accepted ─► status ─► catalog ─► entry ─► asked ─┬─ acknowledged ─► Ready
//!     Ready=Unknown Propagating ────────────────────┤
//!                                                   └─ not for long ─► Ready=False NotAcknowledged
//! ```

use tenon_crds::{Accepted, ConditionStatus, WorkerStatus};

use super::fault::{Fault, NOT_ACKNOWLEDGED, PROPAGATING};
use crate::acknowledgement::Acknowledgement;
use crate::index::Candidate;
use crate::revision;

/// What has to happen before an accepted revision is ready.
pub(super) enum Propagation {
    /// A router serves it.
    Done,
    /// It is not in the catalog yet.
    Coming(Fault),
    /// The routers have to be asked.
    Asked(Fault),
}

impl Propagation {
    /// Returns the state of a revision with its placement.
    ///
    /// # Arguments
    /// * `before` - the current status. What it names as ready was acknowledged before.
    pub(super) fn of(
        candidate: &Candidate,
        before: &WorkerStatus,
        revision: &str,
        accepted: &Accepted,
    ) -> Self {
        if was_acknowledged(before, revision, accepted) {
            return Self::Done;
        }
        let coming =
            || Fault::waiting(PROPAGATING, format!("revision {revision} is on its way to routers"));
        match announced(candidate, revision, accepted) {
            None => Self::Coming(coming()),
            Some(Acknowledgement::Pending) => Self::Asked(coming()),
            Some(Acknowledgement::Given) => Self::Done,
            Some(Acknowledgement::Missing(why)) => {
                let message = format!("no router has acknowledged revision {revision}: {why}");
                Self::Asked(Fault::waiting(NOT_ACKNOWLEDGED, message))
            }
        }
    }
}

fn was_acknowledged(before: &WorkerStatus, revision: &str, accepted: &Accepted) -> bool {
    let is_ready = before
        .conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == ConditionStatus::True);
    let placement = |accepted: &Accepted| (accepted.pool.clone(), accepted.routes.clone());
    is_ready
        && before.latest_revision.as_deref() == Some(revision)
        && before.accepted.as_ref().map(placement) == Some(placement(accepted))
}

/// Returns what routers say of the catalog's entry, if it is about this revision and placement.
fn announced<'a>(
    candidate: &'a Candidate,
    revision: &str,
    accepted: &Accepted,
) -> Option<&'a Acknowledgement> {
    let serves = |name: &str| candidate.serving.as_ref().is_some_and(|(it, _)| it.name == name);
    let published = candidate.published.as_ref().filter(|_| serves(revision))?;
    let entry = &published.entry;
    let is_it = entry.pool == accepted.pool
        && revision::accepted_routes(accepted).eq(entry.routes.iter().cloned());
    is_it.then_some(&published.acknowledged)
}
