//! A router as its process sees it: configured, started, asked, and waited for.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Uri;
use prometheus::Registry;
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::WorkerId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tonic::transport::Endpoint;

use crate::catalog;
use crate::front::{self, Doors};
use crate::metrics::{LOOPS, Metrics};
use crate::pace::Pace;
use crate::shares::Shares;
use crate::table::{Pin, Published, Table};
use crate::thread::{RouterThread, Settings};

/// How a router is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who we are, for the operator's log.
    pub name: String,
    /// Where clients come. Port 0 is any that is free.
    pub listen: SocketAddr,
    /// Where nodes and the operator come. Port 0 is any that is free.
    pub inner_listen: SocketAddr,
    /// The operator's catalog: `http://HOST:PORT`, or `https://` with TLS.
    pub catalog: Uri,
    /// By which operator, nodes and router know one another. Clients come without.
    pub tls: Option<Tls>,
    /// How many serve, each with all that it needs.
    pub threads: NonZeroUsize,
    /// One log line per request, of target `tenon::access`.
    pub access_log: bool,
    /// Debug headers in every response, not only in those that ask for them.
    pub debug_headers: bool,
    /// What clients may take of the router's memory, in bytes: connections, heads, and bodies that wait.
    pub client_memory: u64,
    /// How many connections clients may have at once.
    pub client_connections: u64,
    /// How slowly they may send bodies.
    pub pace: Pace,
    /// How long new connections are taken after a drain has begun.
    pub drain_linger: Duration,
    /// How long WebSockets may go on from then, before they are closed.
    pub tunnel_grace: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    #[error("the registry has a router's metrics already: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A running router. It runs until the drain it was given begins and is over, whether or not this is kept.
pub struct Router {
    addr: SocketAddr,
    inner_addr: SocketAddr,
    published: Published,
    threads: Vec<JoinHandle<()>>,
}

impl Router {
    /// Listens, and starts all threads. `readiness` is held until the catalog has come.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the machine gives no threads.
    pub fn spawn(
        config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let metrics = Metrics::new(registry)?;
        let published: Published = Arc::new(ArcSwap::from_pointee(Table::default()));
        registry.register(Box::new(Shares::new(published.clone())?))?;
        let loops = EventLoops::register(registry, LOOPS)?;

        let threads = config.threads.get();
        let of_a_thread = |all: u64| usize::try_from(all / threads as u64).unwrap_or(usize::MAX / 16);
        let client_memory = of_a_thread(config.client_memory);
        let client_connections = of_a_thread(config.client_connections);
        let (addr, clients) = listen(config.listen, threads)?;
        let (inner_addr, inner) = listen(config.inner_listen, threads)?;

        let mut threads = Vec::new();
        // The catalog is watched until no thread is left.
        let (threads_tx, threads_rx) = watch::channel(());
        for (i, (clients, inner)) in clients.into_iter().zip(inner).enumerate() {
            let thread = ThreadParts {
                name: i.to_string(),
                loops: loops.clone(),
                doors: Doors { clients, inner },
                settings: Settings {
                    access_log: config.access_log,
                    debug_headers: config.debug_headers,
                    client_memory,
                    client_connections,
                    pace: config.pace,
                },
                tls: config.tls.clone(),
                published: published.clone(),
                metrics: metrics.clone(),
                drain: drain.clone(),
                readiness: readiness.clone(),
                linger: config.drain_linger,
                tunnel_grace: config.tunnel_grace,
                _alive: threads_rx.clone(),
            };
            let runtime = runtime()?;
            threads.push(vital::spawn(format!("router-{i}"), move || thread.run(&runtime))?);
        }
        drop((threads_rx, drain));

        let ready = readiness.hold("catalog");
        let server = catalog::Server {
            endpoint: Endpoint::from(config.catalog),
            connector: Connector::new(config.tls, Role::Operator, catalog::CONNECT_TIMEOUT),
        };
        let client = catalog::Client::new(config.name, server, published.clone(), ready, metrics);
        let runtime = runtime()?;
        threads.push(vital::spawn("catalog".to_owned(), move || {
            runtime.block_on(async {
                tokio::select! {
                    never = client.run() => match never {},
                    () = threads_tx.closed() => {}
                }
            });
        })?);
        tracing::info!(%addr, %inner_addr, threads = config.threads, "the router listens");
        Ok(Self { addr, inner_addr, published, threads })
    }

    /// Where clients come, with the port that was given for port 0.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where nodes and the operator come.
    pub fn inner_addr(&self) -> SocketAddr {
        self.inner_addr
    }

    /// Where a Worker is pinned now: the shard its requests go to as long as nothing is in the way. `None` when
    /// the catalog has no such Worker, or no node for it.
    pub fn pinned(&self, worker: &WorkerId) -> Option<Pin> {
        self.published.load().pinned(worker)
    }

    /// Waits until the drain is over and every thread has ended.
    ///
    /// # Panics
    /// When one of them has.
    pub fn join(self) {
        for thread in self.threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

/// What a thread takes with it. What it will own cannot travel, and is made there.
struct ThreadParts {
    name: String,
    loops: EventLoops,
    doors: Doors<TcpListener>,
    settings: Settings,
    tls: Option<Tls>,
    published: Published,
    metrics: Metrics,
    drain: drain::Watch,
    readiness: Readiness,
    linger: Duration,
    tunnel_grace: Duration,
    _alive: watch::Receiver<()>,
}

impl ThreadParts {
    fn run(self, runtime: &Runtime) {
        let thread = RouterThread::new(&self.name, self.settings, self.tls, &self.published, self.metrics);
        let served = async {
            spawn_local(self.loops.watch(&self.name));
            front::run(thread, self.doors, self.drain, self.readiness, self.linger, self.tunnel_grace).await
        };
        if let Err(error) = LocalSet::new().block_on(runtime, served) {
            tracing::error!(%error, "a router thread cannot serve");
        }
    }
}

/// A listener for each thread, and the address that they share.
fn listen(addr: SocketAddr, threads: usize) -> Result<(SocketAddr, Vec<TcpListener>), SpawnError> {
    let listen = |addr| front::listen(addr).map_err(|error| SpawnError::Listen(addr, error));
    // The first finds the port.
    let first = listen(addr)?;
    let addr = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(listen(addr)?);
    }
    Ok((addr, listeners))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
