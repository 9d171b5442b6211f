//! Decides which of several Workers holds a route that all of them claim. An accepted claim
//! precedes a requested one, and an older claim precedes a newer one, so that a route cannot be
//! taken over. This module is pure.
//!
//! HTTPRoutes of the Gateway API claim whole hosts, by the same rules. Several HTTPRoutes of a
//! namespace can share a host, but an HTTPRoute and a Worker cannot: the first claim to the host
//! decides which of the two kinds holds it.
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
use tenon_gateway::hosts::ANY;
use tenon_proto::catalog::Route;
use tenon_proto::id::WorkerId;

use crate::grants::wildcards_above;
use crate::index::Key;

/// The routes that all Workers and HTTPRoutes claim.
pub struct Claims {
    domain: String,
    claimants: HashMap<Claimed, BTreeSet<Claimant>>,
    /// The same claims by host, with one entry for each path.
    hosts: HashMap<String, BTreeSet<(Claimant, String)>>,
    by_claimer: HashMap<Claimer, (Option<Timestamp>, BTreeMap<Claimed, Standing>)>,
}

/// An object that claims routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claimer {
    Worker(WorkerId),
    /// The namespace and name of an HTTPRoute.
    HttpRoute(Key),
}

impl Claimer {
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

impl From<&WorkerId> for Claimer {
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

/// A claimant, in order of precedence: standing, creation time, then id. An object without a
/// creation time has never been stored.
type Claimant = (Standing, Option<Timestamp>, Claimer);

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

impl From<&Claimer> for Holder {
    fn from(claimer: &Claimer) -> Self {
        match claimer {
            Claimer::Worker(id) => Self::Worker(id.clone()),
            Claimer::HttpRoute(key) => Self::HttpRoute(key.clone()),
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
            claimants: HashMap::new(),
            hosts: HashMap::new(),
            by_claimer: HashMap::new(),
        }
    }

    /// Returns the holder of `route`, which `claimer` claims.
    pub fn holder(
        &self,
        claimer: impl Into<Claimer>,
        route: &Route,
        permits: Permits<'_>,
    ) -> Holder {
        let claimer = claimer.into();
        let other = |first: &Claimer| {
            if *first == claimer { Holder::Claimant } else { Holder::from(first) }
        };
        if let Some(namespace) = self.namespace_of(&route.host) {
            if namespace != Some(claimer.namespace()) {
                return Holder::Platform;
            }
        } else if !permits(&route.host, claimer.namespace()) {
            return Holder::NotGranted;
        } else if let Some(owner) = self.owner(&route.host, permits)
            && owner.namespace() != claimer.namespace()
        {
            return other(owner);
        }
        // Objects of other namespaces may claim paths of a host that they do not own.
        let is_ours = |it: &Claimer| it.namespace() == claimer.namespace();
        let mut of_host = self.hosts.get(&route.host).into_iter().flatten();
        let first = of_host.find(|((.., it), _)| is_ours(it)).map(|((.., it), _)| it);
        if let Some(first) = first.filter(|first| !first.is_like(&claimer)) {
            return other(first);
        }
        if matches!(claimer, Claimer::HttpRoute(_)) {
            return Holder::Claimant;
        }
        let claimants = self.claimants.get(&(route.host.clone(), route.path.clone()));
        // An HTTPRoute of this host is not first, and so holds nothing.
        let mut ours = claimants.into_iter().flatten().map(|(.., it)| it);
        let ours = ours.find(|it| is_ours(it) && it.is_like(&claimer));
        ours.map_or(Holder::Claimant, other)
    }

    /// Returns the object whose claim to the host, or to a wildcard that covers the host, precedes
    /// all others of namespaces that may have the host.
    fn owner(&self, host: &str, permits: Permits<'_>) -> Option<&Claimer> {
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

    /// Replaces the claims of `claimer`, which was created at `since`. Returns the other objects
    /// that may have gained or lost a route.
    ///
    /// # Arguments
    /// * `accepted` - the routes with which the object was accepted.
    /// * `requested` - the routes in the object's spec.
    pub fn set(
        &mut self,
        claimer: impl Into<Claimer>,
        since: Option<Timestamp>,
        accepted: Vec<Route>,
        requested: Vec<Route>,
    ) -> BTreeSet<Claimer> {
        let claimer = claimer.into();
        let claims = |routes: Vec<Route>, standing| {
            routes.into_iter().map(move |route| ((route.host, route.path), standing))
        };
        // A route that is in both lists counts as accepted.
        let routes: BTreeMap<Claimed, Standing> = claims(requested, Standing::Requested)
            .chain(claims(accepted, Standing::Accepted))
            .collect();
        let (former_since, former) = self.by_claimer.remove(&claimer).unwrap_or_default();
        let mut affected = BTreeSet::new();
        if (former_since, &former) != (since, &routes) {
            for (claimed, standing) in &former {
                affected.extend(self.rivals(&claimed.0));
                let claimant = (*standing, former_since, claimer.clone());
                remove(&mut self.claimants, claimed, &claimant);
                remove(&mut self.hosts, &claimed.0, &(claimant, claimed.1.clone()));
            }
            for (claimed, standing) in &routes {
                let (claimant, (host, path)) =
                    ((*standing, since, claimer.clone()), claimed.clone());
                self.claimants.entry(claimed.clone()).or_default().insert(claimant.clone());
                self.hosts.entry(host).or_default().insert((claimant, path));
                affected.extend(self.rivals(&claimed.0));
            }
        }
        affected.remove(&claimer);
        if !routes.is_empty() {
            self.by_claimer.insert(claimer, (since, routes));
        }
        affected
    }

    /// Returns the objects whose claims may be affected by a change of the grants of a host: those
    /// that claim the host, or a host below it, or a wildcard that covers it.
    pub fn concerned(&self, host: &str) -> BTreeSet<Claimer> {
        let above = wildcards_above(host).filter_map(|wildcard| self.hosts.get(&wildcard));
        let above = above.flatten().map(|((.., id), _)| id.clone());
        // Any grant takes the host that covers every host from all that claim it.
        let anywhere = self.hosts.get(ANY).into_iter().flatten().map(|((.., id), _)| id.clone());
        above.chain(anywhere).chain(self.rivals(host)).collect()
    }

    /// Returns the objects that claim one of the hosts that an object claims, or a host below one.
    pub fn rivals_of(&self, claimer: &Claimer) -> BTreeSet<Claimer> {
        let claims = self.by_claimer.get(claimer).into_iter().flat_map(|(_, claims)| claims.keys());
        claims.flat_map(|(host, _)| self.rivals(host)).collect()
    }

    /// Returns the objects that claim the host. If the host is a wildcard, the objects that claim a
    /// host below it are returned too. The host that covers every host takes none from another
    /// object.
    fn rivals(&self, host: &str) -> BTreeSet<Claimer> {
        let claimants = |claimants: &BTreeSet<(Claimant, String)>| -> Vec<Claimer> {
            claimants.iter().map(|((.., id), _)| id.clone()).collect()
        };
        match host.strip_prefix('*').filter(|below| !below.is_empty()) {
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
