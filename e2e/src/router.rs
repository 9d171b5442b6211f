//! A router.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::{Connection, Process, address};

/// A running router.
#[derive(Debug)]
pub struct Router {
    address: IpAddr,
    _process: Process,
}

impl Router {
    /// Starts a router and waits until it has routes.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn start(name: &str, catalog: SocketAddr, logs: &Path) -> anyhow::Result<Self> {
        let address = address::free()?;
        let mut process = Process::spawn(name, "tenon-router", logs, |command| {
            command
                .args(["--listen", &format!("{address}:8080")])
                .args(["--admin-listen", &format!("{address}:9090")])
                .args(["--catalog", &format!("http://{catalog}")])
                .args(["--threads", "2"]);
        })?;
        process.await_ready(address).await?;
        Ok(Self { address, _process: process })
    }

    pub fn address(&self) -> SocketAddr {
        (self.address, 8080).into()
    }

    /// A connection that is not open yet.
    pub fn connection(&self) -> Connection {
        Connection::to(self.address())
    }
}
