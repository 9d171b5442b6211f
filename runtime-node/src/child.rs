//! Connects a shard's or lane's process to its supervisor: what the process inherits
//! ([`inherited`]), the requests and notices that it sends ([`supervisor`]), and the orders that it
//! receives.
//!
//! ```text
//!  inherit: control connection, page, listeners ─► Node::spawn_child
//!  control thread ── orders ──► shard thread: release, prestart, profile ── drain ──► main
//!                 ◄─ notices ── shard thread: heavy, light, reports, ready
//! ```
//!
//! The control connection has a thread of its own, so that the process shows its metrics and
//! receives a drain order while a turn is running. When the connection ends, the process ends too:
//! without a supervisor, the process would be neither restarted nor told to drain.

mod inherited;
mod supervisor;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use tenon_engine::page::Page;
use tenon_lifecycle::open_connection::OpenConnection;
use tenon_lifecycle::vital;
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};
use tenon_proto::node::notice::Notice as NoticeKind;
use tenon_proto::node::order::Order as OrderKind;
use tenon_proto::node::supervisor_client::SupervisorClient;
use tenon_proto::node::{self, Notice, Order, ProfileKind};
use tenon_router::Listeners;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::node::siblings::SiblingLinks;
use crate::profile::MAX_PROFILE_DURATION;
pub(crate) use inherited::{CLIENTS, CLIENTS_TLS, CONTROL, GIVE, GIVEN, LISTENER, PAGE};
pub use inherited::{ClientListeners, Inherited, inherit, set_up_process};
pub use supervisor::Supervisor;
pub(crate) use supervisor::{Delivery, PlacementReply};

/// Maximum size of a message between a process and its supervisor, in bytes. The metrics of a
/// process are one message, which may be larger than tonic's default maximum, 4 MiB.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// The resources that the shard's thread gets from the supervisor.
pub struct ChildProcess {
    pub(crate) id: ShardId,
    pub(crate) page: Arc<Page>,
    pub(crate) listener: TcpListener,
    /// The listeners for clients, and the links to other shards, if the process has a front.
    pub(crate) clients: Option<(Listeners, Option<SiblingLinks>)>,
    pub(crate) supervisor: Supervisor,
    pub(crate) commands_rx: mpsc::UnboundedReceiver<Command>,
}

/// A command from the supervisor to the shard's thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Evict the revision. If its code ended a process (`condemn`), also fail its invocations in
    /// flight.
    Release { digest: RevisionDigest, condemn: bool },
    /// Start the revision, and report the end of the start.
    Prestart(WorkerId, RevisionDigest),
    /// Ask the supervisor before each request of this Worker; with `None`, only before cold starts.
    Consult(Option<WorkerId>),
    /// Profile the next isolate of a Worker.
    Profile(ProfileOrder),
    /// End the profile with this id, whose result is no longer wanted.
    EndProfile(u64),
}

/// The order to profile a Worker.
#[derive(Debug)]
pub(crate) struct ProfileOrder {
    pub(crate) id: u64,
    pub(crate) worker: WorkerId,
    pub(crate) kind: ProfileKind,
    /// Time for which the copy serves requests before the profile ends, at most
    /// [`MAX_PROFILE_DURATION`].
    pub(crate) duration: Duration,
}

impl ProfileOrder {
    /// Reads an order, or returns `None` if it is malformed.
    fn read(order: node::Profile) -> Option<Self> {
        let duration = Duration::from_millis(order.duration_ms.into()).min(MAX_PROFILE_DURATION);
        let kind = Some(order.kind()).filter(|kind| *kind != ProfileKind::Unspecified)?;
        Some(Self { id: order.id, worker: order.worker.parse().ok()?, kind, duration })
    }
}

impl Inherited {
    /// Starts the control thread. Returns the parts for the shard's thread, and a receiver that
    /// resolves when the process is to drain.
    ///
    /// # Arguments
    /// * `registry` - metrics of the process.
    ///
    /// # Errors
    /// Fails if the system cannot create the event loop or the thread, or cannot poll the control
    /// connection.
    pub fn connect(self, registry: Registry) -> io::Result<(ChildProcess, oneshot::Receiver<()>)> {
        let Self { id, control, page, listener, clients } = self;
        let (notices_tx, notices_rx) = mpsc::unbounded_channel();
        let (commands_tx, commands_rx) = mpsc::unbounded_channel();
        let (drain_tx, drain_rx) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = {
            // The channel's task belongs to this runtime.
            let _within = runtime.enter();
            let control = tokio::net::UnixStream::from_std(control)?;
            let channel = Endpoint::from_static("http://supervisor")
                .connect_with_connector_lazy(OpenConnection::new(control));
            SupervisorClient::new(channel).max_decoding_message_size(MAX_MESSAGE)
        };
        let supervisor = Supervisor { id, client: client.clone(), notices_tx: notices_tx.clone() };
        let control_thread =
            ControlThread { registry, notices_tx, commands_tx, drain_tx: Some(drain_tx) };
        vital::spawn("control".to_owned(), move || {
            runtime.block_on(control_thread.run(client, notices_rx))
        })?;
        let page = Arc::new(page);
        let child = ChildProcess { id, page, listener, clients, supervisor, commands_rx };
        Ok((child, drain_rx))
    }
}

/// The state of the control thread, which receives orders and carries them out.
struct ControlThread {
    registry: Registry,
    notices_tx: mpsc::UnboundedSender<Notice>,
    commands_tx: mpsc::UnboundedSender<Command>,
    drain_tx: Option<oneshot::Sender<()>>,
}

impl ControlThread {
    async fn run(
        mut self,
        mut client: SupervisorClient<Channel>,
        notices_rx: mpsc::UnboundedReceiver<Notice>,
    ) {
        let lost = match client.control(UnboundedReceiverStream::new(notices_rx)).await {
            Ok(orders) => self.execute_orders(orders.into_inner()).await,
            Err(status) => status,
        };
        eprintln!("lost the supervisor ({}); exiting", lost.message());
        std::process::exit(1);
    }

    /// Carries out orders until the stream ends. Returns why it ended.
    async fn execute_orders(&mut self, mut orders: Streaming<Order>) -> Status {
        loop {
            match orders.message().await {
                Ok(Some(Order { order: Some(order) })) => self.execute(order),
                Ok(Some(Order { order: None })) => {}
                Ok(None) => return Status::unavailable("the stream of orders ended"),
                Err(status) => return status,
            }
        }
    }

    fn execute(&mut self, order: OrderKind) {
        let digest = |bytes: &[u8]| RevisionDigest::try_from(bytes).ok();
        let command = match order {
            OrderKind::Drain(_) => {
                // If the receiver has been dropped, the main thread is ending already.
                self.drain_tx.take().map(|drain_tx| drain_tx.send(()));
                None
            }
            OrderKind::Gather(_) => {
                let metrics = TextEncoder::new()
                    .encode_to_string(&self.registry.gather())
                    .unwrap_or_default();
                let _ = self.notices_tx.send(notice(NoticeKind::Metrics(metrics.into())));
                None
            }
            OrderKind::Release(node::Release { digest: bytes, condemn }) => {
                digest(&bytes).map(|digest| Command::Release { digest, condemn })
            }
            OrderKind::Prestart(node::Prestart { digest: bytes, worker }) => digest(&bytes)
                .and_then(|digest| Some(Command::Prestart(worker.parse().ok()?, digest))),
            OrderKind::Consult(node::Consult { worker }) => {
                Some(Command::Consult(worker.parse().ok()))
            }
            OrderKind::Profile(order) => ProfileOrder::read(order).map(Command::Profile),
            OrderKind::EndProfile(node::EndProfile { id }) => Some(Command::EndProfile(id)),
        };
        // If the receiver has been dropped, the process is about to end.
        command.map(|command| self.commands_tx.send(command));
    }
}

fn notice(kind: NoticeKind) -> Notice {
    Notice { notice: Some(kind) }
}
