//! Decides where a revision may be served, in which pool and on which routes, and which digest to
//! record for it. This module is pure.

use tenon_crds::{Accepted, AcceptedRoute, WorkerStatus};
use tenon_proto::catalog::Route;

use super::fault::{Fault, HOST_NOT_GRANTED};
use crate::claims::Holder;
use crate::grants;
use crate::index::Candidate;
use crate::limits;
use crate::namespaces::Access;

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
    check_access(candidate)?;
    limits::check(&spec.limits, limits, &spec.pool)
        .map_err(|over| Fault::stalled("LimitOverMaximum", over.to_string()))?;
    let taken = |(route, holder): &_| taken("spec.routes", candidate, route, holder);
    if let Some(taken) = candidate.routes.iter().find_map(taken) {
        return Err(taken);
    }
    if let Some(host) = candidate.routes.iter().find_map(|(route, _)| public_wildcard(route)) {
        let message = format!(
            "spec.routes: {host} covers the domains of many owners, because they are registered \
             below it; choose a wildcard below a domain that you own"
        );
        return Err(Fault::stalled("PublicSuffix", message));
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

/// Checks that Workers of the namespace may choose the pool.
fn check_access(candidate: &Candidate) -> Result<(), Fault> {
    let (pool, namespace) = (&candidate.worker.spec.pool, candidate.id.namespace());
    match candidate.access {
        Access::Allowed => Ok(()),
        Access::Refused => {
            let message = format!(
                "spec.pool: RuntimePool {pool:?} does not allow Workers of namespace {namespace}; \
                 choose another pool, or let the pool's spec.allowedNamespaces select the namespace"
            );
            Err(Fault::stalled("PoolNotAllowed", message))
        }
        Access::Unknown => {
            let message = format!(
                "spec.pool: the labels of namespace {namespace}, by which RuntimePool {pool:?} \
                 allows Workers, are not known yet; wait a moment"
            );
            Err(Fault::waiting("PoolNotAllowed", message))
        }
    }
}

/// Returns the host of a route if it is a wildcard directly below a public suffix, such as `*.com`.
fn public_wildcard(route: &Route) -> Option<&str> {
    let name = route.host.strip_prefix("*.")?;
    grants::is_public_suffix(name).then_some(&route.host)
}

/// Returns the fault of a route that the Worker may not have, because another object or the
/// platform holds the route or its host, or because no grant gives the host to the namespace.
///
/// # Arguments
/// * `field` - the field of the spec that requests the route.
pub(super) fn taken(
    field: &str,
    candidate: &Candidate,
    Route { host, path }: &Route,
    holder: &Holder,
) -> Option<Fault> {
    let namespace = candidate.id.namespace();
    let message = match holder {
        Holder::Claimant => return None,
        Holder::Worker(other) if other.namespace() == namespace => format!(
            "{field}: {host}{path} belongs to Worker {other}, which had it first; choose another \
             host or path"
        ),
        Holder::Worker(other) => format!(
            "{field}: {host} belongs to namespace {}, whose Worker {other} had it first; choose \
             another host",
            other.namespace()
        ),
        Holder::HttpRoute((owner, name)) => format!(
            "{field}: {host} belongs to namespace {owner}, whose HTTPRoute {name} had it first; \
             choose another host, or remove the host from the HTTPRoute"
        ),
        Holder::Platform => format!(
            "{field}: {host} is in the platform's domain, where it is reserved; choose \
             <name>.{namespace}.<domain>, or a host outside that domain"
        ),
        Holder::NotGranted => {
            let message = format!(
                "{field}: no HostGrant gives {host} to namespace {namespace}; choose another host, \
                 or ask an administrator for a HostGrant. Requests for the host are not served"
            );
            return Some(Fault::stalled(HOST_NOT_GRANTED, message));
        }
    };
    Some(Fault::stalled("RouteConflict", message))
}

/// Returns the digest to record for a revision that binds Secrets: the digest by which the catalog
/// serves the revision, or the recorded digest while the catalog cannot resolve the revision.
pub(super) fn digest(
    candidate: &Candidate,
    before: &WorkerStatus,
    revision: Option<&str>,
) -> Option<String> {
    let name = revision?;
    if let Some((revision, digest)) = candidate.serving.iter().find(|(known, _)| known.name == name)
    {
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
