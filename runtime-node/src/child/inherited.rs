//! The state in which a supervisor's child process begins: the file descriptors that the process
//! inherits, and the settings that determine how the kernel treats it.

#![allow(unsafe_code)] // Takes over file descriptors by their number.

use std::ffi::CString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use rustix::process::{Signal, nice, set_parent_process_death_signal};
use rustix::thread::set_name;
use tenon_engine::page::Page;
use tenon_proto::id::ShardId;
use tenon_router::Listeners;

use crate::config::NodeArgs;
use crate::node::siblings::SiblingLinks;

/// Number of the file descriptor of the control connection. The process inherits this descriptor
/// and those with the following numbers.
pub(crate) const CONTROL: RawFd = 3;
/// The page that the process shares with its supervisor.
pub(crate) const PAGE: RawFd = 4;
/// The listener for routers.
pub(crate) const LISTENER: RawFd = 5;
/// The listener for clients of the node's front.
pub(crate) const CLIENTS: RawFd = 6;
/// The listener for clients that use TLS.
pub(crate) const CLIENTS_TLS: RawFd = 7;
/// The socket from which the process takes clients' connections from the processes of other
/// shards.
pub(crate) const GIVEN: RawFd = 8;
/// The socket to the process of shard 0; those to the other shards follow in their order.
pub(crate) const GIVE: RawFd = 9;

/// Increment of a lane's niceness above a shard's, in steps of nice(2): a lane that competes with a
/// shard for a core gets a tenth of that core.
const LANE_NICENESS: i32 = 10;

/// Increments of `oom_score_adj`, whose maximum is 1,000: when memory is short, the kernel ends
/// these processes before the supervisor, and lanes before shards.
const OOM_SCORE_SHARD: i32 = 100;
const OOM_SCORE_LANE: i32 = 200;

/// The file descriptors that a shard's or lane's process has inherited.
pub struct Inherited {
    pub(super) id: ShardId,
    pub(super) control: UnixStream,
    pub(super) page: Page,
    pub(super) listener: TcpListener,
    pub(super) clients: Option<(Listeners, Option<SiblingLinks>)>,
}

/// The listeners for clients that a process inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientListeners {
    /// The node has no front, or the process is a lane's.
    None,
    Plain,
    PlainAndTls,
}

impl ClientListeners {
    /// Returns the listeners of a process.
    pub fn of(args: &NodeArgs, id: ShardId) -> Self {
        match args.front {
            Some(_) if !id.is_lane() && args.clients.has_https() => Self::PlainAndTls,
            Some(_) if !id.is_lane() => Self::Plain,
            _ => Self::None,
        }
    }

    fn inherit(self, shards: u16) -> io::Result<Option<(Listeners, Option<SiblingLinks>)>> {
        let listener = |fd| take(fd).map(TcpListener::from);
        let https = match self {
            Self::None => return Ok(None),
            Self::Plain => None,
            Self::PlainAndTls => Some(listener(CLIENTS_TLS)?),
        };
        let listeners = Listeners { clients: listener(CLIENTS)?, https, internal: None };
        if shards < 2 {
            return Ok(Some((listeners, None)));
        }
        let socket = |fd| take(fd).map(UnixDatagram::from);
        let give = (0..RawFd::from(shards)).map(|position| socket(GIVE + position));
        let links =
            SiblingLinks::Sockets { given: socket(GIVEN)?, give: give.collect::<io::Result<_>>()? };
        Ok(Some((listeners, Some(links))))
    }
}

/// Takes over the file descriptors that the supervisor has handed to this process. The process
/// calls this once, before anything else.
///
/// # Arguments
/// * `clients` - the listeners for clients that the supervisor hands to this process.
/// * `shards` - the number of the node's shards.
///
/// # Errors
/// Fails if the process was not started by a supervisor, or if the page cannot be mapped.
pub fn inherit(id: ShardId, clients: ClientListeners, shards: u16) -> io::Result<Inherited> {
    let page = Page::open(take(PAGE)?)?;
    let (control, listener) =
        (UnixStream::from(take(CONTROL)?), TcpListener::from(take(LISTENER)?));
    control.set_nonblocking(true)?;
    let clients = clients.inherit(shards)?;
    Ok(Inherited { id, control, page, listener, clients })
}

fn take(fd: RawFd) -> io::Result<OwnedFd> {
    if !Path::new(&format!("/proc/self/fd/{fd}")).exists() {
        let why = "--child is set by a node's supervisor; omit it to run a node";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    // SAFETY: the descriptor is open, and nothing else in this process owns it: `inherit` is called
    // before the process opens descriptors of its own, and takes each number once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets how the kernel treats this process: the process ends with its supervisor, and before the
/// supervisor when memory is short; a lane is scheduled last; the process's name contains its id.
/// The process calls this before it starts other threads, because threads inherit these settings.
pub fn set_up_process(id: ShardId) {
    let ended = set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    let increment = if id.is_lane() { OOM_SCORE_LANE } else { OOM_SCORE_SHARD };
    let scored = std::fs::read_to_string("/proc/self/oom_score_adj").and_then(|score| {
        let score = score.trim().parse::<i32>().map_err(io::Error::other)?;
        std::fs::write("/proc/self/oom_score_adj", (score + increment).min(1000).to_string())
    });
    let name = if id.is_lane() { format!("tenon-{id}") } else { format!("tenon-shard-{id}") };
    let named = CString::new(name).map_err(io::Error::from).and_then(|name| Ok(set_name(&name)?));
    let niced =
        if id.is_lane() { nice(LANE_NICENESS).map(drop).map_err(io::Error::from) } else { Ok(()) };
    for (what, done) in [
        ("end with its supervisor", ended),
        ("end before its supervisor when memory is short", scored),
        ("be scheduled after shards", niced),
        ("have its own name", named),
    ] {
        if let Err(error) = done {
            eprintln!("{id} will not {what}: {error}");
        }
    }
}
