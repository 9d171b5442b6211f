//! Reads frames from a socket, and writes an outbox to it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::poll_read_buf;

use crate::error::ConnectionError;
use crate::frame::{HEADER, Head, MAX_PAYLOAD};

/// The size of a new read buffer, in bytes.
const READ_BUFFER: usize = 32 * 1024;

/// The remaining space, in bytes, below which a new read buffer is allocated.
const MIN_SPACE: usize = 4 * 1024;

/// The capacity that an outbox keeps while it is empty, in bytes.
const KEPT_CAPACITY: usize = 64 * 1024;

/// A socket, with the bytes that have been read from it and not been handled.
pub(crate) struct Wire<S> {
    stream: S,
    inbox: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Wraps a socket.
    ///
    /// # Arguments
    /// * `inbox` - the bytes that have already been read from the stream.
    pub(crate) fn new(stream: S, inbox: BytesMut) -> Self {
        Self { stream, inbox }
    }

    /// Returns the header of the next frame, or `None` at the end of the stream. The payload has
    /// arrived, and must be taken or skipped.
    ///
    /// # Errors
    /// Fails if the stream breaks or ends within a frame, or if the frame is too large.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Head>, ConnectionError>> {
        loop {
            if let Some(head) = self.inbox.first_chunk().map(Head::parse) {
                if head.len > MAX_PAYLOAD {
                    return Poll::Ready(Err(ConnectionError::size("a frame that is too large")));
                }
                if self.inbox.len() >= HEADER + head.len {
                    self.inbox.advance(HEADER);
                    return Poll::Ready(Ok(Some(head)));
                }
            }
            if self.inbox.capacity() - self.inbox.len() < MIN_SPACE {
                self.inbox.reserve(READ_BUFFER);
            }
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.inbox))? == 0 {
                let is_between_frames = self.inbox.is_empty();
                let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                return Poll::Ready(if is_between_frames { Ok(None) } else { Err(error.into()) });
            }
        }
    }

    /// Returns the payload of the current frame.
    pub(crate) fn payload(&self, head: &Head) -> &[u8] {
        &self.inbox[..head.len]
    }

    /// Discards the payload of the current frame.
    pub(crate) fn skip(&mut self, head: &Head) {
        self.inbox.advance(head.len);
    }

    /// Takes the payload of the current frame.
    pub(crate) fn take(&mut self, head: &Head) -> Bytes {
        self.inbox.split_to(head.len).freeze()
    }

    /// Writes the whole outbox.
    ///
    /// # Errors
    /// Fails if the stream breaks.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        while !outbox.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, outbox))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            if written == outbox.len() && outbox.capacity() <= KEPT_CAPACITY {
                // The buffer is reused from its start.
                outbox.clear();
            } else {
                outbox.advance(written);
            }
        }
        if outbox.capacity() > KEPT_CAPACITY {
            *outbox = BytesMut::new();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Reads and discards what the peer sends, until the end of the stream or an error.
    pub(crate) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.inbox.clear();
            self.inbox.reserve(MIN_SPACE);
            if !matches!(
                ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.inbox)),
                Ok(1..)
            ) {
                return Poll::Ready(());
            }
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
