//! Decides which of several Workers holds a route that all of them claim. An accepted claim
//! precedes a requested one, and an older claim precedes a newer one, so that a route cannot be
//! taken over. This module is pure.
//!
//! A host belongs to one namespace. Otherwise a tenant could add a longer path under another
//! tenant's host and receive the cookies of that tenant's clients:
//! - a host below the platform's domain belongs to the namespace in its name
//!   (`<name>.<namespace>.<domain>`);
//! - any other host belongs to the namespace of the Worker whose claim to the host, or to a
//!   wildcard that covers the host, precedes all others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::jiff::Timestamp;
use tenon_proto::catalog::Route;
use tenon_proto::id::WorkerId;

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
}

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
    pub fn holder(&self, worker: &WorkerId, route: &Route) -> Holder {
        let other = |id: &WorkerId| {
            if id == worker { Holder::Claimant } else { Holder::Worker(id.clone()) }
        };
        if let Some(namespace) = self.namespace_of(&route.host) {
            if namespace != Some(worker.namespace()) {
                return Holder::Platform;
            }
        } else if let Some(owner) = self.owner(&route.host)
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
    /// all others.
    fn owner(&self, host: &str) -> Option<&WorkerId> {
        let over = std::iter::successors(Some(host), |host| Some(host.split_once('.')?.1)).skip(1);
        let wildcards = over.map(|domain| format!("*.{domain}"));
        let names = std::iter::once(host.to_owned()).chain(wildcards);
        let first = names.filter_map(|name| self.hosts.get(&name)?.first());
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
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Timestamp> {
        Some(Timestamp::from_second(second).unwrap())
    }

    fn route(route: &str) -> Route {
        let (host, path) = route.split_once('/').unwrap();
        Route { host: host.to_owned(), path: format!("/{path}") }
    }

    /// Returns claims of Workers with one route each, each Worker a second younger than the
    /// previous one.
    fn claims(all: &[(&str, &str)]) -> Claims {
        let mut claims = Claims::new("tenon.example");
        for (second, (worker, claimed)) in (0..).zip(all) {
            claims.set(&id(worker), at(second), Vec::new(), vec![route(claimed)]);
        }
        claims
    }

    fn id(worker: &str) -> WorkerId {
        let (namespace, name) = worker.split_once('/').unwrap();
        WorkerId::new(namespace, name)
    }

    fn holder(claims: &Claims, worker: &str, claimed: &str) -> Holder {
        claims.holder(&id(worker), &route(claimed))
    }

    #[test]
    fn the_oldest_claimant_holds_a_route() {
        let mut claims = claims(&[("a/new", "shop/")]);
        assert_eq!(holder(&claims, "a/new", "shop/"), Holder::Claimant);
        assert_eq!(
            claims.set(&id("a/old"), at(-1), Vec::new(), vec![route("shop/")]),
            BTreeSet::from([id("a/new")])
        );
        assert_eq!(holder(&claims, "a/new", "shop/"), Holder::Worker(id("a/old")));
        assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Claimant);
    }

    #[test]
    fn an_accepted_claim_precedes_an_older_requested_one() {
        let mut claims = claims(&[("a/old", "old/"), ("b/new", "shop/"), ("b/wide", "x.org/")]);
        claims.set(&id("b/new"), at(1), vec![route("shop/")], vec![route("shop/")]);
        claims.set(&id("b/wide"), at(2), vec![route("*.org/")], vec![route("*.org/")]);
        let requested = ["shop/", "below.org/"].map(route).to_vec();
        assert_eq!(claims.set(&id("a/old"), at(0), Vec::new(), requested).len(), 1);
        for (worker, claimed, expected) in [
            ("a/old", "shop/", Holder::Worker(id("b/new"))),
            ("a/old", "below.org/", Holder::Worker(id("b/wide"))),
            ("b/new", "shop/", Holder::Claimant),
        ] {
            assert_eq!(holder(&claims, worker, claimed), expected, "{worker} {claimed}");
        }
        // A spec that is not accepted releases no route.
        claims.set(&id("b/new"), at(1), vec![route("shop/")], vec![route("other/")]);
        assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Worker(id("b/new")));
        claims.set(&id("b/new"), at(1), vec![route("other/")], vec![route("other/")]);
        assert_eq!(holder(&claims, "a/old", "shop/"), Holder::Claimant);
    }

    #[test]
    fn a_released_route_passes_to_the_next_claimant() {
        let mut claims = claims(&[("a/old", "shop/"), ("b/new", "shop/")]);
        assert_eq!(holder(&claims, "b/new", "shop/"), Holder::Worker(id("a/old")));
        assert_eq!(
            claims.set(&id("a/old"), None, Vec::new(), Vec::new()),
            BTreeSet::from([id("b/new")])
        );
        assert_eq!(holder(&claims, "b/new", "shop/"), Holder::Claimant);
    }

    #[test]
    fn a_repeated_claim_affects_no_worker() {
        let mut claims = claims(&[("a/one", "shop/"), ("a/two", "shop/")]);
        assert!(claims.set(&id("a/two"), at(1), Vec::new(), vec![route("shop/")]).is_empty());
    }

    #[test]
    fn a_tenant_cannot_claim_a_path_under_the_host_of_another_tenant() {
        let claims = claims(&[
            ("victim/shop", "shop.example.com/"),
            ("evil/x", "shop.example.com/checkout"),
        ]);
        assert_eq!(
            holder(&claims, "evil/x", "shop.example.com/checkout"),
            Holder::Worker(id("victim/shop"))
        );
        assert_eq!(holder(&claims, "victim/more", "shop.example.com/checkout"), Holder::Claimant);
    }

    #[test]
    fn the_hosts_of_a_wildcard_belong_to_its_namespace_except_those_claimed_before() {
        let claims = claims(&[
            ("b/had", "old.example.com/"),
            ("a/all", "*.example.com/"),
            ("b/late", "x.example.com/"),
        ]);
        assert_eq!(holder(&claims, "b/had", "old.example.com/"), Holder::Claimant);
        assert_eq!(holder(&claims, "b/late", "x.example.com/"), Holder::Worker(id("a/all")));
        assert_eq!(holder(&claims, "a/all", "*.example.com/"), Holder::Claimant);
        assert_eq!(holder(&claims, "a/other", "x.example.com/"), Holder::Claimant);
    }

    #[test]
    fn a_new_wildcard_affects_the_claims_below_it() {
        let mut claims = claims(&[("b/had", "old.example.com/"), ("b/else", "example.org/")]);
        let affected = claims.set(&id("a/all"), at(9), Vec::new(), vec![route("*.example.com/")]);
        assert_eq!(affected, BTreeSet::from([id("b/had")]));
    }

    #[test]
    fn each_namespace_has_its_own_part_of_the_platforms_domain() {
        let claims = claims(&[]);
        for (worker, route, expected) in [
            ("a/cart", "cart.a.tenon.example/", Holder::Claimant),
            ("a/cart", "*.a.tenon.example/", Holder::Claimant),
            ("a/cart", "deep.cart.a.tenon.example/x", Holder::Claimant),
            ("evil/x", "cart.a.tenon.example/login", Holder::Platform),
            ("evil/x", "*.a.tenon.example/", Holder::Platform),
            ("evil/x", "*.tenon.example/", Holder::Platform),
            ("evil/x", "tenon.example/", Holder::Platform),
            ("evil/x", "nottenon.example/", Holder::Claimant),
        ] {
            assert_eq!(holder(&claims, worker, route), expected, "{worker} {route}");
        }
    }
}
