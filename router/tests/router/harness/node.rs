//! A node with one shard, whose behavior the test sets, and which the test can stop and kill. The
//! node may have lanes, which have the same controls.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use socket2::{Domain, Socket, Type};
use tenon_proto::catalog::{self, node::State};
use tenon_proto::runtime::InvokeHead;

use super::shard::{Behavior, Shard};
use super::thread::{Thread, Version};

/// A node, which dereferences to its shard.
pub(crate) struct Node {
    name: String,
    process: Process,
    lanes: Vec<Process>,
}

/// A shard or a lane.
pub(crate) struct Process {
    addr: SocketAddr,
    shard: Shard,
    /// The listener, which the process's parent keeps, so that connections wait for a successor.
    /// `None` if the parent has ended too.
    listener: Option<std::net::TcpListener>,
    /// The process is stopped for as long as this sender exists.
    stopped: Option<mpsc::Sender<()>>,
    /// The thread that stands for the process. Its end resets every connection.
    thread: Option<Thread>,
    version: Version,
}

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Node {
    pub(crate) fn start(name: &str, behavior: Behavior) -> Self {
        Self::start_at(name, behavior, ANY_PORT)
    }

    /// Starts a node at the address of one that was killed.
    pub(crate) fn start_at(name: &str, behavior: Behavior, addr: SocketAddr) -> Self {
        Self {
            name: name.into(),
            process: Process::start(name, behavior, addr, Version::Current),
            lanes: Vec::new(),
        }
    }

    /// Starts a node that does not know the protocol of [`tenon_hop`].
    pub(crate) fn of_another_version(name: &str, behavior: Behavior) -> Self {
        let process = Process::start(name, behavior, ANY_PORT, Version::Other);
        Self { name: name.into(), process, lanes: Vec::new() }
    }

    /// Starts a node whose shard and two lanes are separate processes.
    pub(crate) fn with_lanes(name: &str, behavior: Behavior) -> Self {
        let lane = || Process::start(name, behavior.clone(), ANY_PORT, Version::Current);
        Self { lanes: vec![lane(), lane()], ..Self::start(name, behavior.clone()) }
    }

    pub(crate) fn entry(&self) -> catalog::Node {
        catalog::Node {
            name: self.name.clone(),
            pool: "default".into(),
            address: self.addr.ip().to_string(),
            shard_ports: vec![self.addr.port().into()],
            lane_ports: self.lanes.iter().map(|lane| lane.addr.port().into()).collect(),
            state: State::Ready.into(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn lanes(&mut self) -> &mut [Process] {
        &mut self.lanes
    }

    /// Returns the number of invocations that the node's lanes have received.
    pub(crate) fn in_lanes(&self) -> usize {
        self.lanes.iter().map(Process::invocations).sum()
    }

    /// Returns the shard and all lanes.
    pub(crate) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        std::iter::once(&mut self.process).chain(&mut self.lanes)
    }
}

impl Deref for Node {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

impl Process {
    fn start(name: &str, behavior: Behavior, addr: SocketAddr, version: Version) -> Self {
        let shard = Shard::new(name, behavior);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&addr.into()).unwrap();
        socket.listen(64).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = std::net::TcpListener::from(socket);
        let addr = listener.local_addr().unwrap();
        let thread = Some(Thread::serve(&shard, &listener, version));
        Self { addr, shard, listener: Some(listener), stopped: None, thread, version }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn behave(&self, behavior: Behavior) {
        *self.shard.behavior.lock().unwrap() = behavior;
    }

    /// Returns the number of invocations that this process has received.
    pub(crate) fn invocations(&self) -> usize {
        self.shard.invocations.load(Ordering::SeqCst)
    }

    /// Returns the head of the last invocation.
    pub(crate) fn last_head(&self) -> InvokeHead {
        self.shard.last_head.lock().unwrap().clone().unwrap()
    }

    /// Returns the number of invocations whose caller left before they ended.
    pub(crate) fn dropped(&self) -> usize {
        self.shard.dropped.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes that this process has sent in a [`Behavior::Flood`].
    pub(crate) fn flooded(&self) -> usize {
        self.shard.flooded.load(Ordering::SeqCst)
    }

    /// Ends the process, but not its parent, which may start a successor. A stopped process sends
    /// nothing more.
    pub(crate) fn end(&mut self) {
        // The end is not awaited, because a stopped process notices it only after it has resumed.
        drop(self.thread.take().unwrap());
        self.resume();
    }

    /// Starts the successor of a process that has ended.
    pub(crate) fn start_successor(&mut self) {
        let listener = self.listener.as_ref().unwrap();
        self.thread = Some(Thread::serve(&self.shard, listener, self.version));
    }

    /// Acts like SIGKILL of the process and its parent: the kernel resets the connections of the
    /// process, and its port is free when this method returns.
    pub(crate) fn kill(&mut self) {
        self.listener = None;
        self.thread.take().unwrap().join();
    }

    /// Acts like SIGSTOP, or a turn that does not end: the kernel accepts connections and bytes for
    /// the process, and the process answers nothing.
    pub(crate) fn stop(&mut self) {
        self.stopped = Some(self.thread.as_ref().unwrap().stop());
    }

    /// Acts like SIGCONT.
    pub(crate) fn resume(&mut self) {
        self.stopped = None;
    }
}
