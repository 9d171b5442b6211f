//! Who holds a route when several Workers claim it: the oldest, so that nobody can take what another has. Pure.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::jiff::Timestamp;
use tenon_proto::catalog::Route;
use tenon_proto::id::WorkerId;

/// Every Worker's claims to routes.
#[derive(Default)]
pub struct Claims {
    claimants: HashMap<Claimed, BTreeSet<Claimant>>,
    by_worker: HashMap<WorkerId, (Option<Timestamp>, Vec<Claimed>)>,
}

/// Host and path.
type Claimed = (String, String);

/// In order of precedence: the time of creation, then the id. An object without one has never been stored.
type Claimant = (Option<Timestamp>, WorkerId);

impl Claims {
    /// The Worker that holds `route`.
    pub fn holder(&self, route: &Route) -> Option<&WorkerId> {
        let claimants = self.claimants.get(&(route.host.clone(), route.path.clone()))?;
        claimants.first().map(|(_, id)| id)
    }

    /// `worker`, created at `since`, claims exactly `routes`. Returns the other Workers for which that changes what
    /// they hold.
    pub fn set(&mut self, worker: &WorkerId, since: Option<Timestamp>, routes: Vec<Route>) -> BTreeSet<WorkerId> {
        let routes: Vec<Claimed> = routes.into_iter().map(|route| (route.host, route.path)).collect();
        let (former_since, former) = self.by_worker.remove(worker).unwrap_or_default();
        if former_since == since && former == routes {
            self.by_worker.insert(worker.clone(), (since, routes));
            return BTreeSet::new();
        }
        let mut affected = BTreeSet::new();
        for claimed in former {
            if let Some(claimants) = self.claimants.get_mut(&claimed) {
                claimants.remove(&(former_since, worker.clone()));
                affected.extend(claimants.iter().map(|(_, id)| id.clone()));
                if claimants.is_empty() {
                    self.claimants.remove(&claimed);
                }
            }
        }
        for claimed in &routes {
            let claimants = self.claimants.entry(claimed.clone()).or_default();
            affected.extend(claimants.iter().map(|(_, id)| id.clone()));
            claimants.insert((since, worker.clone()));
        }
        if !routes.is_empty() {
            self.by_worker.insert(worker.clone(), (since, routes));
        }
        affected.remove(worker);
        affected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str) -> Route {
        Route { host: host.to_owned(), path: "/".to_owned() }
    }

    fn at(second: i64) -> Option<Timestamp> {
        Some(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_oldest_claimant_holds_a_route() {
        let (old, new) = (WorkerId::new("a", "old"), WorkerId::new("a", "new"));
        let mut claims = Claims::default();
        claims.set(&new, at(2), vec![route("shop")]);
        assert_eq!(claims.holder(&route("shop")), Some(&new));
        assert_eq!(claims.set(&old, at(1), vec![route("shop")]), BTreeSet::from([new.clone()]));
        assert_eq!(claims.holder(&route("shop")), Some(&old));
    }

    #[test]
    fn a_route_that_is_given_up_passes_to_the_next() {
        let (old, new) = (WorkerId::new("a", "old"), WorkerId::new("a", "new"));
        let mut claims = Claims::default();
        claims.set(&old, at(1), vec![route("shop")]);
        claims.set(&new, at(2), vec![route("shop")]);
        assert_eq!(claims.set(&old, None, Vec::new()), BTreeSet::from([new.clone()]));
        assert_eq!(claims.holder(&route("shop")), Some(&new));
        claims.set(&new, None, Vec::new());
        assert_eq!(claims.holder(&route("shop")), None);
    }

    #[test]
    fn a_claim_made_again_affects_nobody() {
        let (one, two) = (WorkerId::new("a", "one"), WorkerId::new("a", "two"));
        let mut claims = Claims::default();
        claims.set(&one, at(1), vec![route("shop")]);
        claims.set(&two, at(2), vec![route("shop")]);
        assert!(claims.set(&two, at(2), vec![route("shop")]).is_empty());
    }
}
