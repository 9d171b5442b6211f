//! Accepts connections to the catalog, authenticates them if TLS is on, and tags them with their
//! caller.
//!
//! Handshakes run concurrently. They make progress while the stream is polled, which the server
//! does as long as it accepts.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt as _};
use tenon_lifecycle::tls::{self, Role, Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::server::Connected;

use super::access::{Caller, Certificate, Membership};

/// Pause after a failed accept. The cause is nearly always a temporary lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The way in which the catalog authenticates its callers.
#[derive(Clone)]
pub struct Authentication {
    pub tls: Tls,
    /// The namespace of the platform, which the URIs of certificates name.
    pub namespace: String,
}

/// An admitted connection.
pub(super) struct Connection {
    stream: tls::Stream,
    caller: Caller,
}

/// Returns the stream of admitted connections. It never ends.
pub(super) fn incoming(
    listener: TcpListener,
    authentication: Option<Authentication>,
) -> impl Stream<Item = io::Result<Connection>> {
    let authentication = authentication.map(Arc::new);
    let admitting = FuturesUnordered::new();
    let accepted = stream::unfold(
        (listener, authentication, admitting),
        |(listener, authentication, mut admitting)| async move {
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, address)) => {
                            admitting.push(admit(authentication.clone(), stream, address));
                        }
                        Err(error) => {
                            tracing::warn!(%error, "cannot accept a connection");
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    },
                    Some(connection) = admitting.next() => {
                        // Failed handshakes have been logged.
                        if let Some(connection) = connection {
                            let state = (listener, authentication, admitting);
                            return Some((Ok(connection), state));
                        }
                    }
                }
            }
        },
    );
    accepted.boxed()
}

async fn admit(
    authentication: Option<Arc<Authentication>>,
    stream: TcpStream,
    address: SocketAddr,
) -> Option<Connection> {
    stream.set_nodelay(true).ok()?;
    let tls = authentication.as_ref().map(|authentication| &authentication.tls);
    let stream = tls::accept(tls, stream).await.ok()?;
    let certificate = authentication
        .map(|authentication| certificate(&stream, &authentication.namespace, address));
    Some(Connection { stream, caller: Caller { address, certificate } })
}

fn certificate(stream: &tls::Stream, namespace: &str, address: SocketAddr) -> Certificate {
    let principal = stream.peer_principal(namespace);
    if let Err(error) = &principal {
        // Calls for which the caller needs a pool are refused and logged.
        tracing::debug!(%address, %error, "a caller of the catalog belongs to no pool");
    }
    Certificate {
        is_router: stream.peer_is(Role::Router) == Some(true),
        is_node: stream.peer_is(Role::RuntimeNode) == Some(true),
        pool: principal.map_or(Membership::NotAPool, Membership::from),
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
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
