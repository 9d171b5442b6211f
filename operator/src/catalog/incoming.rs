//! Connections to the catalog: accepted, let in by TLS where there is any, and known by who they come from.
//!
//! Handshakes go on side by side. They are driven as the stream is polled, which the server does for as long as it accepts.

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

/// A pause after a failed accept, which is nearly always a lack of file descriptors that passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who has made a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) address: SocketAddr,
    /// Whether it has shown that it is a node. `None` without TLS, where nobody shows anything.
    pub(super) is_node: Option<bool>,
}

/// A connection of somebody who may come.
pub(super) struct Connection {
    stream: tls::Stream,
    caller: Caller,
}

/// Everybody who is let in. It has no end.
pub(super) fn incoming(listener: TcpListener, tls: Option<Tls>) -> impl Stream<Item = io::Result<Connection>> {
    let under_way = FuturesUnordered::new();
    let accepted = stream::unfold((listener, tls, under_way), |(listener, tls, mut under_way)| async move {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => under_way.push(let_in(tls.clone(), stream, address)),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(connection) = under_way.next() => {
                    // Who may not come has been logged.
                    if let Some(connection) = connection {
                        return Some((Ok(connection), (listener, tls, under_way)));
                    }
                }
            }
        }
    });
    accepted.boxed()
}

async fn let_in(tls: Option<Tls>, stream: TcpStream, address: SocketAddr) -> Option<Connection> {
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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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
