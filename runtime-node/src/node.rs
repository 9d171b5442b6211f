//! Runs all shards of a node in one process, or the only shard or lane of a process that a
//! supervisor has started: binds the ports, and starts and joins the threads.
//!
//! ```text
//!  spawn ─► bind every port ─► one thread per shard ─► serve until the drain ─► finish ─► end
//! ```

mod connection;
mod front;
pub(crate) mod siblings;
mod thread;

pub(crate) use connection::LocalExecutor;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;

use core_affinity::CoreId;
use prometheus::Registry;
use tenon_egress::{Policy, Settings, SettingsError};
use tenon_engine::{Headroom, Watchdog};
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::Tls;
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::ShardId;
use tenon_router::Router;
use tenon_web::response_cache::ResponseCache;
use tokio::sync::watch;

use crate::child::ChildProcess;
use crate::config::Config;
use crate::memory::{self, Meter, MeterError, Pressure};
use crate::metrics::{LOOPS, Metrics};
use crate::reports::{self, Reporter};
use crate::services::RouterUrl;
use crate::source::Source;
use front::Front;
use siblings::SiblingLinks;
use thread::{Clients, ShardThread, Supervised};

/// A running node.
pub struct Node {
    name: String,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
    front: Option<Router>,
}

/// The reason why a node cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error(
        "cannot listen on {address} for shard {shard}: {source}; free the port or set --shard-port"
    )]
    Listen { shard: ShardId, address: SocketAddr, source: io::Error },
    #[error(
        "cannot listen on port {port} for profiles: {source}; free the port or set --profile-port"
    )]
    Profiles { port: u16, source: io::Error },
    #[error("cannot read the address of a listener: {0}")]
    Address(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot store revisions: {0}; set --code-cache-dir to a writable directory")]
    Source(io::Error),
    #[error("cannot determine the memory budget: {0}")]
    Memory(#[from] MeterError),
    #[error("cannot create the sockets between shards: {0}")]
    Siblings(io::Error),
    #[error("cannot start the front: {0}")]
    Front(#[from] tenon_router::SpawnError),
    #[error(transparent)]
    Egress(#[from] SettingsError),
    #[error("the metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Node {
    /// Starts every shard. [`engine::init`](tenon_engine::init) must have been called.
    ///
    /// The node is ready once every shard serves; only a front waits for the catalog. A node that
    /// starts without an operator works as soon as one is reachable, and a node that loses the
    /// operator continues to serve the revisions that it has. If such a node became unready,
    /// routers would lose all of its revisions; a ready node fails only the requests for other
    /// revisions, and routers repeat those elsewhere.
    ///
    /// # Errors
    /// Fails if a port is taken, the system cannot create a thread, or a part of the configuration
    /// is unusable.
    pub fn spawn(
        mut config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        // Ports are bound before any thread starts, so that nothing has to be cleaned up if one is
        // taken.
        let shards = config.listen.addresses().filter(|(id, _)| !id.is_lane());
        let bound = shards.map(|(id, address)| {
            listen(id, address).map(|(listener, address)| (id, listener, address))
        });
        let bound = bound.collect::<Result<Vec<_>, _>>()?;
        let front = match config.front.take() {
            Some(front) => {
                let shards = NonZeroUsize::new(bound.len()).unwrap_or(NonZeroUsize::MIN);
                let listeners = tenon_router::bind(&front.addresses(), shards)?;
                let drain = drain.clone();
                Some(front::start(&config, front, None, listeners, drain, registry, readiness)?)
            }
            None => None,
        };
        let (front, fronts) = front.map(|front| (front.router, front.threads)).unzip();
        let fronts = fronts.into_iter().flatten();
        let siblings = SiblingLinks::of_threads(bound.len()).into_iter().map(Some);
        let mut clients =
            fronts.zip(siblings).map(|(thread, siblings)| Clients { thread, siblings });
        if config.router.is_none() {
            config.router = front.as_ref().and_then(internal_url);
        }
        let crash_loops = reports::register(registry)?;
        let (name, catalog, tls) =
            (config.name.clone(), config.catalog.ready.clone(), config.tls.clone());
        let directory = config.pool.code_cache_dir.clone();
        let source = Source::spawn(config.catalog.clone(), tls.clone(), directory);
        let source = source.map_err(SpawnError::Source)?;
        let reporter = Reporter::spawn(name.clone(), catalog, tls, crash_loops);
        let reporter = reporter.map_err(SpawnError::Thread)?;
        let parts = Parts::new(config, registry, source, reporter, drain, registry, readiness)?;
        let mut node = Self { name, addresses: Vec::new(), threads: Vec::new(), front };
        for (id, listener, address) in bound {
            node.threads.push(parts.start(id, listener, None, clients.next())?);
            node.addresses.push(address);
        }
        Ok(node)
    }

    /// Starts the only shard or lane of a process that a supervisor has started. The requirements
    /// are those of [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// Fails if the listener is invalid, the system cannot create a thread, or a part of the
    /// configuration is unusable.
    pub fn spawn_child(
        config: Config,
        child: ChildProcess,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let ChildProcess { id, page, listener, clients, supervisor, commands_rx } = child;
        let address = listener.local_addr().map_err(SpawnError::Address)?;
        let source = Source::via_supervisor(supervisor.clone());
        let reporter = Reporter::via_supervisor(supervisor.clone());
        let name = config.name.clone();
        let mut config = config.for_one_process();
        let front = match config.front.take().zip(clients) {
            Some((front, clients)) => {
                let ((listeners, siblings), drain) = (clients, drain.clone());
                let listeners = vec![listeners];
                let Front { router, threads } =
                    front::start(&config, front, Some(id), listeners, drain, registry, readiness)?;
                Some((
                    router,
                    threads.into_iter().next().map(|thread| Clients { thread, siblings }),
                ))
            }
            None => None,
        };
        let (front, clients) = front.unzip();
        let clients = clients.flatten();
        // The node's own metrics are exposed by its supervisor.
        let node_registry = Registry::new();
        let parts =
            Parts::new(config, &node_registry, source, reporter, drain, registry, readiness)?;
        let readiness = readiness.clone();
        let supervised = Supervised { page, supervisor, commands_rx, readiness };
        let thread = parts.start(id, listener, Some(supervised), clients)?;
        Ok(Self { name, addresses: vec![address], threads: vec![thread], front })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of each shard, in the order of the shards.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the front, if the node has one.
    pub fn front(&self) -> Option<&Router> {
        self.front.as_ref()
    }

    /// Waits until every shard and the front have ended. Resumes the panic of a shard's thread.
    pub fn join(self) {
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.front.into_iter().for_each(Router::join);
    }
}

/// State that the shards of a process share.
struct Parts<'a> {
    config: Config,
    metrics: Metrics,
    loops: EventLoops,
    pressure_rx: watch::Receiver<Pressure>,
    headroom: Headroom,
    source: Source,
    reporter: Reporter,
    egress: Settings,
    responses: Arc<ResponseCache>,
    watchdog: Watchdog,
    cores: Vec<CoreId>,
    drain: drain::Watch,
    readiness: &'a Readiness,
}

impl<'a> Parts<'a> {
    /// Creates the state that the shards share.
    ///
    /// # Arguments
    /// * `node_registry` - the registry of the node's own metrics.
    /// * `registry` - the registry of the shards' metrics.
    fn new(
        config: Config,
        node_registry: &Registry,
        source: Source,
        reporter: Reporter,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &'a Readiness,
    ) -> Result<Self, SpawnError> {
        if config.admit_fronts {
            config.tls.iter().for_each(Tls::admit_own_role);
        }
        let metrics = Metrics::register(registry)?;
        let loops = EventLoops::register(registry, LOOPS)?;
        let meter = Meter::new(config.memory.budget, &config.memory.root)?;
        let memory_used = memory::register(node_registry, meter.budget())?;
        let headroom = Headroom::within(config.memory.share(meter.budget()));
        let pressure_rx = memory::watch(meter, memory_used).map_err(SpawnError::Thread)?;
        let policy = Policy::new(config.egress.allow.clone(), config.egress.deny.clone());
        let egress = Settings::from_system(policy, &config.egress.ca_files)?
            .with_proxy(config.egress.proxy.clone());
        let responses = ResponseCache::new(config.memory.response_cache);
        let watchdog = Watchdog::spawn();
        let cores = if config.listen.pin {
            core_affinity::get_core_ids().unwrap_or_default()
        } else {
            Vec::new()
        };
        Ok(Self {
            config,
            metrics,
            loops,
            pressure_rx,
            headroom,
            source,
            reporter,
            egress,
            responses,
            watchdog,
            cores,
            drain,
            readiness,
        })
    }

    fn start(
        &self,
        id: ShardId,
        listener: TcpListener,
        supervised: Option<Supervised>,
        clients: Option<Clients>,
    ) -> Result<JoinHandle<()>, SpawnError> {
        let thread = ShardThread {
            shard: id,
            listener,
            // A lane is not pinned; it runs where a core is free.
            core: self.cores.get(usize::from(id.position())).copied().filter(|_| !id.is_lane()),
            supervised,
            clients,
            watchdog: self.watchdog.clone(),
            source: self.source.clone(),
            reports: self.reporter.of(id),
            metrics: self.metrics.shard(id),
            loops: self.loops.clone(),
            pressure_rx: self.pressure_rx.clone(),
            headroom: self.headroom,
            egress: self.egress.clone(),
            responses: Arc::clone(&self.responses),
            config: self.config.clone(),
            drain: self.drain.clone(),
            ready: self.readiness.hold("shards"),
        };
        vital::spawn(format!("shard-{id}"), move || thread.run()).map_err(SpawnError::Thread)
    }
}

/// Returns the URL of the front's internal listener, if it has one, for calls between Workers.
fn internal_url(front: &Router) -> Option<RouterUrl> {
    format!("http://{}", front.internal_addr()?).parse().ok()
}

/// Binds a shard's port.
///
/// # Errors
/// Fails if the system cannot bind the port, for example because it is taken.
pub(crate) fn listen(
    shard: ShardId,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), SpawnError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| SpawnError::Listen { shard, address, source })
}
