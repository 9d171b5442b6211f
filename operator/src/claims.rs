//! Decides which of several Workers holds a route that all of them claim. An accepted claim
//! precedes a requested one. Among claims of the same standing, the claim of the object that was
//! created first precedes the others. A route therefore cannot be taken over. This module is pure.
//!
//! HTTPRoutes of the Gateway API claim whole hosts, under the same rules. Several HTTPRoutes of a
//! namespace can share a host, but an HTTPRoute and a Worker cannot: the first claim to the host
//! decides which of the two kinds holds it.
//!
//! A host belongs to one namespace. Otherwise a tenant could add a longer path under another
//! tenant's host and receive the cookies of that tenant's clients:
//! - a host below the platform's domain belongs to the namespace in its name
//!   (`<name>.<namespace>.<domain>`);
//! - any other host belongs to the namespace of the object whose claim to the host, or to a
//!   wildcard that covers the host, precedes all others. Only the claims of namespaces that may
//!   have the host count ([`crate::grants`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::jiff::Timestamp;
use tenon_gateway::hosts::ANY;
use tenon_proto::catalog::Route;
use tenon_proto::id::WorkerId;

use crate::grants::wildcards_above;
use crate::index::Key;

/// The routes that all Workers and HTTPRoutes claim.
pub struct Claims {
    domain: String,
    by_route: HashMap<Claimed, BTreeSet<RankedClaim>>,
    /// The same claims by host, with one entry for each path.
    by_host: HashMap<String, BTreeSet<(RankedClaim, String)>>,
    by_claimant: HashMap<Claimant, (Option<Timestamp>, BTreeMap<Claimed, Standing>)>,
}

/// An object that claims routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claimant {
    Worker(WorkerId),
    /// The namespace and name of an HTTPRoute.
    HttpRoute(Key),
}

impl Claimant {
    fn namespace(&self) -> &str {
        match self {
            Self::Worker(id) => id.namespace(),
            Self::HttpRoute((namespace, _)) => namespace,
        }
    }

    /// Returns whether both objects are of one kind.
    fn is_like(&self, other: &Self) -> bool {
        matches!(self, Self::Worker(_)) == matches!(other, Self::Worker(_))
    }
}

impl From<&WorkerId> for Claimant {
    fn from(id: &WorkerId) -> Self {
        Self::Worker(id.clone())
    }
}

/// Host and path of a route.
type Claimed = (String, String);

/// The standing of a claim, in order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Accepted,
    Requested,
}

/// A claim, in order of precedence: its standing, the creation time of the claimant, then the
/// claimant. An object without a creation time has never been stored.
type RankedClaim = (Standing, Option<Timestamp>, Claimant);

/// The holder of a route that an object claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The object itself.
    Claimant,
    /// Another Worker, which takes precedence, holds the route or its host.
    Worker(WorkerId),
    /// An HTTPRoute, which takes precedence, holds the host.
    HttpRoute(Key),
    /// The host is the platform's domain, or a host below it outside of the object's namespace.
    Platform,
    /// The object's namespace may not have the host.
    NotGranted,
}

impl From<&Claimant> for Holder {
    fn from(claimant: &Claimant) -> Self {
        match claimant {
            Claimant::Worker(id) => Self::Worker(id.clone()),
            Claimant::HttpRoute(key) => Self::HttpRoute(key.clone()),
        }
    }
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
            by_route: HashMap::new(),
            by_host: HashMap::new(),
            by_claimant: HashMap::new(),
        }
    }

    /// Returns the holder of `route`, which `claimant` claims.
    pub fn holder(
        &self,
        claimant: impl Into<Claimant>,
        route: &Route,
        permits: Permits<'_>,
    ) -> Holder {
        let claimant = claimant.into();
        let other = |first: &Claimant| {
            if *first == claimant { Holder::Claimant } else { Holder::from(first) }
        };
        if let Some(namespace) = self.namespace_of(&route.host) {
            if namespace != Some(claimant.namespace()) {
                return Holder::Platform;
            }
        } else if !permits(&route.host, claimant.namespace()) {
            return Holder::NotGranted;
        } else if let Some(owner) = self.owner(&route.host, permits)
            && owner.namespace() != claimant.namespace()
        {
            return other(owner);
        }
        // Objects of other namespaces may claim paths of a host that they do not own.
        let is_ours = |other: &Claimant| other.namespace() == claimant.namespace();
        let of_host = self.by_host.get(&route.host).into_iter().flatten();
        let first = of_host.map(|((.., other), _)| other).find(|other| is_ours(other));
        if let Some(first) = first.filter(|first| !first.is_like(&claimant)) {
            return other(first);
        }
        if matches!(claimant, Claimant::HttpRoute(_)) {
            return Holder::Claimant;
        }
        let claims = self.by_route.get(&(route.host.clone(), route.path.clone()));
        // An HTTPRoute of this host is not first, and so holds nothing.
        let mut claimants = claims.into_iter().flatten().map(|(.., other)| other);
        let first = claimants.find(|other| is_ours(other) && other.is_like(&claimant));
        first.map_or(Holder::Claimant, other)
    }

    /// Returns the object whose claim to the host, or to a wildcard that covers the host, precedes
    /// all others of namespaces that may have the host.
    fn owner(&self, host: &str, permits: Permits<'_>) -> Option<&Claimant> {
        let names = std::iter::once(host.to_owned()).chain(wildcards_above(host));
        let first = names.filter_map(|name| {
            let mut claims = self.by_host.get(&name)?.iter();
            claims.find(|((.., claimant), _)| permits(host, claimant.namespace()))
        });
        first.min().map(|((.., claimant), _)| claimant)
    }

    /// Returns the namespace to which a host below the platform's domain belongs: `None` if the
    /// host is not below the domain, and `Some(None)` for the domain itself and its wildcard.
    fn namespace_of<'a>(&self, host: &'a str) -> Option<Option<&'a str>> {
        let name = host.strip_prefix("*.").unwrap_or(host).strip_suffix(self.domain.as_str())?;
        if name.is_empty() {
            return Some(None);
        }
        Some(Some(name.strip_suffix('.')?.rsplit('.').next()?))
    }

    /// Replaces the claims of `claimant`, which was created at `since`. Returns the other objects
    /// that may have gained or lost a route.
    ///
    /// # Arguments
    /// * `accepted` - the routes with which the object was accepted.
    /// * `requested` - the routes in the object's spec.
    pub fn set(
        &mut self,
        claimant: impl Into<Claimant>,
        since: Option<Timestamp>,
        accepted: Vec<Route>,
        requested: Vec<Route>,
    ) -> BTreeSet<Claimant> {
        let claimant = claimant.into();
        let claims = |routes: Vec<Route>, standing| {
            routes.into_iter().map(move |route| ((route.host, route.path), standing))
        };
        // A route that is in both lists counts as accepted.
        let routes: BTreeMap<Claimed, Standing> = claims(requested, Standing::Requested)
            .chain(claims(accepted, Standing::Accepted))
            .collect();
        let (former_since, former) = self.by_claimant.remove(&claimant).unwrap_or_default();
        let mut affected = BTreeSet::new();
        if (former_since, &former) != (since, &routes) {
            for (claimed, standing) in &former {
                affected.extend(self.rivals(&claimed.0));
                let claim = (*standing, former_since, claimant.clone());
                remove(&mut self.by_route, claimed, &claim);
                remove(&mut self.by_host, &claimed.0, &(claim, claimed.1.clone()));
            }
            for (claimed, standing) in &routes {
                let (claim, (host, path)) = ((*standing, since, claimant.clone()), claimed.clone());
                self.by_route.entry(claimed.clone()).or_default().insert(claim.clone());
                self.by_host.entry(host).or_default().insert((claim, path));
                affected.extend(self.rivals(&claimed.0));
            }
        }
        affected.remove(&claimant);
        if !routes.is_empty() {
            self.by_claimant.insert(claimant, (since, routes));
        }
        affected
    }

    /// Returns the objects whose claims may be affected by a change of the grants of a host: those
    /// that claim the host, or a host below it, or a wildcard that covers it.
    pub fn affected_by_grants_of(&self, host: &str) -> BTreeSet<Claimant> {
        let above = wildcards_above(host).filter_map(|wildcard| self.by_host.get(&wildcard));
        // Any grant takes the wildcard `*`, which covers every host, from all objects that claim
        // it.
        let anywhere = self.by_host.get(ANY);
        let claims = above.chain(anywhere).flatten();
        claims.map(|((.., claimant), _)| claimant.clone()).chain(self.rivals(host)).collect()
    }

    /// Returns the objects that claim one of the hosts that an object claims, or a host below one
    /// of its wildcards.
    pub fn rivals_of(&self, claimant: &Claimant) -> BTreeSet<Claimant> {
        let claims =
            self.by_claimant.get(claimant).into_iter().flat_map(|(_, claims)| claims.keys());
        claims.flat_map(|(host, _)| self.rivals(host)).collect()
    }

    /// Returns the objects that claim the host. If the host is a wildcard, the objects that claim a
    /// host below it are returned too. The wildcard that covers every host takes no host from
    /// another object.
    fn rivals(&self, host: &str) -> BTreeSet<Claimant> {
        let claimants = |claims: &BTreeSet<(RankedClaim, String)>| -> Vec<Claimant> {
            claims.iter().map(|((.., claimant), _)| claimant.clone()).collect()
        };
        match host.strip_prefix('*').filter(|below| !below.is_empty()) {
            None => self.by_host.get(host).into_iter().flat_map(claimants).collect(),
            // This scans every host, which is acceptable because wildcards are rare.
            Some(below) => self
                .by_host
                .iter()
                .filter(|(host, _)| host.ends_with(below))
                .flat_map(|(_, claims)| claimants(claims))
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
