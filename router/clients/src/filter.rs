//! Filters a client's connection for hyper, which then reads only whole heads, one message at a
//! time, and nothing ambiguous.
//!
//! ```text
//! socket ──► HeadFilter ─┬─ a partial head: held, and charged to the client's memory
//!                        ├─ a whole head, a body: passed on, never across the end of a message
//!                        └─ a refused head: replaced with a stand-in; the router sends the error
//! ```
//!
//! Therefore hyper has no buffer that grows with an unfinished head, and a connection between two
//! messages can be taken out of hyper and put back: hyper never holds any part of the next message.
//!
//! The fast path takes whole heads directly out of the filter ([`heads`]).
//!
//! HTTP/2 passes through unchanged. An HTTP/2 client has at most one partial head, whose size hyper
//! bounds.

pub mod heads;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::head::{MAX_HEAD, Messages, Refusal, Step};
use crate::preface::{Opening, Protocol};
use crate::{ByteHandling, Client, HTTP1, HTTP2, UNREAD};

/// The stand-in for a refused head.
const STAND_IN: &[u8] = b"REFUSED / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
const REFUSED: &str = "REFUSED";

/// The allocation granularity of a partial head, in bytes.
const PIECE: usize = 4 * 1024;
/// The maximum size of one read of a head, in bytes.
const READ: usize = 16 * 1024;

/// The maximum number of bytes after a refused head that are read and discarded, so that the client
/// receives the response and not a reset.
const IGNORED: usize = 256 * 1024;

/// Returns the reason for the refusal if a request is the stand-in for a refused head.
pub fn refusal<T>(client: &Client, request: &http::Request<T>) -> Option<Refusal> {
    // A client may use this method itself. In this case, nothing has been refused.
    if request.method().as_str() == REFUSED { client.refusal() } else { None }
}

/// A client's connection. hyper and the fast path see only the bytes that have passed the filter.
pub struct HeadFilter {
    stream: Opening,
    client: Arc<Client>,
    messages: Messages,
    /// Bytes that were read and have not been passed on.
    held: Vec<u8>,
    /// The number of held bytes that may be passed on.
    ready: usize,
    stage: Stage,
    /// The memory that the connection needs while active, in bytes.
    base: usize,
    /// Whether response data that the client has not read is charged.
    is_behind: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Messages are followed to their ends.
    Following,
    /// Bytes pass without inspection: HTTP/2, or a tunnel.
    Through,
    /// None of the client's bytes are passed on; up to this many more are read and discarded.
    Refused(usize),
}

impl HeadFilter {
    /// Filters the connection of a client, whose first bytes have been read.
    pub fn new(stream: Opening, client: Arc<Client>) -> Self {
        let (stage, base) = match stream.protocol() {
            Protocol::Http1 => (Stage::Following, HTTP1),
            Protocol::Http2 => (Stage::Through, HTTP2),
        };
        let messages = Messages::default();
        Self { stream, client, messages, held: Vec::new(), ready: 0, stage, base, is_behind: false }
    }

    /// Returns the protocol of the connection.
    pub fn protocol(&self) -> Protocol {
        self.stream.protocol()
    }

    /// Waits until there is data to read, or the end of the stream.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub async fn readable(&self) -> io::Result<()> {
        if !self.held.is_empty() || self.stream.has_more() {
            Ok(())
        } else {
            self.stream.stream().tcp().readable().await
        }
    }

    /// Takes the memory that the connection needs while it works. Returns `false` if there is not
    /// enough.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.client.hold(self.base + self.held.capacity())
    }

    fn pass_on(&mut self, buf: &mut ReadBuf<'_>) {
        let len = self.ready.min(buf.remaining());
        buf.put_slice(&self.held[..len]);
        self.ready -= len;
        self.release(len);
    }

    /// Releases held bytes that have left the filter.
    fn release(&mut self, len: usize) {
        self.held.drain(..len);
        if self.held.is_empty() {
            self.held = Vec::new();
            let _shrinking_always_succeeds = self.client.hold(self.base);
            self.client.activity.end_head();
        }
    }

    /// Reads more bytes, appends them to the held bytes, and returns the number of bytes read,
    /// which is 0 at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [std::mem::MaybeUninit::uninit(); READ];
        let mut piece = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        let piece = piece.filled();
        Poll::Ready(self.hold(piece).map(|()| piece.len()))
    }

    /// Keeps bytes until they may be passed on. Fails if there is no memory for them.
    fn hold(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.held.is_empty() {
            self.client.activity.begin_head();
        }
        let needed = self.held.len() + bytes.len();
        if needed > self.held.capacity() {
            // The capacity doubles, so that a long head is not copied with each of its pieces.
            let capacity =
                (2 * self.held.capacity()).min(MAX_HEAD + READ).max(needed).next_multiple_of(PIECE);
            if !self.client.grow(self.base + capacity) {
                return Err(io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    "no memory is left for the request's head",
                ));
            }
            self.held.reserve_exact(capacity - self.held.len());
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Examines the held bytes. Returns whether any of them may be passed on.
    fn examine_held(&mut self) -> io::Result<bool> {
        match self.messages.step(&self.held) {
            Step::Pass(passed) => self.ready = passed,
            Step::Hold => {}
            Step::Refuse(refusal) => self.refuse(refusal)?,
        }
        Ok(self.ready > 0)
    }

    /// If a write is pending, charges the client for the data that waits in the caller and in the
    /// kernel. Fails if there is no memory for this data.
    fn charge_unwritten<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        waits: usize,
    ) -> Poll<io::Result<T>> {
        self.client.activity.set_unsent(true);
        if written.is_pending() {
            self.is_behind = true;
            if !self.client.grow(self.base + self.held.capacity() + UNREAD + waits) {
                let message = "no memory is left for a client that reads slowly";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, message)));
            }
        }
        written
    }

    /// Records that all data has been written.
    fn mark_written(&mut self) {
        self.client.activity.set_unsent(false);
        if std::mem::take(&mut self.is_behind) {
            let _shrinking_always_succeeds = self.client.hold(self.base + self.held.capacity());
        }
    }

    /// Replaces a refused head with its stand-in. A malformed chunk breaks the connection instead,
    /// because the head of its message has been passed on.
    fn refuse(&mut self, refusal: Refusal) -> io::Result<()> {
        if refusal == Refusal::Chunk {
            return Err(io::Error::new(io::ErrorKind::InvalidData, refusal));
        }
        self.client.refuse(refusal);
        self.held = STAND_IN.to_vec();
        self.ready = self.held.len();
        self.stage = Stage::Refused(IGNORED);
        Ok(())
    }

    /// Reads and discards what follows a refused head. Is ready only if the connection is broken.
    fn poll_ignore(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [std::mem::MaybeUninit::uninit(); PIECE];
        while let Stage::Refused(left @ 1..) = self.stage {
            let mut piece = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
            // The client may have closed only its sending half, and may still read the response.
            let left = if piece.filled().is_empty() {
                0
            } else {
                left.saturating_sub(piece.filled().len())
            };
            self.stage = Stage::Refused(left);
        }
        Poll::Pending
    }

    /// Reads into the caller's buffer and examines the bytes there, without a copy, because the
    /// bytes are usually a whole message. Returns whether the caller of `poll_read` has something
    /// to read, or has reached the end of the stream.
    fn poll_directly(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let arrived = &buf.filled()[before..];
        if arrived.is_empty() {
            return Poll::Ready(Ok(true));
        }
        let passed = match self.messages.step(arrived) {
            Step::Pass(passed) if passed == arrived.len() => return Poll::Ready(Ok(true)),
            Step::Pass(passed) => passed,
            Step::Hold => 0,
            Step::Refuse(refusal) => {
                buf.set_filled(before);
                return Poll::Ready(self.refuse(refusal).map(|()| false));
            }
        };
        self.hold(&arrived[passed..])?;
        buf.set_filled(before + passed);
        Poll::Ready(Ok(passed > 0))
    }
}

impl AsyncRead for HeadFilter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let handling = this.client.handling();
            if this.stage == Stage::Following && handling == ByteHandling::Unchecked {
                (this.stage, this.ready) = (Stage::Through, this.held.len());
            }
            if this.ready > 0 {
                this.pass_on(buf);
                return Poll::Ready(Ok(()));
            }
            if this.stage == Stage::Following && handling == ByteHandling::Held {
                if this.held.len() >= PIECE {
                    // hyper answers the handshake without reading more.
                    return Poll::Pending;
                }
                if ready!(this.poll_more(cx))? == 0 {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match this.stage {
                Stage::Through => return Pin::new(&mut this.stream).poll_read(cx, buf),
                Stage::Refused(_) => return this.poll_ignore(cx),
                Stage::Following if this.held.is_empty() => {
                    if ready!(this.poll_directly(cx, buf))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                Stage::Following => {
                    if this.examine_held()? {
                        continue;
                    }
                    debug_assert!(this.held.len() <= MAX_HEAD + READ, "the held head is too long");
                    if ready!(this.poll_more(cx))? == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl AsyncWrite for HeadFilter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.charge_unwritten(written, buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.charge_unwritten(written, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes after it has written everything.
        self.mark_written();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
