//! Decides where a revision may be served, in which pool and on which routes, and which digest to
//! record for it. This module is pure.

use tenon_crds::{Accepted, AcceptedRoute, WorkerStatus};
use tenon_proto::catalog::Route;

use super::fault::Fault;
use crate::claims::Holder;
use crate::index::Candidate;
use crate::limits;

/// Returns the placement that the spec requests, if the Worker may have it.
pub(super) fn requested(candidate: &Candidate) -> Result<Accepted, Fault> {
    let spec = &candidate.worker.spec;
    let Some(limits) = &candidate.pool else {
        let message = format!(
            "spec.pool: RuntimePool {:?} does not exist; choose one that does, or create it",
            spec.pool
        );
        return Err(Fault::waiting("PoolMissing", message));
    };
    limits::check(&spec.limits, limits, &spec.pool)
        .map_err(|over| Fault::stalled("LimitOverMaximum", over.to_string()))?;
    let taken = |(route, holder): &_| taken("spec.routes", candidate, route, holder);
    if let Some(taken) = candidate.routes.iter().find_map(taken) {
        return Err(Fault::stalled("RouteConflict", taken));
    }
    let routes = candidate
        .routes
        .iter()
        .map(|(Route { host, path }, _)| AcceptedRoute { host: host.clone(), path: path.clone() });
    Ok(Accepted {
        pool: spec.pool.clone(),
        routes: routes.collect(),
        traffic: Vec::new(),
        session_affinity: spec.session_affinity.clone(),
        affinity: spec.affinity,
        rate_limits: spec.rate_limits,
        digest: None,
    })
}

/// Returns the reason why the Worker may not have a route, if another Worker or the platform holds
/// the route.
///
/// # Arguments
/// * `field` - the field of the spec that requests the route.
pub(super) fn taken(
    field: &str,
    candidate: &Candidate,
    Route { host, path }: &Route,
    holder: &Holder,
) -> Option<String> {
    let namespace = candidate.id.namespace();
    Some(match holder {
        Holder::Claimant => return None,
        Holder::Worker(other) if other.namespace() == namespace => format!(
            "{field}: {host}{path} belongs to Worker {other}, which had it first; choose another host or path"
        ),
        Holder::Worker(other) => format!(
            "{field}: {host} belongs to namespace {}, whose Worker {other} had it first; choose another host",
            other.namespace()
        ),
        Holder::Platform => format!(
            "{field}: {host} is in the platform's domain, where it is reserved; choose \
             <name>.{namespace}.<domain>, or a host outside that domain"
        ),
    })
}

/// Returns the digest to record for a revision that binds Secrets: the digest by which the catalog
/// serves the revision, or the recorded digest while the catalog cannot resolve the revision.
pub(super) fn digest(
    candidate: &Candidate,
    before: &WorkerStatus,
    revision: Option<&str>,
) -> Option<String> {
    let name = revision?;
    if let Some((revision, digest)) = candidate.serving.iter().find(|(it, _)| it.name == name) {
        return (!revision.salt.is_empty()).then(|| digest.to_string());
    }
    let accepted = before.accepted.as_ref()?;
    let recorded = accepted.traffic.iter().find(|target| target.revision == name);
    match recorded {
        Some(target) => target.digest.clone(),
        None if before.latest_revision.as_deref() == Some(name) => accepted.digest.clone(),
        None => None,
    }
}
