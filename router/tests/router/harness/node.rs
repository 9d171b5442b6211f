//! A node of one shard whose behaviour the test sets, and which can be stopped and killed. It may
//! have lanes, which have the same controls.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use socket2::{Domain, Socket, Type};
use tenon_proto::catalog::{self, node::State};
use tenon_proto::runtime::InvokeHead;
use tenon_proto::runtime::runtime_server::RuntimeServer;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;

use super::DEADLINE;
use super::shard::{Behaviour, Shard};

/// A node. It dereferences to its shard, whose behaviour can be changed and inspected.
pub(crate) struct Node {
    name: String,
    process: Process,
    lanes: Vec<Process>,
}

/// A shard or a lane.
pub(crate) struct Process {
    addr: SocketAddr,
    shard: Shard,
    /// Kept by the process's parent, so that connections wait for a successor. `None` if the parent
    /// has ended too.
    listener: Option<std::net::TcpListener>,
    /// The process is stopped for as long as this exists.
    stopped: Option<mpsc::Sender<()>>,
    /// The runtime stands for the process: dropping it resets every connection.
    runtime: Option<Runtime>,
}

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Node {
    pub(crate) fn start(name: &str, behaviour: Behaviour) -> Self {
        Self::start_at(name, behaviour, ANY_PORT)
    }

    /// Starts a new process in place of one that was killed.
    pub(crate) fn start_at(name: &str, behaviour: Behaviour, addr: SocketAddr) -> Self {
        Self {
            name: name.into(),
            process: Process::start(name, behaviour, addr),
            lanes: Vec::new(),
        }
    }

    /// Starts a node whose shard and two lanes are separate processes.
    pub(crate) fn with_lanes(name: &str, behaviour: Behaviour) -> Self {
        let lane = || Process::start(name, behaviour.clone(), ANY_PORT);
        Self { lanes: vec![lane(), lane()], ..Self::start(name, behaviour.clone()) }
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

    /// Returns the number of invocations that its lanes have received.
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
    fn start(name: &str, behaviour: Behaviour, addr: SocketAddr) -> Self {
        let shard = Shard::new(name, behaviour);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&addr.into()).unwrap();
        socket.listen(64).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = std::net::TcpListener::from(socket);
        let addr = listener.local_addr().unwrap();
        let runtime = Some(serve(&shard, &listener));
        Self { addr, shard, listener: Some(listener), stopped: None, runtime }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.shard.behaviour.lock().unwrap() = behaviour;
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

    /// Returns how much it has sent in a [`Behaviour::Flood`], in bytes.
    pub(crate) fn flooded(&self) -> usize {
        self.shard.flooded.load(Ordering::SeqCst)
    }

    /// Ends the process, whose parent will start another one. A stopped process sends nothing more.
    pub(crate) fn end(&mut self) {
        // This cannot wait: a stopped process notices only when it resumes.
        self.runtime.take().unwrap().shutdown_background();
        self.resume();
    }

    /// Starts the successor of a process that has ended.
    pub(crate) fn succeed(&mut self) {
        self.runtime = Some(serve(&self.shard, self.listener.as_ref().unwrap()));
    }

    /// Acts like SIGKILL of the whole node: the kernel resets its connections, and its port is free
    /// when this returns.
    pub(crate) fn kill(&mut self) {
        self.listener = None;
        let runtime = self.runtime.take().unwrap();
        // A runtime must not be shut down synchronously on a thread of another.
        std::thread::spawn(move || runtime.shutdown_timeout(DEADLINE)).join().unwrap();
    }

    /// Acts like SIGSTOP, or a turn that does not end: the kernel accepts connections and bytes for
    /// the process, and the process answers nothing.
    pub(crate) fn stop(&mut self) {
        let (go_tx, go_rx) = mpsc::channel();
        let (stopped_tx, stopped_rx) = mpsc::channel();
        // This blocks its only thread.
        self.runtime.as_ref().unwrap().spawn(async move {
            stopped_tx.send(()).unwrap();
            _ = go_rx.recv();
        });
        stopped_rx.recv().unwrap();
        self.stopped = Some(go_tx);
    }

    /// Acts like SIGCONT.
    pub(crate) fn resume(&mut self) {
        self.stopped = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.resume();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a process on a thread of its own.
fn serve(shard: &Shard, listener: &std::net::TcpListener) -> Runtime {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = runtime.enter();
    let listener = TcpListener::from_std(listener.try_clone().unwrap()).unwrap();
    drop(entered);
    let server = tonic::transport::Server::builder().add_service(RuntimeServer::new(shard.clone()));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    runtime
}
