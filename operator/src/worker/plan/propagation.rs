//! Decides whether routers serve what was accepted. This module is pure.
//!
//! ```text
//!  accepted ─► status ─► catalog ─► entry ─► asked ─┬─ acknowledged ─► Ready
//!     Ready=Unknown Propagating ────────────────────┤
//!                                                   └─ timed out ────► Ready=False NotAcknowledged
//! ```

use std::collections::{BTreeMap, BTreeSet};

use tenon_crds::{Accepted, AcceptedTarget, Affinity, PoolRateLimits, WorkerStatus};
use tenon_proto::catalog;
use tenon_proto::id::RevisionDigest;

use super::fault::{Fault, HOST_NOT_GRANTED, NOT_ACKNOWLEDGED, PROPAGATING, PROPAGATION_REASONS};
use crate::acknowledgement::Acknowledgement;
use crate::index::{Candidate, Published};
use crate::limits;
use crate::revision;

/// The progress of an accepted revision to the routers.
pub(super) enum Propagation {
    /// A router serves the revision.
    Done,
    /// The revision is not in the catalog yet.
    NotInCatalog(Fault),
    /// The revision is in the catalog, and the leader must ask the routers whether they serve it.
    Unacknowledged(Fault),
}

impl Propagation {
    /// Returns the state of a revision with its placement.
    ///
    /// # Arguments
    /// * `before` - the current status. Routers have acknowledged what it accepts unless its
    ///   `Programmed` has a reason of propagation, or states that a host is not granted.
    pub(super) fn new(
        candidate: &Candidate,
        before: &WorkerStatus,
        revision: &str,
        accepted: &Accepted,
    ) -> Self {
        if was_acknowledged(before, revision, accepted) {
            return Self::Done;
        }
        let propagating =
            || Fault::waiting(PROPAGATING, format!("revision {revision} is on its way to routers"));
        match announced(candidate, revision, accepted) {
            None => Self::NotInCatalog(propagating()),
            Some(Acknowledgement::Pending) => Self::Unacknowledged(propagating()),
            Some(Acknowledgement::Given) => Self::Done,
            Some(Acknowledgement::Missing(why)) => {
                let message = format!("no router has acknowledged revision {revision}: {why}");
                Self::Unacknowledged(Fault::waiting(NOT_ACKNOWLEDGED, message))
            }
        }
    }
}

fn was_acknowledged(before: &WorkerStatus, revision: &str, accepted: &Accepted) -> bool {
    // A spec that is not accepted does not change what was acknowledged. A host whose grant was
    // withdrawn was not served meanwhile.
    let is_propagated = before.conditions.iter().any(|condition| {
        condition.type_ == "Programmed"
            && condition.reason != HOST_NOT_GRANTED
            && !PROPAGATION_REASONS.contains(&&*condition.reason)
    });
    is_propagated
        && before.latest_revision.as_deref() == Some(revision)
        && before.accepted.as_ref().is_some_and(|before| are_same(before, accepted))
}

/// Returns whether routers serve both alike. Digests are ignored, because they are recorded later.
fn are_same(before: &Accepted, accepted: &Accepted) -> bool {
    let placement = |accepted: &Accepted| {
        let Accepted { pool, routes, traffic, session_affinity, affinity, rate_limits, digest: _ } =
            accepted.clone();
        let traffic = traffic.into_iter().map(|target| AcceptedTarget { digest: None, ..target });
        (pool, routes, traffic.collect::<Vec<_>>(), session_affinity, affinity, rate_limits)
    };
    placement(before) == placement(accepted)
}

/// Returns the acknowledgement of the catalog's entry, if the entry has this revision and
/// placement.
fn announced<'a>(
    candidate: &'a Candidate,
    revision: &str,
    accepted: &Accepted,
) -> Option<&'a Acknowledgement> {
    let Published { entry, acknowledged } = candidate.published.as_ref()?;
    let status = WorkerStatus {
        latest_revision: Some(revision.to_owned()),
        accepted: Some(accepted.clone()),
        ..WorkerStatus::default()
    };
    let mut shares = BTreeMap::<Vec<u8>, u32>::new();
    for target in &*status.targets() {
        let share = shares.entry(digest(candidate, target)?).or_default();
        *share += u32::try_from(target.percent).unwrap_or(0);
    }
    let hosts = accepted.traffic.iter().filter_map(|target| target.host.as_deref());
    let is_same = entry.pool == accepted.pool
        && revision::accepted_routes(accepted).eq(entry.routes.iter().cloned())
        && entry.session_affinity == revision::session_affinity(accepted)
        && entry.strict_affinity == (accepted.affinity == Affinity::Strict)
        && has_rates(entry, accepted)
        && shares == announced_shares(entry)
        && hosts.collect::<BTreeSet<_>>() == preview_hosts(entry);
    is_same.then_some(acknowledged)
}

/// Returns the digest by which the catalog serves a revision, or the recorded digest, if there is
/// one.
fn digest(candidate: &Candidate, target: &AcceptedTarget) -> Option<Vec<u8>> {
    let mut serving = candidate.serving.iter();
    let digest = match serving.find(|(revision, _)| revision.name == target.revision) {
        Some((_, digest)) => *digest,
        None => target.digest.as_ref()?.parse::<RevisionDigest>().ok()?,
    };
    Some(digest.as_bytes().to_vec())
}

/// Returns the percentage of each revision in an entry, by digest.
fn announced_shares(entry: &catalog::Worker) -> BTreeMap<Vec<u8>, u32> {
    let mut shares = BTreeMap::new();
    for variant in &entry.variants {
        *shares.entry(variant.digest.clone()).or_default() += variant.percent;
    }
    let divided: u32 = shares.values().sum();
    *shares.entry(entry.digest.clone()).or_default() += 100_u32.saturating_sub(divided);
    shares
}

/// Returns whether an entry has the accepted rates. The pool's rate is not part of what is
/// accepted.
fn has_rates(entry: &catalog::Worker, accepted: &Accepted) -> bool {
    let without_pool = |rates: Option<catalog::RateLimits>| {
        let rates = rates.unwrap_or_default();
        (rates.worker, rates.client)
    };
    let expected = limits::rates(accepted.rate_limits, PoolRateLimits::default());
    without_pool(entry.rate_limits) == without_pool(expected)
}

fn preview_hosts(entry: &catalog::Worker) -> BTreeSet<&str> {
    let routes = entry.variants.iter().flat_map(|variant| &variant.routes);
    routes.map(|route| route.host.as_str()).collect()
}
