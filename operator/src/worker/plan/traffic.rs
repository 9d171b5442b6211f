//! Decides how a Worker's requests are divided among its revisions. This module is pure.
//!
//! ```text
//!  spec.traffic ─► latest, or a revision by name ─┐
//!  spec.rollout ─► the decision about the rollout ─┴─► exists? preview free? ─► accepted.traffic
//! ```

use tenon_crds::{Accepted, AcceptedTarget, WorkerStatus};

use super::fault::Fault;
use super::{has_revision, placement};
use crate::index::Candidate;

/// Returns the targets that the spec requests, if all of them can serve.
///
/// # Arguments
/// * `latest` - the latest accepted revision, which may be about to be written.
pub(super) fn targets(
    candidate: &Candidate,
    before: &WorkerStatus,
    latest: Option<&str>,
) -> Result<Vec<AcceptedTarget>, Fault> {
    let mut previews = candidate.previews.iter();
    let targets = candidate.worker.spec.traffic.iter().map(|target| {
        let preview = target.tag.as_ref().and_then(|_| previews.next());
        if let Some((route, holder)) = preview
            && let Some(taken) = placement::taken("spec.traffic.tag", candidate, route, holder)
        {
            return Err(taken);
        }
        let name = target.revision.as_deref().or(latest);
        let name = name.ok_or_else(|| Fault::waiting("NoRevision", "no revision serves yet"))?;
        Ok(AcceptedTarget {
            revision: name.to_owned(),
            percent: target.percent,
            tag: target.tag.clone(),
            host: preview.map(|(route, _)| route.host.clone()),
            digest: servable(candidate, before, latest, "spec.traffic.revision", name)?,
        })
    });
    targets.collect()
}

/// Returns the targets of a rollout, if all of them can serve.
///
/// # Arguments
/// * `shares` - the revisions with their percentages.
pub(super) fn of_rollout(
    candidate: &Candidate,
    before: &WorkerStatus,
    latest: Option<&str>,
    shares: &[(&str, i32)],
) -> Result<Vec<AcceptedTarget>, Fault> {
    let target = |(name, percent): &(&str, i32)| {
        Ok(AcceptedTarget {
            revision: (*name).to_owned(),
            percent: *percent,
            tag: None,
            host: None,
            digest: servable(candidate, before, latest, "spec.rollout", name)?,
        })
    };
    shares.iter().map(target).collect()
}

/// Returns the digest to record for a revision, if the revision can serve.
///
/// # Arguments
/// * `field` - the field of the spec that requires the revision.
pub(super) fn servable(
    candidate: &Candidate,
    before: &WorkerStatus,
    latest: Option<&str>,
    field: &str,
    name: &str,
) -> Result<Option<String>, Fault> {
    if latest != Some(name) && !has_revision(candidate, name) {
        let message = format!(
            "{field}: WorkerRevision {name:?} does not exist or belongs to another Worker; choose \
             one that `tenon revisions {}` lists",
            candidate.id.name()
        );
        return Err(Fault::waiting("RevisionMissing", message));
    }
    let digest = placement::digest(candidate, before, Some(name));
    // Nodes that hold a revision by a recorded digest continue to serve it.
    if let (None, Some(missing)) = (&digest, candidate.missing_secrets.get(name)) {
        let message = format!("{field}: WorkerRevision {name:?} cannot serve: {missing}");
        return Err(Fault::waiting("SecretMissing", message));
    }
    Ok(digest)
}

/// Returns the division that a spec requests if the spec names every revision explicitly, even if
/// the spec itself cannot become a revision. A rollback must not depend on the code that it
/// replaces, nor on limits, a pool or routes that are not allowed: instead of these, the Worker
/// keeps those that were accepted before.
///
/// # Arguments
/// * `placed` - what would be accepted of the spec, if it is allowed.
pub(super) fn rollback(
    candidate: &Candidate,
    before: &WorkerStatus,
    placed: Option<&Accepted>,
    traffic: Result<Vec<AcceptedTarget>, Fault>,
) -> Option<Accepted> {
    let targets = &candidate.worker.spec.traffic;
    let is_pinned = !targets.is_empty() && targets.iter().all(|target| target.revision.is_some());
    let before = before.accepted.as_ref().filter(|_| is_pinned)?;
    Some(Accepted { traffic: traffic.ok()?, ..placed.unwrap_or(before).clone() })
}

/// Describes the revisions that serve: `cart-1`, or `cart-1 (90 %), cart-2 (10 %)`.
pub(super) fn summary(latest: Option<&str>, accepted: Option<&Accepted>) -> Option<String> {
    let targets = accepted.map_or(&[][..], |accepted| &accepted.traffic);
    let serving = targets.iter().filter(|target| target.percent > 0);
    let mut serving = serving.map(|target| (target.revision.as_str(), target.percent));
    match (serving.next(), targets.is_empty()) {
        (None, true) => latest.map(str::to_owned),
        (None, false) => None,
        (Some((all, 100)), _) => Some(all.to_owned()),
        (Some(first), _) => {
            let shares = std::iter::once(first).chain(serving);
            let shares = shares.map(|(revision, percent)| format!("{revision} ({percent} %)"));
            Some(shares.collect::<Vec<_>>().join(", "))
        }
    }
}
