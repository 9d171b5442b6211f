//! A router process.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Context as _;

use crate::{Connection, Process, Transport, address};

pub const INTERNAL_PORT: u16 = 8081;

/// A running router.
#[derive(Debug)]
pub struct Router {
    address: IpAddr,
    process: Process,
}

impl Router {
    /// Starts a router and waits until it has received the catalog, which may contain no routes.
    ///
    /// # Errors
    /// Fails if the router does not become ready.
    pub async fn start(
        name: &str,
        transport: Transport<'_>,
        catalog: SocketAddr,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let address = address::free()?;
        let mut process = Process::spawn(name, "tenon-router", logs, |command| {
            command
                .args(["--listen", &format!("{address}:8080")])
                .args(["--internal-listen", &format!("{address}:{INTERNAL_PORT}")])
                .args(["--admin-listen", &format!("{address}:9090")])
                .args(["--catalog", &format!("{}://{catalog}", transport.scheme())])
                .args(["--threads", "2"]);
            transport.configure("router", command);
        })?;
        process.await_ready(address).await?;
        Ok(Self { address, process })
    }

    pub fn address(&self) -> SocketAddr {
        (self.address, 8080).into()
    }

    /// Returns the address of the internal listener, for nodes and operators.
    pub fn internal_address(&self) -> SocketAddr {
        (self.address, INTERNAL_PORT).into()
    }

    /// Returns the number of nodes that the router knows.
    ///
    /// # Errors
    /// Fails if the router's metrics cannot be read.
    pub async fn nodes(&self) -> anyhow::Result<usize> {
        let metrics = Connection::to((self.address, 9090)).get("admin", "/metrics").await?.body;
        let nodes = metrics.lines().find_map(|line| line.strip_prefix("tenon_router_nodes "));
        Ok(nodes.context("the router has no metric tenon_router_nodes")?.parse()?)
    }

    /// Pauses the process until it is resumed.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.process.pause().await
    }

    /// Resumes the process.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub async fn resume(&self) -> anyhow::Result<()> {
        self.process.resume().await
    }

    /// Returns a connection, which is opened on first use.
    pub fn connection(&self) -> Connection {
        Connection::to(self.address())
    }
}
