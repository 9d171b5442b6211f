//! A node of one shard whose behaviour the test sets, and which can be stopped and killed. It may
//! have lanes, which have the same controls.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use socket2::{Domain, Socket, Type};
use tenon_proto::catalog::{self, node::State};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::runtime_server::{self, RuntimeServer};
use tenon_proto::runtime::{
    Header, InvokeHead, InvokeRequest, InvokeResponse, ResponseHead, invoke_request,
    invoke_response,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::DEADLINE;

/// The reaction of a node to an invocation.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Answers with the request's body in one message, and describes the request in headers.
    Echo,
    /// Streams the request's body back as it arrives.
    EchoStream,
    /// Refuses before any code has run.
    Refuse(FailureCode),
    /// Says that the Worker has moved, unless the Worker must stay: then like [`Behaviour::Echo`].
    SendOn,
    /// Answers with a failure of the Worker.
    Fail(FailureCode),
    /// Never answers.
    Hang,
    /// Sends half of a body, and never the rest.
    HalfAnswer,
    /// Answers with this status and the request's body.
    Status(u32),
    /// Accepts a tunnel, sends [`WELCOME`], echoes the data that it receives, and sends [`BYE`] at
    /// its end.
    Tunnel,
    /// Accepts a tunnel, sends this, and ends it.
    Farewell(&'static [u8]),
    /// Answers with an endless body.
    Endless,
    /// Accepts a tunnel and sends endlessly.
    Flood,
}

/// A WebSocket frame with the text `welcome`.
pub(crate) const WELCOME: &[u8] = b"\x81\x07welcome";
/// A Close frame with the code 1000.
pub(crate) const BYE: &[u8] = b"\x88\x02\x03\xe8";

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

#[derive(Clone)]
struct Shard {
    name: String,
    behaviour: Arc<Mutex<Behaviour>>,
    invocations: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    said: Arc<AtomicUsize>,
    last_head: Arc<Mutex<Option<InvokeHead>>>,
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
        let shard = Shard {
            name: name.into(),
            behaviour: Arc::new(Mutex::new(behaviour)),
            invocations: Arc::default(),
            dropped: Arc::default(),
            said: Arc::default(),
            last_head: Arc::default(),
        };
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
    pub(crate) fn said(&self) -> usize {
        self.shard.said.load(Ordering::SeqCst)
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

/// Counts invocations that do not complete.
struct Unfinished(Arc<AtomicUsize>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<InvokeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl runtime_server::Runtime for Shard {
    type InvokeStream = Answers;

    async fn invoke(
        &self,
        request: Request<Streaming<InvokeRequest>>,
    ) -> Result<Response<Self::InvokeStream>, Status> {
        self.invocations.fetch_add(1, Ordering::SeqCst);
        let has_deadline = request.metadata().contains_key("grpc-timeout");
        let mut parts = request.into_inner();
        let Some(invoke_request::Part::Head(head)) =
            parts.message().await?.and_then(|message| message.part)
        else {
            return Err(Status::invalid_argument("the first message is no head"));
        };
        *self.last_head.lock().unwrap() = Some(head.clone());
        if !has_deadline {
            return Err(Status::invalid_argument("there is no deadline"));
        }
        let behaviour = self.behaviour.lock().unwrap().clone();
        let messages: Answers = match behaviour {
            Behaviour::SendOn if !head.stay => {
                return Err(Status::from(&Failure::new(
                    FailureCode::Moved,
                    Phase::Admission,
                    "Elsewhere.",
                )));
            }
            Behaviour::Echo | Behaviour::SendOn => {
                let body = whole(&head, parts).await?;
                stream::iter([Ok(answer(200, self.told(&head), body, false))]).boxed()
            }
            Behaviour::EchoStream => {
                let first = answer(200, self.told(&head), head.body.clone(), true);
                stream::iter([Ok(first)]).chain(bodies(parts).map(|part| part.map(body))).boxed()
            }
            Behaviour::Refuse(code) => {
                return Err(Status::from(&Failure::new(code, Phase::Admission, "Not here.")));
            }
            Behaviour::Fail(code) => {
                return Err(Status::from(&Failure::new(
                    code,
                    Phase::Handler,
                    "The Worker failed.",
                )));
            }
            Behaviour::Hang => {
                let _unfinished = Unfinished(self.dropped.clone());
                std::future::pending().await
            }
            Behaviour::HalfAnswer => {
                let unfinished = Unfinished(self.dropped.clone());
                let half = answer(200, vec![], Bytes::from_static(b"half"), true);
                let never = stream::pending().inspect(move |_| _ = &unfinished);
                stream::iter([Ok(half)]).chain(never).boxed()
            }
            Behaviour::Status(status) => {
                let body = whole(&head, parts).await?;
                stream::iter([Ok(answer(status, self.told(&head), body, false))]).boxed()
            }
            Behaviour::Tunnel => {
                let unfinished = Unfinished(self.dropped.clone());
                let agreed = answer(101, self.agreed(&head), Bytes::from_static(WELCOME), true);
                let echo =
                    bodies(parts).map(|part| part.map(body)).inspect(move |_| _ = &unfinished);
                let bye = stream::iter([Ok(body(Bytes::from_static(BYE)))]);
                stream::iter([Ok(agreed)]).chain(echo).chain(bye).boxed()
            }
            Behaviour::Farewell(said) => {
                let said = stream::iter([Ok(body(Bytes::from_static(said)))]);
                stream::iter([Ok(answer(101, self.agreed(&head), Bytes::new(), true))])
                    .chain(said)
                    .boxed()
            }
            Behaviour::Endless => {
                let piece = Bytes::from(vec![7; 16 * 1024]);
                let pieces = stream::repeat_with(move || Ok(body(piece.clone())));
                stream::iter([Ok(answer(200, vec![], Bytes::new(), true))]).chain(pieces).boxed()
            }
            Behaviour::Flood => {
                let said = self.said.clone();
                let message = Bytes::from([&[0x82, 126, 0x40, 0][..], &[7; 16 * 1024]].concat());
                let flood = stream::repeat_with(move || {
                    said.fetch_add(message.len(), Ordering::SeqCst);
                    Ok(body(message.clone()))
                });
                stream::iter([Ok(answer(101, self.agreed(&head), Bytes::new(), true))])
                    .chain(flood)
                    .boxed()
            }
        };
        Ok(Response::new(messages))
    }
}

impl Shard {
    /// Describes the request in headers; the request's own headers are returned with the prefix
    /// `echo-`.
    fn told(&self, head: &InvokeHead) -> Vec<Header> {
        let header =
            |name: &str, value: &str| Header { name: name.into(), value: value.to_owned().into() };
        let mut headers = vec![
            header("told-node", &self.name),
            header("told-worker", &head.worker),
            header("told-method", &head.method),
            header("told-url", &head.url),
            header("told-depth", &head.depth.to_string()),
            header("told-request-id", &head.request_id),
            header("connection", "keep-alive"),
        ];
        let echo = |h: &Header| Header { name: format!("echo-{}", h.name), value: h.value.clone() };
        headers.extend(head.headers.iter().map(echo));
        headers
    }
}

impl Shard {
    /// Returns the headers with which it accepts a tunnel.
    fn agreed(&self, head: &InvokeHead) -> Vec<Header> {
        let header = |name: &str, value: Bytes| Header { name: name.into(), value };
        let key = head.headers.iter().find(|header| header.name == "sec-websocket-key");
        let mut agreed = self.told(head);
        agreed.push(header(
            "sec-websocket-accept",
            key.map(|key| key.value.clone()).unwrap_or_default(),
        ));
        agreed.push(header("sec-websocket-protocol", Bytes::from_static(b"chat")));
        agreed.push(header("upgrade", Bytes::from_static(b"websocket")));
        agreed
    }
}

async fn whole(head: &InvokeHead, parts: Streaming<InvokeRequest>) -> Result<Bytes, Status> {
    let mut body = head.body.to_vec();
    let mut rest = bodies(parts);
    while let Some(piece) = rest.next().await {
        assert!(head.more_body, "a body that was not announced");
        body.extend_from_slice(&piece?);
    }
    Ok(body.into())
}

fn bodies(
    parts: Streaming<InvokeRequest>,
) -> impl Stream<Item = Result<Bytes, Status>> + Send + Unpin {
    parts.map(|message| match message?.part {
        Some(invoke_request::Part::Body(body)) => Ok(body),
        _ => Err(Status::invalid_argument("a second head")),
    })
}

fn answer(status: u32, headers: Vec<Header>, body: Bytes, more_body: bool) -> InvokeResponse {
    InvokeResponse {
        part: Some(invoke_response::Part::Head(ResponseHead { status, headers, body, more_body })),
    }
}

fn body(piece: Bytes) -> InvokeResponse {
    InvokeResponse { part: Some(invoke_response::Part::Body(piece)) }
}
