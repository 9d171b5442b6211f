//! The thread that stands for the process of a shard. The thread serves routers as a shard does,
//! and any other caller with tonic.

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tenon_hop::Incoming;
use tenon_hop::server::{Bounds, Connection, Outgoing, Part, Response as HopResponse};
use tenon_hop::sniff::{Peer, sniff};
use tenon_proto::runtime::INVOKE_PATH;
use tenon_proto::runtime::runtime_server::RuntimeServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;

use super::shard::Shard;

const BOUNDS: Bounds = Bounds { streams: 4096, stream_window: 128 * 1024 };

/// The version of a shard, which determines whether the shard knows the hop protocol of
/// [`tenon_hop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Current,
    Other,
}

/// A thread that serves a shard. Dropping this value ends the thread, which resets every
/// connection.
pub(super) struct Thread {
    commands_tx: UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

enum Command {
    /// Blocks the thread until the sender of `go_rx` is dropped.
    Stop { stopped_tx: mpsc::Sender<()>, go_rx: mpsc::Receiver<()> },
}

impl Thread {
    pub(super) fn serve(shard: &Shard, listener: &std::net::TcpListener, version: Version) -> Self {
        let (shard, listener) = (shard.clone(), listener.try_clone().unwrap());
        let (commands_tx, commands_rx) = unbounded_channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async {
                spawn_local(accept(TcpListener::from_std(listener).unwrap(), shard, version));
                run_commands(commands_rx).await;
            });
        });
        Self { commands_tx, thread }
    }

    /// Blocks the thread until the returned sender is dropped.
    pub(super) fn stop(&self) -> mpsc::Sender<()> {
        let (go_tx, go_rx) = mpsc::channel();
        let (stopped_tx, stopped_rx) = mpsc::channel();
        assert!(self.commands_tx.send(Command::Stop { stopped_tx, go_rx }).is_ok());
        stopped_rx.recv().unwrap();
        go_tx
    }

    /// Ends the thread and waits for it. The thread must not be blocked by [`Self::stop`].
    pub(super) fn join(self) {
        drop(self.commands_tx);
        self.thread.join().unwrap();
    }
}

/// Runs commands until their sender is dropped. A stopped thread does nothing else until it is
/// resumed.
async fn run_commands(mut commands_rx: UnboundedReceiver<Command>) {
    while let Some(Command::Stop { stopped_tx, go_rx }) = commands_rx.recv().await {
        stopped_tx.send(()).unwrap();
        _ = go_rx.recv();
    }
}

async fn accept(listener: TcpListener, shard: Shard, version: Version) {
    while let Ok((stream, _)) = listener.accept().await {
        spawn_local(connection(stream, shard.clone(), version));
    }
}

async fn connection(stream: TcpStream, shard: Shard, version: Version) {
    match version {
        Version::Current => match sniff(stream).await {
            Ok(Peer::Hop(opening)) => {
                let service = move |timeout, body| serve_hop(shard.clone(), timeout, body);
                _ = Connection::new(opening, service, BOUNDS).await;
            }
            Ok(Peer::Other(stream)) => complete(stream, shard).await,
            Err(_) => {}
        },
        Version::Other => complete(stream, shard).await,
    }
}

async fn complete<S>(stream: S, shard: Shard)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let service = TowerToHyperService::new(RuntimeServer::new(shard));
    let builder = http2::Builder::new(TokioExecutor::new());
    _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Calls the shard's service for a request of a router.
async fn serve_hop(shard: Shard, timeout: Duration, mut body: Incoming) -> HopResponse<Reply> {
    // Tonic requires bodies that are `Send`.
    let (frames_tx, frames_rx) = channel(1);
    spawn_local(async move {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| tonic::Status::cancelled("reset"));
            if frames_tx.send(frame).await.is_err() {
                return;
            }
        }
    });
    let request = Request::post(INVOKE_PATH)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header("grpc-timeout", format!("{}S", timeout.as_secs()))
        .body(Body::new(StreamBody::new(ReceiverStream::new(frames_rx))))
        .unwrap();
    let Ok(response) = tower_service::Service::call(&mut RuntimeServer::new(shard), request).await;
    let (parts, body) = response.into_parts();
    if parts.headers.contains_key("grpc-status") {
        HopResponse::Failure(parts.headers)
    } else {
        HopResponse::Reply(Reply(body))
    }
}

struct Reply(Body);

impl Outgoing for Reply {
    type Data = Bytes;

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part<Bytes>> {
        let frame = std::task::ready!(http_body::Body::poll_frame(Pin::new(&mut self.0), cx));
        Poll::Ready(match frame.map(|frame| frame.unwrap().into_data()) {
            Some(Ok(data)) => Part::Data(data),
            Some(Err(frame)) => ended(frame.into_trailers().unwrap_or_default()),
            None => Part::Success,
        })
    }
}

fn ended(trailers: HeaderMap) -> Part<Bytes> {
    if trailers.get("grpc-status").is_some_and(|status| status == "0") {
        Part::Success
    } else {
        Part::Failure(trailers)
    }
}
