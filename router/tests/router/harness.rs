//! The building blocks of the tests. No test sleeps for a fixed time to wait: [`eventually`] awaits
//! a condition with a deadline.

mod catalog;
mod client;
mod collector;
mod http3;
mod internal;
mod node;
mod secured;
mod shard;
mod thread;
mod tls;
pub(crate) mod websocket;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Tls, scheme};
use tenon_proto::catalog::{Route, WatchResponse, Worker};
use tenon_router::{
    Config, Https, IDLE_TIMEOUT, Pace, Router, SitesConfig, SpansConfig, SpawnError, TrustedProxies,
};

pub(crate) use catalog::Catalog;
pub(crate) use client::{Client, FullResponse, full, raw, streamed};
pub(crate) use collector::{Collector, Reaction, config as spans_config, text as attribute};
pub(crate) use http3::{
    Http3Client, answer as http3_answer, body as http3_body, config as http3_config,
    head as http3_head, trailers as http3_trailers,
};
pub(crate) use internal::{InternalCaller, head};
pub(crate) use node::{Node, Process};
pub(crate) use secured::{Secured, issue};
pub(crate) use shard::{BYE, Behavior, WELCOME};
pub(crate) use tls::{Authority, TlsProxy};

/// The time after which an operation that has not completed counts as failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until a condition is true.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A router with its catalog.
pub(crate) struct Scenario {
    pub(crate) catalog: Catalog,
    pub(crate) registry: Registry,
    pub(crate) readiness: Readiness,
    signal: Option<drain::Signal>,
    router: Router,
    tls: Option<Tls>,
}

pub(crate) struct Options {
    pub(crate) debug_headers: bool,
    pub(crate) compression: bool,
    pub(crate) spans: Option<SpansConfig>,
    pub(crate) client_memory: u64,
    pub(crate) client_connections: u64,
    pub(crate) idle_timeout: Duration,
    pub(crate) pace: Pace,
    pub(crate) linger: Duration,
    pub(crate) tunnel_grace: Duration,
    pub(crate) tls: Option<Tls>,
    pub(crate) https: Option<Https>,
    /// The port that the router advertises for HTTP/3.
    pub(crate) http3: Option<u16>,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) proxy_protocol: bool,
    pub(crate) threads: NonZeroUsize,
    /// The capacity for static files, in bytes.
    pub(crate) site_capacity: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug_headers: true,
            compression: true,
            spans: None,
            client_memory: 256 << 20,
            client_connections: 10_000,
            idle_timeout: IDLE_TIMEOUT,
            pace: Pace::default(),
            linger: Duration::ZERO,
            tunnel_grace: Duration::ZERO,
            tls: None,
            https: None,
            http3: None,
            trusted_proxies: Vec::new(),
            proxy_protocol: false,
            threads: NonZeroUsize::new(2).unwrap(),
            site_capacity: 1 << 30,
        }
    }
}

impl Scenario {
    /// Starts a router that serves the Worker `shop/cart` at the host `shop` on these nodes, and
    /// waits until the router is ready.
    pub(crate) async fn with(nodes: &[&Node]) -> Self {
        Self::with_options(nodes, Options::default()).await
    }

    pub(crate) async fn with_options(nodes: &[&Node], options: Options) -> Self {
        let catalog = Catalog::start().await;
        catalog.change(WatchResponse {
            workers: vec![worker("shop/cart", "shop")],
            nodes: nodes.iter().map(|node| node.entry()).collect(),
            ..Default::default()
        });
        let scenario = Self::start(catalog.addr(), catalog, options);
        eventually("readiness", || scenario.readiness.is_ready()).await;
        scenario
    }

    /// Starts a router, and does not wait until it is ready.
    ///
    /// # Arguments
    /// * `watches` - the address at which the router watches the catalog: the address of `catalog`
    ///   or of a proxy in front of it, or one at which nothing listens.
    pub(crate) fn start(watches: SocketAddr, catalog: Catalog, options: Options) -> Self {
        let (signal, watch) = drain::channel();
        let readiness = Readiness::new();
        let config = Config {
            name: "router/test".into(),
            listen: ([127, 0, 0, 1], 0).into(),
            trusted_proxies: TrustedProxies::new(options.trusted_proxies.clone())
                .with_proxy_protocol(options.proxy_protocol),
            https: options.https.clone().map(|https| (([127, 0, 0, 1], 0).into(), https)),
            http3: options.http3,
            internal_listen: Some(([127, 0, 0, 1], 0).into()),
            catalog: format!("{}://{watches}", scheme(options.tls.is_some())).parse().unwrap(),
            tls: options.tls.clone(),
            threads: options.threads,
            access_log: true,
            debug_headers: options.debug_headers,
            compression: options.compression,
            spans: options.spans,
            client_memory: options.client_memory,
            client_connections: options.client_connections,
            idle_timeout: options.idle_timeout,
            pace: options.pace,
            shards_may_pause: false,
            pages: None,
            sites: SitesConfig { capacity: options.site_capacity, ..SitesConfig::default() },
            drain_linger: options.linger,
            tunnel_grace: options.tunnel_grace,
        };
        let (registry, router) = loop {
            let registry = Registry::new();
            match Router::spawn(config.clone(), watch.clone(), &registry, &readiness) {
                // A client of another test uses the UDP port that has the number of the HTTPS port.
                // The next attempt gets another port.
                Err(SpawnError::Http3(_)) => {}
                spawned => break (registry, spawned.unwrap()),
            }
        };
        // The drain waits for every watch.
        drop(watch);
        Self { catalog, registry, readiness, signal: Some(signal), router, tls: options.tls }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.router.addr()
    }

    /// Returns the address for nodes and the operator.
    pub(crate) fn internal_addr(&self) -> SocketAddr {
        self.router.internal_addr().unwrap()
    }

    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the TLS state of the router, with its certificate and the trusted authorities.
    pub(crate) fn tls(&self) -> &Tls {
        self.tls.as_ref().unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::http1(self.addr()).await
    }

    /// Returns the drain's signal, which the test triggers.
    pub(crate) fn signal(&mut self) -> drain::Signal {
        self.signal.take().unwrap()
    }

    /// Waits for the threads of a drained router.
    pub(crate) async fn join(self) {
        let Self { router, catalog, .. } = self;
        tokio::time::timeout(DEADLINE, tokio::task::spawn_blocking(|| router.join()))
            .await
            .unwrap()
            .unwrap();
        drop(catalog);
    }

    /// Returns the sum of a family's metrics, or of those that have this label value.
    pub(crate) fn metric(&self, name: &str, label: Option<&str>) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let matching = metrics.iter().filter(|metric| {
            label.is_none_or(|label| metric.get_label().iter().any(|pair| pair.value() == label))
        });
        matching
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

pub(crate) fn worker(id: &str, host: &str) -> Worker {
    Worker {
        id: id.into(),
        pool: "default".into(),
        digest: vec![7; 32],
        routes: vec![Route { host: host.into(), path: "/".into() }],
        wall_ms: 10_000,
        request_body_bytes: 64 << 20,
        services: Vec::new(),
        assets: None,
        variants: Vec::new(),
        session_affinity: None,
        strict_affinity: false,
        rate_limits: None,
        measurement: 0,
    }
}
