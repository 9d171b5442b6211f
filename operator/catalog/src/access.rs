//! Decides which calls a caller of the catalog may make. This module is pure.
//!
//! ```text
//!  certificate ─┬─ role: router ─────────────────► Watch, GetAssets, ReportTraffic
//!               │               with a front, also ──┘
//!               │              ┌──────┴────────┐
//!               └─ role: node ─┼─ URI of a pool ─┬► GetRevision, Report, WatchQuarantine:
//!                              └─ no URI:        │  of that pool only
//!                                 pool of the ───┘
//!                                 address
//! ```
//!
//! A node of a pool with a front serves clients and forwards their requests to the nodes of all
//! pools, so it counts as a router too. It must present a certificate that names the pool: its
//! address is not enough for rights that reach beyond the pool.
//!
//! Nodes of an earlier version, and nodes whose certificate an administrator issued for all pools,
//! present a certificate without a pool. Such a node belongs to the pool whose EndpointSlices
//! contain the address of its connection: these slices are in the operator's namespace, where
//! tenants have no rights. A node that belongs to no pool gets nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use tenon_lifecycle::label_values;
use tenon_lifecycle::tls::Principal;
use tenon_proto::catalog::Node;
use tonic::{Request, Status};

/// The origin of a request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    /// The certificate of the peer; `None` without TLS.
    pub(super) certificate: Option<Certificate>,
}

/// The rights that a verified certificate gives. A certificate for several roles has the rights of
/// each, except that a node gets no keys of Gateways ([`Caller::gets_certificates`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) is_router: bool,
    pub(super) is_node: bool,
    pub(super) pool: Membership,
}

/// The pool that a certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    Named(String),
    /// The certificate has no URI of the platform.
    Unnamed,
    /// The certificate names something other than a pool of this platform.
    NotAPool,
}

/// The pool to which a caller belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallerPool {
    /// Without TLS, every caller is served.
    Any,
    Of(String),
}

label_values! {
    /// A call that the catalog may refuse because of the caller's identity.
    pub(super) enum Call {
        Watch = "Watch",
        GetRevision = "GetRevision",
        GetAssets = "GetAssets",
        WatchQuarantine = "WatchQuarantine",
        Report = "Report",
        ReportTraffic = "ReportTraffic",
    }
}

/// The reason why a caller may not make a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denial {
    #[error(
        "only routers and nodes with a front may call this; present a router's certificate, or one \
         with the URI of a RuntimePool that has spec.front, which the operator must admit"
    )]
    RoutersOnly,
    #[error("only nodes may call this; present a node's certificate")]
    NodesOnly,
    #[error(
        "the pool of this node is unknown; present a certificate with the URI of a RuntimePool, or \
         connect from the address of a node"
    )]
    NoPool,
    #[error("no Worker of this node's RuntimePool needs the revision")]
    OtherPool {
        caller: CallerPool,
        /// The pools whose nodes may run the revision. The caller must not learn them.
        pools: Vec<String>,
    },
}

impl From<Denial> for Status {
    fn from(denial: Denial) -> Self {
        Self::permission_denied(denial.to_string())
    }
}

impl From<Option<Principal>> for Membership {
    fn from(principal: Option<Principal>) -> Self {
        match principal {
            Some(Principal::Pool(name)) => Self::Named(name),
            Some(Principal::Operator | Principal::Router) => Self::NotAPool,
            None => Self::Unnamed,
        }
    }
}

impl Certificate {
    /// Returns the pool that a node's certificate names.
    fn named_pool(&self) -> Option<&str> {
        match &self.pool {
            Membership::Named(pool) if self.is_node => Some(pool),
            Membership::Named(_) | Membership::Unnamed | Membership::NotAPool => None,
        }
    }
}

impl Caller {
    /// Returns the origin of a request.
    pub(super) fn of<T>(request: &Request<T>) -> Result<&Self, Status> {
        let unknown = || Status::internal("the origin of the connection is unknown");
        request.extensions().get().ok_or_else(unknown)
    }

    /// Checks that the caller is a router, or a node with a front. Without TLS, every caller
    /// passes.
    ///
    /// # Arguments
    /// * `fronts` - the pools whose nodes have fronts.
    ///
    /// # Errors
    /// Fails if the caller's certificate is neither a router's nor that of such a pool.
    pub(super) fn check_router(&self, fronts: &BTreeSet<String>) -> Result<(), Denial> {
        let Some(certificate) = &self.certificate else { return Ok(()) };
        let has_front = certificate.named_pool().is_some_and(|pool| fronts.contains(pool));
        if certificate.is_router || has_front { Ok(()) } else { Err(Denial::RoutersOnly) }
    }

    /// Returns whether the caller gets the certificates of Gateways with their keys: a router, but
    /// no node, because the code of tenants runs in the processes of nodes. Without TLS, every
    /// caller counts as a router.
    pub(super) fn gets_certificates(&self) -> bool {
        let certificate = self.certificate.as_ref();
        certificate.is_none_or(|certificate| certificate.is_router && !certificate.is_node)
    }

    /// Returns whether the caller is a node whose certificate names a pool. Such a node has a front
    /// if its pool has one.
    pub(super) fn may_have_front(&self) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.named_pool().is_some())
    }

    /// Returns the pool of the node that calls.
    ///
    /// # Errors
    /// Fails if the caller is not a node, or belongs to no pool.
    pub(super) fn pool(&self, addresses: &Addresses) -> Result<CallerPool, Denial> {
        let Some(certificate) = &self.certificate else { return Ok(CallerPool::Any) };
        if !certificate.is_node {
            return Err(Denial::NodesOnly);
        }
        let pool = match &certificate.pool {
            Membership::Named(pool) => Some(pool.as_str()),
            Membership::Unnamed => addresses.pool(self.address.ip()),
            Membership::NotAPool => None,
        };
        pool.map(|pool| CallerPool::Of(pool.to_owned())).ok_or(Denial::NoPool)
    }
}

impl fmt::Display for CallerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Of(pool) => pool,
        })
    }
}

impl CallerPool {
    /// Returns whether the caller may see what belongs to `pool`.
    pub(super) fn covers(&self, pool: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Of(own) => own == pool,
        }
    }
}

/// The pools of the nodes by their addresses.
#[derive(Default)]
pub(super) struct Addresses {
    /// The pools of the nodes that have an address, by the nodes' names.
    by_address: HashMap<IpAddr, BTreeMap<String, String>>,
    /// The address of each node.
    by_node: HashMap<String, IpAddr>,
}

impl Addresses {
    /// Adds a node, or replaces the one with the same name. A node whose address is not an IP
    /// address is left out.
    pub(super) fn set(&mut self, node: &Node) {
        self.remove(&node.name);
        if let Ok(address) = node.address.parse::<IpAddr>() {
            let address = address.to_canonical();
            self.by_node.insert(node.name.clone(), address);
            let nodes = self.by_address.entry(address).or_default();
            nodes.insert(node.name.clone(), node.pool.clone());
        }
    }

    pub(super) fn remove(&mut self, node: &str) {
        let Some(address) = self.by_node.remove(node) else { return };
        if let Some(nodes) = self.by_address.get_mut(&address) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    /// Returns the pool to which all nodes with this address belong, if there is one.
    fn pool(&self, address: IpAddr) -> Option<&str> {
        let mut pools = self.by_address.get(&address.to_canonical())?.values();
        let first = pools.next()?;
        pools.all(|pool| pool == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, pool: &str, address: &str) -> Node {
        let (name, pool, address) = (name.to_owned(), pool.to_owned(), address.to_owned());
        Node { name, pool, address, ..Node::default() }
    }

    fn caller(address: &str, pool: Membership) -> Caller {
        let certificate = Certificate { is_router: false, is_node: true, pool };
        Caller {
            address: SocketAddr::new(address.parse().unwrap(), 40_000),
            certificate: Some(certificate),
        }
    }

    fn addresses() -> Addresses {
        let mut addresses = Addresses::default();
        for node in [
            node("a", "default", "10.0.0.1"),
            node("b", "gpu", "10.0.0.2"),
            node("c", "default", "10.0.0.3"),
            node("d", "gpu", "10.0.0.3"),
            node("e", "gpu", "node.example"),
        ] {
            addresses.set(&node);
        }
        addresses
    }

    fn of(pool: &str) -> Result<CallerPool, Denial> {
        Ok(CallerPool::Of(pool.to_owned()))
    }

    #[test]
    fn a_node_belongs_to_the_pool_of_its_certificate_from_any_address() {
        let named = || Membership::Named("gpu".to_owned());
        for address in ["10.0.0.1", "192.0.2.1"] {
            assert_eq!(caller(address, named()).pool(&addresses()), of("gpu"));
        }
        let other = caller("10.0.0.1", Membership::NotAPool).pool(&addresses());
        assert_eq!(other, Err(Denial::NoPool));
    }

    #[test]
    fn a_node_without_a_named_pool_belongs_to_the_pool_of_its_address() {
        let pool = |address| caller(address, Membership::Unnamed).pool(&addresses());
        assert_eq!(pool("10.0.0.1"), of("default"));
        assert_eq!(pool("::ffff:10.0.0.2"), of("gpu"));
        assert_eq!(pool("10.0.0.3"), Err(Denial::NoPool), "nodes of two pools have the address");
        assert_eq!(pool("10.0.0.4"), Err(Denial::NoPool));
    }

    #[test]
    fn an_address_belongs_to_a_pool_for_as_long_as_a_node_has_it() {
        let mut addresses = addresses();
        addresses.remove("c");
        let pool = |addresses: &Addresses, address: &str| {
            caller(address, Membership::Unnamed).pool(addresses)
        };
        assert_eq!(pool(&addresses, "10.0.0.3"), of("gpu"));
        addresses.set(&node("d", "gpu", "10.0.0.9"));
        assert_eq!(pool(&addresses, "10.0.0.3"), Err(Denial::NoPool));
        assert_eq!(pool(&addresses, "10.0.0.9"), of("gpu"));
    }

    #[test]
    fn each_role_makes_only_its_own_calls() {
        let mut caller = caller("10.0.0.1", Membership::Unnamed);
        assert_eq!(caller.check_router(&BTreeSet::new()), Err(Denial::RoutersOnly));
        let pool = Membership::Unnamed;
        caller.certificate = Some(Certificate { is_router: true, is_node: false, pool });
        assert_eq!(caller.check_router(&BTreeSet::new()), Ok(()));
        assert!(caller.gets_certificates());
        assert_eq!(caller.pool(&addresses()), Err(Denial::NodesOnly));
        caller.certificate = None;
        assert_eq!(caller.check_router(&BTreeSet::new()), Ok(()));
        assert_eq!(caller.pool(&addresses()), Ok(CallerPool::Any));
    }

    #[test]
    fn a_node_whose_certificate_names_a_pool_with_a_front_also_makes_the_calls_of_routers() {
        let fronts = BTreeSet::from(["edge".to_owned()]);
        let named = |pool: &str| Membership::Named(pool.to_owned());
        assert_eq!(caller("10.0.0.1", named("edge")).check_router(&fronts), Ok(()));
        assert!(!caller("10.0.0.1", named("edge")).gets_certificates());
        for other in [named("default"), Membership::Unnamed, Membership::NotAPool] {
            let denied = caller("10.0.0.1", other).check_router(&fronts);
            assert_eq!(denied, Err(Denial::RoutersOnly));
        }
        let mut of_another_role = caller("10.0.0.1", named("edge"));
        let certificate = of_another_role.certificate.as_mut().unwrap();
        (certificate.is_node, certificate.is_router) = (false, false);
        assert_eq!(of_another_role.check_router(&fronts), Err(Denial::RoutersOnly));
    }
}
