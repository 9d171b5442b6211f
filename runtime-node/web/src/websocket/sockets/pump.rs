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
//! The pump is polled only between turns: while its Worker is busy nothing is read, and the network
//! holds back the sender. It answers pings itself, one at a time: the next ping is read when the
//! network has accepted the answer to the previous one, so that a client which pings and never
//! reads is held back by its own answers. While more than [`LEEWAY`] of the Worker's outgoing
//! messages waits for the network, reading proceeds only as fast as writing does. So a socket never
//! has more than [`WRITTEN`] bytes in the library's buffer, regardless of its peer, and [`Vigil`]
//! ends a socket whose peer accepts nothing.
//!
//! [`write`] sends, [`read`] receives, [`close`] ends.

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

use super::line::{Line, Message, Said};
use super::link::{Link, Wire};
use super::split::FRAGMENT;
use super::vigil::{Finding, Look, Vigil};
pub(crate) use event::{Closed, Event};
use read::Read;
use write::Sending;

/// The longest message, in bytes: the limit of Cloudflare's Workers, and far more than is sensible
/// to send at once.
pub(crate) const LONGEST: usize = 32 << 20;

/// The size in bytes of the library's read buffer, of which each socket has one.
const READ: usize = 4 * 1024;

/// The most bytes that the library may hold and the network has not accepted: a fragment, or short
/// messages of the same total size with their headers, plus the answers to a ping and to a Close.
/// The library refuses to hold more.
const WRITTEN: usize = FRAGMENT + 1024;

/// The memory of a socket besides its outgoing messages, in bytes: the library's buffers.
pub(crate) const SOCKET: usize = 2 * FRAGMENT + READ;

pub(crate) struct Pump {
    stream: WebSocketStream<Link>,
    line: Rc<Line>,
    sending: Option<Sending>,
    /// Bytes written since the last flush, including frame headers.
    written: usize,
    /// Set when a ping has been read and its answer has not been flushed.
    owes_pong: bool,
    /// Set when the network did not accept everything that was written.
    is_blocked: bool,
    /// Set when something may be read although writing is blocked, because the network has accepted
    /// data since the last read.
    may_read_one: bool,
    vigil: Vigil,
    /// Messages that have been written completely but not flushed, and still count as buffered.
    finished: Vec<Message>,
    finished_bytes: usize,
    /// Set once we have sent Close.
    has_said: bool,
    /// The Close that the peer has sent, with its reason if it had one.
    heard: Option<Option<CloseFrame>>,
    /// The time at which the pump stops waiting for the end of the connection.
    patience: Option<Pin<Box<Sleep>>>,
    /// Resolves when the node leaves.
    leaving: LocalBoxFuture<'static, ()>,
    has_left: bool,
    is_refused: bool,
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
        wire: Wire,
        role: Role,
        line: Rc<Line>,
        leaving: LocalBoxFuture<'static, ()>,
        (owner, state): (InvocationId, &Rc<State>),
    ) -> Self {
        let budget: &std::sync::Arc<BufferBudget> = &state.buffers;
        let longest = LONGEST.min(budget.limit());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(FRAGMENT)
            .max_write_buffer_size(WRITTEN)
            .max_message_size(Some(longest))
            .max_frame_size(Some(FRAGMENT));
        let link = Link::new(wire, budget.clone(), longest);
        let stream = WebSocketStream::from_raw_socket(link, role, Some(config)).now_or_never();
        Self {
            stream: stream.expect("without a handshake there is nothing to wait for"),
            line,
            sending: None,
            written: 0,
            owes_pong: false,
            is_blocked: false,
            may_read_one: false,
            vigil: Vigil::new(),
            finished: Vec::new(),
            finished_bytes: 0,
            has_said: false,
            heard: None,
            patience: None,
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
        self.line.listen(cx);
        if self.line.is_full() || self.is_refused {
            return Poll::Ready(self.close(Closed::failed()));
        }
        if !self.has_left && self.leaving.as_mut().poll(cx).is_ready() {
            self.has_left = true;
            self.line
                .say(Said::Close(Some(CloseFrame { code: CloseCode::Away, reason: "".into() })));
        }
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
        let short = self.stream.get_ref().short();
        if short > 0 {
            return Poll::Ready(Event::Short(short));
        }
        let Some(patience) = &mut self.patience else { return self.watch(cx) };
        ready!(patience.as_mut().poll(cx));
        // A peer that does not answer a Close is not an error.
        let closed = Closed { has_failed: false, ..self.heard() };
        Poll::Ready(self.close(closed))
    }

    /// Returns whether the missing memory is available now.
    pub(crate) fn try_again(&mut self) -> bool {
        self.stream.get_mut().try_again()
    }

    /// Refuses a message for which there is no memory, which ends the socket.
    pub(crate) fn refuse(&mut self) {
        self.say_last(CloseCode::Size);
        self.is_refused = true;
    }

    /// Releases the memory of the latest message, which now belongs to JavaScript.
    pub(crate) fn let_go(&mut self) {
        self.stream.get_mut().let_go();
    }

    /// Checks from time to time that the peer is alive.
    fn watch(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let link = self.stream.get_ref();
            let look =
                Look { read: link.read(), written: link.written(), is_blocked: self.is_blocked };
            match ready!(self.vigil.poll(cx, look)) {
                Finding::Well => {}
                Finding::Silent => {
                    if let Err(error) = self.ping().and_then(|()| self.write(cx)) {
                        return Poll::Ready(self.fail(&error));
                    }
                }
                Finding::Gone => {
                    self.say_last(CloseCode::Away);
                    return Poll::Ready(self.close(Closed::failed()));
                }
            }
        }
    }

    /// Records traffic, which restarts the time for which the invocation may be idle.
    fn hear(&self) {
        if let Some(state) = self.state.upgrade() {
            state.moved(self.owner);
        }
    }

    /// Gives the turn of a message the same budgets as a request's.
    fn begin_turn(&self, event: Event) -> Event {
        if let Some(state) = self.state.upgrade() {
            state.refresh(self.owner);
        }
        event
    }

    fn wait(&mut self, patience: Duration) {
        self.patience = Some(Box::pin(tokio::time::sleep(patience)));
    }
}

#[cfg(test)]
mod tests;
