//! A node: its shards' threads, their listeners, and their end.
//!
//! ```text
//!  spawn ─► bind every port ─► one thread per shard ─► serve until the drain ─► finish what is in flight ─► leave
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::{Either, select};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::Registry;
use tenon_lifecycle::drain;
use tenon_lifecycle::readiness::{Handle, Readiness};
use tenon_proto::id::ShardId;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};

use crate::config::Config;
use crate::engine::{Engine, Watchdog};
use crate::metrics::{Metrics, ShardMetrics};
use crate::server;
use crate::shard::Shard;
use crate::source::Source;

/// Streams of one connection at once: a router thread sends all its requests for a shard over one.
const STREAMS: u32 = 4096;

/// A connection's window: enough for many streams to upload at once; a stream's own bounds what one may hold.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
const STREAM_WINDOW: u32 = 256 * 1024;

/// How soon a router that vanished is noticed.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an accept that failed, as for want of file descriptors, is left alone.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    #[error("the metrics are registered already: {0}")]
    Metrics(#[from] prometheus::Error),
}

impl Node {
    /// Starts every shard. [`engine::init`](crate::engine::init) must have been called.
    ///
    /// Its readiness waits until every shard listens; not for the catalog, without which what is cached is served.
    ///
    /// # Errors
    /// When a port is taken, or the system has no more threads.
    pub fn spawn(
        config: Config,
        drain: drain::Watch,
        registry: &Registry,
        readiness: &Readiness,
    ) -> Result<Self, SpawnError> {
        let metrics = Metrics::register(registry)?;
        let source = Source::spawn(config.catalog.clone()).map_err(SpawnError::Thread)?;
        let watchdog = Watchdog::spawn();
        let cores = if config.pin { core_affinity::get_core_ids().unwrap_or_default() } else { Vec::new() };
        let mut node = Self { name: config.name.clone(), addresses: Vec::new(), threads: Vec::new() };
        for shard in 0..config.shards {
            let address = config.shard_address(shard);
            let listen = |source| SpawnError::Listen { shard, address, source };
            let listener = TcpListener::bind(address).map_err(listen)?;
            listener.set_nonblocking(true).map_err(listen)?;
            node.addresses.push(listener.local_addr().map_err(listen)?);
            let thread = ShardThread {
                shard: ShardId(shard),
                listener,
                core: cores.get(usize::from(shard)).copied(),
                watchdog: watchdog.clone(),
                source: source.clone(),
                metrics: metrics.shard(ShardId(shard)),
                config: config.clone(),
                drain: drain.clone(),
                ready: readiness.hold(format!("shard {shard}")),
            };
            let name = format!("shard-{shard}");
            let spawned = std::thread::Builder::new().name(name).spawn(move || thread.run());
            node.threads.push(spawned.map_err(SpawnError::Thread)?);
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

/// What a shard's thread is made with.
struct ShardThread {
    shard: ShardId,
    listener: TcpListener,
    core: Option<core_affinity::CoreId>,
    watchdog: Watchdog,
    source: Source,
    metrics: ShardMetrics,
    config: Config,
    drain: drain::Watch,
    ready: Handle,
}

impl ShardThread {
    fn run(self) {
        if let Some(core) = self.core
            && !core_affinity::set_for_current(core)
        {
            tracing::warn!(shard = %self.shard, core = core.id, "the thread cannot be pinned; the system places it");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a thread that listens may have a runtime");
        LocalSet::new().block_on(&runtime, self.serve());
    }

    async fn serve(self) {
        let Self { shard, listener, watchdog, source, metrics, config, drain, ready, .. } = self;
        let engine = Engine::new(&watchdog, shard);
        let shard = Shard::new(engine, source, config.isolates_per_shard, config.max_inflight, metrics);
        let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is non-blocking");
        // Connections hold a receiver each: when none is left, all have ended.
        let (leave_tx, leave_rx) = watch::channel(false);
        drop(ready);
        let accepting = spawn_local(accept(listener, shard.clone(), leave_rx));

        drain.signaled().await;
        shard.begin_drain();
        leave_tx.send_replace(true);
        let finished = async {
            shard.idle().await;
            accepting.abort();
            leave_tx.closed().await;
        };
        if tokio::time::timeout(config.drain_grace, finished).await.is_err() {
            tracing::warn!("the grace period is over; what is still in flight ends now");
        }
    }
}

/// Accepts for as long as the thread lives: a router that has not heard of the drain is told so, not left waiting.
async fn accept(listener: tokio::net::TcpListener, shard: Rc<Shard>, leave_rx: watch::Receiver<bool>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                spawn_local(connection(stream, shard.clone(), leave_rx.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One router thread's connection.
async fn connection(stream: TcpStream, shard: Rc<Shard>, mut leave_rx: watch::Receiver<bool>) {
    // Without it small answers would wait for acknowledgements; an error means that the peer has gone.
    let _ = stream.set_nodelay(true);
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service_fn(move |request| server::serve(shard.clone(), request)));
    let mut connection = std::pin::pin!(connection);
    let leave = std::pin::pin!(leave_rx.wait_for(|leave| *leave));
    let ended = match select(connection.as_mut(), leave).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Runs HTTP/2 streams on the thread that owns their connection.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}
