//! `tenon dev`: the platform in one process.
//!
//! ```text
//!  probe the port ─► watch the files ─► reload ─► catalog ─► node with a front ─► ready ─► print
//!                                        ▲                                          │
//!                                        └──────────── a file was saved ◄───────────┤
//!                                                     a schedule is due ◄───────────┤
//!                                              the node drains ─► catalog ◄─────────┘ Ctrl-C
//! ```
//!
//! The node's front stands in for the routers: each thread accepts requests, answers those for the
//! Workers of its own shard, and forwards the others to the shards of the other threads.
//!
//! The watch starts before the files are read for the first time, so no save is missed. The parts
//! shut down in the order in which requests pass through them, so every accepted request is
//! answered.

mod browser;
mod excerpt;
mod print;
mod schedules;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use prometheus::Registry;
use tenon_catalog::{AssetsSource, Catalog};
use tenon_lifecycle::drain;
use tenon_lifecycle::log::{self, LogArgs, LogFormat};
use tenon_lifecycle::readiness::Readiness;
use tenon_proto::catalog::{Node as NodeEntry, node::State};
use tenon_proto::id::SiteId;
use tenon_router::{Pages, Router};
use tenon_runtime_node::config::{
    Config, DrainConfig, EgressConfig, FrontConfig, ListenConfig, PoolConfig,
};
use tenon_runtime_node::node::Node;
use tenon_table::Table;
use tokio::task::spawn_blocking;

use crate::assets::Packed;
use crate::bundle::Bundler;
use crate::inspect::{InspectArgs, Inspection};
use crate::load::{self, Settings};
use crate::served_workers::ServedWorkers;
use crate::source::SourceArgs;
use crate::watch::Changes;
use browser::Browser;
use schedules::Schedules;

/// Name of the only node.
const NODE: &str = "dev";
/// Pool of the only node. Every Worker runs in this pool, regardless of the pool in its spec.
const POOL: &str = "dev";

/// Time that in-flight invocations have to finish after Ctrl-C.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// Maximum time to wait until a build is applied, before browsers reload their pages.
const APPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of isolates that are created ahead of demand. The number is lower than on a cluster,
/// because a developer starts few Workers at the same time.
const SPARE_ISOLATES: usize = 2;

#[derive(clap::Args)]
#[command(mut_arg("log_format", |arg| arg.default_value("pretty")))]
#[command(mut_arg("log_level", |arg| arg.default_value("warn,tenon::worker=info,tenon::access=info")))]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// Address on which requests are served.
    #[arg(long, env = "TENON_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Number of threads that accept requests and run Workers. Defaults to the number of CPUs.
    #[arg(long, env = "TENON_SHARDS", conflicts_with_all = ["inspect", "inspect_brk"])]
    shards: Option<NonZeroU16>,

    #[command(flatten)]
    inspect: InspectArgs,

    /// Log every request.
    #[arg(long, env = "TENON_ACCESS_LOG")]
    access_log: bool,

    #[command(flatten)]
    log: LogArgs,
}

/// Serves the Workers until Ctrl-C.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let _log = log::init(&args.log);
    let mut settings = args.source.settings()?;
    if args.inspect.is_set() {
        settings.debug_directory = Some(std::env::current_dir()?);
    }
    probe(args.listen)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut dev = Dev::start(args, settings).await?;
        dev.follow().await;
        println!("\nDraining; press Ctrl-C again to exit immediately.");
        tokio::select! {
            () = dev.drain() => Ok(()),
            () = drain::termination() => Ok(()),
        }
    })
}

/// Fails if the port is in use. The router sets `SO_REUSEPORT`, so its own bind would succeed
/// beside another process that sets it too.
fn probe(listen: SocketAddr) -> anyhow::Result<()> {
    TcpListener::bind(listen).map(drop).with_context(|| {
        format!(
            "cannot listen on {listen}; free the port, or choose another one: --listen {}",
            SocketAddr::new(listen.ip(), if listen.port() == 8080 { 8081 } else { 8080 })
        )
    })
}

/// The running parts, with the signals that shut them down.
struct Dev {
    paths: Vec<PathBuf>,
    bundler: Bundler,
    settings: Settings,
    packs: Packs,
    browser: Arc<Browser>,
    workers: ServedWorkers,
    files: Changes,
    schedules: Schedules,
    inspection: Option<Inspection>,
    catalog: Catalog,
    catalog_signal: drain::Signal,
    node: Node,
    node_signal: drain::Signal,
}

impl Dev {
    async fn start(args: Args, settings: Settings) -> anyhow::Result<Self> {
        let files = Changes::of(&args.source.paths).context("cannot watch the files")?;
        let (catalog_signal, catalog_drain) = drain::channel();
        let (node_signal, node_drain) = drain::channel();
        let (registry, readiness) = (Registry::new(), Readiness::new());
        let inspection = args.inspect.start().await?;
        // A debugger sees one thread, and a paused isolate blocks its thread.
        let shards = match &inspection {
            Some(_) => 1,
            None => args.shards.map_or_else(cpus, NonZeroU16::get),
        };

        let catalog = Catalog::new();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let catalog_url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(tenon_catalog::serve(listener, None, catalog.clone(), catalog_drain));
        let packs = Packs::default();
        catalog.set_assets_source(packs.source());

        let prints = args.log.log_format == LogFormat::Pretty;
        let browser = Arc::new(Browser::new(settings.domain.clone(), prints));

        let config = Config {
            exceptions: Some(browser.clone()),
            inspector: inspection.as_ref().map(|inspection| Arc::clone(&inspection.inspector)),
            front: Some(front_config(&args, &catalog_url, browser.clone())?),
            ..node_config(&catalog_url, shards)?
        };
        let node = Node::spawn(config, node_drain, &registry, &readiness)?;
        let internal =
            front(&node).internal_addr().context("the front has no internal listener")?;
        catalog.set_node(node_entry(&node));

        let paths = args.source.paths;
        let mut dev = Self {
            paths,
            bundler: Bundler::default(),
            settings,
            packs,
            browser,
            workers: ServedWorkers::default(),
            files,
            schedules: Schedules::new(internal),
            inspection,
            catalog,
            catalog_signal,
            node,
            node_signal,
        };
        print::listening(front(&dev.node).addr(), &dev.settings.domain);
        dev.inspection.iter().for_each(|inspection| print::inspecting(inspection.address));
        dev.reload().await;
        dev.catalog.mark_synced();
        readiness.ready().await;
        dev.await_applied().await;
        print::ready();
        Ok(dev)
    }

    /// Loads the files and applies the changes to the catalog. An invalid Worker keeps its last
    /// good revision.
    async fn reload(&mut self) {
        // A build may take long, and this thread serves the catalog.
        let (paths, mut bundler) = (self.paths.clone(), std::mem::take(&mut self.bundler));
        let reading = spawn_blocking(move || {
            let manifests = bundler.read(&paths);
            (manifests, bundler)
        });
        let (manifests, bundler) = reading.await.expect("the files could not be read");
        self.bundler = bundler;
        self.files.follow(&manifests.folders);
        let load = load::load(manifests, &self.settings, |id| self.workers.served(id));
        let changes = self.workers.update(load);
        // A request may start a Worker as soon as the catalog has it.
        self.inspection.iter().for_each(|inspection| inspection.follow(&changes));
        self.packs.set(self.workers.assets());
        self.browser.load(&self.workers, front(&self.node).addr());
        for id in &changes.removed {
            self.catalog.remove_worker(id);
        }
        for loaded in &changes.served {
            self.catalog.set_worker(loaded.revision.clone(), POOL, loaded.routes.clone());
        }
        self.schedules.set(self.workers.schedules());
        let nodes = self.catalog.nodes();
        let printer = print::Printer::new(front(&self.node).addr(), POOL, &nodes);
        printer.changes(&changes, &self.workers);
    }

    /// Waits until the front serves what has been loaded, but not longer than [`APPLY_TIMEOUT`],
    /// and makes browsers reload their pages.
    async fn await_applied(&self) {
        let is_applied = |table: &Table| {
            self.workers.iter().all(|(id, loaded)| {
                table.worker(id).is_some_and(|worker| worker.digest == loaded.digest)
            })
        };
        let applied = front(&self.node).await_table(is_applied);
        if tokio::time::timeout(APPLY_TIMEOUT, applied).await.is_err() {
            let seconds = APPLY_TIMEOUT.as_secs();
            tracing::warn!("the router has not applied the changes within {seconds} s");
        }
        self.browser.reload_pages();
    }

    /// Follows the files and the schedules until the process receives a termination signal.
    async fn follow(&mut self) {
        let termination = drain::termination();
        tokio::pin!(termination);
        loop {
            tokio::select! {
                () = &mut termination => return,
                () = self.files.next() => {
                    self.reload().await;
                    self.await_applied().await;
                }
                () = self.schedules.next() => {}
            }
        }
    }

    async fn drain(self) {
        // Code that a debugger has paused blocks its thread, which then could not drain.
        self.inspection.iter().for_each(|inspection| inspection.inspector.close());
        self.node_signal.drain().await;
        self.node.join();
        self.catalog_signal.drain().await;
    }
}

/// The packs of static files that the router can request.
#[derive(Clone, Default)]
struct Packs(Arc<Mutex<BTreeMap<SiteId, Arc<File>>>>);

impl Packs {
    fn set<'a>(&self, packed: impl Iterator<Item = &'a Packed>) {
        *self.lock() = packed.map(|packed| (packed.site, Arc::clone(&packed.pack))).collect();
    }

    fn source(&self) -> AssetsSource {
        let packs = self.clone();
        Arc::new(move |revision| {
            let site = revision.assets.as_ref().map(|assets| SiteId::try_from(&assets.site[..]));
            let pack = site.and_then(Result::ok).and_then(|site| packs.lock().get(&site).cloned());
            ready(pack).boxed()
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SiteId, Arc<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the node's front, which `tenon dev` always configures.
fn front(node: &Node) -> &Router {
    node.front().expect("the node has no front")
}

fn cpus() -> u16 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|cpus| u16::try_from(cpus.get()).ok())
        .unwrap_or(1)
}

fn node_config(catalog: &str, shards: u16) -> anyhow::Result<Config> {
    Ok(Config {
        listen: ListenConfig {
            ip: Ipv4Addr::LOCALHOST.into(),
            shard_port: 0,
            shards,
            lanes: 0,
            pin: shards <= cpus(),
        },
        pool: PoolConfig { spares: SPARE_ISOLATES, ..PoolConfig::default() },
        // The code is the developer's own, so it may connect to every host that the developer can
        // reach.
        egress: EgressConfig {
            allow: vec![
                "0.0.0.0/0".parse()?,
                "::/0".parse()?,
                "0.0.0.0/8".parse()?,
                "127.0.0.0/8".parse()?,
                // This network contains both `::` and `::1`.
                "::/127".parse()?,
            ],
            ..EgressConfig::default()
        },
        drain: DrainConfig { grace: DRAIN_GRACE },
        ..Config::new(NODE.to_owned(), catalog.parse()?)
    })
}

fn front_config(args: &Args, catalog: &str, pages: Arc<dyn Pages>) -> anyhow::Result<FrontConfig> {
    let name = "router/dev".to_owned();
    let router = tenon_router::Config {
        internal_listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
        access_log: args.access_log,
        shards_may_pause: args.inspect.is_set(),
        pages: Some(pages),
        // The default drain is right: no load balancer has to notice it before the front stops
        // accepting connections, and WebSockets are closed immediately.
        ..tenon_router::Config::new(name, args.listen, catalog.parse()?)
    };
    Ok(FrontConfig { router, https_listen: None })
}

fn node_entry(node: &Node) -> NodeEntry {
    NodeEntry {
        name: node.name().to_owned(),
        pool: POOL.to_owned(),
        address: Ipv4Addr::LOCALHOST.to_string(),
        shard_ports: node.addresses().iter().map(|address| address.port().into()).collect(),
        lane_ports: Vec::new(),
        state: State::Ready.into(),
    }
}
