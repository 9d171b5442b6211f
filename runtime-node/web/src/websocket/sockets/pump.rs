//! The state machine of one open socket: sends queued messages, turns received ones into events,
//! and performs the closing handshake.
//!
//! ```text
//!   open ── sent, flushed ◄─► read ── a message ─► an event
//!     ├── we send Close ────────┐
//!     ├── the peer sends Close ─┴─► closing ── answered, or timed out ─► closed
//!     └── lost, invalid, full ─► failed ───────────────────────────────► closed
//! ```
//!
//! The pump is polled only between turns: while its Worker is busy, nothing is read, and the
//! network holds back the sender. The pump itself answers pings, one at a time: the next ping is
//! read only when the network has accepted the answer to the previous one. A client that pings and
//! never reads is thus held back by its own answers. While more than [`read::LEEWAY`] bytes of the
//! Worker's outgoing messages wait for the network, reading proceeds only as fast as writing does.
//! A socket therefore never has more than [`WRITE_BUFFER`] bytes in the library's buffer,
//! regardless of its peer. If the peer stops reading, the socket ends when [`Keepalive`] reports
//! the peer as unresponsive.
//!
//! [`write`] sends messages, [`read`] receives them, and [`close`] ends the socket. If both sides
//! have agreed on compression, each may compress its messages. The Worker is charged for that: the
//! time to inflate a message counts toward the turn of the message, and the time to compress a
//! message counts toward the turns of the invocation.

mod close;
mod event;
mod read;
mod write;

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use tenon_engine::heap::BufferBudget;
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tokio::time::Sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::UnacceptedSocket;
use super::deflate::Deflater;
use super::inflate::{Bounds, Inflater};
use super::keepalive::{Keepalive, Liveness, Sample};
use super::link::Link;
use super::send_queue::{Message, SendEntry, SendQueue};
use super::split::FRAGMENT;
pub(crate) use event::{Closed, Event};
use read::Read;
use write::MessageInProgress;

/// The maximum length of a message, in bytes: the limit of Cloudflare Workers, and far more than is
/// sensible in one message.
pub(crate) const MAX_MESSAGE: usize = 32 << 20;

/// The size, in bytes, of the library's read buffer for each socket.
const READ_BUFFER: usize = 4 * 1024;

/// The maximum number of bytes that the library holds until the network accepts them: a fragment,
/// or short messages of the same total size with their headers, plus the answers to a ping and to a
/// Close. The library refuses to hold more.
const WRITE_BUFFER: usize = FRAGMENT + 1024;

/// The memory of a socket besides its outgoing messages, in bytes: the library's buffers.
pub(crate) const SOCKET_MEMORY: usize = 2 * FRAGMENT + READ_BUFFER;

/// The divisor of the CPU limit that yields the time for which a message may be inflated. A message
/// that takes longer is refused, so that no client can use up the CPU time of the turn that
/// receives it.
const INFLATING_SHARE: u32 = 2;

/// The maximum number of pieces that are compressed before the thread's other tasks run: about a
/// millisecond of work.
const MAX_PIECES: u32 = 8;

/// An open socket.
pub(crate) struct Pump {
    stream: WebSocketStream<Link>,
    queue: Rc<SendQueue>,
    /// Compresses outgoing messages, if both sides have agreed on it.
    deflater: Option<Deflater>,
    /// The number of pieces that may still be compressed before the thread's other tasks run.
    pieces_left: u32,
    sending: Option<MessageInProgress>,
    /// The number of bytes written since the last flush, including frame headers.
    written: usize,
    /// Set when a ping has been read and its answer has not been flushed.
    owes_pong: bool,
    /// Set when the network did not accept everything that was written.
    is_blocked: bool,
    /// Set when something may be read although writing is blocked, because the network has accepted
    /// data since the last read.
    may_read_one: bool,
    keepalive: Keepalive,
    /// Messages that have been written completely but not flushed, and still count as buffered.
    finished: Vec<Message>,
    finished_bytes: usize,
    /// Set once we have sent Close.
    has_sent_close: bool,
    /// The Close that the peer has sent, with its reason if it had one.
    peer_close: Option<Option<CloseFrame>>,
    /// The timeout for the end of the connection, which starts once a Close has been sent or
    /// received.
    timeout: Option<Pin<Box<Sleep>>>,
    /// Resolves when the node leaves.
    leaving: LocalBoxFuture<'static, ()>,
    /// Set once the node leaves.
    has_left: bool,
    /// Set when a message was refused for lack of memory.
    is_refused: bool,
    /// Set once [`Event::Closed`] has been returned.
    is_over: bool,
    owner: InvocationId,
    state: Weak<State>,
}

impl Pump {
    /// Creates a pump for a socket that has just been accepted.
    ///
    /// # Arguments
    /// * `leaving` - resolves when the node leaves.
    pub(crate) fn new(
        socket: UnacceptedSocket,
        queue: Rc<SendQueue>,
        leaving: LocalBoxFuture<'static, ()>,
        (owner, state): (InvocationId, &Rc<State>),
    ) -> Self {
        let UnacceptedSocket { wire, role, deflate } = socket;
        let budget: &std::sync::Arc<BufferBudget> = &state.buffers;
        let longest = MAX_MESSAGE.min(budget.limit());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(FRAGMENT)
            .max_write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(longest))
            .max_frame_size(Some(FRAGMENT));
        let cpu = Duration::from_millis(state.revision.limits.cpu_ms.into());
        let bounds = Bounds { length: longest as u64, time: cpu / INFLATING_SHARE };
        let inflater = deflate.map(|_| Inflater::new(bounds));
        let deflater = deflate.map(|deflate| {
            Deflater::new(match role {
                Role::Server => deflate.server_window(),
                Role::Client => deflate.client_window(),
            })
        });
        let link = Link::new(wire, inflater, budget.clone(), longest);
        let stream = WebSocketStream::from_raw_socket(link, role, Some(config)).now_or_never();
        Self {
            stream: stream.expect("creating a WebSocket stream without a handshake never waits"),
            queue,
            deflater,
            pieces_left: 0,
            sending: None,
            written: 0,
            owes_pong: false,
            is_blocked: false,
            may_read_one: false,
            keepalive: Keepalive::new(),
            finished: Vec::new(),
            finished_bytes: 0,
            has_sent_close: false,
            peer_close: None,
            timeout: None,
            leaving,
            has_left: false,
            is_refused: false,
            is_over: false,
            owner,
            state: Rc::downgrade(state),
        }
    }

    /// Sends and receives until there is an event. Must not be called again after
    /// [`Event::Closed`].
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        self.queue.listen(cx);
        if self.queue.is_full() || self.is_refused {
            return Poll::Ready(self.close(Closed::failed()));
        }
        if !self.has_left && self.leaving.as_mut().poll(cx).is_ready() {
            self.has_left = true;
            self.queue.push(SendEntry::Close(Some(CloseFrame {
                code: CloseCode::Away,
                reason: "".into(),
            })));
        }
        self.pieces_left = MAX_PIECES;
        loop {
            if let Err(error) = self.write(cx) {
                return Poll::Ready(self.fail(&error));
            }
            match self.read(cx) {
                Read::Event(event) => return Poll::Ready(event),
                Read::Control => {}
                Read::Nothing => break,
            }
        }
        if self.pieces_left == 0 {
            cx.waker().wake_by_ref();
        }
        let shortage = self.stream.get_ref().shortage();
        if shortage > 0 {
            return Poll::Ready(Event::Shortage(shortage));
        }
        let Some(timeout) = &mut self.timeout else { return self.watch(cx) };
        ready!(timeout.as_mut().poll(cx));
        // A peer's failure to answer a Close is not an error.
        let closed = Closed { has_failed: false, ..self.take_peer_close() };
        Poll::Ready(self.close(closed))
    }

    /// Tries again to charge the missing memory, and returns whether that succeeded.
    pub(crate) fn retry_charge(&mut self) -> bool {
        self.stream.get_mut().retry_charge()
    }

    /// Refuses a message for which there is no memory. The refusal ends the socket.
    pub(crate) fn refuse(&mut self) {
        self.send_close(CloseCode::Size);
        self.is_refused = true;
    }

    /// Releases the memory of the latest message, which now belongs to JavaScript.
    pub(crate) fn release_charge(&mut self) {
        self.stream.get_mut().release_charge();
    }

    /// Checks from time to time that the peer is alive.
    fn watch(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let link = self.stream.get_ref();
            let sample =
                Sample { read: link.read(), written: link.written(), is_blocked: self.is_blocked };
            match ready!(self.keepalive.poll(cx, sample)) {
                Liveness::Alive => {}
                Liveness::Silent => {
                    if let Err(error) = self.ping().and_then(|()| self.write(cx)) {
                        return Poll::Ready(self.fail(&error));
                    }
                }
                Liveness::Unresponsive => {
                    self.send_close(CloseCode::Away);
                    return Poll::Ready(self.close(Closed::failed()));
                }
            }
        }
    }

    /// Records traffic, which restarts the time for which the invocation may be idle.
    fn record_traffic(&self) {
        if let Some(state) = self.state.upgrade() {
            state.record_progress(self.owner);
        }
    }

    /// Gives the turn of a message the budgets of the turn of a request, and charges the time that
    /// inflating the message took. Returns the event unchanged.
    fn begin_turn(&mut self, event: Event) -> Event {
        let inflating = self.stream.get_mut().take_inflating_time();
        if let Some(state) = self.state.upgrade() {
            state.refresh(self.owner);
            state.charge(Some(self.owner), inflating);
        }
        event
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(Box::pin(tokio::time::sleep(timeout)));
    }
}

#[cfg(test)]
mod tests;
