//! Tests that trailers, and with them gRPC calls, pass through `tenon dev`: from a client of the
//! test through the router and a Worker to an origin of the test, and back.
#![allow(clippy::unwrap_used)] // Clippy recognizes only functions that are marked as tests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use futures::{SinkExt, StreamExt};
use tenon_proto::router::router_client::RouterClient;
use tenon_proto::router::router_server::{self, RouterServer};
use tenon_proto::router::{AwaitWorkerRequest, AwaitWorkerResponse};
use tenon_proto::runtime::runtime_client::RuntimeClient;
use tenon_proto::runtime::runtime_server::{self, RuntimeServer};
use tenon_proto::runtime::{InvokeRequest, InvokeResponse, invoke_request, invoke_response};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::harness::{DEADLINE, Dev, worker};

/// A gRPC server of the platform's own services, which have unary and bidirectional methods.
struct Origin;

/// Returns a failure with a message and metadata, which arrive in the trailers.
fn failure() -> Status {
    let mut status = Status::resource_exhausted("the cart is full, 100 % of it");
    status.metadata_mut().insert("x-limit", "100".parse().unwrap());
    status
}

#[tonic::async_trait]
impl runtime_server::Runtime for Origin {
    type InvokeStream = BoxStream<'static, Result<InvokeResponse, Status>>;

    /// Echoes each message, and fails after the message `fail`.
    async fn invoke(
        &self,
        request: Request<Streaming<InvokeRequest>>,
    ) -> Result<Response<Self::InvokeStream>, Status> {
        let echoes = request.into_inner().map(|message| {
            let Some(invoke_request::Part::Body(bytes)) = message?.part else {
                return Err(Status::invalid_argument("the message has no bytes"));
            };
            if &bytes[..] == b"fail" {
                return Err(failure());
            }
            Ok(InvokeResponse { part: Some(invoke_response::Part::Body(bytes)) })
        });
        Ok(Response::new(echoes.boxed()))
    }
}

#[tonic::async_trait]
impl router_server::Router for Origin {
    async fn await_worker(
        &self,
        request: Request<AwaitWorkerRequest>,
    ) -> Result<Response<AwaitWorkerResponse>, Status> {
        if request.metadata().get("x-call").is_none_or(|value| value != "yes") {
            return Err(failure());
        }
        let mut response = Response::new(AwaitWorkerResponse::default());
        response.metadata_mut().insert("x-answer", "yes".parse().unwrap());
        Ok(response)
    }
}

/// Starts the gRPC server, without TLS. Returns its port.
fn serve_grpc() -> u16 {
    let incoming = TcpIncoming::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let port = incoming.local_addr().unwrap().port();
    let services = Server::builder()
        .add_service(RuntimeServer::new(Origin))
        .add_service(RouterServer::new(Origin));
    tokio::spawn(services.serve_with_incoming(incoming));
    port
}

/// Starts `tenon dev` with a Worker that passes every request on to a port of this machine.
fn forwarder(port: u16) -> (Dev, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let source = format!(
        "export default {{ fetch: (request) => fetch('http://127.0.0.1:{port}' + new URL(request.url).pathname, request) }}"
    );
    std::fs::write(directory.path().join("worker.yaml"), worker("hello", &source)).unwrap();
    (Dev::start(directory.path()), directory)
}

async fn channel(dev: &Dev) -> Channel {
    let endpoint = Endpoint::try_from(format!("http://127.0.0.1:{}", dev.port())).unwrap();
    endpoint.origin("http://localhost".parse().unwrap()).connect().await.unwrap()
}

fn message(bytes: impl Into<Bytes>) -> InvokeRequest {
    InvokeRequest { part: Some(invoke_request::Part::Body(bytes.into())) }
}

async fn next(echoes: &mut Streaming<InvokeResponse>) -> Result<Option<Bytes>, Status> {
    let message =
        tokio::time::timeout(DEADLINE, echoes.message()).await.expect("no message arrived");
    Ok(message?.map(|message| match message.part {
        Some(invoke_response::Part::Body(bytes)) => bytes,
        other => panic!("an unexpected message: {other:?}"),
    }))
}

fn assert_failed(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(status.message(), "the cart is full, 100 % of it");
    assert_eq!(status.metadata().get("x-limit").unwrap(), "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unary_grpc_call_passes_through_a_worker_with_its_status() {
    let (dev, _directory) = forwarder(serve_grpc());
    let mut client = RouterClient::new(channel(&dev).await);
    let mut request = Request::new(AwaitWorkerRequest::default());
    request.metadata_mut().insert("x-call", "yes".parse().unwrap());
    let response = client.await_worker(request).await.unwrap();
    assert_eq!(response.metadata().get("x-answer").unwrap(), "yes");
    // A call that fails without a message has its status in the head.
    assert_failed(&client.await_worker(AwaitWorkerRequest::default()).await.unwrap_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_messages_of_a_grpc_call_go_in_both_directions_and_its_status_follows_them() {
    let (dev, _directory) = forwarder(serve_grpc());
    let mut client = RuntimeClient::new(channel(&dev).await);
    let (mut messages_tx, messages_rx) = mpsc::channel(0);
    let mut echoes = client.invoke(messages_rx).await.unwrap().into_inner();
    for text in ["one", "", "three"] {
        messages_tx.send(message(text)).await.unwrap();
        assert_eq!(next(&mut echoes).await.unwrap(), Some(text.into()));
    }
    drop(messages_tx);
    assert_eq!(next(&mut echoes).await.unwrap(), None);
    assert!(echoes.trailers().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_call_may_fail_after_some_of_its_messages() {
    let (dev, _directory) = forwarder(serve_grpc());
    let mut client = RuntimeClient::new(channel(&dev).await);
    let long: Vec<Bytes> = (0..100_u8).map(|n| Bytes::from(vec![n; 20_000])).collect();
    let sent = long.iter().cloned().chain([Bytes::from_static(b"fail")]).map(message);
    let sent = stream::iter(sent.collect::<Vec<_>>()).chain(stream::pending());
    let mut echoes = client.invoke(sent).await.unwrap().into_inner();
    for bytes in long {
        assert_eq!(next(&mut echoes).await.unwrap(), Some(bytes));
    }
    assert_failed(&next(&mut echoes).await.unwrap_err());
}

/// Starts an HTTP/1.1 origin that answers each connection with trailers. Returns its port.
fn serve_http1() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n4\r\nbody\r\n0\r\nx-sum: 7\r\nset-cookie: a=b\r\n\r\n",
                )
                .unwrap();
        }
    });
    port
}

#[test]
fn an_http1_client_gets_the_announced_trailers_if_it_accepts_trailers() {
    let (dev, _directory) = forwarder(serve_http1());
    let answer = |te: &str| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, dev.port())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nhost: localhost\r\n{te}connection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let with = answer("te: trailers\r\n");
    assert!(with.ends_with("4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n"), "{with}");
    let without = answer("");
    assert!(without.ends_with("4\r\nbody\r\n0\r\n\r\n"), "{without}");
}
