//! The transport of a WebSocket: a connection to an origin, or the two streams to a client or to
//! another Worker.
//!
//! ```text
//!  Wire ─► pieces ─► Inflater ─► Splitter ─► Link::poll_read ─► the protocol library
//!                       └────────────┴─► counted against the isolate's memory: if it is full,
//!                                        nothing is read
//!  Wire ◄────────────────────── Link::poll_write ◄─┘
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::future::LocalBoxFuture;
use tenon_egress::Tunnel;
use tenon_engine::byte_stream::ByteStream;
use tenon_engine::heap::{BufferBudget, Charge};
use tenon_engine::pipe::{self, ReaderDropped};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::io::poll_read_buf;

use super::inflate::Inflater;
use super::split::{FRAGMENT, Splitter};

/// The transport of a socket.
pub(crate) enum Wire {
    Streams {
        /// `None` once the incoming stream has ended.
        incoming: Option<ByteStream>,
        /// `None` once the outgoing stream has been closed.
        outgoing: Option<pipe::Writer>,
        /// Resolves when there is room to write more.
        room: Option<LocalBoxFuture<'static, Result<(), ReaderDropped>>>,
    },
    Tunnel(Tunnel),
}

impl Wire {
    pub(crate) fn of_streams(incoming: ByteStream, outgoing: pipe::Writer) -> Self {
        Self::Streams { incoming: Some(incoming), outgoing: Some(outgoing), room: None }
    }

    /// Returns the next piece, which is empty at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        match self {
            Self::Streams { incoming, .. } => loop {
                let Some(stream) = incoming else { return Poll::Ready(Ok(Bytes::new())) };
                match ready!(stream.poll_next_unpin(cx)) {
                    Some(Ok(piece)) if piece.is_empty() => {}
                    Some(Ok(piece)) => return Poll::Ready(Ok(piece)),
                    Some(Err(error)) => {
                        *incoming = None;
                        return Poll::Ready(Err(io::Error::new(
                            io::ErrorKind::ConnectionReset,
                            error.to_string(),
                        )));
                    }
                    None => *incoming = None,
                }
            },
            Self::Tunnel(tunnel) => {
                let mut piece = BytesMut::with_capacity(FRAGMENT);
                ready!(poll_read_buf(Pin::new(tunnel), cx, &mut piece))?;
                Poll::Ready(Ok(piece.freeze()))
            }
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let broken_pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        match self {
            Self::Streams { outgoing, room, .. } => {
                if let Some(waiting) = room {
                    ready!(waiting.as_mut().poll(cx)).map_err(|_| broken_pipe())?;
                    *room = None;
                }
                let writer = outgoing.as_ref().ok_or_else(broken_pipe)?;
                let piece = &bytes[..bytes.len().min(FRAGMENT)];
                if !writer
                    .write(Bytes::copy_from_slice(piece), pipe::PIPE_CAPACITY)
                    .map_err(|_| broken_pipe())?
                {
                    *room = Some(Box::pin(writer.room()));
                }
                Poll::Ready(Ok(piece.len()))
            }
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_write(cx, bytes),
        }
    }

    /// Sends a server's Close frame, if the network accepts it immediately.
    pub(crate) fn send_close(&mut self, code: CloseCode) {
        let mut bytes = Vec::new();
        let frame = Frame::close(Some(CloseFrame { code, reason: "".into() }));
        frame.format(&mut bytes).expect("writing to a vector cannot fail");
        let _ = self.poll_write(&mut Context::from_waker(Waker::noop()), &bytes);
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            // Bytes in a pipe are available to its reader without a flush.
            Self::Streams { .. } => Poll::Ready(Ok(())),
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_flush(cx),
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Streams { outgoing, .. } => {
                outgoing.take().into_iter().for_each(pipe::Writer::close);
                Poll::Ready(Ok(()))
            }
            Self::Tunnel(tunnel) => Pin::new(tunnel).poll_shutdown(cx),
        }
    }
}

impl Drop for Wire {
    /// Closes the outgoing stream without an error: the WebSocket protocol reports errors itself.
    fn drop(&mut self) {
        if let Self::Streams { outgoing, .. } = self {
            outgoing.take().into_iter().for_each(pipe::Writer::close);
        }
    }
}

/// The transport as the protocol library uses it.
pub(crate) struct Link {
    wire: Wire,
    /// Decompresses messages, if both sides have agreed on compression.
    inflater: Option<Inflater>,
    /// Received bytes that have not been passed to the inflater.
    compressed: Bytes,
    /// The close code for a message that could not be inflated.
    refusal: Option<CloseCode>,
    splitter: Splitter,
    /// Received bytes that have not been passed on.
    piece: Bytes,
    budget: Arc<BufferBudget>,
    /// The charge for the incoming message.
    held: Option<Charge>,
    /// The number of bytes of the incoming message for which there was no memory.
    shortage: usize,
    /// The maximum length of a message, in bytes.
    longest: usize,
    /// The number of bytes received, and the number of bytes that the network has accepted.
    read: u64,
    written: u64,
}

impl Link {
    /// Creates the link.
    ///
    /// # Arguments
    /// * `longest` - the maximum length of a message, in bytes.
    pub(crate) fn new(
        wire: Wire,
        inflater: Option<Inflater>,
        budget: Arc<BufferBudget>,
        longest: usize,
    ) -> Self {
        Self {
            wire,
            inflater,
            compressed: Bytes::new(),
            refusal: None,
            splitter: Splitter::default(),
            piece: Bytes::new(),
            budget,
            held: None,
            shortage: 0,
            longest,
            read: 0,
            written: 0,
        }
    }

    /// Returns the close code for a message that could not be inflated, which has ended the link.
    pub(crate) fn refusal(&self) -> Option<CloseCode> {
        self.refusal
    }

    /// Returns the time for which messages were inflated since the last call.
    pub(crate) fn take_inflating_time(&mut self) -> Duration {
        self.inflater.as_mut().map(Inflater::take_spent).unwrap_or_default()
    }

    /// Returns the number of bytes received so far.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// Returns the number of bytes that the network has accepted so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of bytes of memory that the incoming message lacks before it can
    /// continue.
    pub(crate) fn shortage(&self) -> usize {
        self.shortage
    }

    /// Tries again to charge the missing memory, and returns whether that succeeded.
    pub(crate) fn retry_charge(&mut self) -> bool {
        let shortage = std::mem::take(&mut self.shortage);
        self.hold(shortage);
        self.shortage == 0
    }

    /// Releases the charge of a complete message, whose memory is counted elsewhere from now on.
    pub(crate) fn release_charge(&mut self) {
        self.held = None;
    }

    /// Returns the next piece of the decompressed stream, which is empty at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            let Some(inflater) = &mut self.inflater else { return self.poll_wire(cx) };
            let inflated = inflater.next(&mut self.compressed);
            let counted = inflater.take_counted();
            if counted > 0 {
                self.hold(counted);
            }
            match inflated {
                Ok(Some(piece)) => return Poll::Ready(Ok(piece)),
                Ok(None) => {}
                Err(error) => {
                    self.refusal = Some(error.code());
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
            }
            // Compressed data may expand to nothing.
            let coop = ready!(tokio::task::coop::poll_proceed(cx));
            let piece = ready!(self.poll_wire(cx))?;
            coop.made_progress();
            if piece.is_empty() {
                return Poll::Ready(Ok(piece));
            }
            self.compressed = piece;
        }
    }

    fn poll_wire(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let piece = ready!(self.wire.poll_piece(cx))?;
        self.read += piece.len() as u64;
        Poll::Ready(Ok(piece))
    }

    fn hold(&mut self, more: usize) {
        let granted = match &mut self.held {
            Some(held) => held.grow(more),
            None => {
                self.held = self.budget.charge_quietly(more);
                self.held.is_some()
            }
        };
        if !granted {
            self.shortage += more;
        }
    }
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let link = &mut *self;
        // A flood of data that keeps the library busy must not keep the thread from other tasks.
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        while link.shortage == 0 {
            let before = buffer.filled().len();
            link.splitter.pass(&mut link.piece, buffer, link.longest);
            let counted = link.splitter.take_counted();
            if counted > 0 {
                link.hold(counted);
            }
            if buffer.filled().len() > before {
                coop.made_progress();
                return Poll::Ready(Ok(()));
            }
            link.piece = ready!(link.poll_piece(cx))?;
            if link.piece.is_empty() {
                coop.made_progress();
                return Poll::Ready(Ok(()));
            }
        }
        // The caller checks `shortage` after polling.
        Poll::Pending
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.wire.poll_write(cx, bytes))?;
        self.written += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire.poll_shutdown(cx)
    }
}
