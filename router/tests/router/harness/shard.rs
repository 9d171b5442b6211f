//! The service of a shard or lane, whose behavior the test sets.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tenon_proto::runtime::{
    Header, InvokeHead, InvokeRequest, InvokeResponse, ResponseHead, invoke_request,
    invoke_response, runtime_server,
};
use tonic::{Request, Response, Status, Streaming};

/// The reaction of a shard or lane to an invocation.
#[derive(Clone, Debug)]
pub(crate) enum Behavior {
    /// Answers with the request's body in one message, and describes the request in headers.
    Echo,
    /// Behaves like [`Behavior::Echo`], and reports that the Worker is hot.
    Hot,
    /// Streams the request's body back as it arrives, and its trailers if the caller takes them.
    EchoStream,
    /// Answers with these headers, and with this body in one message.
    Answer(&'static [(&'static str, &'static str)], Bytes),
    /// Streams the request's body back as it arrives, with these headers.
    Stream(&'static [(&'static str, &'static str)]),
    /// Refuses before any code has run.
    Refuse(FailureCode),
    /// Answers that the Worker has moved, unless the request must stay; then behaves like
    /// [`Behavior::Echo`].
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
    /// the end of the data.
    Tunnel,
    /// Accepts a tunnel, sends these bytes, and ends the tunnel.
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

/// The gRPC service of a shard. Clones share the state.
#[derive(Clone)]
pub(super) struct Shard {
    name: String,
    pub(super) behavior: Arc<Mutex<Behavior>>,
    pub(super) invocations: Arc<AtomicUsize>,
    pub(super) dropped: Arc<AtomicUsize>,
    pub(super) flooded: Arc<AtomicUsize>,
    pub(super) last_head: Arc<Mutex<Option<InvokeHead>>>,
}

/// Counts an invocation when its response is dropped, whether or not the response is complete.
struct CountsDrop(Arc<AtomicUsize>);

impl Drop for CountsDrop {
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
        let first = parts.message().await?.and_then(|message| message.part);
        let Some(head) = first.and_then(invoke_request::Part::into_head) else {
            return Err(Status::invalid_argument("the first message is not a head"));
        };
        *self.last_head.lock().unwrap() = Some(head.clone());
        if !has_deadline {
            return Err(Status::invalid_argument("there is no deadline"));
        }
        let behavior = self.behavior.lock().unwrap().clone();
        let messages: Answers = match behavior {
            Behavior::SendOn if !head.stay => {
                return Err(Status::from(&Failure::new(
                    FailureCode::Moved,
                    Phase::Admission,
                    "Elsewhere.",
                )));
            }
            Behavior::Echo | Behavior::SendOn => {
                let body = whole(&head, parts).await?;
                stream::iter([Ok(answer(200, self.description(&head), body, false))]).boxed()
            }
            Behavior::Hot => {
                let body = whole(&head, parts).await?;
                let mut answer = answer(200, self.description(&head), body, false);
                if let Some(invoke_response::Part::Head(head)) = &mut answer.part {
                    head.is_hot = true;
                }
                stream::iter([Ok(answer)]).boxed()
            }
            Behavior::EchoStream => {
                let first = answer(200, self.description(&head), head.body.clone(), true);
                stream::iter([Ok(first)]).chain(echoes(parts, head.takes_trailers)).boxed()
            }
            Behavior::Answer(headers, body) => {
                stream::iter([Ok(answer(200, own(headers), body, false))]).boxed()
            }
            Behavior::Stream(headers) => {
                let counts_drop = CountsDrop(self.dropped.clone());
                let first = answer(200, own(headers), head.body.clone(), true);
                let rest = bodies(parts).map(|part| part.map(body));
                let rest = rest.inspect(move |_| _ = &counts_drop);
                stream::iter([Ok(first)]).chain(rest).boxed()
            }
            Behavior::Refuse(code) => {
                return Err(Status::from(&Failure::new(code, Phase::Admission, "Not here.")));
            }
            Behavior::Fail(code) => {
                return Err(Status::from(&Failure::new(
                    code,
                    Phase::Handler,
                    "The Worker failed.",
                )));
            }
            Behavior::Hang => {
                let _counts_drop = CountsDrop(self.dropped.clone());
                std::future::pending().await
            }
            Behavior::HalfAnswer => {
                let counts_drop = CountsDrop(self.dropped.clone());
                let half = answer(200, vec![], Bytes::from_static(b"half"), true);
                let never = stream::pending().inspect(move |_| _ = &counts_drop);
                stream::iter([Ok(half)]).chain(never).boxed()
            }
            Behavior::Status(status) => {
                let body = whole(&head, parts).await?;
                stream::iter([Ok(answer(status, self.description(&head), body, false))]).boxed()
            }
            Behavior::Tunnel => {
                let counts_drop = CountsDrop(self.dropped.clone());
                let accepted =
                    answer(101, self.acceptance(&head), Bytes::from_static(WELCOME), true);
                let echo =
                    bodies(parts).map(|part| part.map(body)).inspect(move |_| _ = &counts_drop);
                let bye = stream::iter([Ok(body(Bytes::from_static(BYE)))]);
                stream::iter([Ok(accepted)]).chain(echo).chain(bye).boxed()
            }
            Behavior::Farewell(data) => {
                let data = stream::iter([Ok(body(Bytes::from_static(data)))]);
                stream::iter([Ok(answer(101, self.acceptance(&head), Bytes::new(), true))])
                    .chain(data)
                    .boxed()
            }
            Behavior::Endless => {
                let piece = Bytes::from(vec![7; 16 * 1024]);
                let pieces = stream::repeat_with(move || Ok(body(piece.clone())));
                stream::iter([Ok(answer(200, vec![], Bytes::new(), true))]).chain(pieces).boxed()
            }
            Behavior::Flood => {
                let flooded = self.flooded.clone();
                let message = Bytes::from([&[0x82, 126, 0x40, 0][..], &[7; 16 * 1024]].concat());
                let flood = stream::repeat_with(move || {
                    flooded.fetch_add(message.len(), Ordering::SeqCst);
                    Ok(body(message.clone()))
                });
                stream::iter([Ok(answer(101, self.acceptance(&head), Bytes::new(), true))])
                    .chain(flood)
                    .boxed()
            }
        };
        Ok(Response::new(messages))
    }
}

impl Shard {
    pub(super) fn new(name: &str, behavior: Behavior) -> Self {
        Self {
            name: name.into(),
            behavior: Arc::new(Mutex::new(behavior)),
            invocations: Arc::default(),
            dropped: Arc::default(),
            flooded: Arc::default(),
            last_head: Arc::default(),
        }
    }

    /// Describes the request in headers; the request's own headers are returned with the prefix
    /// `echo-`.
    fn description(&self, head: &InvokeHead) -> Vec<Header> {
        let header =
            |name: &str, value: &str| Header { name: name.into(), value: value.to_owned().into() };
        let mut headers = vec![
            header("observed-node", &self.name),
            header("observed-worker", &head.worker),
            header("observed-method", &head.method),
            header("observed-url", &head.url),
            header("observed-depth", &head.depth.to_string()),
            header("observed-request-id", &head.request_id),
            header("connection", "keep-alive"),
        ];
        let echo = |h: &Header| Header { name: format!("echo-{}", h.name), value: h.value.clone() };
        headers.extend(head.headers.iter().map(echo));
        headers
    }

    /// Returns the headers with which the shard accepts a tunnel.
    fn acceptance(&self, head: &InvokeHead) -> Vec<Header> {
        let header = |name: &str, value: Bytes| Header { name: name.into(), value };
        let key = head.headers.iter().find(|header| header.name == "sec-websocket-key");
        let mut headers = self.description(head);
        headers.push(header(
            "sec-websocket-accept",
            key.map(|key| key.value.clone()).unwrap_or_default(),
        ));
        headers.push(header("sec-websocket-protocol", Bytes::from_static(b"chat")));
        headers.push(header("upgrade", Bytes::from_static(b"websocket")));
        headers
    }
}

/// Returns headers as the messages of a reply contain them.
fn own(headers: &[(&str, &'static str)]) -> Vec<Header> {
    let header = |(name, value): &(&str, &'static str)| Header {
        name: (*name).to_owned(),
        value: Bytes::from_static(value.as_bytes()),
    };
    headers.iter().map(header).collect()
}

async fn whole(head: &InvokeHead, parts: Streaming<InvokeRequest>) -> Result<Bytes, Status> {
    let mut body = head.body.to_vec();
    let mut rest = bodies(parts);
    while let Some(piece) = rest.next().await {
        assert!(head.more_body, "a body arrived that was not announced");
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

/// Returns the messages that send a request's body back, and its trailers.
fn echoes(
    parts: Streaming<InvokeRequest>,
    takes_trailers: bool,
) -> impl Stream<Item = Result<InvokeResponse, Status>> + Send {
    let echo = move |message: Result<InvokeRequest, Status>| match message
        .map(|message| message.part)
    {
        Ok(Some(invoke_request::Part::Body(piece))) => Some(Ok(body(piece))),
        Ok(Some(invoke_request::Part::Trailers(trailers))) => takes_trailers
            .then(|| Ok(InvokeResponse { part: Some(invoke_response::Part::Trailers(trailers)) })),
        Ok(_) => Some(Err(Status::invalid_argument("a second head"))),
        Err(status) => Some(Err(status)),
    };
    parts.filter_map(move |message| std::future::ready(echo(message)))
}

fn answer(status: u32, headers: Vec<Header>, body: Bytes, more_body: bool) -> InvokeResponse {
    let head = ResponseHead { status, headers, body, more_body, is_hot: false, cold: false };
    InvokeResponse { part: Some(invoke_response::Part::Head(head)) }
}

fn body(piece: Bytes) -> InvokeResponse {
    InvokeResponse { part: Some(invoke_response::Part::Body(piece)) }
}
