//! The interface of the router to its process: configure, spawn, query and join.
//!
//! ```text
//!  spawn: bind ─► with_listeners ─► a thread for each FrontThread
//!         bind ─► with_listeners ─► FrontThreads, each for the thread of a shard (colocated)
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Uri;
use prometheus::Registry;
use tenon_clients::memory;
use tenon_clients::pace::Pace;
use tenon_http3::Http3Error;
use tenon_https::Https;
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::Readiness;
use tenon_lifecycle::tls::{Connector, Role, Tls};
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::WorkerId;
use tenon_spans::SpansConfig;
use tenon_table::shares::Shares;
use tenon_table::{Pin, Published, Table};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tonic::transport::Endpoint;

use crate::catalog::{self, CatalogMetrics};
use crate::figures::Reporter;
use crate::front::forwarded::TrustedProxies;
use crate::front::pages::Pages;
use crate::front::{self, FrontThread, Listeners, https};
use crate::metrics::{LOOPS, Metrics};
use crate::server::{self, Server};
use crate::sites::{Sites, SitesConfig};
use crate::thread::{Announcements, Settings, Shared};

/// The configuration of a router.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of this router in the operator's log.
    pub name: String,
    /// The address on which clients connect. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// The address on which clients connect with TLS, and the certificates. Port 0 selects any free
    /// port. `None` serves no TLS.
    pub https: Option<(SocketAddr, Https)>,
    /// The port under which clients reach HTTP/3, which the router serves on the same address as
    /// `https`, over UDP. `None` serves no HTTP/3.
    pub http3: Option<u16>,
    /// The proxies whose `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: TrustedProxies,
    /// The address on which nodes and the operator connect, if there is one. Port 0 selects any
    /// free port.
    pub internal_listen: Option<SocketAddr>,
    /// The URL of the operator's catalog: `http://HOST:PORT`, or `https://` with TLS.
    pub catalog: Uri,
    /// The mutual TLS between operator, nodes and router. Client connections do not use it.
    pub tls: Option<Tls>,
    /// The number of serving threads. On the path of a request, threads share only the table, the
    /// static files and the rate limits.
    pub threads: NonZeroUsize,
    /// Whether each request is logged, with the target `tenon::access`.
    pub access_log: bool,
    /// Whether every response has debug headers, not only the responses to requests with
    /// `tenon-debug`.
    pub debug_headers: bool,
    /// Whether Workers' responses are compressed for clients that accept it.
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
    /// The pages for the browser of a developer. A router on a cluster has none.
    pub pages: Option<Arc<dyn Pages>>,
    /// The place where the static files of Workers are kept.
    pub sites: SitesConfig,
    /// The time for which new connections are accepted after a drain has begun.
    pub drain_linger: Duration,
    /// The time for which WebSockets may stay open after `drain_linger`, before they are closed.
    pub tunnel_grace: Duration,
}

impl Config {
    /// Returns the configuration of a router of one thread, with the defaults and without TLS.
    /// Clients may occupy half of the memory, and may have any practical number of connections.
    ///
    /// # Arguments
    /// * `name` - the name of this router in the operator's log.
    /// * `listen` - the address on which clients connect.
    /// * `catalog` - the URL of the operator's catalog.
    pub fn new(name: String, listen: SocketAddr, catalog: Uri) -> Self {
        Self {
            name,
            listen,
            https: None,
            http3: None,
            trusted_proxies: TrustedProxies::default(),
            internal_listen: None,
            catalog,
            tls: None,
            threads: NonZeroUsize::MIN,
            access_log: false,
            debug_headers: false,
            compression: true,
            spans: None,
            client_memory: memory::for_clients(Path::new("/")),
            client_connections: u32::MAX.into(),
            idle_timeout: IDLE_TIMEOUT,
            pace: Pace::default(),
            shards_may_pause: false,
            pages: None,
            sites: SitesConfig::default(),
            drain_linger: Duration::ZERO,
            tunnel_grace: Duration::ZERO,
        }
    }

    /// Returns the addresses to listen on.
    pub fn addresses(&self) -> Addresses {
        let https = self.https.as_ref().map(|(address, _)| *address);
        Addresses { clients: self.listen, https, internal: self.internal_listen }
    }
}

/// The addresses that a router listens on.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub clients: SocketAddr,
    /// The address for clients that use TLS, if there is one.
    pub https: Option<SocketAddr>,
    /// The address for the platform's own processes, if there is one.
    pub internal: Option<SocketAddr>,
}

/// The default idle timeout of a client's connection. It is longer than the idle timeouts of the
/// load balancers of cloud providers, the longest of which is ten minutes. If the router closed a
/// connection first, a load balancer could send a request on the connection at the same moment, and
/// this request would fail.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(620);

/// The maximum time that the export of the last spans may take.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(3);

/// The reason why a router cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("cannot start a thread, or use a listener: {0}")]
    Thread(#[from] io::Error),
    #[error("cannot use --assets-cache-dir: {0}")]
    Sites(#[source] io::Error),
    #[error(transparent)]
    Http3(#[from] Http3Error),
    #[error("a router's metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A running router. It runs until the drain passed to `spawn` is complete, even if this value is
/// dropped.
pub struct Router {
    addr: SocketAddr,
    https_addr: Option<SocketAddr>,
    internal_addr: Option<SocketAddr>,
    announcements: Announcements,
    threads: Vec<JoinHandle<()>>,
}

impl Router {
    /// Binds the listeners and starts all threads. `readiness` is held until the catalog has
    /// arrived.
    ///
    /// # Errors
    /// Fails if an address cannot be bound, a thread cannot be started, the directory for static
    /// files cannot be used, or the registry already has a router's metrics.
    pub fn spawn(
        config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let listeners = bind(&config.addresses(), config.threads)?;
        let (mut router, fronts) =
            Self::with_listeners(config, listeners, drain, registry, readiness)?;
        for front in fronts {
            let (name, runtime) = (format!("router-{}", front.name()), runtime()?);
            router.threads.push(vital::spawn(name, move || front.run(&runtime))?);
        }
        Ok(router)
    }

    /// Starts a router whose serving threads belong to the caller. Returns the router and the part
    /// of each thread, in the order of their listeners; see [`FrontThread::serve`].
    ///
    /// # Arguments
    /// * `listeners` - the listeners of each thread, which [`bind`] has bound.
    ///
    /// # Errors
    /// Fails if there is no listener, the socket of HTTP/3 cannot be bound, the catalog's thread
    /// cannot be started, the directory for static files cannot be used, or the registry already
    /// has a router's metrics.
    pub fn with_listeners(
        config: Config,
        listeners: Vec<Listeners>,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<(Self, Vec<FrontThread>), SpawnError> {
        let first = listeners.first().ok_or_else(|| io::Error::other("there is no listener"))?;
        let address = |listener: &Option<TcpListener>| {
            listener.as_ref().map(TcpListener::local_addr).transpose()
        };
        let addr = first.clients.local_addr()?;
        let (https_addr, internal_addr) = (address(&first.https)?, address(&first.internal)?);
        let metrics = Metrics::register(registry)?;
        let threads = listeners.len();
        let http3_listeners = match (config.http3, https_addr, &config.https) {
            (Some(_), Some(addr), Some((_, https))) => {
                tenon_http3::listen(addr, threads, https, &metrics.http3)?
            }
            _ => Vec::new(),
        };
        let catalog_metrics = CatalogMetrics::register(registry)?;
        let published: Published = Arc::new(ArcSwap::from_pointee(Table::default()));
        registry.register(Box::new(Shares::new(published.clone())?))?;
        let (changes_tx, changes_rx) = watch::channel(());
        let announcements = Announcements { published: published.clone(), changes_rx };
        let loops = EventLoops::register(registry, LOOPS)?;

        // The fallback is so small that sums in a quota do not overflow.
        let per_thread =
            |all: u64| usize::try_from(all / threads as u64).unwrap_or(usize::MAX / 16);
        let client_memory = per_thread(config.client_memory);
        let client_connections = per_thread(config.client_connections);

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
        let https = config.https.map(|(_, https)| https);
        let shared = Shared {
            tls: config.tls,
            https: https.clone(),
            http3: config.http3.map(https::alternative),
            trusted_proxies: config.trusted_proxies,
            pages: config.pages,
            sites: sites.clone(),
            limited_clients: Arc::default(),
            counted_tx,
            spans,
        };

        // The catalog is watched until the last serving thread has ended.
        let (threads_tx, threads_rx) = watch::channel(());
        let settings = Settings {
            access_log: config.access_log,
            debug_headers: config.debug_headers,
            compression: config.compression,
            client_memory,
            client_connections,
            idle_timeout: config.idle_timeout,
            pace: config.pace,
            shards_may_pause: config.shards_may_pause,
        };
        let mut http3_listeners = http3_listeners.into_iter();
        let front = |(i, listeners): (usize, Listeners)| FrontThread {
            name: i.to_string(),
            loops: loops.clone(),
            listeners,
            http3: http3_listeners.next(),
            settings,
            shared: shared.clone(),
            announcements: announcements.clone(),
            metrics: metrics.clone(),
            drain: drain.clone(),
            readiness: readiness.clone(),
            linger: config.drain_linger,
            tunnel_grace: config.tunnel_grace,
            _alive: threads_rx.clone(),
        };
        let fronts = listeners.into_iter().enumerate().map(front).collect();
        drop((threads_rx, drain, shared));

        let ready = readiness.hold("catalog");
        let publisher = catalog::Publisher { published, changes_tx };
        let client = catalog::Client::new(
            config.name,
            server,
            publisher,
            sites,
            https,
            ready,
            catalog_metrics,
        );
        let catalog = vital::spawn("catalog".to_owned(), move || {
            catalog_runtime.block_on(async {
                tokio::select! {
                    never = client.run(reporter) => match never {},
                    () = threads_tx.closed() => {}
                }
                // The last spans are exported once every thread has dropped its recorder.
                if let Some(exporter) = exporter {
                    _ = tokio::time::timeout(LAST_SPANS_TIMEOUT, exporter).await;
                }
            });
        })?;
        tracing::info!(%addr, ?https_addr, ?internal_addr, threads, "listening");
        let threads = vec![catalog];
        let router = Self { addr, https_addr, internal_addr, announcements, threads };
        Ok((router, fronts))
    }

    /// Returns the address for clients, with the actual port if port 0 was configured.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address for clients with TLS, if there is one.
    pub fn https_addr(&self) -> Option<SocketAddr> {
        self.https_addr
    }

    /// Returns the address for nodes and the operator, if there is one.
    pub fn internal_addr(&self) -> Option<SocketAddr> {
        self.internal_addr
    }

    /// Returns the shard to which a Worker is pinned, which gets the Worker's requests while the
    /// shard is available. Returns `None` if the catalog does not contain the Worker, or has no
    /// ready node for the Worker.
    pub fn pinned(&self, worker: &WorkerId) -> Option<Pin> {
        self.announcements.published.load().pinned(worker)
    }

    /// Waits until every new request is matched with a table that satisfies a condition. Returns
    /// immediately if the catalog is no longer watched.
    pub async fn await_table(&self, is_applied: impl Fn(&Table) -> bool) {
        let Announcements { published, mut changes_rx } = self.announcements.clone();
        loop {
            changes_rx.mark_unchanged();
            if is_applied(&published.load()) || changes_rx.changed().await.is_err() {
                return;
            }
        }
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

/// Binds the listeners of each serving thread, which share their addresses.
///
/// # Errors
/// Fails if an address cannot be bound.
pub fn bind(addresses: &Addresses, threads: NonZeroUsize) -> Result<Vec<Listeners>, SpawnError> {
    let clients = listen(addresses.clients, threads)?;
    let all = |address: Option<SocketAddr>| {
        let listeners = address.map(|address| listen(address, threads)).transpose()?;
        Ok::<_, SpawnError>(listeners.unwrap_or_default().into_iter())
    };
    let (mut https, mut internal) = (all(addresses.https)?, all(addresses.internal)?);
    let next = |clients| Listeners { clients, https: https.next(), internal: internal.next() };
    Ok(clients.into_iter().map(next).collect())
}

/// Binds one listener per thread, all on the same address.
fn listen(addr: SocketAddr, threads: NonZeroUsize) -> Result<Vec<TcpListener>, SpawnError> {
    let listen = |addr| front::listen(addr).map_err(|error| SpawnError::Listen(addr, error));
    // The first listener determines the port.
    let first = listen(addr)?;
    let addr = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads.get() {
        listeners.push(listen(addr)?);
    }
    Ok(listeners)
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
