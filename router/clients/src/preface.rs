//! Distinguishes HTTP/1 and HTTP/2 by the first bytes of a connection, because without TLS there is
//! no ALPN. With TLS, a client that speaks a protocol other than the negotiated one is served
//! anyway.
//!
//! An HTTP/2 connection begins with a preface that is not a valid HTTP/1 request (RFC 9113, section
//! 3.4). The bytes that were read for the decision are passed on first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tenon_lifecycle::tls::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// A connection whose first bytes have been read.
pub struct Opening {
    stream: Stream,
    first: [u8; PREFACE.len()],
    len: usize,
    passed_on: usize,
}

impl Opening {
    /// Reads until the two protocols can be distinguished.
    ///
    /// # Errors
    /// Fails if the connection breaks first. A connection that ends first counts as HTTP/1, whose
    /// parser reports the error.
    pub async fn read(mut stream: Stream) -> io::Result<Self> {
        let (mut first, mut len) = ([0; PREFACE.len()], 0);
        while len < PREFACE.len() && first[..len] == PREFACE[..len] {
            match stream.read(&mut first[len..]).await? {
                0 => break,
                read => len += read,
            }
        }
        Ok(Self { stream, first, len, passed_on: 0 })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns whether there is data that has been read from the socket and not been passed on yet.
    pub(crate) fn has_more(&self) -> bool {
        self.passed_on < self.len || self.stream.has_plaintext()
    }

    pub(crate) fn protocol(&self) -> Protocol {
        if self.first == *PREFACE { Protocol::Http2 } else { Protocol::Http1 }
    }
}

impl AsyncRead for Opening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.passed_on == self.len {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let len = buf.remaining().min(self.len - self.passed_on);
        buf.put_slice(&self.first[self.passed_on..self.passed_on + len]);
        self.passed_on += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Opening {
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
