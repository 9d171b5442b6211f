//! A shard's thread: accepts connections, serves them, and drains at the end.
//!
//! ```text
//!  accept, serve ──signal──► refuse new requests, GOAWAY ─► connections end, isolates idle ─► end
//!                            (still accepting: a router that does not know yet gets an answer)
//! ```
//!
//! A thread with a front serves clients as well, and forwards their requests for other shards. The
//! front drains first, because the shard must still answer its clients:
//!
//! ```text
//!  signal ─► the front drains, the shard serves ─► the shard drains ─► end
//! ```
//!
//! WebSockets may stay open indefinitely, so they are closed when the grace period is over.

use std::net::{Shutdown, TcpListener};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use core_affinity::CoreId;
use socket2::SockRef;
use tenon_egress::{Client, Settings};
use tenon_engine::buffers::{self, BufferPool};
use tenon_engine::page::Page;
use tenon_engine::{Engine, Headroom, Watchdog};
use tenon_lifecycle::event_loop::EventLoops;
use tenon_lifecycle::readiness::{Handle, Readiness};
use tenon_lifecycle::tls::Tls;
use tenon_lifecycle::{drain, vital};
use tenon_proto::id::ShardId;
use tenon_router::{Colocated, FrontThread};
use tenon_web::Web;
use tenon_web::response_cache::ResponseCache;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::Instant;

use super::connection;
use super::siblings::SiblingLinks;
use crate::child::{Command, Supervisor};
use crate::config::{Config, DrainConfig};
use crate::memory::Pressure;
use crate::metrics::ShardMetrics;
use crate::reports::Reports;
use crate::server::InlineServer;
use crate::services::{Calls, Router};
use crate::shard::{Shard, ShardBounds};
use crate::source::Source;

/// Pause after an accept that failed, for example because no file descriptor was free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time after the grace period for clients to complete the closing handshake of their WebSockets.
/// Connections that are still open after this time are cut off, because the process has to end.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// Interval of the event loop's heartbeat for the supervisor.
const BEAT: Duration = Duration::from_secs(1);

/// The state with which a shard's thread starts.
pub(super) struct ShardThread {
    pub(super) shard: ShardId,
    pub(super) listener: TcpListener,
    pub(super) core: Option<CoreId>,
    pub(super) supervised: Option<Supervised>,
    /// The front that this thread runs, if the node has one.
    pub(super) clients: Option<Clients>,
    pub(super) watchdog: Watchdog,
    pub(super) source: Source,
    pub(super) reports: Reports,
    pub(super) metrics: ShardMetrics,
    pub(super) loops: EventLoops,
    pub(super) pressure_rx: watch::Receiver<Pressure>,
    pub(super) headroom: Headroom,
    pub(super) egress: Settings,
    pub(super) responses: Arc<ResponseCache>,
    pub(super) config: Config,
    /// The signal to drain. The drain waits until the thread has dropped this.
    pub(super) drain: drain::Watch,
    pub(super) ready: Handle,
}

/// The front of a shard's thread.
pub(super) struct Clients {
    pub(super) thread: FrontThread,
    /// The links to the threads of the node's other shards, if it has any.
    pub(super) siblings: Option<SiblingLinks>,
}

/// Handles that only a shard in its own process has.
pub(super) struct Supervised {
    pub(super) page: Arc<Page>,
    pub(super) supervisor: Supervisor,
    pub(super) commands_rx: mpsc::UnboundedReceiver<Command>,
    /// The readiness of the process, which waits for the catalog if the process has a front.
    pub(super) readiness: Readiness,
}

impl ShardThread {
    pub(super) fn run(self) {
        if let Some(core) = self.core
            && !core_affinity::set_for_current(core)
        {
            tracing::warn!(shard = %self.shard, core = core.id, "cannot pin the shard's thread to its CPU");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("cannot create the runtime of a shard");
        LocalSet::new().block_on(&runtime, self.serve());
    }

    async fn serve(self) {
        let Self {
            shard: id,
            listener,
            supervised,
            clients,
            watchdog,
            source,
            reports,
            metrics,
            loops,
            pressure_rx,
            headroom,
            egress,
            responses,
            config,
            drain,
            ready,
            ..
        } = self;
        let buffers = BufferPool::new(buffers::POOL, metrics.engine.buffers.clone()).touch();
        let calls =
            Calls::new(config.router.clone().map(|url| Router::at(url, config.tls.clone())));
        let page = supervised.as_ref().map(|supervised| Arc::clone(&supervised.page));
        let supervisor = supervised.as_ref().map(|supervised| supervised.supervisor.clone());
        let web = Web::default()
            .with_egress(Client::new(&egress, metrics.egress.clone()))
            .with_responses(responses)
            .with_services(calls.clone());
        let engine = Engine::supervised(&watchdog, id, Rc::new(web), page)
            .with_headroom(headroom)
            .with_buffers(buffers)
            .with_inspector(config.inspector.clone())
            .with_exceptions(config.exceptions.clone());
        let Config { name, inspector, pool, admission, drain: DrainConfig { grace }, tls, .. } =
            config;
        let bounds = ShardBounds {
            isolates: pool.isolates,
            in_flight: admission.max_inflight,
            tunnels: connection::TUNNELS,
            waiting: admission.max_waiting,
        };
        let shard = Shard::new(engine, source, supervisor, reports, bounds, metrics);
        calls.set_shard(&shard);
        let tasks = shard.clone();
        spawn_local(vital::task(
            "evict_continually",
            tasks.clone().evict_continually(pressure_rx, pool.idle_timeout),
        ));
        spawn_local(vital::task("keep_spares", tasks.clone().keep_spares(pool.spares)));
        spawn_local(vital::task("keep_bytecode", tasks.clone().keep_bytecode()));
        if let Some(inspector) = inspector {
            spawn_local(vital::task("start_debugged", tasks.clone().start_debugged(inspector)));
        }
        spawn_local(vital::task("update_usage_metrics", tasks.update_usage_metrics()));
        spawn_local(loops.watch(&id.to_string()));
        let listener =
            tokio::net::TcpListener::from_std(listener).expect("cannot poll the listener");
        let mut connections = Connections::new(Rc::clone(&shard), tls);
        let front = clients.map(|Clients { thread, siblings }| {
            let siblings = siblings.map(SiblingLinks::open).transpose();
            let siblings = siblings.expect("cannot poll the socket to other shards");
            let server = Rc::new(InlineServer::of(&shard));
            let colocated = Colocated { node: name.as_str().into(), id, shard: server, siblings };
            spawn_local(vital::task("front", thread.serve(colocated)))
        });
        drop(ready);
        supervised.into_iter().for_each(|supervised| supervised.begin_serving(&shard));

        let mut signaled = pin!(drain.signaled());
        loop {
            tokio::select! {
                stream = accept(&listener) => connections.serve(stream),
                () = connections.one_ended() => {}
                () = &mut signaled => break,
            }
        }

        let deadline = Instant::now() + grace;
        if let Some(mut front) = front {
            let mut late = pin!(tokio::time::sleep_until(deadline));
            loop {
                tokio::select! {
                    stream = accept(&listener) => connections.serve(stream),
                    () = connections.one_ended() => {}
                    _ = &mut front => break,
                    () = &mut late => break,
                }
            }
        }
        shard.begin_drain();
        connections.leave();
        let mut drained = pin!(async {
            loop {
                tokio::select! {
                    // Accepting comes first, so that a connection that arrives while the last one
                    // ends is served.
                    biased;
                    stream = accept(&listener) => connections.serve(stream),
                    () = connections.one_ended() => {}
                    () = shard.idle(), if connections.is_empty() => return,
                }
            }
        });
        if tokio::time::timeout_at(deadline, drained.as_mut()).await.is_err() {
            shard.close_web_sockets();
            if tokio::time::timeout(CLOSE_GRACE, drained.as_mut()).await.is_err() {
                tracing::warn!(shard = %id, "the drain grace period is over; ending what is still in flight");
            }
        }
        // The supervisor holds the same socket: without this shutdown, connections would wait for a
        // process that has ended.
        if let Err(error) = SockRef::from(&listener).shutdown(Shutdown::Read) {
            tracing::debug!(%error, "cannot stop listening");
        }
    }
}

impl Supervised {
    /// Starts the heartbeat and the execution of the supervisor's commands, and reports to the
    /// supervisor that the process serves, once it is ready.
    fn begin_serving(self, shard: &Rc<Shard>) {
        let Self { page, supervisor, commands_rx, readiness } = self;
        spawn_local(async move {
            loop {
                page.beat();
                tokio::time::sleep(BEAT).await;
            }
        });
        spawn_local(vital::task(
            "run_commands",
            Rc::clone(shard).run_commands(supervisor.clone(), commands_rx),
        ));
        spawn_local(async move {
            readiness.ready().await;
            supervisor.report_ready();
        });
    }
}

async fn accept(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The connections of a shard, each served by its own task.
struct Connections {
    shard: Rc<Shard>,
    tls: Option<Tls>,
    tasks: JoinSet<()>,
    leave_tx: watch::Sender<bool>,
}

impl Connections {
    fn new(shard: Rc<Shard>, tls: Option<Tls>) -> Self {
        Self { shard, tls, tasks: JoinSet::new(), leave_tx: watch::Sender::new(false) }
    }

    fn serve(&mut self, stream: TcpStream) {
        let (shard, tls, leave_rx) =
            (Rc::clone(&self.shard), self.tls.clone(), self.leave_tx.subscribe());
        self.tasks.spawn_local(connection::serve(stream, tls, shard, leave_rx));
    }

    /// Tells every connection, present and future, to finish what is in flight and end.
    fn leave(&self) {
        self.leave_tx.send_replace(true);
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until a connection has ended; waits forever if there is none.
    async fn one_ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "a connection's task failed"),
            None => std::future::pending().await,
        }
    }
}
