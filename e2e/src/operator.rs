//! A replica of the operator.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::{Connection, Process, Transport, address};

pub const CATALOG_PORT: u16 = 7070;

/// The registry that `deploy/cluster/up --registry` starts.
pub const REGISTRY: &str = "192.0.2.1:5000";

/// The public Service of the routers, which has no Pods. The platform creates it.
pub(crate) const ROUTER_SERVICE: &str = "tenon-router";

/// Time limit for a replica to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    identity: String,
    address: IpAddr,
    process: Process,
}

impl Operator {
    /// Starts a replica, as [`spawn`](Self::spawn) does, and waits until it serves the catalog.
    ///
    /// # Errors
    /// Fails if the replica does not become ready.
    pub async fn start(
        identity: &str,
        kubeconfig: &Path,
        transport: Transport<'_>,
        router: SocketAddr,
        namespace: &str,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let mut operator = Self::spawn(identity, kubeconfig, transport, router, namespace, logs)?;
        operator.await_ready().await?;
        Ok(operator)
    }

    /// Starts a replica, which is not ready yet.
    ///
    /// # Arguments
    /// * `identity` - unique among the replicas.
    /// * `kubeconfig` - the kubeconfig of the account that the replica uses.
    /// * `router` - the address of the routers for scheduled calls.
    /// * `namespace` - the namespace of the replica's Lease and certificates.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn spawn(
        identity: &str,
        kubeconfig: &Path,
        transport: Transport<'_>,
        router: SocketAddr,
        namespace: &str,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let address = address::free()?;
        let process = Process::spawn(identity, "tenon-operator", logs, |command| {
            command
                .env("KUBECONFIG", kubeconfig)
                .args(["--identity", identity])
                .args(["--namespace", namespace])
                .args(["--router-url", &format!("{}://{router}", transport.scheme())])
                .args(["--admin-listen", &format!("{address}:9090")])
                .args(["--gateway-service", ROUTER_SERVICE])
                .args(["--registry", REGISTRY, "--plain-http-registry", REGISTRY])
                .args([
                    "--catalog-url",
                    &format!("{}://{address}:{CATALOG_PORT}", transport.scheme()),
                ])
                .args(["--catalog-listen", &format!("{address}:{CATALOG_PORT}")]);
            transport.configure_operator(command);
        })?;
        Ok(Self { identity: identity.to_owned(), address, process })
    }

    /// Waits until the replica is ready.
    ///
    /// # Errors
    /// Fails if the replica does not become ready.
    pub async fn await_ready(&mut self) -> anyhow::Result<()> {
        self.process.await_ready(self.address).await
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the address of the replica's catalog.
    pub fn catalog(&self) -> SocketAddr {
        (self.address, CATALOG_PORT).into()
    }

    /// Returns the replica's metrics.
    ///
    /// # Errors
    /// Fails if the replica does not respond.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        Ok(Connection::to((self.address, 9090)).get("admin", "/metrics").await?.body)
    }

    /// Pauses the process until it is resumed.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.process.pause().await
    }

    pub async fn resume(&self) -> anyhow::Result<()> {
        self.process.resume().await
    }

    /// Sends SIGKILL.
    pub async fn kill(self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Sends SIGTERM, which makes the replica release its Lease, and waits until the process exits.
    ///
    /// # Errors
    /// Fails if the process has already exited, or does not exit within `EXIT_TIMEOUT`.
    pub async fn terminate(self) -> anyhow::Result<()> {
        self.process.terminate(EXIT_TIMEOUT).await?;
        Ok(())
    }
}
