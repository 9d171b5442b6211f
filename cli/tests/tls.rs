//! Catalog, router and node, each with its own certificate in a directory: which clients each
//! server accepts, and that certificate rotation is not noticeable.
#![allow(clippy::unwrap_used)] // This file contains only tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use jiff::{SignedDuration, Timestamp};
use libtest_mimic::{Arguments, Trial};
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Bundle, Connector, Role, Stream, Tls, TlsArgs};
use tenon_operator::catalog::{self, Catalog};
use tenon_operator::certificates::issue::{self, CertifiedKey};
use tenon_proto::catalog::catalog_client::CatalogClient;
use tenon_proto::catalog::{
    GetRevisionRequest, Node as NodeEntry, ReportRequest, Route, WatchRequest, node::State,
};
use tenon_proto::revision::Revision;
use tenon_router::Router;
use tenon_runtime_node::config::{Config as NodeConfig, NodeArgs};
use tenon_runtime_node::node::Node;
use tonic::Code;
use tonic::transport::Endpoint;

/// Much longer than anything here takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn main() -> ExitCode {
    // V8 is initialized first: on some processors, threads older than V8 cannot run JavaScript.
    tenon_engine::init();
    let trials = vec![
        trial(
            "who_may_come_where_is_decided_by_what_they_show",
            who_may_come_where_is_decided_by_what_they_show,
        ),
        trial(
            "while_certificates_change_no_request_fails",
            while_certificates_change_no_request_fails,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

fn who_may_come_where_is_decided_by_what_they_show() {
    let authority = authority();
    let platform = Platform::start(&authority);
    assert_eq!(platform.get(platform.router.addr()), "hello");

    let runtime = runtime();
    let doors = [
        (Role::Operator, platform.catalog),
        (Role::Router, platform.router.internal_addr()),
        (Role::RuntimeNode, platform.node.addresses()[0]),
    ];
    let stranger = self::authority();
    runtime.block_on(async {
        for (server, address) in doors {
            for client in Role::ALL {
                let let_in = meets(&show(&authority, client), server, address).await;
                assert_eq!(let_in, server.admits(client), "{client} comes to {server}");
                assert!(
                    !meets(&show(&stranger, client), server, address).await,
                    "a stranger comes to {server}"
                );
                let elsewhere = Role::ALL.into_iter().find(|other| *other != server).unwrap();
                assert!(
                    !meets(&show(&authority, client), elsewhere, address).await,
                    "{server} is no {elsewhere}"
                );
            }
            assert!(hangs_up_on_plain_http(address), "{server}");
        }
        // Of the clients that the catalog accepts, only nodes get code, which includes secrets.
        for role in [Role::Router, Role::RuntimeNode] {
            let connector = Connector::new(Some(show(&authority, role)), Role::Operator, DEADLINE);
            let endpoint = Endpoint::from_shared(format!("https://{}", platform.catalog)).unwrap();
            let mut client = CatalogClient::new(endpoint.connect_with_connector_lazy(connector));
            client.watch(WatchRequest { client: role.to_string(), resume: None }).await.unwrap();
            let revision =
                client.get_revision(GetRevisionRequest { digest: platform.digest.clone() }).await;
            let report = client
                .report(ReportRequest { node: "n".to_owned(), ..ReportRequest::default() })
                .await;
            let codes = [
                revision.err().map(|status| status.code()),
                report.err().map(|status| status.code()),
            ];
            let expected =
                if role == Role::RuntimeNode { None } else { Some(Code::PermissionDenied) };
            assert_eq!(codes, [expected; 2], "{role}");
        }
    });
    platform.end();
}

fn while_certificates_change_no_request_fails() {
    let (old, new) = (authority(), authority());
    let platform = Platform::start(&old);
    let (served, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let more = |wanted: usize| {
        let before = served.load(Ordering::Relaxed);
        await_condition("more requests are served", || {
            served.load(Ordering::Relaxed) >= before + wanted
        });
    };
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(platform.get(platform.router.addr()), "hello");
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Each process first trusts the new authority, then presents a certificate from it, then
        // stops trusting the old one, each step at the time when it happens to reload its files.
        for (signs, others) in [(&old, &new), (&new, &old)] {
            platform.renew(signs, &[others]);
            more(50);
            // A new router connects to the processes that were there before.
            let router = platform.start_router();
            assert_eq!(platform.get(router.router.addr()), "hello");
            router.end();
        }
        platform.renew(&new, &[]);
        let router = platform.start_router();
        assert_eq!(platform.get(router.router.addr()), "hello");
        router.end();
        let runtime = runtime();
        let node = platform.node.addresses()[0];
        assert!(runtime.block_on(meets(&show(&new, Role::Router), Role::RuntimeNode, node)));
        assert!(!runtime.block_on(meets(&show(&old, Role::Router), Role::RuntimeNode, node)));
        more(50);
        over.store(true, Ordering::Relaxed);
        load.join().expect("every request is answered");
    });
    platform.end();
}

/// The running parts, each with its own directory of certificates.
struct Platform {
    volumes: [Volume; Role::ALL.len()],
    registries: [Registry; Role::ALL.len()],
    runtime: tokio::runtime::Runtime,
    catalog: SocketAddr,
    digest: Vec<u8>,
    node: Node,
    router: Router,
    signals: [drain::Signal; Role::ALL.len()],
}

/// A second router beside the platform's own.
struct AnotherRouter {
    router: Router,
    signal: drain::Signal,
}

impl Platform {
    fn start(authority: &CertifiedKey) -> Self {
        let volumes = Role::ALL.map(|role| Volume::with(&bundle(authority, role, &[])));
        let registries = Role::ALL.map(|_| Registry::new());
        let tls = |role: Role| open(&volumes[role as usize], role, &registries[role as usize]);
        let runtime = runtime();
        let (readiness, [of_catalog, of_router, of_node]) =
            (Readiness::new(), [(); 3].map(|()| drain::channel()));

        let entries = Catalog::new();
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let catalog = listener.local_addr().unwrap();
        runtime.spawn(catalog::serve(
            listener,
            Some(tls(Role::Operator)),
            entries.clone(),
            of_catalog.1,
        ));
        let source = "export default { fetch() { return new Response('hello') } };";
        let revision = Revision::of_source("shop/hello".parse().unwrap(), source);
        let route = Route { host: "shop".to_owned(), path: "/".to_owned() };
        let digest = entries.set_worker(Arc::new(revision), "default", vec![route]);

        let config = router_config(catalog, tls(Role::Router));
        let router =
            Router::spawn(config, of_router.1, &registries[Role::Router as usize], &readiness)
                .unwrap();
        let line = [
            "node".to_owned(),
            "--name=n".to_owned(),
            "--listen-ip=127.0.0.1".to_owned(),
            "--shard-port=0".to_owned(),
            "--shards=1".to_owned(),
            "--no-pin".to_owned(),
            format!("--catalog=https://{catalog}"),
            format!("--router=https://{}", router.internal_addr()),
            format!("--tls-dir={}", volumes[Role::RuntimeNode as usize].path().display()),
        ];
        let config = NodeConfig::try_from(Command::try_parse_from(line).unwrap().node).unwrap();
        let config = NodeConfig { tls: Some(tls(Role::RuntimeNode)), ..config };
        let node =
            Node::spawn(config, of_node.1, &registries[Role::RuntimeNode as usize], &readiness)
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
        let signals = [of_catalog.0, of_router.0, of_node.0];
        let digest = digest.as_bytes().to_vec();
        Self { volumes, registries, runtime, catalog, digest, node, router, signals }
    }

    /// Starts a second router and waits until it is ready.
    fn start_router(&self) -> AnotherRouter {
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

    /// Issues each process a new certificate and waits until it has loaded it.
    fn renew(&self, authority: &CertifiedKey, others: &[&CertifiedKey]) {
        for (role, (volume, registry)) in
            Role::ALL.into_iter().zip(self.volumes.iter().zip(&self.registries))
        {
            let before = loaded(registry);
            volume.turn(&bundle(authority, role, others));
            await_condition(&format!("the {role} has read its files"), || {
                loaded(registry) > before
            });
        }
    }

    /// Sends a request to a router and returns the body of the response.
    fn get(&self, router: SocketAddr) -> String {
        let mut stream = TcpStream::connect(router).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) =
            answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        body.to_owned()
    }

    fn end(self) {
        let Self { runtime, router, node, signals: [catalog, of_router, of_node], .. } = self;
        runtime.block_on(of_router.drain());
        router.join();
        runtime.block_on(of_node.drain());
        node.join();
        runtime.block_on(catalog.drain());
    }
}

impl AnotherRouter {
    fn end(self) {
        runtime().block_on(self.signal.drain());
        self.router.join();
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    node: NodeArgs,
}

fn router_config(catalog: SocketAddr, tls: Tls) -> tenon_router::Config {
    tenon_router::Config {
        name: "router/test".to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        internal_listen: (Ipv4Addr::LOCALHOST, 0).into(),
        catalog: format!("https://{catalog}").parse().unwrap(),
        tls: Some(tls),
        threads: NonZeroUsize::new(2).unwrap(),
        access_log: false,
        debug_headers: false,
        client_memory: 64 << 20,
        client_connections: 1000,
        pace: tenon_router::Pace::default(),
        drain_linger: Duration::ZERO,
        tunnel_grace: Duration::ZERO,
    }
}

/// A directory laid out like a Secret volume of the kubelet.
struct Volume(tempfile::TempDir);

impl Volume {
    fn with(bundle: &Bundle) -> Self {
        let volume = Self(tempfile::tempdir().unwrap());
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), volume.path().join(file)).unwrap();
        }
        volume.turn(bundle);
        volume
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn turn(&self, bundle: &Bundle) {
        let place = tempfile::Builder::new().prefix("..").tempdir_in(self.0.path()).unwrap().keep();
        fs::write(place.join("tls.crt"), &bundle.certificate).unwrap();
        fs::write(place.join("tls.key"), &bundle.key).unwrap();
        fs::write(place.join("ca.crt"), &bundle.authorities).unwrap();
        symlink(place.file_name().unwrap(), self.path().join("..new")).unwrap();
        fs::rename(self.path().join("..new"), self.path().join("..data")).unwrap();
    }
}

fn authority() -> CertifiedKey {
    issue::authority(Timestamp::now(), DAY).unwrap()
}

/// Returns a bundle with a certificate for a role, trusting `authority` and `others`.
fn bundle(authority: &CertifiedKey, role: Role, others: &[&CertifiedKey]) -> Bundle {
    let pair = issue::certificate(authority, role, Timestamp::now(), DAY).unwrap();
    let believed: String =
        [authority].iter().chain(others).map(|pair| pair.certificate.as_str()).collect();
    Bundle {
        certificate: pair.certificate.into(),
        key: pair.key.into(),
        authorities: believed.into(),
    }
}

fn open(volume: &Volume, role: Role, registry: &Registry) -> Tls {
    TlsArgs { tls_dir: Some(volume.path()) }.open(role, registry).unwrap().unwrap()
}

/// Returns the TLS configuration of a client that presents a certificate for a role.
fn show(authority: &CertifiedKey, role: Role) -> Tls {
    let tls = Tls::to_come(role, &Registry::new()).unwrap();
    tls.install(&bundle(authority, role, &[])).unwrap();
    tls
}

/// Returns whether the server accepts the client and proves to have the role that the client
/// expects.
async fn meets(client: &Tls, looks_for: Role, address: SocketAddr) -> bool {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let met = tokio::time::timeout(DEADLINE, client.connect(looks_for, "127.0.0.1", stream))
        .await
        .unwrap();
    met.is_ok_and(|stream: Stream| stream.peer_is(looks_for) == Some(true))
}

/// Returns whether a client that speaks HTTP/2 without TLS receives nothing but a TLS alert.
fn hangs_up_on_plain_http(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    // A connection reset is equally acceptable.
    let _ = stream.read_to_end(&mut answer);
    const ALERT: u8 = 21;
    answer.first().is_none_or(|first| *first == ALERT)
}

/// Returns the number of certificates that a process has loaded.
fn loaded(registry: &Registry) -> u64 {
    let families = registry.gather();
    let reads = families.iter().find(|family| family.name() == "tenon_tls_reloads_total").unwrap();
    let ok =
        reads.get_metric().iter().find(|metric| metric.get_label()[0].value() == "ok").unwrap();
    ok.get_counter().get_value() as u64
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Polls until `holds` returns true.
///
/// # Panics
/// Panics if the deadline has passed.
fn await_condition(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::yield_now();
    }
}
