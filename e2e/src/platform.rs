//! The platform that tests share: an operator, a router and two nodes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::sync::Mutex;

use crate::operator::CATALOG_PORT;
use crate::router::INTERNAL_PORT;
use crate::{
    Account, Cluster, HttpResponse, Namespace, Node, NodeOptions, Operator, Router, Service,
    Transport, await_condition,
};

/// Name of the pool for Workers that name no pool.
const DEFAULT_POOL: &str = "default";

/// The running processes of Tenon that the tests share, and the cluster that they use.
pub struct Platform {
    pub cluster: Cluster,
    pub router: Router,
    system: Namespace,
    account: Account,
    logs: PathBuf,
    catalog: Service,
    /// The Service of the router's internal listener.
    internal: Service,
    operator: Mutex<Option<Operator>>,
    _nodes: [Node; 2],
    /// Number of identities that operators have had.
    started: AtomicU32,
}

impl Platform {
    /// Installs the CRDs and starts the processes in a new system namespace, so that Leases and
    /// EndpointSlices of an earlier run do not interfere.
    pub async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::from_env().await?;
        cluster.install_crds().await?;
        cluster.apply_pool(DEFAULT_POOL).await?;
        let system = Namespace::create(&cluster, "tenon-system").await?;
        let logs =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/e2e").join(system.name());
        std::fs::create_dir_all(&logs)?;

        let catalog = Service::start(CATALOG_PORT).await?;
        let internal = Service::start(INTERNAL_PORT).await?;
        let internal_address = internal.address();
        cluster.apply_router_service(&system).await?;
        let account = Account::create(&cluster, &system, &logs).await?;
        let operator = Operator::start(
            "operator-0",
            account.kubeconfig(),
            Transport::Plain,
            internal_address,
            system.name(),
            &logs,
        )
        .await?;
        catalog.set_backends(vec![operator.catalog()]);
        let address = catalog.address();
        let start_node = async |name| {
            Node::start(
                name,
                DEFAULT_POOL,
                Transport::Plain,
                address,
                internal_address,
                &system,
                &logs,
            )
            .await
        };
        let nodes = [start_node("node-a").await?, start_node("node-b").await?];
        let router = Router::start("router", Transport::Plain, address, &logs).await?;
        internal.set_backends(vec![router.internal_address()]);
        Ok(Self {
            cluster: cluster.clone(),
            router,
            system: system.clone(),
            account,
            logs: logs.clone(),
            catalog,
            internal,
            operator: Mutex::new(Some(operator)),
            _nodes: nodes,
            started: AtomicU32::new(1),
        })
    }

    /// Returns the operator's namespace.
    pub fn system(&self) -> &Namespace {
        &self.system
    }

    /// Returns the operators' account, which has the rights that the chart grants.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the folder of the processes' logs.
    pub fn logs(&self) -> &std::path::Path {
        &self.logs
    }

    /// Returns the catalog's address for routers and nodes. It does not depend on which operator
    /// serves the catalog.
    pub fn catalog(&self) -> SocketAddr {
        self.catalog.address()
    }

    /// Locks the running operator. A test that holds the lock must be exclusive.
    pub async fn operator(&self) -> tokio::sync::MutexGuard<'_, Option<Operator>> {
        self.operator.lock().await
    }

    /// Starts another replica, which stands by while the first one leads.
    pub async fn start_operator(&self) -> anyhow::Result<Operator> {
        self.start_operator_as(&self.new_identity(), &self.account).await
    }

    /// Returns an identity that no replica has had.
    pub fn new_identity(&self) -> String {
        format!("operator-{}", self.started.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts a replica with the given identity and the credential of `account`. An earlier replica
    /// may have had the same identity.
    pub async fn start_operator_as(
        &self,
        identity: &str,
        account: &Account,
    ) -> anyhow::Result<Operator> {
        let (internal, system) = (self.internal.address(), self.system.name());
        Operator::start(
            identity,
            account.kubeconfig(),
            Transport::Plain,
            internal,
            system,
            &self.logs,
        )
        .await
    }

    /// Starts another replica with a new identity, and does not wait until it is ready.
    pub fn spawn_operator(&self) -> anyhow::Result<Operator> {
        let (internal, system) = (self.internal.address(), self.system.name());
        let (identity, account) = (self.new_identity(), self.account.kubeconfig());
        Operator::spawn(&identity, account, Transport::Plain, internal, system, &self.logs)
    }

    /// Sets the operators that serve the catalog to new connections.
    pub fn route_catalog(&self, operators: &[&Operator]) {
        self.catalog.set_backends(operators.iter().map(|operator| operator.catalog()).collect());
    }

    /// Starts a node in a pool, which is created if it does not exist.
    pub async fn start_node(&self, pool: &str, suffix: &str) -> anyhow::Result<Node> {
        self.start_node_in(&self.system, pool, suffix).await
    }

    /// Starts a node without lanes. Its Workers keep their state, because they stay in the isolate
    /// in which they start.
    pub async fn start_node_without_lanes(&self, pool: &str, suffix: &str) -> anyhow::Result<Node> {
        self.start_node_with(&self.system, NodeOptions { pool, lanes: 0 }, suffix).await
    }

    /// Starts a node whose EndpointSlice is in `namespace`.
    pub async fn start_node_in(
        &self,
        namespace: &Namespace,
        pool: &str,
        suffix: &str,
    ) -> anyhow::Result<Node> {
        self.start_node_with(namespace, pool.into(), suffix).await
    }

    async fn start_node_with(
        &self,
        namespace: &Namespace,
        options: NodeOptions<'_>,
        suffix: &str,
    ) -> anyhow::Result<Node> {
        self.cluster.apply_pool(options.pool).await?;
        let name = format!("{}-{suffix}", options.pool);
        let (catalog, internal) = (self.catalog(), self.internal.address());
        Node::start(&name, options, Transport::Plain, catalog, internal, namespace, &self.logs)
            .await
    }

    /// Waits until a GET of the host's root returns 200 with `body`.
    ///
    /// # Errors
    /// Fails if there is no such response within the time `within`.
    pub async fn await_answer(
        &self,
        host: &str,
        body: &str,
        within: Duration,
    ) -> anyhow::Result<HttpResponse> {
        let mut connection = self.router.connection();
        await_condition(&format!("http://{host}/ to answer {body:?}"), within, async || {
            let answer = connection.get(host, "/").await?;
            ensure!(
                answer.status == 200 && answer.body == body,
                "the response is {} {}",
                answer.status,
                answer.body
            );
            Ok(answer)
        })
        .await
    }

    /// Stops the operator gracefully, so that its Lease is released, and deletes the system
    /// namespace.
    pub async fn stop(&self) -> anyhow::Result<()> {
        if let Some(operator) = self.operator.lock().await.take() {
            operator.terminate().await?;
        }
        self.system.delete().await
    }
}
