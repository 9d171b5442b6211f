//! A connection with or without TLS, as one type for code that speaks HTTP/2 over the connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::config::is_for;
use super::principal::{Principal, PrincipalError};
use super::role::Role;

/// A connection between two processes of the platform.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Returns whether the peer's certificate is for this role, or `None` without TLS.
    pub fn peer_is(&self, role: Role) -> Option<bool> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(_) => {
                let certificate = self.peer_certificate();
                Some(certificate.is_some_and(|certificate| is_for(certificate, role)))
            }
        }
    }

    /// Returns the holder that the peer's certificate names in a URI, or `None` without TLS or
    /// without such a URI.
    ///
    /// # Arguments
    /// * `namespace` - the namespace of the platform.
    ///
    /// # Errors
    /// Fails if the certificate is malformed or has several such URIs, or if its URI names no part
    /// of this platform.
    pub fn peer_principal(&self, namespace: &str) -> Result<Option<Principal>, PrincipalError> {
        self.peer_certificate()
            .map_or(Ok(None), |certificate| Principal::of(certificate, namespace))
    }

    /// Returns whether the peer's certificate is for the nodes of this pool, or names no holder.
    /// Without TLS, every peer may be a node of the pool.
    pub fn peer_may_be_of_pool(&self, pool: &str) -> bool {
        match self.peer_certificate().map(Principal::named) {
            None | Some(Ok(None)) => true,
            Some(Ok(Some((_, principal)))) => {
                matches!(principal, Principal::Pool(name) if name == pool)
            }
            Some(Err(_)) => false,
        }
    }

    fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
        }
    }

    /// Returns whether decrypted data, or the end of the peer's data, waits to be read. Neither
    /// makes the socket readable.
    pub fn has_plaintext(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => !stream.get_ref().1.wants_read(),
        }
    }

    /// Returns the TCP connection, for its options and addresses.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
