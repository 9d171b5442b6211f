//! Counts the reads from a connection, which show that the peer responds, and the writes to it: as
//! long as nothing has been written, no request has been sent.
//!
//! A stream belongs to one thread.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that counts its reads and writes.
pub(crate) struct CountingStream<S> {
    stream: S,
    counts: Rc<IoCounts>,
}

/// The numbers of reads and writes of a link's connections.
#[derive(Debug, Default)]
pub(crate) struct IoCounts {
    reads: Cell<u64>,
    writes: Cell<u64>,
}

impl IoCounts {
    /// Returns the number of reads that returned data.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.get()
    }

    pub(crate) fn count_read(&self) {
        self.reads.set(self.reads.get().wrapping_add(1));
    }

    /// Returns the number of attempted writes, regardless of their results.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }

    fn count_write(&self) {
        self.writes.set(self.writes.get().wrapping_add(1));
    }
}

impl<S> CountingStream<S> {
    pub(crate) fn new(stream: S, counts: Rc<IoCounts>) -> Self {
        Self { stream, counts }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.counts.count_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountingStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.counts.count_write();
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.counts.count_write();
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
