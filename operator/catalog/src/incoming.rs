//! Accepts connections to the catalog, authenticates them if TLS is on, and tags them with their
//! caller.
//!
//! Handshakes run concurrently. They make progress while the stream is polled, which the server
//! does as long as it accepts.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt as _};
use tenon_lifecycle::tls::{self, Role, Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::Request;
use tonic::transport::server::Connected;

/// Pause after a failed accept. The cause is nearly always a temporary lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    /// Whether the peer's certificate is a node's; `None` without TLS.
    pub(super) is_node: Option<bool>,
}

/// An admitted connection.
pub(super) struct Connection {
    stream: tls::Stream,
    caller: Caller,
}

/// Returns the stream of admitted connections. It never ends.
pub(super) fn incoming(
    listener: TcpListener,
    tls: Option<Tls>,
) -> impl Stream<Item = io::Result<Connection>> {
    let admitting = FuturesUnordered::new();
    let accepted = stream::unfold(
        (listener, tls, admitting),
        |(listener, tls, mut admitting)| async move {
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, address)) => admitting.push(admit(tls.clone(), stream, address)),
                        Err(error) => {
                            tracing::warn!(%error, "cannot accept a connection");
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    },
                    Some(connection) = admitting.next() => {
                        // Refused connections have been logged.
                        if let Some(connection) = connection {
                            return Some((Ok(connection), (listener, tls, admitting)));
                        }
                    }
                }
            }
        },
    );
    accepted.boxed()
}

async fn admit(tls: Option<Tls>, stream: TcpStream, address: SocketAddr) -> Option<Connection> {
    stream.set_nodelay(true).ok()?;
    let stream = tls::accept(tls.as_ref(), stream).await.ok()?;
    let caller = Caller { address, is_node: stream.peer_is(Role::RuntimeNode) };
    Some(Connection { stream, caller })
}

impl Caller {
    pub(super) fn of<T>(request: &Request<T>) -> Option<Self> {
        request.extensions().get().copied()
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
