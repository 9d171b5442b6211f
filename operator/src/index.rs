//! The index: the cluster's objects, as the reconciler and the catalog need them.
//! This module is pure.
//!
//! ```text
//!  Worker, WorkerRevision, RuntimePool, HostGrant, Namespace, ConfigMap, Secret, EndpointSlice,
//!  Service, GatewayClass, Gateway, HTTPRoute, ReferenceGrant
//!                        │
//!                     Change
//!                        ▼
//!                      Index ──► Touched: Workers, nodes, hosts
//!                        ├──── Candidate ──► reconciler
//!                        └─── ServingState ─► catalog
//! ```
//!
//! Every replica has an index, fed by its own watches. A change touches only the Workers that
//! depend on the object. Its cost does not grow with the number of Workers, except for changed
//! settings of a pool and for wildcard hosts, both of which are rare.

mod apply;
mod candidate;
mod change;
mod gateway;
mod shared;
mod users;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use sha2::{Digest as _, Sha256};
use tenon_catalog::{Deployment, Digest, Share};
use tenon_certificates::secrets::Pools;
use tenon_crds::{
    Accepted, AcceptedTarget, Affinity, AllowedNamespaces, PoolLimits, PoolRateLimits,
    PullSecretRef, Quarantine, SecretKeyRef, Worker, WorkerRevision, WorkerStatus,
};
use tenon_gateway::{Changed, Gateways};
use tenon_proto::catalog::{Node, Route};
use tenon_proto::id::{ArtifactDigest, WorkerId};
use tenon_proto::revision::Revision;

use crate::artifacts::Source;
use crate::author;
use crate::claims::{Claimant, Claims, Holder};
use crate::endpoints::Routers;
use crate::grants::Grants;
use crate::limits;
use crate::measurement::measurement;
use crate::namespaces::{Access, Namespaces};
use crate::revision::{self, MissingSecret};
use crate::worker::queue::Author;

pub use candidate::{Candidate, Published, SourceState};
use change::store;
pub use change::{Change, Key, Touched, Watched, key};
pub use gateway::GatewayStatusUpdate;
pub use shared::SharedIndex;
use users::Users;

/// The settings of a pool that concern its Workers.
#[derive(Clone, Default, PartialEq)]
struct PoolSettings {
    limits: PoolLimits,
    rate_limits: PoolRateLimits,
    allowed_namespaces: AllowedNamespaces,
}

/// The settings of the platform that concern Workers.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The domain below which Workers without routes get their hosts.
    pub domain: String,
    /// The namespace in which the nodes run.
    pub namespace: String,
    /// Whether Workers may claim a host outside of the domain only if a HostGrant allows it.
    pub requires_grants: bool,
}

/// The result of [`Index::serving`].
pub enum ServingState {
    /// The Worker has been deleted, or has never been accepted.
    None,
    /// Each WorkerRevision that should serve has not been seen, was deleted, or cannot be resolved
    /// and has no recorded digest. The catalog keeps its previous entry.
    Unresolved,
    Serving(Box<Deployment>),
}

pub struct Index {
    platform: Platform,
    workers: HashMap<WorkerId, Arc<Worker>>,
    /// The Workers of each namespace.
    workers_by_namespace: HashMap<String, BTreeSet<WorkerId>>,
    namespaces: Namespaces,
    grants: Grants,
    /// WorkerRevisions by Worker, then by name.
    revisions: HashMap<WorkerId, BTreeMap<String, Arc<WorkerRevision>>>,
    /// The settings of each pool that concern Workers, by its name.
    pools: HashMap<String, PoolSettings>,
    /// The owner references of the pools that are not being deleted: a pool owns the Secret of its
    /// nodes.
    owners: Pools,
    /// The pools with a front.
    fronts: BTreeSet<String>,
    config_maps: HashMap<Key, Arc<ConfigMap>>,
    secrets: HashMap<Key, Arc<Secret>>,
    config_map_users: Users,
    secret_users: Users,
    claims: Claims,
    gateways: Gateways,
    /// The nodes of each EndpointSlice.
    slices: HashMap<Key, Vec<Node>>,
    /// The ready routers in each EndpointSlice of the routers.
    router_slices: HashMap<Key, Routers>,
}

impl Index {
    /// Creates the empty index of a platform in the namespace `tenon-system` that requires no
    /// grants.
    ///
    /// # Arguments
    /// * `domain` - the domain below which Workers without routes get their hosts.
    pub fn new(domain: impl Into<String>) -> Self {
        let (domain, namespace) = (domain.into(), "tenon-system".to_owned());
        Self::of(Platform { domain, namespace, requires_grants: false })
    }

    /// Creates the empty index of a platform.
    pub fn of(platform: Platform) -> Self {
        Self {
            claims: Claims::new(platform.domain.clone()),
            grants: Grants::new(platform.domain.clone(), platform.requires_grants),
            platform,
            namespaces: Namespaces::default(),
            workers_by_namespace: HashMap::new(),
            workers: HashMap::new(),
            revisions: HashMap::new(),
            pools: HashMap::new(),
            owners: Pools::new(),
            fronts: BTreeSet::new(),
            config_maps: HashMap::new(),
            secrets: HashMap::new(),
            config_map_users: Users::default(),
            secret_users: Users::default(),
            gateways: Gateways::default(),
            slices: HashMap::new(),
            router_slices: HashMap::new(),
        }
    }

    /// Applies a change, and returns what it affects.
    pub fn apply(&mut self, change: Change) -> Touched {
        match change {
            Change::Worker(Watched::Applied(worker)) => self.set_worker(worker),
            Change::Worker(Watched::Deleted((namespace, name))) => {
                self.remove_worker(&WorkerId::new(&namespace, &name))
            }
            Change::Revision(watched) => self.apply_revision(watched),
            Change::Pool(watched) => self.apply_pool(watched),
            Change::Grant(watched) => self.apply_grant(watched),
            Change::Namespace(watched) => self.apply_namespace(watched),
            Change::ConfigMap(watched) => {
                let key = store(&mut self.config_maps, watched);
                Touched::workers(self.config_map_users.get(&key))
            }
            Change::Secret(watched) => self.apply_secret(watched),
            Change::Slice(watched) => self.apply_slice(watched),
            Change::RouterSlice(watched) => self.apply_router_slice(watched),
            Change::RouterService(watched) => self.apply_router_service(watched),
            Change::GatewayClass(watched) => self.apply_gateway_class(watched),
            Change::Gateway(watched) => self.apply_gateway(watched),
            Change::HttpRoute(watched) => self.apply_http_route(watched),
            Change::ReferenceGrant(watched) => self.apply_reference_grant(watched),
            Change::NoGatewayApi => self.change_gateways(Changed::NoGatewayApi),
        }
    }

    /// Returns the ids of all Workers.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerId> {
        self.workers.keys()
    }

    pub fn worker(&self, id: &WorkerId) -> Option<Arc<Worker>> {
        self.workers.get(id).cloned()
    }

    /// Returns the author of the Worker's latest change.
    pub fn author(&self, id: &WorkerId) -> Author {
        author::of(self.workers.get(id).and_then(|worker| worker.metadata.managed_fields.as_ref()))
    }

    /// Returns whether the Worker's status names crash loops or a quarantine.
    pub fn is_unhealthy(&self, id: &WorkerId) -> bool {
        self.status(id)
            .is_some_and(|status| !status.crash_loops.is_empty() || status.quarantine.is_some())
    }

    /// Returns the quarantine in the Worker's status, if it is about a revision that serves.
    pub fn quarantine(&self, id: &WorkerId) -> Option<Quarantine> {
        let status = self.status(id)?;
        let quarantine = status.quarantine.as_ref()?;
        status.serves(&quarantine.revision).then(|| quarantine.clone())
    }

    /// Returns whether the Worker's status has figures of a rollout that it no longer has.
    pub fn has_stale_figures(&self, id: &WorkerId) -> bool {
        self.status(id)
            .is_some_and(|status| status.rollout_figures.is_some() && status.rollout.is_none())
    }

    fn status(&self, id: &WorkerId) -> Option<&WorkerStatus> {
        self.workers.get(id)?.status.as_ref()
    }

    /// Returns whether the Worker has schedules, or its status names some.
    pub fn is_scheduled(&self, id: &WorkerId) -> bool {
        self.workers.get(id).is_some_and(|worker| has_schedules(worker))
    }

    /// Returns the ids of all Workers for which [`is_scheduled`](Self::is_scheduled) holds.
    pub fn scheduled(&self) -> Vec<WorkerId> {
        let scheduled = self.workers.iter().filter(|(_, worker)| has_schedules(worker));
        scheduled.map(|(id, _)| id.clone()).collect()
    }

    /// Returns what the reconciler needs to plan a Worker. The caller adds the content of the
    /// catalog. Returns `None` if the Worker has been deleted.
    pub fn candidate(&self, id: &WorkerId) -> Option<Candidate> {
        let worker = self.workers.get(id)?.clone();
        let in_namespace = |name: &str| (id.namespace().to_owned(), name.to_owned());
        let names = worker.spec.secrets.iter().map(|secret| &secret.secret_key_ref.name);
        let secrets = names
            .filter_map(|name| Some((name.clone(), self.secrets.get(&in_namespace(name))?.clone())))
            .collect();
        let spec = &worker.spec.source;
        let source = match (&spec.config_map_ref, &spec.oci) {
            (None, Some(oci)) => SourceState::Artifact {
                pull_secret: self.pull_secret(id, oci.pull_secret_ref.as_ref()),
                oci: oci.clone(),
            },
            (None, None) => {
                SourceState::Modules(revision::join_modules(spec.modules.iter().flatten(), []))
            }
            (Some(reference), _) => match self.config_maps.get(&in_namespace(&reference.name)) {
                Some(config_map) => {
                    SourceState::Modules(revision::modules_of_config_map(config_map))
                }
                None => SourceState::MissingConfigMap(reference.name.clone()),
            },
        };
        let revisions = self
            .revisions
            .get(id)
            .map(|by_name| by_name.values().cloned().collect())
            .unwrap_or_default();
        let with_holder = |route: Route| {
            let holder = self.holder(id, &route);
            (route, holder)
        };
        let routes = revision::routes(&worker, &self.platform.domain).into_iter().map(with_holder);
        let previews =
            revision::previews(&worker, &self.platform.domain).into_iter().map(with_holder);
        let pool = self.pools.get(&worker.spec.pool);
        let access = pool.map_or(Access::Allowed, |pool| {
            let allowed = &pool.allowed_namespaces;
            self.namespaces.access(allowed, id.namespace(), &self.platform.namespace)
        });
        Some(Candidate {
            id: id.clone(),
            source,
            secrets,
            revisions,
            pool: pool.map(|pool| pool.limits),
            access,
            routes: routes.collect(),
            previews: previews.collect(),
            missing_secrets: self.missing_secrets(id, &worker),
            serving: Vec::new(),
            published: None,
            worker,
        })
    }

    /// Returns the missing Secrets of the revisions that may serve besides the latest one, by
    /// revision: those that `spec.traffic` names, and the stable one of a rollout.
    fn missing_secrets(&self, id: &WorkerId, worker: &Worker) -> BTreeMap<String, MissingSecret> {
        let named = worker.spec.traffic.iter().filter_map(|target| target.revision.as_ref());
        let rollout = worker.status.iter().flat_map(|status| &status.rollout);
        let named = named.chain(rollout.filter_map(|rollout| rollout.stable.as_ref()));
        let revisions = self.revisions.get(id);
        let missing = named.filter_map(|name| {
            let bound = &revisions?.get(name)?.spec.secrets;
            let missing = revision::missing_secret(bound, |reference| self.value(id, reference))?;
            Some((name.clone(), missing))
        });
        missing.collect()
    }

    /// Returns the catalog's entry for a Worker, which follows from what was accepted and not from
    /// its spec: the revisions that its status names, with resolved bindings, and its placement.
    pub fn serving(&self, id: &WorkerId) -> ServingState {
        let Some(status) = self.status(id) else { return ServingState::None };
        let (Some(accepted), Some(_)) = (&status.accepted, &status.latest_revision) else {
            return ServingState::None;
        };
        let mut shares: Vec<Share> = Vec::new();
        for target in &*status.targets() {
            // A deleted revision must not keep the others from serving.
            let Some(share) = self.share(id, accepted, target) else { continue };
            match shares.iter_mut().find(|other| other.revision.name == share.revision.name) {
                // Two targets may name one revision: one as the latest revision, and one by its
                // name.
                Some(other) => {
                    other.percent += share.percent;
                    other.routes.extend(share.routes);
                }
                None => shares.push(share),
            }
        }
        if shares.is_empty() {
            return ServingState::Unresolved;
        }
        // The targets that receive requests keep their order, because the order determines which
        // revision session affinity selects. A router that does not know variants sends all
        // requests to the first revision, which therefore must have a share.
        shares.sort_by_key(|share| share.percent == 0);
        let routes = revision::accepted_routes(accepted);
        let of_pool = self.pools.get(&accepted.pool).map(|pool| pool.rate_limits);
        ServingState::Serving(Box::new(Deployment {
            worker: id.clone(),
            pool: accepted.pool.clone(),
            routes: routes.filter(|route| self.is_held(id, route)).collect(),
            session_affinity: revision::session_affinity(accepted),
            strict_affinity: accepted.affinity == Affinity::Strict,
            rate_limits: limits::rates(accepted.rate_limits, of_pool.unwrap_or_default()),
            measurement: measurement(status),
            shares,
        }))
    }

    /// Returns the share of an accepted revision, or `None` if the revision cannot be resolved and
    /// no digest of it is recorded.
    fn share(&self, id: &WorkerId, accepted: &Accepted, target: &AcceptedTarget) -> Option<Share> {
        let name = &target.revision;
        let snapshot = self.revisions.get(id)?.get(name)?;
        let limits = self.pools.get(&accepted.pool).map(|pool| pool.limits).unwrap_or_default();
        let resolve = |secret: &dyn Fn(&SecretKeyRef) -> Option<String>| {
            let mut revision = revision::resolve(id, name, &snapshot.spec, &limits, secret).ok()?;
            revision.salt = self.salt(id, &snapshot.spec.secrets);
            Some(revision)
        };
        let (revision, digest) = match resolve(&|reference| self.value(id, reference)) {
            Some(revision) => {
                let digest = revision.digest();
                (revision, Digest::Resolved(digest))
            }
            None => {
                let digest = target.digest.as_ref()?.parse().ok()?;
                (resolve(&|_| Some(String::new()))?, Digest::Held(digest))
            }
        };
        let preview = target.host.iter().map(|host| revision::preview(host));
        Some(Share {
            revision: Arc::new(revision),
            digest,
            percent: u32::try_from(target.percent).unwrap_or(0),
            routes: preview.filter(|route| self.is_held(id, route)).collect(),
        })
    }

    fn is_held(&self, id: &WorkerId, route: &Route) -> bool {
        self.holder(id, route) == Holder::Claimant
    }

    fn holder(&self, claimant: impl Into<Claimant>, route: &Route) -> Holder {
        let permits =
            |host: &str, namespace: &str| self.grants.permits(host, namespace, &self.namespaces);
        self.claims.holder(claimant, route, &permits)
    }

    /// Returns the digest of the layer with an accepted revision's static files, if it has any.
    pub fn assets(&self, revision: &Revision) -> Option<ArtifactDigest> {
        let by_name = self.revisions.get(&revision.worker)?;
        by_name.get(&revision.name)?.spec.artifact.as_ref()?.assets.as_ref()?.parse().ok()
    }

    /// Returns the artifact of an accepted revision, if its code is in one.
    pub fn artifact(&self, revision: &Revision) -> Option<Source> {
        let (id, by_name) = (&revision.worker, self.revisions.get(&revision.worker)?);
        let artifact = by_name.get(&revision.name)?.spec.artifact.as_ref()?;
        Some(Source {
            namespace: id.namespace().to_owned(),
            image: artifact.image.clone(),
            digest: revision.artifact,
            pull_secret: self.pull_secret(id, artifact.pull_secret_ref.as_ref()),
            flags: revision.compatibility_flags.clone(),
            assets: revision.assets.is_some(),
        })
    }

    fn pull_secret(&self, id: &WorkerId, named: Option<&PullSecretRef>) -> Option<Arc<Secret>> {
        self.secrets.get(&(id.namespace().to_owned(), named?.name.clone())).cloned()
    }

    fn secret(&self, id: &WorkerId, reference: &SecretKeyRef) -> Option<&Arc<Secret>> {
        self.secrets.get(&(id.namespace().to_owned(), reference.name.clone()))
    }

    fn value(&self, id: &WorkerId, reference: &SecretKeyRef) -> Option<String> {
        secret_value(self.secret(id, reference)?, &reference.key)
    }

    /// Returns the salt of a revision that binds Secrets: a hash of their uids. A uid is 122 random
    /// bits, which an account can read only with the right to read the Secret, and it is the same
    /// for every replica.
    fn salt(&self, id: &WorkerId, bound: &[tenon_crds::Secret]) -> Bytes {
        let secrets = bound.iter().filter_map(|bound| self.secret(id, &bound.secret_key_ref));
        let uids: Vec<_> = secrets.filter_map(|secret| secret.metadata.uid.as_deref()).collect();
        if uids.is_empty() {
            return Bytes::new();
        }
        Bytes::copy_from_slice(&Sha256::digest(uids.join("\n")))
    }
}

fn has_schedules(worker: &Worker) -> bool {
    let has_status = worker.status.as_ref().is_some_and(|status| !status.schedules.is_empty());
    has_status || !worker.spec.schedules.is_empty()
}

/// Returns the value of a Secret's key, if the key exists and is UTF-8.
pub fn secret_value(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

#[cfg(test)]
mod tests;
