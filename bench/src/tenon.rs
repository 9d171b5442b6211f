//! Tenon as a contender: the real router and the real node, one thread each, and a catalog to tell them of the
//! Worker. The catalog is the operator's, served by this process: it takes no part in a request.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tenon_lifecycle::drain;
use tenon_operator::catalog::{self, Catalog};
use tenon_proto::catalog::{Node, Route, node};
use tenon_proto::id::WorkerId;
use tenon_proto::revision::{Limits, Revision};
use tokio::runtime::Runtime;

use crate::contest::Contender;
use crate::load::Target;
use crate::peers::{HOST, free_port};
use crate::process::{Placement, Process};

const POOL: &str = "default";

/// A catalog with one Worker and one node in it. Serves as long as it lives.
pub struct Site {
    url: String,
    shard_port: u16,
    _runtime: Runtime,
    _signal: drain::Signal,
}

impl Site {
    /// Serves the Worker that `source` is.
    ///
    /// # Errors
    /// When there is no port or no thread to be had.
    pub fn serve(source: &Path) -> anyhow::Result<Self> {
        let source = std::fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let shard_port = free_port()?;

        let catalog = Catalog::new();
        let route = Route { host: HOST.to_owned(), path: "/".to_owned() };
        catalog.set_worker(Arc::new(hello(source)), POOL, vec![route]);
        catalog.set_node(Node {
            name: "node".to_owned(),
            pool: POOL.to_owned(),
            address: Ipv4Addr::LOCALHOST.to_string(),
            shard_ports: vec![shard_port.into()],
            state: node::State::Ready.into(),
        });
        catalog.mark_synced();

        let (signal, drain) = drain::channel();
        let _guard = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(catalog::serve(listener, catalog, drain));
        drop(_guard);
        Ok(Self { url, shard_port, _runtime: runtime, _signal: signal })
    }

    /// Starts a router of one thread and a node of one shard, of the binaries in `bin`.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn contender(&self, bin: &Path, scratch: &Path, placement: Placement) -> anyhow::Result<Contender> {
        let dir: PathBuf = scratch.join("tenon");
        std::fs::create_dir(&dir)?;

        let mut node = placement.contender(&bin.join("tenon-runtime-node"));
        node.args(["--name", "node", "--listen-ip", "127.0.0.1", "--shards", "1"])
            .args(["--shard-port", &self.shard_port.to_string(), "--catalog", &self.url])
            .args(["--admin-listen", &format!("127.0.0.1:{}", free_port()?)]);
        let node = Process::start("node", node, &dir)?;

        let port = free_port()?;
        let mut router = placement.contender(&bin.join("tenon-router"));
        router.args(["--listen", &format!("127.0.0.1:{port}"), "--threads", "1", "--catalog", &self.url]).args([
            "--drain-linger",
            "0",
            "--admin-listen",
            &format!("127.0.0.1:{}", free_port()?),
        ]);
        let router = Process::start("router", router, &dir)?;

        Ok(Contender { name: "Tenon", target: Target::loopback(port, HOST), processes: vec![router, node] })
    }
}

fn hello(source: Vec<u8>) -> Revision {
    Revision {
        worker: WorkerId::new("bench", "hello"),
        name: "hello-1".to_owned(),
        entrypoint: "hello.js".to_owned(),
        modules: BTreeMap::from([("hello.js".to_owned(), source.into())]),
        vars: BTreeMap::new(),
        secrets: BTreeMap::new(),
        limits: Limits::default(),
    }
}
