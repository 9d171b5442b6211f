//! The operator as its process uses it: configure, spawn and join.
//!
//! ```text
//!  Config, Client ─► spawn ─┬─► catalog server
//!                           ├─► watches ─┬─ synced ─► election ── leads? ──┐
//!                           │            ├───────────► queue ─► reconciler ◄┤
//!                           ├─► health ◄─┤                                 │
//!                           ├─► figures ◄┤                                 │
//!                           │            └───────────► scheduler ◄─────────┤
//!                           └─► pools, certificates ◄──────────────────────┘
//!                                 drain: election ends first, then the components, then the server
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt as _;
use http::Uri;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use prometheus::Registry;
use tenon_artifact::RegistryConfig;
use tenon_artifact::sites::Sites;
use tenon_artifact::store::Store;
use tenon_catalog::{AssetsSource, Authentication, Catalog, CodeSource, ReportSink};
use tenon_certificates::plan::Terms;
use tenon_certificates::secrets::Pools;
use tenon_compiler::process::Compiler;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Role, Tls, TlsError};
use tenon_proto::id::WorkerId;
use tenon_schedule::call::Caller;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::acknowledgement::{Acknowledgement, Acknowledgements};
use crate::artifacts::{ArtifactError, Artifacts};
use crate::certificates::Certificates;
use crate::config::{ArtifactConfig, Config, TlsSource};
use crate::early;
use crate::events::Events;
use crate::figures::FiguresWriter;
use crate::gateway;
use crate::health::Health;
use crate::host_grant;
use crate::index::{Candidate, Index, Platform, Published, SharedIndex};
use crate::leader::Election;
use crate::metrics::Metrics;
use crate::pool;
use crate::schedule::Scheduler;
use crate::watches::Watches;
use crate::worker::queue::{self, Order};
use crate::worker::{MANAGER, Reconciler};

/// Capacity of the channel of nodes' reports, each about one Worker. Reports are consumed far
/// faster than nodes send them.
const REPORTS: usize = 4096;

/// Capacity of the channel of routers' reports, each of which has entries for up to 200 revisions.
const TRAFFIC_REPORTS: usize = 256;

/// A running operator. If this value is dropped, its components stop; the election and the catalog
/// run until the drain passed to `spawn` begins.
pub struct Operator {
    catalog_addr: SocketAddr,
    /// The tasks without which the operator is useless. None of them ends by itself.
    components: JoinSet<()>,
    election: JoinHandle<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// The reason why an operator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot listen on {0}; free the port or set --catalog-listen")]
    Listen(SocketAddr, #[source] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot use --code-cache-dir: {0}")]
    CodeCache(#[source] io::Error),
    #[error("cannot use --assets-cache-dir: {0}")]
    AssetsCache(#[source] io::Error),
    #[error(transparent)]
    Registry(#[from] tenon_artifact::RegistryError),
    #[error("an operator's metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The reason why a running operator has failed. Its process must exit, or it would keep the Lease.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("a component of the operator failed")]
    Failed(#[source] JoinError),
    #[error("a component of the operator stopped")]
    Stopped,
    #[error(transparent)]
    Catalog(#[from] tonic::transport::Error),
}

impl Operator {
    /// Binds the catalog's listener and starts every component. `readiness` is held until the
    /// catalog is complete and, if the operator issues its own certificate, until it has one.
    ///
    /// # Arguments
    /// * `client` - the cluster, with the rights of the operator's ServiceAccount.
    /// * `registry` - must not have an operator's metrics yet.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, the certificate or an authority of the registries is
    /// invalid, a cache directory cannot be used, or the registry already has an operator's
    /// metrics.
    pub async fn spawn(
        config: Config,
        client: Client,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let certificate = Certificate::open(config.tls, registry)?;
        let metrics = Arc::new(Metrics::register(registry)?);
        let reporter =
            Reporter { controller: MANAGER.to_owned(), instance: Some(config.identity.clone()) };
        let events = Events::new(Recorder::new(client.clone(), reporter.clone()), &metrics.events);

        let compiler = Compiler::new(config.compiler);
        let artifacts = open_artifacts(config.artifacts, compiler.clone())?;
        let catalog = Catalog::new();
        registry.register(Box::new(catalog.metrics()?))?;
        let (reports_tx, reports_rx) = mpsc::channel(REPORTS);
        catalog.set_report_sink(ReportSink { reports_tx, outcomes: metrics.reports.clone() });
        let (figures_tx, figures_rx) = mpsc::channel(TRAFFIC_REPORTS);
        catalog.set_figures_sink(figures_tx);
        let unavailable = |error| SpawnError::Listen(config.catalog_listen, error);
        let listener = TcpListener::bind(config.catalog_listen).await.map_err(unavailable)?;
        let catalog_addr = listener.local_addr().map_err(unavailable)?;
        let serving = tokio::spawn(tenon_catalog::serve(
            listener,
            certificate
                .for_process()
                .map(|tls| Authentication { tls, namespace: config.namespace.clone() }),
            catalog.clone(),
            drain.clone(),
        ));

        let (leading_tx, leading_rx) = watch::channel(false);
        let election = Election::new(client.clone(), &config.namespace, config.identity);
        let leader = election.fenced(&client);
        let leader_events = events.with(Recorder::new(leader.clone(), reporter));
        let election =
            tokio::spawn(stand_for_election(election, leading_tx, catalog.clone(), drain.clone()));
        tokio::spawn(observe_leadership(leading_rx.clone(), metrics.clone()));

        let mut components = JoinSet::new();
        let (router, process_tls) = (config.router.clone(), certificate.for_process());
        let router_service = service_of(&config.router);
        let caller = Caller::new(config.router, certificate.for_process());
        let (pools_tx, pools_rx) = watch::channel(Pools::new());
        if let Certificate::SelfSigned { tls, terms, deployment } = certificate {
            let certificates = Certificates {
                client: leader.clone(),
                namespace: config.namespace.clone(),
                deployment,
                terms,
                tls,
                leading_rx: leading_rx.clone(),
                pools_rx,
                metrics: metrics.clone(),
            };
            components.spawn(certificates.run(readiness.hold("certificate")));
        }
        let platform = Platform {
            domain: config.domain.clone(),
            namespace: config.namespace.clone(),
            requires_grants: config.requires_grants,
        };
        catalog.set_early_source(early::source(
            client.clone(),
            platform.clone(),
            artifacts.clone(),
        ));
        let index = SharedIndex::new(Index::of(platform));
        catalog.set_code_source(code_source(artifacts.clone(), index.clone()));
        catalog.set_assets_source(assets_source(artifacts.clone(), index.clone()));
        let (touched_tx, touched_rx) = mpsc::unbounded_channel();
        let (routers_tx, routers_rx) = watch::channel(Vec::new());
        let acknowledgements =
            Acknowledgements::new(router, process_tls, routers_rx, touched_tx.clone());
        let (health_tx, health_rx) = mpsc::unbounded_channel();
        let (stale_tx, stale_rx) = mpsc::unbounded_channel();
        let (scheduled_tx, scheduled_rx) = mpsc::unbounded_channel();
        let (gateway_tx, gateway_rx) = mpsc::unbounded_channel();
        let watches = Watches {
            client: client.clone(),
            namespace: config.namespace.clone(),
            router_service,
            routers_tx,
            index: index.clone(),
            catalog: catalog.clone(),
            touched_tx,
            health_tx,
            stale_tx,
            scheduled_tx,
            gateway_tx,
            gateway_service: config.gateway_service,
            pools_tx,
            admit_fronts: config.nodes.admit_fronts,
            events: events.clone(),
            metrics: metrics.clone(),
        };
        components.spawn(watches.run(readiness.hold("catalog")));
        let health = Health::new(client.clone(), events.clone(), index.clone(), metrics.clone());
        components.spawn(health.run(reports_rx, health_rx));
        let figures = FiguresWriter::new(client.clone(), index.clone(), metrics.clone());
        components.spawn(figures.run(figures_rx, stale_rx));
        let scheduler = Scheduler::new(
            leader.clone(),
            // A call in flight may outlive the term, and the Event of its failure must be written.
            events,
            index.clone(),
            metrics.clone(),
            caller,
            drain,
        );
        components.spawn(scheduler.run(scheduled_rx, leading_rx.clone()));
        let reconciler = Reconciler::new(
            leader.clone(),
            leader_events,
            metrics.clone(),
            compiler,
            artifacts,
            acknowledgements.clone(),
        );
        components.spawn(gateway::run(gateway::Context {
            client: leader.clone(),
            index: index.clone(),
            touched_rx: gateway_rx,
            leading_rx: leading_rx.clone(),
            metrics: metrics.clone(),
        }));
        components.spawn(reconcile(
            reconciler,
            acknowledgements,
            index,
            catalog,
            touched_rx,
            leading_rx.clone(),
            metrics.clone(),
        ));
        components.spawn(host_grant::run(host_grant::Context {
            client: leader.clone(),
            domain: config.domain,
            leading_rx: leading_rx.clone(),
            metrics: metrics.clone(),
        }));
        let (namespace, settings) = (config.namespace, config.nodes);
        components.spawn(pool::run(pool::Context {
            client: leader,
            namespace,
            settings,
            leading_rx,
            metrics,
            failures: pool::Failures::default(),
        }));
        Ok(Self { catalog_addr, components, election, serving })
    }

    /// Returns the address of the catalog, with the actual port if port 0 was configured.
    pub fn catalog_addr(&self) -> SocketAddr {
        self.catalog_addr
    }

    /// Waits until a component ends, which is always a failure, and returns the failure.
    pub async fn failure(&mut self) -> RunError {
        match self.components.join_next().await {
            Some(Err(error)) => RunError::Failed(error),
            Some(Ok(())) | None => RunError::Stopped,
        }
    }

    /// Waits until the drain is complete. Once this replica has lost the leadership, no new work
    /// begins. Scheduled calls in flight delay the drain until they end.
    ///
    /// # Errors
    /// Fails if the election or the catalog's server has failed.
    pub async fn join(mut self) -> Result<(), RunError> {
        let elected = self.election.await;
        self.components.shutdown().await;
        elected.map_err(RunError::Failed)?;
        Ok(self.serving.await.map_err(RunError::Failed)??)
    }
}

fn open_artifacts(config: ArtifactConfig, compiler: Compiler) -> Result<Artifacts, SpawnError> {
    let ArtifactConfig { allowed, plain_http, authorities, cache, sites: (directory, capacity) } =
        config;
    let sites = Sites::open(directory, capacity).map_err(SpawnError::AssetsCache)?;
    let registry =
        tenon_artifact::Registry::new(RegistryConfig { extra_roots: authorities, plain_http })?;
    let store = match cache {
        Some((directory, capacity)) => {
            Store::open(directory, capacity).map_err(SpawnError::CodeCache)?
        }
        None => Store::default(),
    };
    Ok(Artifacts::new(registry, allowed, compiler, store, sites))
}

/// Returns the source of modules for revisions whose code is in artifacts.
fn code_source(artifacts: Artifacts, index: SharedIndex) -> CodeSource {
    Arc::new(move |revision| {
        let (artifacts, index) = (artifacts.clone(), index.clone());
        async move {
            let source = index.with(|index| index.artifact(&revision));
            let (source, digest) = source.zip(revision.artifact)?;
            let modules = artifacts.modules(&source, digest, &revision.entrypoint).await;
            let log = |error: &Arc<ArtifactError>| {
                let revision = &revision.name;
                tracing::warn!(revision, %error, "cannot get the code of a revision");
            };
            modules.inspect_err(log).ok()
        }
        .boxed()
    })
}

/// Returns the source of packs for revisions with static files.
fn assets_source(artifacts: Artifacts, index: SharedIndex) -> AssetsSource {
    Arc::new(move |revision| {
        let (artifacts, index) = (artifacts.clone(), index.clone());
        async move {
            let (source, layer) =
                index.with(|index| (index.artifact(&revision), index.assets(&revision)));
            let (source, digest, layer) = (source?, revision.artifact?, layer?);
            let site = artifacts.site(&source, digest, layer).await;
            let log = |error: &Arc<ArtifactError>| {
                let revision = &revision.name;
                tracing::warn!(revision, %error, "cannot get the static files of a revision");
            };
            site.inspect_err(log).ok()
        }
        .boxed()
    })
}

/// The certificate of this process.
enum Certificate {
    None,
    Given(Tls),
    /// This process takes its certificate directly from the Secrets that it writes for all
    /// processes.
    SelfSigned {
        tls: Tls,
        terms: Terms,
        deployment: Option<String>,
    },
}

impl Certificate {
    fn open(source: TlsSource, registry: &Registry) -> Result<Self, TlsError> {
        Ok(match source {
            TlsSource::None => Self::None,
            TlsSource::Directory(directory) => {
                Self::Given(Tls::open(directory, Role::Operator, registry)?)
            }
            TlsSource::SelfSigned { terms, deployment } => Self::SelfSigned {
                tls: Tls::without_certificate(Role::Operator, registry)?,
                terms,
                deployment,
            },
        })
    }

    /// Returns the certificate with which this process serves and calls.
    fn for_process(&self) -> Option<Tls> {
        match self {
            Self::None => None,
            Self::Given(tls) | Self::SelfSigned { tls, .. } => Some(tls.clone()),
        }
    }
}

/// Stands for election once every kind has been listed. A leader that saw only a part of the
/// cluster would treat all other objects as deleted. Until then, another replica can lead.
async fn stand_for_election(
    election: Election,
    leading_tx: watch::Sender<bool>,
    catalog: Catalog,
    drain: drain::Watch,
) {
    tokio::select! {
        () = catalog.synced() => election.run(leading_tx, drain).await,
        () = drain.signaled() => {}
    }
}

/// Reconciles touched Workers while this replica leads.
async fn reconcile(
    reconciler: Reconciler,
    acknowledgements: Acknowledgements,
    index: SharedIndex,
    catalog: Catalog,
    touched_rx: mpsc::UnboundedReceiver<WorkerId>,
    leading_rx: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
) {
    let all = || {
        // The acknowledgements so far answered questions of an earlier term.
        acknowledgements.forget_all();
        index.with(|index| index.workers().cloned().collect())
    };
    let reconcile = |id| {
        let (reconciler, candidate) =
            (reconciler.clone(), index.with(|index| index.candidate(&id)));
        let (serving, entry) = (catalog.serving(&id), catalog.entry(&id));
        let acknowledged = Acknowledgement::Pending;
        let published = entry.map(|entry| Published { entry, acknowledged });
        if candidate.is_none() {
            acknowledgements.forget(&id);
        }
        async move {
            let Some(candidate) = candidate else { return Ok(None) };
            reconciler.reconcile(Candidate { serving, published, ..candidate }).await
        }
    };
    let author = |id: &WorkerId| index.with(|index| index.author(id));
    let (order, metrics) = (Order::NewestFirst, metrics.queue("Worker"));
    queue::run(touched_rx, leading_rx, all, reconcile, order, author, metrics).await;
}

/// Returns the name of the Service to which a URL of the cluster leads, or `None` if the URL's host
/// is an address.
fn service_of(url: &Uri) -> Option<String> {
    let host = url.host()?;
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    (!is_address).then(|| host.split_once('.').map_or(host, |(name, _)| name).to_owned())
}

async fn observe_leadership(mut leading_rx: watch::Receiver<bool>, metrics: Arc<Metrics>) {
    loop {
        metrics.leader.set((*leading_rx.borrow_and_update()).into());
        if leading_rx.changed().await.is_err() {
            return;
        }
    }
}
