//! A node with its catalog, and the operations that tests perform on them.

pub(crate) mod catalog;
pub(crate) mod client;
pub(crate) mod front;
pub(crate) mod log;
pub(crate) mod router;
pub(crate) mod supervised;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use libtest_mimic::Trial;
use prometheus::Registry;
use tenon_lifecycle::drain::{self, Signal};
use tenon_lifecycle::readiness::Readiness;
use tenon_proto::id::{RevisionDigest, WorkerId};
use tenon_proto::revision::{Binding, BoundService, Limits, Revision};
use tenon_runtime_node::config::{Config, DrainConfig, ListenConfig, MemoryConfig, PoolConfig};
use tenon_runtime_node::node::Node;

use catalog::Catalog;
use client::Client;

/// The time after which a test fails, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Lists tests. Each test is named after its async function and runs on a thread of its own.
macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::harness::trial(stringify!($name), |name| Box::pin($name(name)))),+]
        }
    };
}
pub(crate) use trials;

pub(crate) type Running = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) fn trial(name: &'static str, test: fn(&'static str) -> Running) -> Trial {
    Trial::test(name, move || {
        // A test that ends waits for its node, which closes the test's connection gracefully. The
        // runtime's other thread performs the client's part of the close.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let test = async { tokio::time::timeout(TIMEOUT, test(name)).await };
        runtime.block_on(test).map_err(|_| "the test timed out".into())
    })
}

/// A running node and its catalog. Dropping it drains the node and waits for its threads.
pub(crate) struct TestNode {
    pub(crate) catalog: Catalog,
    pub(crate) readiness: Readiness,
    /// The namespace of the node's Workers: the test's name, which distinguishes their log lines
    /// from those of other tests.
    name: &'static str,
    registry: Registry,
    clients: Vec<Client>,
    node: Option<Node>,
    signal: Option<Signal>,
}

/// A revision in the catalog.
#[derive(Clone)]
pub(crate) struct Deployed {
    pub(crate) worker: WorkerId,
    pub(crate) digest: RevisionDigest,
}

impl TestNode {
    /// Starts a node of one shard and waits until it is ready.
    pub(crate) async fn start(name: &'static str) -> Self {
        Self::with(name, |_| {}).await
    }

    /// Starts a node of one shard with a changed configuration, and waits until it is ready.
    pub(crate) async fn with(name: &'static str, change: impl FnOnce(&mut Config)) -> Self {
        let catalog = Catalog::start();
        let mut config = Config {
            listen: ListenConfig {
                ip: [127, 0, 0, 1].into(),
                shard_port: 0,
                shards: 1,
                lanes: 0,
                pin: false,
            },
            pool: PoolConfig { isolates: 20, spares: 2, ..PoolConfig::default() },
            memory: MemoryConfig { response_cache: 16 << 20, ..MemoryConfig::default() },
            drain: DrainConfig { grace: Duration::from_secs(1) },
            ..Config::new(name.to_owned(), catalog.url().parse().unwrap())
        };
        change(&mut config);
        let (registry, readiness) = (Registry::new(), Readiness::new());
        let (signal, watch) = drain::channel();
        let node = Node::spawn(config, watch, &registry, &readiness).unwrap();
        readiness.ready().await;
        let clients = node.addresses().iter().map(|address| Client::of(*address)).collect();
        Self { catalog, readiness, name, registry, clients, node: Some(node), signal: Some(signal) }
    }

    /// Starts a node without queues: a request gets a permit immediately or is shed.
    pub(crate) async fn without_queues(name: &'static str) -> Self {
        Self::with(name, |config| config.admission.max_waiting = 0).await
    }

    /// Deploys a Worker whose handler has this function body, with parameters `request`, `env` and
    /// `ctx`.
    pub(crate) fn handler(&self, name: &str, body: &str) -> Deployed {
        self.handler_with(name, body, |_| {})
    }

    pub(crate) fn handler_with(
        &self,
        name: &str,
        body: &str,
        limits: impl FnOnce(&mut Limits),
    ) -> Deployed {
        self.worker(
            name,
            &format!("export default {{ async fetch(request, env, ctx) {{ {body} }} }}"),
            limits,
        )
    }

    pub(crate) fn worker(
        &self,
        name: &str,
        source: &str,
        change: impl FnOnce(&mut Limits),
    ) -> Deployed {
        // Limits for unoptimized builds on a busy machine.
        let mut limits = Limits { cpu_ms: 500, startup_ms: 5_000, ..Limits::default() };
        change(&mut limits);
        self.worker_of(self.name, name, source, limits)
    }

    /// Deploys a Worker like [`TestNode::handler`], with the test's Worker `other` as its binding
    /// `OTHER`.
    pub(crate) fn caller(&self, name: &str, body: &str, other: &str) -> Deployed {
        self.caller_of(name, body, &[("OTHER", other, None)])
    }

    /// Deploys a Worker like [`TestNode::handler`]. Each of `services` is the name of a binding,
    /// the test's Worker to which it leads, and the export of that Worker.
    pub(crate) fn caller_of(
        &self,
        name: &str,
        body: &str,
        services: &[(&str, &str, Option<&str>)],
    ) -> Deployed {
        let source = format!("export default {{ async fetch(request, env, ctx) {{ {body} }} }}");
        let limits = Limits { cpu_ms: 500, startup_ms: 5_000, ..Limits::default() };
        let service = |(name, other, entrypoint): &(&str, &str, Option<&str>)| {
            let worker = WorkerId::new(self.name, other);
            let service = BoundService { worker, entrypoint: entrypoint.map(str::to_owned) };
            ((*name).to_owned(), service)
        };
        let services = services.iter().map(service).collect();
        self.deploy(WorkerId::new(self.name, name), &source, limits, services)
    }

    /// Deploys a Worker of another tenant.
    pub(crate) fn handler_of(&self, namespace: &str, name: &str, body: &str) -> Deployed {
        let source = format!("export default {{ async fetch(request, env, ctx) {{ {body} }} }}");
        self.worker_of(namespace, name, &source, Limits { startup_ms: 5_000, ..Limits::default() })
    }

    fn worker_of(&self, namespace: &str, name: &str, source: &str, limits: Limits) -> Deployed {
        self.deploy(WorkerId::new(namespace, name), source, limits, BTreeMap::new())
    }

    fn deploy(
        &self,
        worker: WorkerId,
        source: &str,
        limits: Limits,
        services: BTreeMap<String, BoundService>,
    ) -> Deployed {
        let revision = Revision::from_source(worker.clone(), source.to_owned());
        let bindings =
            services.into_iter().map(|(name, service)| (name, Binding::Service(service))).collect();
        let digest = self.catalog.put(Revision { bindings, limits, ..revision });
        Deployed { worker, digest }
    }

    /// Returns the node, which must not have been joined.
    pub(crate) fn node(&self) -> &Node {
        self.node.as_ref().expect("the node has been joined")
    }

    /// Returns the client of the first shard.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[0]
    }

    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Returns whether a Worker of the test, or the node on its behalf, has logged a line that
    /// contains `part`.
    pub(crate) fn logged(&self, part: &str) -> bool {
        log::lines().iter().any(|line| line.contains(self.name) && line.contains(part))
    }

    /// Returns the sum of all metrics of a family that have these labels.
    pub(crate) fn metric(&self, family: &str, labels: &[(&str, &str)]) -> u64 {
        let families = self.registry.gather();
        let family = families
            .iter()
            .find(|found| found.name() == family)
            .expect("the node has no such metric");
        let has = |metric: &prometheus::proto::Metric, (name, value): &(&str, &str)| {
            metric.get_label().iter().any(|label| label.name() == *name && label.value() == *value)
        };
        let metrics = family
            .get_metric()
            .iter()
            .filter(|metric| labels.iter().all(|label| has(metric, label)));
        // A metric is either a counter or a gauge, and reads as zero in the other form.
        let value = |metric: &prometheus::proto::Metric| {
            metric.get_counter().get_value() + metric.get_gauge().get_value()
        };
        metrics.map(value).sum::<f64>() as u64
    }

    /// Returns whether the family exists; a family appears with its first metric.
    fn has(&self, family: &str) -> bool {
        self.registry.gather().iter().any(|found| found.name() == family)
    }

    /// Waits until the sum of the metrics with these labels is `wanted`.
    pub(crate) async fn await_metric(&self, family: &str, labels: &[(&str, &str)], wanted: u64) {
        await_condition(family, || self.has(family) && self.metric(family, labels) == wanted).await;
    }

    /// Waits until the sum of the metrics with these labels is greater than zero.
    pub(crate) async fn await_any(&self, family: &str, labels: &[(&str, &str)]) {
        await_condition(family, || self.has(family) && self.metric(family, labels) > 0).await;
    }

    /// Tells the node to drain.
    pub(crate) fn begin_drain(&mut self) {
        self.signal.take();
    }

    /// Waits until the node has stopped.
    pub(crate) async fn join(&mut self) {
        let node = self.node.take().expect("the node has already been joined");
        tokio::task::spawn_blocking(|| node.join()).await.unwrap();
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.begin_drain();
        if let Some(node) = self.node.take() {
            node.join();
        }
    }
}

/// Polls a condition that gives no notification, and panics after [`TIMEOUT`].
pub(crate) async fn await_condition(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}
