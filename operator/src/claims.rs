//! Decides which of several Workers holds a route that all of them claim. An accepted claim
//! precedes a requested one, and an older claim precedes a newer one, so that a route cannot be
//! taken over. This module is pure.
//!
//! A host belongs to one namespace. Otherwise a tenant could add a longer path under another
//! tenant's host and receive the cookies of that tenant's clients:
//! - a host below the platform's domain belongs to the namespace in its name
//!   (`<name>.<namespace>.<domain>`);
//! - any other host belongs to the namespace of the Worker whose claim to the host, or to a
//!   wildcard that covers the host, precedes all others. Only the claims of namespaces that may have
//!   the host count ([`crate::grants`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::jiff::Timestamp;
use tenon_proto::catalog::Route;
use tenon_proto::id::WorkerId;

use crate::grants::wildcards_above;

/// The routes that all Workers claim.
pub struct Claims {
    domain: String,
    claimants: HashMap<Claimed, BTreeSet<Claimant>>,
    /// The same claims by host, with one entry for each path.
    hosts: HashMap<String, BTreeSet<(Claimant, String)>>,
    by_worker: HashMap<WorkerId, (Option<Timestamp>, BTreeMap<Claimed, Standing>)>,
}

/// Host and path of a route.
type Claimed = (String, String);

/// The standing of a claim, in order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Accepted,
    Requested,
}

/// A claimant, in order of precedence: standing, creation time, then id. An object without a
/// creation time has never been stored.
type Claimant = (Standing, Option<Timestamp>, WorkerId);

/// The holder of a route that a Worker claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The Worker itself.
    Claimant,
    /// Another Worker, which takes precedence, holds the route or its host.
    Worker(WorkerId),
    /// The host is the platform's domain, or a host below it outside of the Worker's namespace.
    Platform,
    /// The Worker's namespace may not have the host.
    NotGranted,
}

/// Returns whether a namespace may have a host: `permits(host, namespace)`.
pub type Permits<'a> = &'a dyn Fn(&str, &str) -> bool;

impl Claims {
    /// Creates the claims of a platform without Workers.
    ///
    /// # Arguments
    /// * `domain` - the platform's domain, below which every namespace has its own subdomain.
    pub fn new(domain: impl Into<String>) -> Self {
        Self {
            domain: domain.into(),
            claimants: HashMap::new(),
            hosts: HashMap::new(),
            by_worker: HashMap::new(),
        }
    }

    /// Returns the holder of `route`, which `worker` claims.
    pub fn holder(&self, worker: &WorkerId, route: &Route, permits: Permits<'_>) -> Holder {
        let other = |id: &WorkerId| {
            if id == worker { Holder::Claimant } else { Holder::Worker(id.clone()) }
        };
        if let Some(namespace) = self.namespace_of(&route.host) {
            if namespace != Some(worker.namespace()) {
                return Holder::Platform;
            }
        } else if !permits(&route.host, worker.namespace()) {
            return Holder::NotGranted;
        } else if let Some(owner) = self.owner(&route.host, permits)
            && owner.namespace() != worker.namespace()
        {
            return other(owner);
        }
        let claimants = self.claimants.get(&(route.host.clone(), route.path.clone()));
        // Workers of other namespaces may claim paths of a host that they do not own.
        let ours =
            claimants.into_iter().flatten().find(|(.., id)| id.namespace() == worker.namespace());
        ours.map_or(Holder::Claimant, |(.., id)| other(id))
    }

    /// Returns the Worker whose claim to the host, or to a wildcard that covers the host, precedes
    /// all others of namespaces that may have the host.
    fn owner(&self, host: &str, permits: Permits<'_>) -> Option<&WorkerId> {
        let names = std::iter::once(host.to_owned()).chain(wildcards_above(host));
        let first = names.filter_map(|name| {
            let mut claims = self.hosts.get(&name)?.iter();
            claims.find(|((.., id), _)| permits(host, id.namespace()))
        });
        first.min().map(|((.., id), _)| id)
    }

    /// Returns the namespace to which a host below the platform's domain belongs: `None` if the
    /// host is not below the domain, and `Some(None)` for the domain itself.
    fn namespace_of<'a>(&self, host: &'a str) -> Option<Option<&'a str>> {
        let name = host.strip_prefix("*.").unwrap_or(host).strip_suffix(self.domain.as_str())?;
        if name.is_empty() {
            return Some(None);
        }
        Some(Some(name.strip_suffix('.')?.rsplit('.').next()?))
    }

    /// Replaces the claims of `worker`, which was created at `since`. Returns the other Workers
    /// that may have gained or lost a route.
    ///
    /// # Arguments
    /// * `accepted` - the routes with which the Worker was accepted.
    /// * `requested` - the routes in the Worker's spec.
    pub fn set(
        &mut self,
        worker: &WorkerId,
        since: Option<Timestamp>,
        accepted: Vec<Route>,
        requested: Vec<Route>,
    ) -> BTreeSet<WorkerId> {
        let claims = |routes: Vec<Route>, standing| {
            routes.into_iter().map(move |route| ((route.host, route.path), standing))
        };
        // A route that is in both lists counts as accepted.
        let routes: BTreeMap<Claimed, Standing> = claims(requested, Standing::Requested)
            .chain(claims(accepted, Standing::Accepted))
            .collect();
        let (former_since, former) = self.by_worker.remove(worker).unwrap_or_default();
        let mut affected = BTreeSet::new();
        if (former_since, &former) != (since, &routes) {
            for (claimed, standing) in &former {
                affected.extend(self.rivals(&claimed.0));
                let claimant = (*standing, former_since, worker.clone());
                remove(&mut self.claimants, claimed, &claimant);
                remove(&mut self.hosts, &claimed.0, &(claimant, claimed.1.clone()));
            }
            for (claimed, standing) in &routes {
                let (claimant, (host, path)) =
                    ((*standing, since, worker.clone()), claimed.clone());
                self.claimants.entry(claimed.clone()).or_default().insert(claimant.clone());
                self.hosts.entry(host).or_default().insert((claimant, path));
                affected.extend(self.rivals(&claimed.0));
            }
        }
        if !routes.is_empty() {
            self.by_worker.insert(worker.clone(), (since, routes));
        }
        affected.remove(worker);
        affected
    }

    /// Returns the Workers whose claims may be affected by a change of the grants of a host: those
    /// that claim the host, or a host below it, or a wildcard that covers it.
    pub fn concerned(&self, host: &str) -> BTreeSet<WorkerId> {
        let above = wildcards_above(host).filter_map(|wildcard| self.hosts.get(&wildcard));
        let above = above.flatten().map(|((.., id), _)| id.clone());
        above.chain(self.rivals(host)).collect()
    }

    /// Returns the Workers that claim one of the hosts that a Worker claims, or a host below one.
    pub fn rivals_of(&self, worker: &WorkerId) -> BTreeSet<WorkerId> {
        let claims = self.by_worker.get(worker).into_iter().flat_map(|(_, claims)| claims.keys());
        claims.flat_map(|(host, _)| self.rivals(host)).collect()
    }

    /// Returns the Workers that claim the host. If the host is a wildcard, the Workers that claim a
    /// host below it are returned too.
    fn rivals(&self, host: &str) -> BTreeSet<WorkerId> {
        let claimants = |claimants: &BTreeSet<(Claimant, String)>| -> Vec<WorkerId> {
            claimants.iter().map(|((.., id), _)| id.clone()).collect()
        };
        match host.strip_prefix('*') {
            None => self.hosts.get(host).into_iter().flat_map(claimants).collect(),
            // This scans every host, which is acceptable because wildcards are rare.
            Some(below) => self
                .hosts
                .iter()
                .filter(|(host, _)| host.ends_with(below))
                .flat_map(|(_, c)| claimants(c))
                .collect(),
        }
    }
}

fn remove<K: Eq + std::hash::Hash, V: Ord>(sets: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
