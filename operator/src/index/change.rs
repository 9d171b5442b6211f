//! The changes that watches report, and the Workers, nodes and hosts that they affect.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use tenon_certificates::secrets::Pools;
use tenon_crds::{HostGrant, RuntimePool, Worker, WorkerRevision};
use tenon_gateway::Subject;
use tenon_gateway::objects::{Gateway, GatewayClass, HttpRoute, ReferenceGrant};
use tenon_proto::catalog::{GatewayCertificate, HostRules, Node};
use tenon_proto::id::WorkerId;

use crate::endpoints::Routers;

/// Namespace and name of an object.
pub type Key = (String, String);

/// One object that was added, changed or deleted, or the absence of the Gateway API's kinds.
pub enum Change {
    Worker(Watched<Worker>),
    Revision(Watched<WorkerRevision>),
    Pool(Watched<RuntimePool>),
    Grant(Watched<HostGrant>),
    /// The metadata of a namespace.
    Namespace(Watched<PartialObjectMeta<Namespace>>),
    ConfigMap(Watched<ConfigMap>),
    Secret(Watched<Secret>),
    /// An EndpointSlice of a pool's nodes.
    Slice(Watched<EndpointSlice>),
    /// An EndpointSlice of the routers.
    RouterSlice(Watched<EndpointSlice>),
    /// The public Service of the routers.
    RouterService(Watched<Service>),
    GatewayClass(Watched<GatewayClass>),
    Gateway(Watched<Gateway>),
    HttpRoute(Watched<HttpRoute>),
    ReferenceGrant(Watched<ReferenceGrant>),
    /// The kinds of the Gateway API do not exist.
    NoGatewayApi,
}

/// The state of one object according to a watch.
pub enum Watched<K> {
    Applied(Arc<K>),
    Deleted(Key),
}

/// The Workers, nodes and hosts that a change affects.
#[derive(Debug, Default, PartialEq)]
pub struct Touched {
    pub workers: BTreeSet<WorkerId>,
    pub nodes: Vec<Node>,
    pub removed_nodes: Vec<String>,
    /// The routers that are ready, if they may have changed.
    pub routers: Option<Routers>,
    /// All pools, if one was created or deleted.
    pub pools: Option<Pools>,
    /// The pools with a front, if a pool has gained or lost its front.
    pub fronts: Option<BTreeSet<String>>,
    /// The hosts with changed rules; `None` if a host has none any longer.
    pub hosts: BTreeMap<String, Option<HostRules>>,
    /// The hosts with changed certificates of Gateways; `None` if a host has none any longer.
    pub certificates: BTreeMap<String, Option<GatewayCertificate>>,
    /// The objects of the Gateway API whose statuses may have changed.
    pub gateway_subjects: BTreeSet<Subject>,
}

impl Touched {
    /// Returns the effect of a change that affects Workers only.
    pub(super) fn workers(workers: BTreeSet<WorkerId>) -> Self {
        Self { workers, ..Self::default() }
    }

    /// Adds the Workers, hosts, certificates and objects of another effect. Its other fields are
    /// ignored.
    pub(super) fn merge(&mut self, other: Self) {
        self.workers.extend(other.workers);
        self.hosts.extend(other.hosts);
        self.certificates.extend(other.certificates);
        self.gateway_subjects.extend(other.gateway_subjects);
    }
}

/// Returns an object's namespace and name.
pub fn key<K: Resource>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Stores the object of a watch under its key, or removes a deleted one, and returns the key.
pub(super) fn store<K: Resource>(objects: &mut HashMap<Key, Arc<K>>, watched: Watched<K>) -> Key {
    match watched {
        Watched::Applied(object) => {
            let key = key(&*object);
            objects.insert(key.clone(), object);
            key
        }
        Watched::Deleted(key) => {
            objects.remove(&key);
            key
        }
    }
}
