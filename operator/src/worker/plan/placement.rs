//! Where a revision may be served: its pool and its routes, and the digest to record of it. This
//! module is pure.

use tenon_crds::{Accepted, AcceptedRoute, WorkerStatus};
use tenon_proto::catalog::Route;

use super::fault::Fault;
use crate::claims::Holder;
use crate::index::Candidate;
use crate::limits;

/// Returns the placement for which the spec asks, if the Worker may have it.
pub(super) fn placed(candidate: &Candidate) -> Result<Accepted, Fault> {
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
    if let Some(taken) =
        candidate.routes.iter().find_map(|(route, holder)| taken(candidate, route, holder))
    {
        return Err(Fault::stalled("RouteConflict", taken));
    }
    let routes = candidate
        .routes
        .iter()
        .map(|(Route { host, path }, _)| AcceptedRoute { host: host.clone(), path: path.clone() });
    Ok(Accepted { pool: spec.pool.clone(), routes: routes.collect(), digest: None })
}

/// Returns why the Worker may not have a route, if another holds it.
fn taken(candidate: &Candidate, Route { host, path }: &Route, holder: &Holder) -> Option<String> {
    let namespace = candidate.id.namespace();
    Some(match holder {
        Holder::Claimant => return None,
        Holder::Worker(other) if other.namespace() == namespace => format!(
            "spec.routes: {host}{path} belongs to Worker {other}, which had it first; choose another host or path"
        ),
        Holder::Worker(other) => format!(
            "spec.routes: {host} belongs to namespace {}, whose Worker {other} had it first; choose another host",
            other.namespace()
        ),
        Holder::Platform => format!(
            "spec.routes: {host} is reserved by the platform's domain; choose <name>.{namespace}.<domain>, or a host \
             outside that domain"
        ),
    })
}

/// Returns the digest to record: that by which the catalog serves the revision, if it binds
/// Secrets. It stays recorded while the catalog cannot resolve the revision.
pub(super) fn digest(
    candidate: &Candidate,
    before: &WorkerStatus,
    latest: Option<&str>,
) -> Option<String> {
    match &candidate.serving {
        Some((revision, digest)) if latest == Some(&revision.name) => {
            (!revision.salt.is_empty()).then(|| digest.to_string())
        }
        _ if latest == before.latest_revision.as_deref() => {
            before.accepted.as_ref().and_then(|accepted| accepted.digest.clone())
        }
        _ => None,
    }
}
