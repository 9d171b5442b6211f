//! The interface of the router to its process: configure, spawn, query and join.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Uri;
use prometheus::Registry;
use tenon_https::Https;
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::WorkerId;
use tenon_spans::SpansConfig;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tonic::transport::Endpoint;

use crate::catalog::{self, CatalogMetrics};
use crate::clients::pace::Pace;
use crate::figures::Reporter;
use crate::front::forwarded::TrustedProxies;
use crate::front::{self, Listeners};
use crate::metrics::{LOOPS, Metrics};
use crate::server::{self, Server};
use crate::sites::{Sites, SitesConfig};
use crate::table::shares::Shares;
use crate::table::{Pin, Published, Table};
use crate::thread::{Announcements, RouterThread, Settings, Shared};

/// The configuration of a router.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of this router in the operator's log.
    pub name: String,
    /// The address on which clients connect. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// The address on which clients connect with TLS. Port 0 selects any free port.
    pub https: Option<(SocketAddr, Https)>,
    /// The proxies whose `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: TrustedProxies,
    /// The address on which nodes and the operator connect. Port 0 selects any free port.
    pub internal_listen: SocketAddr,
    /// The URL of the operator's catalog: `http://HOST:PORT`, or `https://` with TLS.
    pub catalog: Uri,
    /// The mutual TLS between operator, nodes and router. Client connections do not use it.
    pub tls: Option<Tls>,
    /// The number of serving threads. Threads share no state on the path of a request.
    pub threads: NonZeroUsize,
    /// Writes one log line per request, with target `tenon::access`.
    pub access_log: bool,
    /// Adds debug headers to every response, not only to those of requests with `tenon-debug`.
    pub debug_headers: bool,
    /// Compresses Workers' responses for clients that accept it.
    pub compression: bool,
    /// The spans of requests. `None` records none.
    pub spans: Option<SpansConfig>,
    /// The memory that clients may occupy, in bytes: connections, heads, and bodies in transit.
    pub client_memory: u64,
    /// The maximum number of simultaneous client connections.
    pub client_connections: u64,
    /// The maximum idle time of a client's connection between two requests.
    pub idle_timeout: Duration,
    /// The minimum pace at which clients must send bodies.
    pub pace: Pace,
    /// Whether a debugger may pause shards. If so, a silent shard does not count as failed.
    pub shards_may_pause: bool,
    /// The place where the static files of Workers are kept.
    pub sites: SitesConfig,
    /// The time for which new connections are accepted after a drain has begun.
    pub drain_linger: Duration,
    /// The time for which WebSockets may stay open after `drain_linger`, before they are closed.
    pub tunnel_grace: Duration,
}

/// The default idle timeout of a client's connection. It is longer than the idle timeouts of the
/// load balancers of cloud providers, of which the longest is ten minutes. If the router closed a
/// connection first, a load balancer could send a request on the connection at the same moment, and
/// this request would fail.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(620);

/// The maximum time that the export of the last spans takes.
const LAST_SPANS: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    #[error("cannot use --assets-cache-dir: {0}")]
    Sites(#[source] io::Error),
    #[error("a router's metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A running router. It runs until the drain passed to `spawn` is complete, even if this value is
/// dropped.
pub struct Router {
    addr: SocketAddr,
    https_addr: Option<SocketAddr>,
    internal_addr: SocketAddr,
    published: Published,
    threads: Vec<JoinHandle<()>>,
}

impl Router {
    /// Binds the listeners and starts all threads. `readiness` is held until the catalog has
    /// arrived.
    ///
    /// # Errors
    /// Fails if an address cannot be bound, a thread cannot be started, or the registry already has
    /// a router's metrics.
    pub fn spawn(
        config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let metrics = Metrics::register(registry)?;
        let catalog_metrics = CatalogMetrics::register(registry)?;
        let published: Published = Arc::new(ArcSwap::from_pointee(Table::default()));
        registry.register(Box::new(Shares::new(published.clone())?))?;
        let (changes_tx, changes_rx) = watch::channel(());
        let announcements = Announcements { published: published.clone(), changes_rx };
        let loops = EventLoops::register(registry, LOOPS)?;

        let threads = config.threads.get();
        let per_thread =
            |all: u64| usize::try_from(all / threads as u64).unwrap_or(usize::MAX / 16);
        let client_memory = per_thread(config.client_memory);
        let client_connections = per_thread(config.client_connections);
        let (addr, clients) = listen(config.listen, threads)?;
        let (internal_addr, internal) = listen(config.internal_listen, threads)?;
        let (https_addr, https_listeners) = match &config.https {
            Some((addr, _)) => {
                let (addr, listeners) = listen(*addr, threads)?;
                (Some(addr), listeners.into_iter().map(Some).collect())
            }
            None => (None, (0..threads).map(|_| None).collect::<Vec<_>>()),
        };

        let endpoint = Endpoint::from(config.catalog);
        let connector = Connector::new(config.tls.clone(), Role::Operator, server::CONNECT_TIMEOUT);
        let server = Arc::new(Server::new(endpoint, connector));
        let catalog_runtime = runtime()?;
        let sites = Sites::new(
            config.sites,
            server.clone(),
            metrics.sites.clone(),
            catalog_runtime.handle().clone(),
        )
        .map_err(SpawnError::Sites)?;

        let (counted_tx, reporter) = Reporter::new();
        let (spans, exporter) = match config.spans {
            Some(spans) => {
                let (parts, exporter) = tenon_spans::channel(spans, threads, metrics.spans.clone());
                (Some(parts), Some(catalog_runtime.spawn(exporter.run())))
            }
            None => (None, None),
        };
        let shared = Shared {
            tls: config.tls,
            https: config.https.map(|(_, https)| https),
            trusted_proxies: config.trusted_proxies,
            sites: sites.clone(),
            limited_clients: Arc::default(),
            counted_tx,
            spans,
        };

        let mut threads = Vec::new();
        // The catalog is watched until the last serving thread has ended.
        let (threads_tx, threads_rx) = watch::channel(());
        for (i, ((clients, internal), https_listener)) in
            clients.into_iter().zip(internal).zip(https_listeners).enumerate()
        {
            let thread = ThreadParts {
                name: i.to_string(),
                loops: loops.clone(),
                listeners: Listeners { clients, https: https_listener, internal },
                settings: Settings {
                    access_log: config.access_log,
                    debug_headers: config.debug_headers,
                    compression: config.compression,
                    client_memory,
                    client_connections,
                    idle_timeout: config.idle_timeout,
                    pace: config.pace,
                    shards_may_pause: config.shards_may_pause,
                },
                shared: shared.clone(),
                announcements: announcements.clone(),
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
        drop((threads_rx, drain, shared));

        let ready = readiness.hold("catalog");
        let publisher = catalog::Publisher { published: published.clone(), changes_tx };
        let client =
            catalog::Client::new(config.name, server, publisher, sites, ready, catalog_metrics);
        threads.push(vital::spawn("catalog".to_owned(), move || {
            catalog_runtime.block_on(async {
                tokio::select! {
                    never = client.run(reporter) => match never {},
                    () = threads_tx.closed() => {}
                }
                // The last spans are exported once every thread has dropped its recorder.
                if let Some(exporter) = exporter {
                    _ = tokio::time::timeout(LAST_SPANS, exporter).await;
                }
            });
        })?);
        tracing::info!(%addr, ?https_addr, %internal_addr, threads = config.threads, "listening");
        Ok(Self { addr, https_addr, internal_addr, published, threads })
    }

    /// Returns the address for clients, with the actual port if port 0 was configured.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address for clients with TLS, if there is one.
    pub fn https_addr(&self) -> Option<SocketAddr> {
        self.https_addr
    }

    /// Returns the address for nodes and the operator.
    pub fn internal_addr(&self) -> SocketAddr {
        self.internal_addr
    }

    /// Returns the shard to which a Worker is pinned, which gets the Worker's requests while the
    /// shard is available. Returns `None` if the catalog does not contain the Worker, or has no
    /// ready node for the Worker.
    pub fn pinned(&self, worker: &WorkerId) -> Option<Pin> {
        self.published.load().pinned(worker)
    }

    /// Waits until the drain is complete and every thread has ended.
    ///
    /// # Panics
    /// Panics if one of the threads has panicked.
    pub fn join(self) {
        for thread in self.threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

/// The parts of a thread that can be sent to it. The `!Send` parts are created on the thread
/// itself.
struct ThreadParts {
    name: String,
    loops: EventLoops,
    listeners: Listeners<TcpListener>,
    settings: Settings,
    shared: Shared,
    announcements: Announcements,
    metrics: Metrics,
    drain: drain::Watch,
    readiness: Readiness,
    linger: Duration,
    tunnel_grace: Duration,
    _alive: watch::Receiver<()>,
}

impl ThreadParts {
    fn run(self, runtime: &Runtime) {
        let thread = RouterThread::new(
            &self.name,
            self.settings,
            self.shared,
            self.announcements,
            &self.metrics,
            None,
        );
        let served = async {
            spawn_local(self.loops.watch(&self.name));
            front::run(
                thread,
                self.listeners,
                self.drain,
                self.readiness,
                self.linger,
                self.tunnel_grace,
            )
            .await
        };
        if let Err(error) = LocalSet::new().block_on(runtime, served) {
            tracing::error!(%error, "a router thread failed");
        }
    }
}

/// Binds one listener per thread, all on the same address, and returns that address.
fn listen(addr: SocketAddr, threads: usize) -> Result<(SocketAddr, Vec<TcpListener>), SpawnError> {
    let listen = |addr| front::listen(addr).map_err(|error| SpawnError::Listen(addr, error));
    // The first listener determines the port.
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
