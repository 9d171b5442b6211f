//! A node: its shards' threads, from their listeners to their end.
//!
//! ```text
//!  spawn ─► bind every port ─► one thread per shard ─► serve until the drain ─► finish what is in flight ─► leave
//! ```

mod connection;
mod thread;

pub(crate) use connection::Local;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use prometheus::Registry;
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::ShardId;

use crate::config::Config;
use crate::egress::{Policy, Settings, SettingsError};
use crate::engine::{Headroom, Watchdog};
use crate::memory::{self, Meter, MeterError};
use crate::metrics::{LOOPS, Metrics};
use crate::reports::Reporter;
use crate::response_cache::ResponseCache;
use crate::source::Source;
use thread::ShardThread;

/// A node that is running.
pub struct Node {
    name: String,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// Why a node cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot listen on {address} for shard {shard}: {source}; free the port or set --shard-port")]
    Listen { shard: u16, address: SocketAddr, source: io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot keep revisions: {0}; does --code-cache-dir name a directory that can be written?")]
    Source(io::Error),
    #[error("cannot tell how much memory there is: {0}")]
    Memory(#[from] MeterError),
    #[error(transparent)]
    Egress(#[from] SettingsError),
    #[error("the metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Node {
    /// Starts every shard. [`engine::init`](crate::engine::init) must have been called.
    ///
    /// Its readiness waits until every shard serves, and not for the catalog: a node that is made while the operator is
    /// away is as good as any once that is back, and one that loses it goes on with what it has. Were it unready, the
    /// routers would lose the whole node where they now retry one request.
    ///
    /// # Errors
    /// When a port is taken, or the system has no more threads.
    pub fn spawn(
        config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        // All ports before any thread: a node that cannot have one of them leaves nothing behind.
        let listeners = (0..config.shards).map(|shard| listen(shard, config.shard_address(shard)));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let metrics = Metrics::register(registry)?;
        let loops = EventLoops::register(registry, LOOPS)?;
        let meter = Meter::new(config.memory_budget, &config.root)?;
        metrics.memory_budget.set(i64::try_from(meter.budget()).unwrap_or(i64::MAX));
        let headroom = Headroom::within(meter.budget());
        let pressure_rx = memory::watch(meter, metrics.memory_used.clone()).map_err(SpawnError::Thread)?;
        let (catalog, tls) = (config.catalog.clone(), config.tls.clone());
        let source = Source::spawn(catalog.clone(), tls.clone(), config.code_cache_dir.clone());
        let source = source.map_err(SpawnError::Source)?;
        let reporter = Reporter::spawn(config.name.clone(), catalog, tls, metrics.crash_loops.clone());
        let reporter = reporter.map_err(SpawnError::Thread)?;
        let policy = Policy::new(config.egress_allow.clone(), config.egress_deny.clone());
        let egress = Settings::of_system(policy, &config.egress_ca_files)?.with_proxy(config.egress_proxy.clone());
        let responses = ResponseCache::new(config.response_cache);
        let watchdog = Watchdog::spawn();
        let cores = if config.pin { core_affinity::get_core_ids().unwrap_or_default() } else { Vec::new() };
        let mut node = Self { name: config.name.clone(), addresses: Vec::new(), threads: Vec::new() };
        for (shard, (listener, address)) in (0..).zip(listeners) {
            let thread = ShardThread {
                shard: ShardId(shard),
                listener,
                core: cores.get(usize::from(shard)).copied(),
                watchdog: watchdog.clone(),
                source: source.clone(),
                reports: reporter.of(ShardId(shard)),
                metrics: metrics.shard(ShardId(shard)),
                loops: loops.clone(),
                pressure_rx: pressure_rx.clone(),
                headroom,
                egress: egress.clone(),
                responses: Arc::clone(&responses),
                config: config.clone(),
                drain: drain.clone(),
                ready: readiness.hold("shards"),
            };
            let name = format!("shard-{shard}");
            let spawned = vital::spawn(name, move || thread.run());
            node.threads.push(spawned.map_err(SpawnError::Thread)?);
            node.addresses.push(address);
        }
        Ok(node)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where each shard listens, by its number.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until every shard has ended.
    pub fn join(self) {
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn listen(shard: u16, address: SocketAddr) -> Result<(TcpListener, SocketAddr), SpawnError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| SpawnError::Listen { shard, address, source })
}
