//! One process of a node, a shard or a lane, from its start to its end.
//!
//! The process gets its end of the control connection, the [page](tenon_engine::page), and its
//! listeners as file descriptors. The listeners stay open in the supervisor, so that while a shard
//! restarts, connections to it wait instead of being refused.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use command_fds::{CommandFdExt as _, FdMapping};
use prometheus::{IntCounterVec, IntGaugeVec, Registry};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tenon_engine::page::Page;
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_router::Listeners;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::child;

/// The program of every process of a node, and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// The name in process lists.
    pub name: OsString,
    /// The supervisor's own arguments, which every process parses again.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Returns the program of this process, with its arguments.
    ///
    /// # Errors
    /// Fails if `/proc/self/exe` is inaccessible.
    pub fn current() -> io::Result<Self> {
        // This path names the file that is running, even if an upgrade has replaced it.
        let path = PathBuf::from("/proc/self/exe");
        path.metadata()?;
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| env!("CARGO_PKG_NAME").into());
        Ok(Self { path, name, arguments: arguments.collect() })
    }
}

/// The listeners of a process, which outlive it.
pub(super) struct Sockets {
    /// The listener for routers.
    pub(super) shard: TcpListener,
    /// The listeners for clients, if the process has a front.
    pub(super) clients: Option<Listeners>,
    /// The sockets between the processes of shards with fronts, if there are several.
    pub(super) siblings: Option<SiblingSockets>,
}

/// The sockets over which the processes of shards hand connections of clients to one another.
pub(super) struct SiblingSockets {
    /// The socket from which this process takes connections.
    given: UnixDatagram,
    /// The socket to each shard, by position.
    give: Arc<[UnixDatagram]>,
}

impl SiblingSockets {
    /// Returns the sockets of each of a node's shards, in their order.
    ///
    /// # Errors
    /// Fails if the system cannot create the sockets.
    pub(super) fn between(shards: usize) -> io::Result<Vec<Self>> {
        let pairs = (0..shards).map(|_| UnixDatagram::pair());
        let (give, given): (Vec<_>, Vec<_>) =
            pairs.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        let give: Arc<[_]> = give.into();
        Ok(given.into_iter().map(|given| Self { given, give: Arc::clone(&give) }).collect())
    }

    /// Returns the sockets, each with its number in the process.
    fn numbered(&self) -> impl Iterator<Item = (RawFd, &UnixDatagram)> {
        std::iter::once((child::GIVEN, &self.given)).chain((child::GIVE..).zip(&*self.give))
    }
}

/// Maximum length of the accept queue for routers, in connections. This is the standard library's
/// default.
const BACKLOG: i32 = 128;

impl Sockets {
    /// Listens again, after a previous process has shut the shared sockets down as it drained.
    ///
    /// # Errors
    /// Fails if a socket cannot listen.
    pub(super) fn listen(&self) -> io::Result<()> {
        rustix::net::listen(&self.shard, BACKLOG)?;
        for (_, listener) in self.clients() {
            rustix::net::listen(listener, tenon_router::BACKLOG)?;
        }
        Ok(())
    }

    /// Returns the listeners for clients, each with its number in the process.
    fn clients(&self) -> impl Iterator<Item = (RawFd, &TcpListener)> {
        self.clients.iter().flat_map(|Listeners { clients, https, .. }| {
            let https = https.iter().map(|https| (child::CLIENTS_TLS, https));
            std::iter::once((child::CLIENTS, clients)).chain(https)
        })
    }
}

/// A running process.
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) page: Arc<Page>,
}

label_values! {
    /// The cause of a process's end.
    pub(super) enum Cause {
        /// A signal that reports a fault of the process itself, such as SIGABRT, ended the process.
        Crashed = "crashed",
        /// The supervisor killed the process, because a turn did not end or the event loop stalled.
        Hung = "hung",
        /// A signal from outside ended the process.
        Killed = "killed",
        /// The process exited by itself, without an order to drain.
        Exited = "exited",
    }
}

impl Cause {
    pub(super) fn of(status: ExitStatus, hung: bool) -> Self {
        match status.signal() {
            _ if hung => Self::Hung,
            Some(libc::SIGKILL | libc::SIGTERM | libc::SIGINT | libc::SIGHUP) => Self::Killed,
            Some(_) => Self::Crashed,
            None => Self::Exited,
        }
    }

    /// Returns the revision to blame: the one that was running, if the process crashed or hung.
    pub(super) fn blames(self, running: Option<RevisionDigest>) -> Option<RevisionDigest> {
        running.filter(|_| matches!(self, Self::Crashed | Self::Hung))
    }
}

impl Process {
    /// Starts the process of a shard or lane. Returns the process and the supervisor's end of the
    /// control connection.
    ///
    /// # Errors
    /// Fails if the system cannot create the process, the page or the connection.
    pub(super) fn start(
        program: &Program,
        id: ShardId,
        sockets: &Sockets,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let (page, file) = Page::create()?;
        let theirs = theirs.into_std()?;
        let mut mappings = vec![
            FdMapping { parent_fd: OwnedFd::from(theirs), child_fd: child::CONTROL },
            FdMapping { parent_fd: file, child_fd: child::PAGE },
            FdMapping {
                parent_fd: OwnedFd::from(sockets.shard.try_clone()?),
                child_fd: child::LISTENER,
            },
        ];
        for (child_fd, listener) in sockets.clients() {
            mappings.push(FdMapping { parent_fd: OwnedFd::from(listener.try_clone()?), child_fd });
        }
        for (child_fd, socket) in sockets.siblings.iter().flat_map(SiblingSockets::numbered) {
            mappings.push(FdMapping { parent_fd: OwnedFd::from(socket.try_clone()?), child_fd });
        }
        let mut command = std::process::Command::new(&program.path);
        command
            .arg0(&program.name)
            .args(&program.arguments)
            .arg(format!("--child={id}"))
            .stdin(Stdio::null());
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        let mut command = Command::from(command);
        // The process gets a process group of its own, because a terminal's interrupt is for the
        // supervisor.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("the new process has no process id"))?;
        Ok((Self { child, pid, page: Arc::new(page) }, ours))
    }

    /// Limits the process's private writable memory, in bytes.
    pub(super) fn limit_data(pid: Pid, bytes: u64) {
        // The hard limit stays as inherited: an unprivileged process could not raise it again.
        let Rlimit { maximum, .. } = getrlimit(Resource::Data);
        let limit =
            Rlimit { current: Some(maximum.map_or(bytes, |maximum| bytes.min(maximum))), maximum };
        if let Err(error) = prlimit(Some(pid), Resource::Data, limit) {
            tracing::debug!(%error, "cannot limit a process's memory");
        }
    }
}

/// Metrics of the processes of a node.
#[derive(Clone)]
pub(super) struct ProcessMetrics {
    exits: IntCounterVec,
    up: IntGaugeVec,
}

impl ProcessMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            exits: registry.counters(
                "tenon_node_process_exits_total",
                "Unexpected ends of the processes of shards and lanes, by cause.",
                &["process", "cause"],
            )?,
            up: registry.gauges(
                "tenon_node_process_up",
                "1 while the process of a shard or lane serves, 0 otherwise.",
                &["process"],
            )?,
        })
    }

    /// Creates the series of a process that is about to start.
    pub(super) fn create_series(&self, id: ShardId) {
        for cause in Cause::ALL {
            self.exits.with_label_values(&[&process_name(id), cause.as_str()]);
        }
        self.set_serving(id, false);
    }

    pub(super) fn set_serving(&self, id: ShardId, serves: bool) {
        self.up.with_label_values(&[&process_name(id)]).set(i64::from(serves));
    }

    pub(super) fn count_end(&self, id: ShardId, cause: Cause) {
        self.exits.with_label_values(&[&process_name(id), cause.as_str()]).inc();
    }
}

/// Returns the name of a process in metrics and logs.
pub(super) fn process_name(id: ShardId) -> String {
    if id.is_lane() { id.to_string() } else { format!("shard-{id}") }
}
