//! Starts the real router and the real node, with a catalog that announces the Workers. This
//! process serves the catalog, with the operator's code. The catalog takes part in the start of a
//! Worker, but not in requests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::bail;
use bytes::Bytes;
use tenon_catalog::{AssetsSource, Authentication, Catalog};
use tenon_lifecycle::drain;
use tenon_lifecycle::tls::Role;
use tenon_proto::catalog::{Node, Route, node};
use tenon_proto::id::WorkerId;
use tenon_proto::revision::{Limits, Revision};
use tokio::runtime::Runtime;

use crate::authority::Authority;
use crate::contest::Contender;
use crate::hello::HOST;
use crate::load::{Target, await_answer, get};
use crate::peers::free_port;
use crate::process::Process;

/// Names of the programs, which are in the directory of this program.
pub const NODE: &str = "tenon-runtime-node";
pub const ROUTER: &str = "tenon-router";

/// Name of the contender that is a node with a front.
pub const COLOCATED: &str = "Tenon, colocated";

const POOL: &str = "default";

/// Default namespace of Workers.
const TENANT: &str = "bench";

/// Number of lanes of the node. Their ports follow those of the shards.
const LANES: u16 = 1;

/// Maximum number of attempts to find consecutive free ports.
const ATTEMPTS: u32 = 100;

/// A catalog with one node and the deployed Workers. It is served until this value is dropped.
pub struct Testbed {
    url: String,
    shards: u16,
    /// The first of the consecutive ports of the shards and lanes.
    shard_port: u16,
    /// The directories with the certificates of the router and the node, or `None` without TLS.
    directories: Option<[PathBuf; 2]>,
    catalog: Catalog,
    _runtime: Runtime,
    _signal: drain::Signal,
}

/// A router and a node that serve a [`Testbed`]. Both are stopped when this value is dropped.
pub struct Tenon {
    pub router: Process,
    pub node: Process,
    /// The address of the router.
    pub addr: SocketAddr,
    /// The address of the node's admin server, which serves its metrics.
    pub admin: SocketAddr,
}

impl Testbed {
    /// Serves a new catalog.
    ///
    /// # Arguments
    /// * `shards` - the number of shards of the node.
    ///
    /// # Errors
    /// Fails if no ports or threads are available.
    pub fn open(shards: u16) -> anyhow::Result<Self> {
        Self::open_with(shards, None)
    }

    /// Serves a new catalog like [`open`](Self::open), with mutual TLS between all processes if
    /// there is an `authority`.
    ///
    /// # Errors
    /// Fails if no ports or threads are available, or if a certificate cannot be read.
    pub fn open_with(shards: u16, authority: Option<&Authority>) -> anyhow::Result<Self> {
        let tls = authority.map(Authority::operator).transpose()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        let shard_port = free_ports(shards + LANES)?;

        let catalog = Catalog::new();
        catalog.set_node(Node {
            name: "node".to_owned(),
            pool: POOL.to_owned(),
            address: Ipv4Addr::LOCALHOST.to_string(),
            shard_ports: (0..shards).map(|i| (shard_port + i).into()).collect(),
            lane_ports: (shards..shards + LANES).map(|i| (shard_port + i).into()).collect(),
            state: node::State::Ready.into(),
        });
        catalog.mark_synced();

        let (signal, drain) = drain::channel();
        let guard = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let namespace = "tenon-system".to_owned();
        let authentication = tls.map(|tls| Authentication { tls, namespace });
        runtime.spawn(tenon_catalog::serve(listener, authentication, catalog.clone(), drain));
        drop(guard);
        let directories = authority.map(|authority| {
            [Role::Router, Role::RuntimeNode].map(|role| authority.directory(role))
        });
        Ok(Self {
            url,
            shards,
            shard_port,
            directories,
            catalog,
            _runtime: runtime,
            _signal: signal,
        })
    }

    /// Deploys a Worker with this source, and returns its host.
    pub fn deploy(&self, name: &str, source: impl Into<Bytes>) -> String {
        self.deploy_with_limits(name, source, Limits::default())
    }

    /// Deploys a Worker with limits of its own, and returns its host.
    pub fn deploy_with_limits(
        &self,
        name: &str,
        source: impl Into<Bytes>,
        limits: Limits,
    ) -> String {
        self.deploy_for_tenant(TENANT, name, source, limits)
    }

    /// Deploys a Worker of another tenant, and returns its host.
    pub fn deploy_for_tenant(
        &self,
        tenant: &str,
        name: &str,
        source: impl Into<Bytes>,
        limits: Limits,
    ) -> String {
        let worker = WorkerId::new(tenant, name);
        self.publish(Revision { limits, ..Revision::from_source(worker, source) })
    }

    /// Deploys the Worker of this revision, and returns the Worker's host.
    pub fn publish(&self, revision: Revision) -> String {
        let host = format!("{}.{}.localhost", revision.worker.name(), revision.worker.namespace());
        let route = Route { host: host.clone(), path: "/".to_owned() };
        self.catalog.set_worker(Arc::new(revision), POOL, vec![route]);
        host
    }

    /// Makes the catalog serve the packs of static files in `source`.
    pub fn serve_assets(&self, source: AssetsSource) {
        self.catalog.set_assets_source(source);
    }

    /// Starts the node and a router with one thread.
    ///
    /// # Arguments
    /// * `dir` - a new directory for the output of the programs.
    /// * `node` and `router` - the commands of the programs, with their CPU placement and
    ///   additional options.
    ///
    /// # Errors
    /// Fails if a program cannot be started.
    pub fn start(
        &self,
        dir: &Path,
        mut node: Command,
        mut router: Command,
    ) -> anyhow::Result<Tenon> {
        std::fs::create_dir(dir)?;
        let listen = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (addr, admin) = (listen(free_port()?), listen(free_port()?));
        if let Some([router_certificates, _]) = &self.directories {
            router.arg("--tls-dir").arg(router_certificates);
        }

        self.configure_node(&mut node, admin);
        let node = Process::start("node", node, dir)?;

        router.args([
            "--listen",
            &addr.to_string(),
            "--internal-listen",
            &listen(free_port()?).to_string(),
        ]);
        router.args(["--threads", "1", "--catalog", &self.url]).args([
            "--drain-linger",
            "0",
            "--admin-listen",
            &listen(free_port()?).to_string(),
        ]);
        let router = Process::start("router", router, dir)?;
        Ok(Tenon { router, node, addr, admin })
    }

    /// Starts the node with a front, and no router.
    ///
    /// # Arguments
    /// * `dir` - a new directory for the output of the program.
    /// * `node` - the command of the program, with its CPU placement.
    ///
    /// # Errors
    /// Fails if the program cannot be started.
    pub fn start_colocated(&self, dir: &Path, mut node: Command) -> anyhow::Result<Contender> {
        std::fs::create_dir(dir)?;
        let listen = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let addr = listen(free_port()?);
        self.configure_node(&mut node, listen(free_port()?));
        node.args(["--front", &addr.to_string(), "--drain-linger", "0"]);
        let node = Process::start("node", node, dir)?;
        let target = Target { addr, host: HOST };
        Ok(Contender { name: COLOCATED.to_owned(), target, processes: vec![node] })
    }

    /// Adds the arguments of this testbed's node.
    fn configure_node(&self, node: &mut Command, admin: SocketAddr) {
        if let Some([_, certificates]) = &self.directories {
            node.arg("--tls-dir").arg(certificates);
        }
        node.args([
            "--name",
            "node",
            "--listen-ip",
            "127.0.0.1",
            "--shards",
            &self.shards.to_string(),
        ])
        .args(["--lanes", &LANES.to_string()])
        .args(["--shard-port", &self.shard_port.to_string(), "--catalog", &self.url])
        .args(["--admin-listen", &admin.to_string()]);
    }
}

impl Tenon {
    /// Waits until `host` responds with status 200.
    ///
    /// # Errors
    /// Fails if `host` does not do so before the timeout, or if a process exits.
    pub fn await_up(&mut self, host: &str) -> anyhow::Result<()> {
        await_answer(
            || get(self.addr, host),
            "",
            || ensure_running(&mut self.router, &mut self.node),
        )
    }

    /// Checks that both processes are still running.
    ///
    /// # Errors
    /// Fails if a process has exited.
    pub fn ensure_running(&mut self) -> anyhow::Result<()> {
        ensure_running(&mut self.router, &mut self.node)
    }
}

fn ensure_running(router: &mut Process, node: &mut Process) -> anyhow::Result<()> {
    router.ensure_running()?;
    node.ensure_running()
}

impl From<Tenon> for Contender {
    fn from(tenon: Tenon) -> Self {
        let target = Target { addr: tenon.addr, host: HOST };
        Self { name: "Tenon".to_owned(), target, processes: vec![tenon.router, tenon.node] }
    }
}

/// Returns the first of `count` consecutive ports that are free now.
fn free_ports(count: u16) -> anyhow::Result<u16> {
    let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    for _ in 0..ATTEMPTS {
        let first = free_port()?;
        if first.checked_add(count - 1).is_some_and(|last| (first..=last).all(free)) {
            return Ok(first);
        }
    }
    bail!("no {count} consecutive ports were free in {ATTEMPTS} attempts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_get_consecutive_ports() {
        let first = free_ports(2).unwrap();
        let ports: Vec<_> =
            (0..2).map(|i| TcpListener::bind((Ipv4Addr::LOCALHOST, first + i))).collect();
        assert!(ports.iter().all(Result::is_ok), "{ports:?}");
    }
}
