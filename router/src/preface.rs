//! HTTP/1 or HTTP/2: told apart by the first bytes, since without TLS nobody has said so before.
//!
//! An HTTP/2 connection begins with a preface that is no HTTP/1 request (RFC 9113, section 3.4). The bytes read
//! to find out are handed on first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

/// A connection of which the first bytes are known.
pub(crate) struct Opening {
    stream: TcpStream,
    first: [u8; PREFACE.len()],
    len: usize,
    handed_on: usize,
}

impl Opening {
    /// Reads as far as it takes to tell the two apart.
    ///
    /// # Errors
    /// When the connection fails before. One that ends before is HTTP/1, which says what is wrong with that.
    pub(crate) async fn read(mut stream: TcpStream) -> io::Result<Self> {
        let (mut first, mut len) = ([0; PREFACE.len()], 0);
        while len < PREFACE.len() && first[..len] == PREFACE[..len] {
            match stream.read(&mut first[len..]).await? {
                0 => break,
                read => len += read,
            }
        }
        Ok(Self { stream, first, len, handed_on: 0 })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether some of what was read first is still to be handed on.
    pub(crate) fn has_more(&self) -> bool {
        self.handed_on < self.len
    }

    pub(crate) fn speaks(&self) -> Speaks {
        if self.first == *PREFACE { Speaks::Http2 } else { Speaks::Http1 }
    }
}

impl AsyncRead for Opening {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.handed_on == self.len {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let len = buf.remaining().min(self.len - self.handed_on);
        buf.put_slice(&self.first[self.handed_on..self.handed_on + len]);
        self.handed_on += len;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Opening {
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
