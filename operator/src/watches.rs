//! The watches: every event updates the index, and the affected Workers and nodes go to the catalog
//! and the reconcilers.
//!
//! ```text
//!  watch Worker ─────────┐
//!  watch WorkerRevision ─┤
//!  watch RuntimePool ────┤
//!  watch HostGrant ──────┤
//!  watch Namespace ──────┤
//!  watch ConfigMap ──────┼─ Change ─► Index ─► Touched ─┬─► Catalog
//!  watch Secret ─────────┤                              ├─► queue of the reconciler
//!  watch EndpointSlice ──┤                              ├─► health, figures
//!  watch Gateway API ────┘                              ├─► scheduler
//!                                                       └─► queue of statuses
//! ```
//!
//! An object that does not match its schema is skipped and reported; its previous state is kept.
//! [`observe`] watches one kind, and [`gateway`] the kinds of the Gateway API, which may be absent.

mod gateway;
mod observe;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Event, EventType};
use kube::runtime::watcher;
use kube::{Api, Client};
use tenon_catalog::Catalog;
use tenon_certificates::secrets::Pools;
use tenon_crds::POOL_LABEL;
use tenon_gateway::Subject;
use tenon_lifecycle::readiness::Handle;
use tenon_proto::id::WorkerId;
use tokio::sync::{mpsc, watch};

use crate::deployments::Deployments;
use crate::events::Events;
use crate::health::HealthTrigger;
use crate::index::{Change, ServingState, SharedIndex, Touched, Watched};
use crate::metrics::Metrics;
use crate::revision;
use gateway::{GATEWAY_API, observe_gateway_api};
use observe::{Observation, observe, observe_metadata};

/// Feeds the index, the catalog and the queues.
pub struct Watches {
    pub client: Client,
    /// The operator's own namespace. EndpointSlices of other namespaces are ignored: a tenant with
    /// the right to write one there could otherwise direct other tenants' code and secrets to an
    /// address of its choice.
    pub namespace: String,
    /// The Service of the routers in the operator's namespace. Its ready endpoints are counted,
    /// because the routers share rate limits. If `None`, they are not counted.
    pub router_service: Option<String>,
    /// Receives the addresses of the internal listeners of all ready routers.
    pub routers_tx: watch::Sender<Vec<SocketAddr>>,
    pub index: SharedIndex,
    pub catalog: Catalog,
    pub touched_tx: mpsc::UnboundedSender<WorkerId>,
    pub health_tx: mpsc::UnboundedSender<HealthTrigger>,
    /// Receives the Workers with figures of a rollout that they no longer have.
    pub stale_tx: mpsc::UnboundedSender<WorkerId>,
    pub scheduled_tx: mpsc::UnboundedSender<WorkerId>,
    /// Receives the objects of the Gateway API whose statuses may have changed.
    pub gateway_tx: mpsc::UnboundedSender<Subject>,
    /// The public Service of the routers in the operator's namespace, if HTTPRoutes are served.
    pub gateway_service: Option<String>,
    /// Receives all pools when one is created or deleted.
    pub pools_tx: watch::Sender<Pools>,
    /// Whether the nodes of pools with a front count as routers too.
    pub admit_fronts: bool,
    pub events: Events,
    pub metrics: Arc<Metrics>,
}

impl Watches {
    /// Watches for the lifetime of the process.
    ///
    /// # Arguments
    /// * `ready` - dropped when every kind has been listed and the catalog is complete.
    pub async fn run(self, ready: Handle) {
        let client = &self.client;
        let pool_slices = watcher::Config::default().labels(POOL_LABEL);
        let any = watcher::Config::default;
        // Helm stores its releases in Secrets of up to a megabyte. No Worker uses these Secrets,
        // and the index would keep all of them in memory.
        let without_helm = watcher::Config::default().fields("type!=helm.sh/release.v1");
        let slices = Api::namespaced(client.clone(), &self.namespace);
        let mut observed = stream::select_all([
            observe(Api::all(client.clone()), "Worker", any(), Change::Worker, &self.metrics),
            observe(
                Api::all(client.clone()),
                "WorkerRevision",
                any(),
                Change::Revision,
                &self.metrics,
            ),
            observe(Api::all(client.clone()), "RuntimePool", any(), Change::Pool, &self.metrics),
            observe(Api::all(client.clone()), "HostGrant", any(), Change::Grant, &self.metrics),
            observe_metadata(
                Api::all(client.clone()),
                "Namespace",
                Change::Namespace,
                &self.metrics,
            ),
            observe(Api::all(client.clone()), "ConfigMap", any(), Change::ConfigMap, &self.metrics),
            observe(
                Api::all(client.clone()),
                "Secret",
                without_helm,
                Change::Secret,
                &self.metrics,
            ),
            observe(slices.clone(), "EndpointSlice", pool_slices, Change::Slice, &self.metrics),
        ]);
        let mut unsynced = HashSet::from([
            "Worker",
            "WorkerRevision",
            "RuntimePool",
            "HostGrant",
            "Namespace",
            "ConfigMap",
            "Secret",
            "EndpointSlice",
        ]);
        if let Some(service) = &self.router_service {
            let of_routers = format!("kubernetes.io/service-name={service}");
            let of_routers = any().labels(&of_routers);
            let kind = "RouterEndpointSlice";
            observed.push(observe(slices, kind, of_routers, Change::RouterSlice, &self.metrics));
            unsynced.insert(kind);
        }
        if let Some(service) = &self.gateway_service {
            let services = Api::namespaced(client.clone(), &self.namespace);
            let name = format!("metadata.name={service}");
            let (kind, change) = ("RouterService", Change::RouterService);
            observed.push(observe(services, kind, any().fields(&name), change, &self.metrics));
            observed.push(observe_gateway_api(client.clone(), self.metrics.clone()));
            unsynced.extend([kind, GATEWAY_API]);
        }
        let mut ready = Some(ready);
        let mut published = Published::default();
        let mut deployments = Deployments::default();
        while let Some(observed) = observed.next().await {
            match observed {
                Observation::Change(change) => {
                    self.track_deployment(&change, &mut deployments);
                    let touched = self.index.with(|index| index.apply(*change));
                    self.publish(touched, &mut published);
                }
                Observation::Synced(kind) => {
                    unsynced.remove(kind);
                    if unsynced.is_empty() && ready.take().is_some() {
                        self.catalog.mark_synced();
                        tracing::info!(
                            workers = self.index.with(|index| index.workers().count()),
                            "synced"
                        );
                    }
                }
                Observation::Malformed(reference, error) => self.report(&reference, error).await,
            }
        }
    }

    fn track_deployment(&self, change: &Change, deployments: &mut Deployments) {
        let duration = match change {
            Change::Worker(Watched::Applied(worker)) => {
                deployments.observe(&revision::worker_id(worker), worker, Instant::now())
            }
            Change::Worker(Watched::Deleted((namespace, name))) => {
                deployments.forget(&WorkerId::new(namespace, name));
                None
            }
            _ => return,
        };
        self.metrics.deployments.set(deployments, duration);
    }

    fn publish(&self, touched: Touched, published: &mut Published) {
        if let Some(routers) = touched.routers {
            self.catalog.set_routers(u32::try_from(routers.len()).unwrap_or(u32::MAX));
            let addresses: Vec<_> = routers.into_values().flatten().collect();
            self.routers_tx.send_if_modified(|known| {
                let is_new = *known != addresses;
                *known = addresses;
                is_new
            });
        }
        if let Some(pools) = touched.pools {
            self.pools_tx.send_replace(pools);
        }
        if let Some(fronts) = touched.fronts.filter(|_| self.admit_fronts) {
            self.catalog.set_fronts(fronts);
        }
        for node in touched.nodes {
            self.catalog.set_node(node);
        }
        for name in touched.removed_nodes {
            self.catalog.remove_node(&name);
        }
        self.catalog.set_hosts(touched.hosts, touched.certificates);
        for subject in touched.gateway_subjects {
            // The receiver lives as long as the process.
            let _ = self.gateway_tx.send(subject);
        }
        for id in touched.workers {
            let mut redeployed = false;
            match self.index.with(|index| index.serving(&id)) {
                ServingState::None => {
                    if published.0.remove(&id).is_some() {
                        self.catalog.remove_worker(&id);
                    }
                }
                // The catalog keeps the previous entry.
                ServingState::Unresolved => {}
                ServingState::Serving(deployment) => {
                    let serving = self.catalog.serving(&id);
                    let added = self.catalog.deploy(*deployment);
                    // After a restart, code is pulled when a node needs it.
                    if self.catalog.is_synced() {
                        added.iter().for_each(|revision| self.catalog.prepare(revision));
                    }
                    let before = published.0.get(&id).copied();
                    // Reports about a revision that has other bindings now are void.
                    let served = |name: &str| serving.iter().any(|(served, _)| served.name == name);
                    redeployed = added.iter().any(|revision| served(&revision.name));
                    let at = if redeployed { Some(Timestamp::now()) } else { before.flatten() };
                    published.0.insert(id.clone(), at);
                }
            }
            self.quarantine(&id, published);
            // The receivers live as long as the process. A redeployment voids earlier reports,
            // including those already written.
            if redeployed || self.index.with(|index| index.is_unhealthy(&id)) {
                let _ = self.health_tx.send(HealthTrigger { id: id.clone(), redeployed });
            }
            if self.index.with(|index| index.has_stale_figures(&id)) {
                let _ = self.stale_tx.send(id.clone());
            }
            if self.index.with(|index| index.is_scheduled(&id)) {
                let _ = self.scheduled_tx.send(id.clone());
            }
            let _ = self.touched_tx.send(id);
        }
    }

    /// Makes nodes refuse the revision that the status names as quarantined. Another replica has
    /// received the report, or this replica did so before a restart.
    fn quarantine(&self, id: &WorkerId, published: &Published) {
        let Some(quarantine) = self.index.with(|index| index.quarantine(id)) else { return };
        let redeployed_at = published.0.get(id).copied().flatten();
        // Reports about the revision with other bindings are void. A status stores whole seconds.
        if redeployed_at.is_some_and(|at| quarantine.since.0.as_second() < at.as_second()) {
            return;
        }
        if let Ok(remaining) =
            Duration::try_from(quarantine.until.0.duration_since(Timestamp::now()))
        {
            let times = u32::try_from(quarantine.times).unwrap_or(1);
            self.catalog.quarantine(id, &quarantine.revision, remaining, times);
        }
    }

    async fn report(&self, reference: &ObjectReference, mut error: String) {
        // The whole note of an Event may have 1024 bytes.
        error.truncate(error.floor_char_boundary(900));
        let event = Event {
            type_: EventType::Warning,
            reason: "Malformed".to_owned(),
            note: Some(format!(
                "the stored object does not match its schema and is skipped; apply it again: \
                 {error}"
            )),
            action: "Read".to_owned(),
            secondary: None,
        };
        self.events.publish(&event, reference).await;
    }
}

/// The Workers in the catalog, each with the time of its latest redeployment, which gave a serving
/// revision other bindings and so another digest. `None` if the Worker has not been redeployed.
#[derive(Default)]
struct Published(HashMap<WorkerId, Option<Timestamp>>);
