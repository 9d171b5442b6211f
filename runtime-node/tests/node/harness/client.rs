//! A client of a shard: the client that tonic generates, as any caller could use it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tenon_proto::failure::Failure;
use tenon_proto::frame::INLINE_BODY;
use tenon_proto::runtime::runtime_client::RuntimeClient;
use tenon_proto::runtime::{
    Header, InvokeHead, InvokeRequest, InvokeResponse, ResponseHead, invoke_request,
    invoke_response,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::Deployed;

#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    runtime: RuntimeClient<Channel>,
}

/// A Worker's response.
#[derive(Debug)]
pub(crate) struct WorkerResponse {
    pub(crate) status: u32,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Vec<u8>,
    /// Whether the response asks routers to spread the Worker's requests.
    pub(crate) is_hot: bool,
    /// Whether the request waited for its isolate to start.
    pub(crate) cold: bool,
}

impl WorkerResponse {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is not UTF-8")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|header| header.name == name).map(|header| &header.value[..])
    }
}

impl Client {
    /// Returns a client that connects on first use.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .expect("an address is a URL's authority");
        Self { address, runtime: RuntimeClient::new(endpoint.connect_lazy()) }
    }

    /// Returns a client with another connection to the same shard.
    pub(crate) fn another(&self) -> Self {
        Self::of(self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn get(&self, worker: &Deployed) -> Result<WorkerResponse, Failure> {
        self.call(head(worker), stream::empty()).await
    }

    /// Sends a GET request with a deadline of `time`.
    pub(crate) fn get_within(
        &self,
        worker: &Deployed,
        time: Duration,
    ) -> impl Future<Output = Result<WorkerResponse, Failure>> + use<> {
        let part = Some(invoke_request::Part::Head(head(worker)));
        let mut request = tonic::Request::new(stream::iter([InvokeRequest { part }]));
        request.set_timeout(time);
        let mut runtime = self.runtime.clone();
        async move { read(runtime.invoke(request).await).await.map_err(|status| Failure::from(&status)) }
    }

    /// Sends a body as a router does: with the head if the body is small, and otherwise in pieces.
    pub(crate) async fn post(
        &self,
        worker: &Deployed,
        mut body: Bytes,
    ) -> Result<WorkerResponse, Failure> {
        let first = body.split_to(body.len().min(INLINE_BODY));
        let head = InvokeHead {
            method: "POST".to_owned(),
            body: first,
            more_body: !body.is_empty(),
            ..head(worker)
        };
        let pieces = std::iter::from_fn(move || {
            (!body.is_empty()).then(|| body.split_to(body.len().min(INLINE_BODY)))
        });
        self.call(head, stream::iter(pieces.collect::<Vec<_>>())).await
    }

    /// Starts a request whose body the test sends piece by piece. Dropping the sender ends the
    /// body.
    pub(crate) fn upload(&self, worker: &Deployed) -> Upload {
        let (body_tx, body_rx) = mpsc::unbounded_channel();
        let head = InvokeHead { method: "POST".to_owned(), more_body: true, ..head(worker) };
        let client = self.clone();
        let answer = async move { client.call(head, UnboundedReceiverStream::new(body_rx)).await };
        Upload { body_tx, answer: tokio::spawn(answer) }
    }

    /// Sends a GET request and returns the response's messages after its head.
    pub(crate) async fn open(&self, worker: &Deployed) -> Streaming<InvokeResponse> {
        let part = Some(invoke_request::Part::Head(head(worker)));
        let messages = self.runtime.clone().invoke(stream::iter([InvokeRequest { part }])).await;
        let mut messages = messages.expect("the call failed").into_inner();
        let first = messages
            .message()
            .await
            .expect("the call failed before the response's head")
            .and_then(|message| message.part);
        assert!(
            matches!(first, Some(invoke_response::Part::Head(_))),
            "a response began with {first:?}"
        );
        messages
    }

    /// Requests a WebSocket as a router does. Returns the response's head and the messages of the
    /// other side; `body_rx` supplies the bytes that the client sends.
    pub(crate) async fn tunnel(
        &self,
        worker: &Deployed,
        body_rx: mpsc::Receiver<Bytes>,
    ) -> Result<(ResponseHead, Streaming<InvokeResponse>), Failure> {
        let header =
            |name: &str, value: &'static str| Header { name: name.to_owned(), value: value.into() };
        let headers = vec![
            header("upgrade", "websocket"),
            header("sec-websocket-version", "13"),
            header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let head = InvokeHead { headers, more_body: true, ..head(worker) };
        let parts = stream::iter([invoke_request::Part::Head(head)])
            .chain(ReceiverStream::new(body_rx).map(invoke_request::Part::Body));
        let messages = parts.map(|part| InvokeRequest { part: Some(part) });
        let opened = async {
            let mut messages = self.runtime.clone().invoke(messages).await?.into_inner();
            let first = messages.message().await?.and_then(|message| message.part);
            let Some(invoke_response::Part::Head(head)) = first else {
                panic!("a response began with {first:?}")
            };
            Ok((head, messages))
        };
        opened.await.map_err(|status: Status| Failure::from(&status))
    }

    pub(crate) async fn call(
        &self,
        head: InvokeHead,
        body: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<WorkerResponse, Failure> {
        let head = stream::iter([invoke_request::Part::Head(head)]);
        let parts = head.chain(body.map(invoke_request::Part::Body));
        let messages = parts.map(|part| InvokeRequest { part: Some(part) });
        read(self.runtime.clone().invoke(messages).await)
            .await
            .map_err(|status| Failure::from(&status))
    }
}

/// A request whose body is being sent.
pub(crate) struct Upload {
    pub(crate) body_tx: mpsc::UnboundedSender<Bytes>,
    answer: JoinHandle<Result<WorkerResponse, Failure>>,
}

impl Upload {
    /// Ends the body and waits for the response.
    pub(crate) async fn end(self) -> Result<WorkerResponse, Failure> {
        drop(self.body_tx);
        self.answer.await.expect("the call panicked")
    }

    /// Waits for the response without ending the body.
    pub(crate) async fn response(&mut self) -> Result<WorkerResponse, Failure> {
        (&mut self.answer).await.expect("the call panicked")
    }

    /// Cancels the request.
    pub(crate) fn cancel(self) {
        self.answer.abort();
    }
}

pub(crate) fn head(worker: &Deployed) -> InvokeHead {
    InvokeHead {
        worker: worker.worker.to_string(),
        digest: Bytes::copy_from_slice(worker.digest.as_bytes()),
        request_id: "a-request".to_owned(),
        method: "GET".to_owned(),
        url: "https://worker.test/a/path?query=1".to_owned(),
        headers: vec![Header {
            name: "x-greeting".to_owned(),
            value: Bytes::from_static(b"hello"),
        }],
        ..InvokeHead::default()
    }
}

/// Returns the next piece of a body, or `None` at its end.
pub(crate) async fn piece(
    messages: &mut Streaming<InvokeResponse>,
) -> Result<Option<Bytes>, Failure> {
    let message = messages.message().await.map_err(|status| Failure::from(&status))?;
    Ok(message.map(|message| match message.part {
        Some(invoke_response::Part::Body(piece)) => piece,
        part => panic!("expected a piece of the body, received {part:?}"),
    }))
}

async fn read(
    response: Result<tonic::Response<Streaming<InvokeResponse>>, Status>,
) -> Result<WorkerResponse, Status> {
    let mut messages = response?.into_inner();
    let first = messages.message().await?.and_then(|message| message.part);
    let Some(invoke_response::Part::Head(head)) = first else {
        panic!("a response began with {first:?}")
    };
    let ResponseHead { status, headers, body, more_body, is_hot, cold } = head;
    let mut answer = WorkerResponse { status, headers, body: body.to_vec(), is_hot, cold };
    while let Some(message) = messages.message().await? {
        let Some(invoke_response::Part::Body(piece)) = message.part else {
            panic!("expected a piece of the body, received {message:?}")
        };
        assert!(more_body, "the head did not announce a body");
        answer.body.extend_from_slice(&piece);
    }
    Ok(answer)
}
