//! Applies changes of objects to the index, and finds the Workers and nodes that a change affects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use tenon_crds::{HostGrant, RuntimePool, Worker, WorkerRevision};
use tenon_gateway::Changed;
use tenon_proto::id::WorkerId;

use super::change::key;
use super::{Index, PoolSettings, Touched, Watched};
use crate::claims::Claimant;
use crate::endpoints;
use crate::owner;
use crate::revision;

impl Index {
    pub(super) fn set_worker(&mut self, worker: Arc<Worker>) -> Touched {
        let id = revision::worker_id(&worker);
        let config_maps =
            worker.spec.source.config_map_ref.iter().map(|reference| reference.name.clone());
        self.config_map_users.set(&id, config_maps.collect());
        let secrets = self.secret_names(&id, &worker);
        self.secret_users.set(&id, secrets);
        let since = worker.creation_timestamp().map(|time| time.0);
        let accepted = worker.status.iter().flat_map(|status| &status.accepted);
        let accepted_routes = accepted.flat_map(|accepted| {
            let hosts = accepted.traffic.iter().filter_map(|target| target.host.as_deref());
            revision::accepted_routes(accepted).chain(hosts.map(revision::preview))
        });
        let accepted_routes = accepted_routes.collect();
        let mut requested = revision::routes(&worker, &self.platform.domain);
        requested.extend(revision::previews(&worker, &self.platform.domain));
        let affected = self.claims.set(&id, since, accepted_routes, requested);
        self.workers_by_namespace.entry(id.namespace().to_owned()).or_default().insert(id.clone());
        let is_new = self.workers.insert(id.clone(), worker).is_none();
        self.touched_by_worker(&id, affected, is_new)
    }

    pub(super) fn remove_worker(&mut self, id: &WorkerId) -> Touched {
        let existed = self.workers.remove(id).is_some();
        if let Some(workers) = self.workers_by_namespace.get_mut(id.namespace()) {
            workers.remove(id);
            if workers.is_empty() {
                self.workers_by_namespace.remove(id.namespace());
            }
        }
        self.config_map_users.set(id, BTreeSet::new());
        self.secret_users.set(id, BTreeSet::new());
        let affected = self.claims.set(id, None, Vec::new(), Vec::new());
        self.touched_by_worker(id, affected, existed)
    }

    /// Returns the names of the Secrets that the Worker or one of its revisions binds, and of the
    /// Secret with which the Worker's artifact is pulled.
    fn secret_names(&self, id: &WorkerId, worker: &Worker) -> BTreeSet<String> {
        let bound = worker.spec.secrets.iter().map(|secret| &secret.secret_key_ref.name);
        let pull_secrets = worker.spec.source.oci.iter().flat_map(|oci| &oci.pull_secret_ref);
        let revisions = self.revisions.get(id).into_iter().flat_map(BTreeMap::values);
        let of_revisions = revisions
            .flat_map(|revision| &revision.spec.secrets)
            .map(|secret| &secret.secret_key_ref.name);
        bound
            .chain(pull_secrets.map(|reference| &reference.name))
            .chain(of_revisions)
            .cloned()
            .collect()
    }

    /// Applies a change of a revision. After the revision is deleted, its Worker counts as a user
    /// of the revision's Secrets until the next change of the Worker.
    pub(super) fn apply_revision(&mut self, watched: Watched<WorkerRevision>) -> Touched {
        let id = match watched {
            Watched::Applied(revision) => {
                let id =
                    WorkerId::new(&revision.namespace().unwrap_or_default(), &revision.spec.worker);
                for secret in &revision.spec.secrets {
                    self.secret_users.add(&id, secret.secret_key_ref.name.clone());
                }
                self.revisions.entry(id.clone()).or_default().insert(revision.name_any(), revision);
                id
            }
            Watched::Deleted((namespace, name)) => {
                let Some(worker) = revision::worker_of(&name) else { return Touched::default() };
                let id = WorkerId::new(&namespace, worker);
                if let Some(by_name) = self.revisions.get_mut(&id) {
                    by_name.remove(&name);
                    if by_name.is_empty() {
                        self.revisions.remove(&id);
                    }
                }
                id
            }
        };
        Touched::workers(BTreeSet::from([id]))
    }

    /// Applies a change of a pool. Only its existence and its settings affect the Workers in it and
    /// those that request it; its status changes often and affects none.
    pub(super) fn apply_pool(&mut self, watched: Watched<RuntimePool>) -> Touched {
        let (name, owner, has_front, settings) = match watched {
            Watched::Applied(pool) => {
                let owner =
                    owner::controller(&*pool).pop().filter(|_| !owner::is_being_deleted(&*pool));
                let settings = PoolSettings {
                    limits: pool.spec.limits,
                    rate_limits: pool.spec.rate_limits,
                    allowed_namespaces: pool.spec.allowed_namespaces.clone().unwrap_or_default(),
                };
                (pool.name_any(), owner, pool.spec.front.is_some(), Some(settings))
            }
            Watched::Deleted((_, name)) => (name, None, false, None),
        };
        let owned_before = match owner.clone() {
            Some(owner) => self.owners.insert(name.clone(), owner),
            None => self.owners.remove(&name),
        };
        let pools = (owned_before != owner).then(|| self.owners.clone());
        let front_changes = match has_front {
            true => self.fronts.insert(name.clone()),
            false => self.fronts.remove(&name),
        };
        let fronts = front_changes.then(|| self.fronts.clone());
        let before = match settings.clone() {
            Some(settings) => self.pools.insert(name.clone(), settings),
            None => self.pools.remove(&name),
        };
        if before == settings {
            return Touched { pools, fronts, ..Touched::default() };
        }
        let in_pool = |worker: &Worker| {
            let accepted = worker.status.as_ref().and_then(|status| status.accepted.as_ref());
            worker.spec.pool == name || accepted.is_some_and(|accepted| accepted.pool == name)
        };
        let affected = self.workers.iter().filter(|(_, worker)| in_pool(worker));
        let workers = affected.map(|(id, _)| id.clone()).collect();
        Touched { workers, pools, fronts, ..Touched::default() }
    }

    /// Applies a change of a grant, which affects the Workers and HTTPRoutes that claim its hosts,
    /// or hosts above or below them.
    pub(super) fn apply_grant(&mut self, watched: Watched<HostGrant>) -> Touched {
        let hosts = match watched {
            Watched::Applied(grant) => self.grants.set(&grant.name_any(), Some(&grant.spec)),
            Watched::Deleted((_, name)) => self.grants.set(&name, None),
        };
        let affected =
            hosts.iter().flat_map(|host| self.claims.affected_by_grants_of(host)).collect();
        self.touched_by_claims(affected)
    }

    /// Applies a change of a namespace. Only its labels affect other objects: the Workers and
    /// HTTPRoutes of the namespace, and those that claim the same hosts.
    pub(super) fn apply_namespace(
        &mut self,
        watched: Watched<PartialObjectMeta<Namespace>>,
    ) -> Touched {
        let (name, labels) = match watched {
            Watched::Applied(namespace) => (namespace.name_any(), Some(namespace.labels().clone())),
            Watched::Deleted((_, name)) => (name, None),
        };
        if !self.namespaces.set(&name, labels) {
            return Touched::default();
        }
        // The routes of the namespace attach before their claims are compared.
        let mut touched = self.change_gateways(Changed::Namespace(&name));
        let workers = self.workers_by_namespace.get(&name).cloned().unwrap_or_default();
        let claimants = workers.iter().map(Claimant::from).chain(self.http_routes_of(&name));
        let claimants: BTreeSet<_> = claimants.collect();
        let rivals = claimants.iter().flat_map(|claimant| self.claims.rivals_of(claimant));
        let rivals = rivals.collect::<BTreeSet<_>>().into_iter().chain(claimants.iter().cloned());
        touched.merge(self.touched_by_claims(rivals.collect()));
        touched
    }

    pub(super) fn apply_router_slice(&mut self, watched: Watched<EndpointSlice>) -> Touched {
        match watched {
            Watched::Applied(slice) => {
                self.router_slices.insert(key(&*slice), endpoints::routers(&slice));
            }
            Watched::Deleted(key) => {
                self.router_slices.remove(&key);
            }
        }
        let routers = self.router_slices.values().flatten();
        let routers = routers.map(|(name, listener)| (name.clone(), *listener)).collect();
        Touched { routers: Some(routers), ..Touched::default() }
    }

    pub(super) fn apply_slice(&mut self, watched: Watched<EndpointSlice>) -> Touched {
        let (key, nodes) = match watched {
            Watched::Applied(slice) => (key(&*slice), endpoints::nodes(&slice)),
            Watched::Deleted(key) => (key, Vec::new()),
        };
        let before = self.slices.insert(key.clone(), nodes.clone()).unwrap_or_default();
        if nodes.is_empty() {
            self.slices.remove(&key);
        }
        let elsewhere = |name: &str| self.slices.values().flatten().any(|node| node.name == name);
        let gone =
            before.iter().filter(|node| !elsewhere(&node.name)).map(|node| node.name.clone());
        let removed_nodes = gone.collect();
        let nodes = nodes.into_iter().filter(|node| !before.contains(node)).collect();
        Touched { nodes, removed_nodes, ..Touched::default() }
    }
}
