//! Runs a catalog, a router and a node in this process, each with its own certificate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use prometheus::Registry;
use tenon_catalog::{Authentication, Catalog};
use tenon_certificates::issue::CertifiedKey;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Principal, Role, Tls};
use tenon_proto::catalog::{Node as NodeEntry, Route, node::State};
use tenon_proto::revision::Revision;
use tenon_router::{Router, TrustedProxies};
use tenon_runtime_node::config::{Config as NodeConfig, NodeArgs};
use tenon_runtime_node::node::Node;

use crate::certificates::{NAMESPACE, Volume, bundle, bundle_with, load_count, open};

/// Time limit of every wait. It is much longer than any wait takes, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A running catalog, router and node, each with its own directory of certificates.
pub(crate) struct Platform {
    volumes: [Volume; Role::ALL.len()],
    registries: [Registry; Role::ALL.len()],
    runtime: tokio::runtime::Runtime,
    pub(crate) entries: Catalog,
    pub(crate) catalog: SocketAddr,
    pub(crate) digest: Vec<u8>,
    pub(crate) node: Node,
    pub(crate) router: Router,
    signals: [drain::Signal; Role::ALL.len()],
}

/// A second router beside the platform's router.
pub(crate) struct AnotherRouter {
    pub(crate) router: Router,
    signal: drain::Signal,
}

impl Platform {
    pub(crate) fn start(authority: &CertifiedKey) -> Self {
        Self::with(authority, &[])
    }

    /// Starts the platform, with these additional arguments for the node.
    pub(crate) fn with(authority: &CertifiedKey, additional: &[&str]) -> Self {
        let volumes = Role::ALL.map(|role| Volume::with(&bundle(authority, role, &[])));
        let registries = Role::ALL.map(|_| Registry::new());
        let tls = |role: Role| open(&volumes[role as usize], role, &registries[role as usize]);
        let runtime = runtime();
        let (readiness, [catalog_drain, router_drain, node_drain]) =
            (Readiness::new(), [(); 3].map(|()| drain::channel()));

        let entries = Catalog::new();
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let catalog = listener.local_addr().unwrap();
        runtime.spawn(tenon_catalog::serve(
            listener,
            Some(Authentication { tls: tls(Role::Operator), namespace: NAMESPACE.to_owned() }),
            entries.clone(),
            catalog_drain.1,
        ));
        let source = "export default { fetch() { return new Response('hello') } };";
        let revision = Revision::from_source("shop/hello".parse().unwrap(), source);
        let route = Route { host: "shop".to_owned(), path: "/".to_owned() };
        let digest = entries.set_worker(Arc::new(revision), "default", vec![route]);

        let config = router_config(catalog, tls(Role::Router));
        let router =
            Router::spawn(config, router_drain.1, &registries[Role::Router as usize], &readiness)
                .unwrap();
        let internal = format!("--router=https://{}", router.internal_addr().unwrap());
        let additional: Vec<_> = additional.iter().copied().chain([internal.as_str()]).collect();
        let volume = &volumes[Role::RuntimeNode as usize];
        let config = node_config("n", catalog, volume, tls(Role::RuntimeNode), &additional);
        let node =
            Node::spawn(config, node_drain.1, &registries[Role::RuntimeNode as usize], &readiness)
                .unwrap();
        entries.set_node(NodeEntry {
            name: "n".to_owned(),
            pool: "default".to_owned(),
            address: Ipv4Addr::LOCALHOST.to_string(),
            shard_ports: node.addresses().iter().map(|address| address.port().into()).collect(),
            lane_ports: Vec::new(),
            state: State::Ready.into(),
        });
        entries.mark_synced();
        runtime.block_on(readiness.ready());
        let signals = [catalog_drain.0, router_drain.0, node_drain.0];
        let digest = digest.as_bytes().to_vec();
        Self { volumes, registries, runtime, entries, catalog, digest, node, router, signals }
    }

    /// Starts a second router and waits until it is ready.
    pub(crate) fn start_router(&self) -> AnotherRouter {
        let (registry, readiness, (signal, drain)) =
            (Registry::new(), Readiness::new(), drain::channel());
        let tls = open(&self.volumes[Role::Router as usize], Role::Router, &registry);
        let router =
            Router::spawn(router_config(self.catalog, tls), drain, &registry, &readiness).unwrap();
        self.runtime
            .block_on(async { tokio::time::timeout(DEADLINE, readiness.ready()).await })
            .unwrap();
        AnotherRouter { router, signal }
    }

    /// Starts a node with a front, in another pool that has no Workers, and waits until the node is
    /// ready.
    pub(crate) fn start_front(&self, authority: &CertifiedKey, pool: &str) -> FrontNode {
        let (registry, readiness, (signal, drain)) =
            (Registry::new(), Readiness::new(), drain::channel());
        let uri = Principal::Pool(pool.to_owned()).uri(NAMESPACE);
        let volume = Volume::with(&bundle_with(authority, Role::RuntimeNode, Some(&uri), &[]));
        let tls = open(&volume, Role::RuntimeNode, &registry);
        let additional = ["--front=127.0.0.1:0", "--drain-linger=0"];
        let config = node_config("front", self.catalog, &volume, tls, &additional);
        let node = Node::spawn(config, drain, &registry, &readiness).unwrap();
        self.runtime
            .block_on(async { tokio::time::timeout(DEADLINE, readiness.ready()).await })
            .unwrap();
        FrontNode { node, signal, _volume: volume }
    }

    /// Issues a new certificate to each process, and waits until the process has loaded the
    /// certificate.
    pub(crate) fn renew(&self, authority: &CertifiedKey, others: &[&CertifiedKey]) {
        for (role, (volume, registry)) in
            Role::ALL.into_iter().zip(self.volumes.iter().zip(&self.registries))
        {
            let before = load_count(registry);
            volume.switch(&bundle(authority, role, others));
            await_condition(&format!("the {role} has read its files"), || {
                load_count(registry) > before
            });
        }
    }

    /// Sends a request to a router and returns the body of the response.
    pub(crate) fn get(&self, router: SocketAddr) -> String {
        let mut stream = TcpStream::connect(router).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("the head of the response is incomplete: {response:?}"));
        assert!(head.starts_with("HTTP/1.1 200 "), "{response}");
        body.to_owned()
    }

    pub(crate) fn stop(self) {
        let Self { runtime, router, node, signals: [catalog, router_drain, node_drain], .. } = self;
        runtime.block_on(router_drain.drain());
        router.join();
        runtime.block_on(node_drain.drain());
        node.join();
        runtime.block_on(catalog.drain());
    }
}

impl AnotherRouter {
    pub(crate) fn stop(self) {
        runtime().block_on(self.signal.drain());
        self.router.join();
    }
}

/// A node with a front beside the platform's node.
pub(crate) struct FrontNode {
    node: Node,
    signal: drain::Signal,
    /// Holds the node's certificate.
    _volume: Volume,
}

impl FrontNode {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.node.front().unwrap().addr()
    }

    pub(crate) fn stop(self) {
        runtime().block_on(self.signal.drain());
        self.node.join();
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    node: NodeArgs,
}

/// Returns the configuration of a node with one shard.
fn node_config(
    name: &str,
    catalog: SocketAddr,
    volume: &Volume,
    tls: Tls,
    additional: &[&str],
) -> NodeConfig {
    let line = [
        "node".to_owned(),
        format!("--name={name}"),
        "--listen-ip=127.0.0.1".to_owned(),
        "--shard-port=0".to_owned(),
        "--shards=1".to_owned(),
        "--no-pin".to_owned(),
        format!("--catalog=https://{catalog}"),
        format!("--tls-dir={}", volume.path().display()),
    ];
    let line = line.iter().map(String::as_str).chain(additional.iter().copied());
    let config = NodeConfig::try_from(Command::try_parse_from(line).unwrap().node).unwrap();
    NodeConfig { tls: Some(tls), ..config }
}

fn router_config(catalog: SocketAddr, tls: Tls) -> tenon_router::Config {
    tenon_router::Config {
        name: "router/test".to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        https: None,
        http3: None,
        trusted_proxies: TrustedProxies::default(),
        idle_timeout: tenon_router::IDLE_TIMEOUT,
        internal_listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
        catalog: format!("https://{catalog}").parse().unwrap(),
        tls: Some(tls),
        threads: NonZeroUsize::new(2).unwrap(),
        access_log: false,
        debug_headers: false,
        compression: true,
        spans: None,
        client_memory: 64 << 20,
        client_connections: 1000,
        pace: tenon_router::Pace::default(),
        shards_may_pause: false,
        pages: None,
        sites: tenon_router::SitesConfig::default(),
        drain_linger: Duration::ZERO,
        tunnel_grace: Duration::ZERO,
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Polls until `holds` returns true.
///
/// # Panics
/// Panics if `holds` has not returned true within [`DEADLINE`].
pub(crate) fn await_condition(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting until {what}");
        thread::yield_now();
    }
}
