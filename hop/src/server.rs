//! The shard's side of a connection.
//!
//! ```text
//!  DATA ─► service ─► response ─► outbox
//!             │ pending               ▲
//!             └─► slot ── woken ──────┘
//! ```
//!
//! - [`service`]: the service that answers the requests.
//! - [`receive`]: handles the frames of a router.
//! - [`leaving`]: the graceful shutdown of a connection.
//! - [`slot`], [`wake`]: the streams, and the queue of those that have been woken.
//!
//! A request is polled as soon as it has been read, in a slot whose memory the next request reuses.
//! A pending request stays in its slot, and is polled again after its own waker has been called.
//! The responses of one turn of the event loop are written together.
//!
//! A connection belongs to one thread. Its wakers may be used on any thread.

mod leaving;
mod receive;
mod service;
mod slot;
mod wake;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, BytesMut};
use http::HeaderMap;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use crate::block::{self, RESPONSE, SUCCESS};
use crate::error::{Code, ConnectionError};
use crate::frame::{self, INITIAL_WINDOW, MAX_31_BITS, MAX_PAYLOAD};
use crate::incoming::{Incoming, Ledger};
use crate::settings;
use crate::sniff::Opening;
use crate::wire::Wire;
use leaving::Leaving;
pub use service::{Outgoing, Part, Response, Service};
use slot::{Panicked, Slot, catch_panic};
use wake::{Queue, Wake};

/// The length of the outbox, in bytes, at which nothing more is read from the peer or taken from a
/// response.
const FULL: usize = 256 * 1024;

/// The maximum number of requests that begin before the connection writes and other tasks run.
const MAX_REQUESTS: usize = 32;

/// The maximum number of frames that are handled before the connection writes and other tasks run.
const MAX_FRAMES: usize = 1024;

/// The number of slots that keep the memory of a request for the next one.
const KEPT_SLOTS: usize = 256;

/// The bounds on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The maximum number of concurrent streams.
    pub streams: u32,
    /// The maximum number of unread bytes of one stream.
    pub stream_window: u32,
}

/// A connection, which is driven as a future until it ends.
pub struct Connection<S, V: Service> {
    wire: Wire<S>,
    service: V,
    bounds: Bounds,
    outbox: BytesMut,
    slots: Vec<Slot<V>>,
    vacant: Vec<usize>,
    /// The slots of open streams.
    open: FxHashMap<u32, usize>,
    /// The id of the last stream that the peer has opened.
    last: u32,
    queue: Arc<Queue>,
    /// The slots that are polled now.
    woken: Vec<Arc<Wake>>,
    ledger: Rc<Ledger>,
    /// The number of bytes that may be sent on the connection.
    window: i64,
    /// The number of bytes that may be sent on a new stream.
    stream_window: i64,
    /// The number of bytes received since the connection's window was last enlarged.
    received: u32,
    /// Slots that wait for the connection's window or for room in the outbox.
    blocked: Vec<usize>,
    leaving: Leaving,
    /// The deadline for the peer to end the connection.
    linger: Option<Pin<Box<Sleep>>>,
    /// The number of requests that have begun in this poll of the connection.
    begun: usize,
}

impl<S, V> Connection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    /// Begins to serve a connection.
    pub fn new(opening: Opening<S>, service: V, bounds: Bounds) -> Self {
        let mut outbox = BytesMut::new();
        frame::put_settings(&mut outbox, &settings::ours(bounds.stream_window, bounds.streams));
        // The peer is bounded only by the windows of the streams.
        frame::put_window_update(&mut outbox, 0, MAX_31_BITS - INITIAL_WINDOW);
        Self {
            wire: Wire::new(opening.stream, opening.inbox),
            service,
            bounds,
            outbox,
            slots: Vec::new(),
            vacant: Vec::new(),
            open: FxHashMap::default(),
            last: 0,
            queue: Arc::default(),
            woken: Vec::new(),
            ledger: Rc::default(),
            window: INITIAL_WINDOW.into(),
            stream_window: INITIAL_WINDOW.into(),
            received: 0,
            blocked: Vec::new(),
            leaving: Leaving::No,
            linger: None,
            begun: 0,
        }
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        if self.leaving == Leaving::ShutDown {
            return self.poll_linger(cx).map(Ok);
        }
        self.queue.register(cx.waker());
        self.ledger.register(cx.waker());
        self.begun = 0;
        if !self.outbox.is_empty() {
            // Write first, because requests may use up the task's budget in tokio. The flush after
            // the requests reports an error.
            _ = self.wire.poll_flush(cx, &mut self.outbox);
        }
        loop {
            let more = match self.read(cx)? {
                Read::All => false,
                Read::Partial => true,
                Read::End => {
                    // The peer may still read what is in the outbox.
                    _ = self.wire.poll_flush(cx, &mut self.outbox);
                    return Poll::Ready(Ok(()));
                }
            };
            self.poll_woken();
            self.announce_read();
            match self.wire.poll_flush(cx, &mut self.outbox)? {
                Poll::Pending => {
                    if more && self.outbox.len() < FULL {
                        cx.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
                Poll::Ready(()) if self.unblock() => continue,
                Poll::Ready(()) => {}
            }
            if self.leaving == Leaving::Final && self.open.is_empty() {
                std::task::ready!(self.wire.poll_shutdown(cx))?;
                self.leaving = Leaving::ShutDown;
                return self.poll_linger(cx).map(Ok);
            }
            if more {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
    }

    /// Reads and handles what has arrived.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Read, ConnectionError> {
        for _ in 0..MAX_FRAMES {
            // Reading continues after the outbox has been written.
            if self.outbox.len() >= FULL || self.begun >= MAX_REQUESTS {
                break;
            }
            match self.wire.poll_head(cx)? {
                Poll::Ready(Some(head)) => self.receive(head)?,
                Poll::Ready(None) => return Ok(Read::End),
                Poll::Pending => return Ok(Read::All),
            }
        }
        Ok(Read::Partial)
    }

    fn begin(&mut self, slot: usize, incoming: Incoming) {
        self.begun += 1;
        let timeout = self.slots[slot].timeout;
        match catch_panic(|| self.service.call(timeout, incoming)) {
            Ok(future) => {
                self.slots[slot].begin(future);
                self.poll_slot(slot);
            }
            Err(Panicked) => self.reset_panicked(slot),
        }
    }

    /// Polls the woken slots. Slots that are woken meanwhile wait for the next call.
    fn poll_woken(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.queue.take(&mut woken);
        woken.drain(..).for_each(|wake| self.poll_slot(wake.take()));
        self.woken = woken;
    }

    fn poll_slot(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        match slot.poll() {
            None => {}
            Some(Poll::Pending) => return,
            Some(Poll::Ready(Ok(Response::Reply(reply)))) => {
                frame::put_headers(&mut self.outbox, slot.stream, RESPONSE, false);
                slot.reply = Some(reply);
            }
            Some(Poll::Ready(Ok(Response::Failure(headers)))) => {
                let mut block = BytesMut::from(RESPONSE);
                block::put_literals(&mut block, &without_content_type(headers));
                frame::put_headers(&mut self.outbox, slot.stream, &block, true);
                return self.finish(index);
            }
            Some(Poll::Ready(Err(Panicked))) => return self.reset_panicked(index),
        }
        self.send(index);
    }

    /// Moves a response to the outbox, as far as the windows and the outbox have room.
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(reply) = &mut slot.reply else { return };
        loop {
            if self.outbox.len() >= FULL {
                return self.block(index);
            }
            if let Some(data) = &mut slot.data {
                let window = self.window.min(slot.window).min(MAX_PAYLOAD as i64);
                if window <= 0 {
                    // An update of the stream's own window wakes the slot.
                    if slot.window > 0 {
                        self.block(index);
                    }
                    return;
                }
                let len = data.remaining().min(window as usize);
                (self.window, slot.window) = (self.window - len as i64, slot.window - len as i64);
                frame::put_data(&mut self.outbox, slot.stream, len, false);
                frame::put_payload(&mut self.outbox, data, len);
                if !data.has_remaining() {
                    slot.data = None;
                }
                continue;
            }
            let mut cx = Context::from_waker(&slot.waker);
            let Ok(part) = catch_panic(|| reply.poll_part(&mut cx)) else {
                return self.reset_panicked(index);
            };
            match part {
                Poll::Pending => return,
                Poll::Ready(Part::Data(data)) if data.has_remaining() => slot.data = Some(data),
                Poll::Ready(Part::Data(_)) => {}
                Poll::Ready(Part::Success) => {
                    frame::put_headers(&mut self.outbox, slot.stream, SUCCESS, true);
                    return self.finish(index);
                }
                Poll::Ready(Part::Failure(headers)) => {
                    let mut block = BytesMut::new();
                    block::put_literals(&mut block, &headers);
                    frame::put_headers(&mut self.outbox, slot.stream, &block, true);
                    return self.finish(index);
                }
            }
        }
    }

    fn block(&mut self, index: usize) {
        if !std::mem::replace(&mut self.slots[index].is_blocked, true) {
            self.blocked.push(index);
        }
    }

    /// Sends the responses of blocked slots. Returns whether the outbox contains anything.
    fn unblock(&mut self) -> bool {
        if self.window <= 0 {
            return false;
        }
        for index in std::mem::take(&mut self.blocked) {
            self.slots[index].is_blocked = false;
            self.send(index);
        }
        !self.outbox.is_empty()
    }

    fn announce_read(&mut self) {
        for (stream, bytes) in self.ledger.take() {
            if self.open.contains_key(&stream) {
                frame::put_window_update(&mut self.outbox, stream, bytes);
            }
        }
    }

    /// Ends a stream that has been answered.
    fn finish(&mut self, index: usize) {
        if self.slots[index].receive.is_some() {
            // The rest of the request is not needed (RFC 9113, section 8.1).
            frame::put_reset(&mut self.outbox, self.slots[index].stream, Code::NO_ERROR);
        }
        self.close(index);
    }

    /// Resets a stream whose request has panicked.
    fn reset_panicked(&mut self, index: usize) {
        frame::put_reset(&mut self.outbox, self.slots[index].stream, Code::INTERNAL_ERROR);
        self.close(index);
    }

    fn close(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.open.remove(&slot.stream);
        slot.close(index < KEPT_SLOTS);
        self.vacant.push(index);
    }
}

/// The result of a read.
enum Read {
    /// Everything that had arrived has been handled.
    All,
    /// More may have arrived.
    Partial,
    /// The peer has ended the connection.
    End,
}

/// Removes the content type, which [`RESPONSE`] already contains.
fn without_content_type(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(http::header::CONTENT_TYPE);
    headers
}

/// Only the futures in the slots are pinned, each in an allocation of its own.
impl<S, V: Service> Unpin for Connection<S, V> {}

impl<S, V> Future for Connection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = std::task::ready!(self.poll_connection(cx));
        if let Err(ConnectionError::Violation { code, .. }) = &ended {
            let last = self.last;
            frame::put_go_away(&mut self.outbox, last, *code);
            // The connection ends even if the frame cannot be written.
            let Self { wire, outbox, .. } = &mut *self;
            _ = wire.poll_flush(cx, outbox);
        }
        Poll::Ready(ended)
    }
}

impl<S, V: Service> Drop for Connection<S, V> {
    fn drop(&mut self) {
        self.queue.close();
        self.ledger.close();
    }
}

#[cfg(test)]
mod tests;
