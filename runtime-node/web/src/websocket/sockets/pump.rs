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

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, Sink as _, SinkExt as _, StreamExt as _};
use tenon_engine::heap::BufferBudget;
use tenon_engine::ids::InvocationId;
use tenon_engine::state::State;
use tokio::time::Sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error, Utf8Bytes};

use super::line::{Line, Message, Said};
use super::link::{Link, Wire};
use super::split::FRAGMENT;
use super::vigil::{Finding, Look, PING, Vigil};

/// The longest message, in bytes: the limit of Cloudflare's Workers, and far more than is sensible
/// to send at once.
pub(crate) const LONGEST: usize = 32 << 20;

/// The size in bytes of the library's read buffer, of which each socket has one.
const READ: usize = 4 * 1024;

/// The most bytes that the library may hold and the network has not accepted: a fragment, or short
/// messages of the same total size with their headers, plus the answers to a ping and to a Close.
/// The library refuses to hold more.
const WRITTEN: usize = FRAGMENT + 1024;

/// The largest frame header, in bytes (RFC 6455 §5.2).
const HEAD: usize = 14;

/// The number of bytes of the Worker's messages that may wait for the network before reading slows
/// down. Enough for a client that sends for a while before it reads; beyond that, an echo would
/// fill the Worker's memory for a client that never reads.
const LEEWAY: usize = 256 * 1024;

/// The memory of a socket besides its outgoing messages, in bytes: the library's buffers.
pub(crate) const SOCKET: usize = 2 * FRAGMENT + READ;

/// The timeout for the peer to answer a Close.
const ANSWER: Duration = Duration::from_secs(10);

/// The timeout for a server to end the connection once both sides have sent Close (RFC 6455
/// §7.1.1).
const END: Duration = Duration::from_secs(2);

/// The close code that reports a connection which ended without a Close (RFC 6455 §7.1.5).
const ABNORMAL: u16 = 1006;
/// The close code that reports a Close without a code.
const NO_CODE: u16 = 1005;

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

/// A message that is being sent, one frame at a time.
struct Sending {
    message: Message,
    rest: Bytes,
    has_begun: bool,
}

/// The result of reading.
enum Read {
    Event(Event),
    /// A control frame that may have to be answered.
    Control,
    /// Nothing is available now, or nothing may be read now.
    Nothing,
}

/// An event for JavaScript.
#[derive(Debug)]
pub(crate) enum Event {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// The peer has begun to close.
    Closing,
    /// The incoming message needs this many more bytes of the isolate's memory.
    Short(usize),
    /// The last event.
    Closed(Closed),
}

/// The end of a socket, with the fields of a `CloseEvent`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) was_clean: bool,
    /// Set if an `error` event precedes it.
    pub(crate) has_failed: bool,
}

impl Closed {
    fn failed() -> Self {
        Self { code: ABNORMAL, reason: String::new(), was_clean: false, has_failed: true }
    }
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

    /// Writes as many queued messages as the network accepts.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        loop {
            while let Some(message) = self.next_frame() {
                Pin::new(&mut self.stream).start_send(message)?;
            }
            self.is_blocked = false;
            if self.written == 0 && !self.owes_pong {
                return Ok(());
            }
            if Pin::new(&mut self.stream).poll_flush(cx)?.is_pending() {
                self.is_blocked = true;
                return Ok(());
            }
            (self.written, self.owes_pong, self.may_read_one) = (0, false, true);
            self.line.sent(std::mem::take(&mut self.finished_bytes));
            self.finished.clear();
        }
    }

    /// Returns the next frame to send, or `None` if there is none or it has to wait for a flush.
    fn next_frame(&mut self) -> Option<tungstenite::Message> {
        // No frame follows a Close, whether ours or the answer to the peer's.
        if self.has_said || self.heard.is_some() {
            return None;
        }
        if self.sending.is_none() {
            match self.line.next()? {
                Said::Message(message) => {
                    self.hear();
                    let rest = message.bytes.clone();
                    self.sending = Some(Sending { message, rest, has_begun: false });
                }
                Said::Close(reason) => {
                    self.has_said = true;
                    self.wait(ANSWER);
                    self.written += HEAD;
                    return Some(tungstenite::Message::Close(reason));
                }
            }
        }
        let size = self.sending.as_ref()?.rest.remaining().min(FRAGMENT);
        if self.written > 0 && self.written + HEAD + size > FRAGMENT {
            return None;
        }
        let mut sending = self.sending.take()?;
        let piece = sending.rest.split_to(size);
        self.written += HEAD + size;
        let kind = if sending.has_begun { Data::Continue } else { sending.message.kind };
        sending.has_begun = true;
        let is_final = sending.rest.is_empty();
        if is_final {
            self.finished_bytes += sending.message.bytes.len();
            self.finished.push(sending.message);
        } else {
            self.sending = Some(sending);
        }
        Some(tungstenite::Message::Frame(Frame::message(piece, OpCode::Data(kind), is_final)))
    }

    /// Returns whether incoming data may be read now. After a Close it may, because nothing is
    /// answered any more.
    fn may_read(&self) -> bool {
        let is_ending = self.has_said || self.heard.is_some();
        let is_within_leeway = !self.owes_pong && self.line.weight() <= LEEWAY;
        !self.is_blocked || is_ending || is_within_leeway || self.may_read_one
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Read {
        loop {
            if !self.may_read() {
                return Read::Nothing;
            }
            let Poll::Ready(read) = self.stream.poll_next_unpin(cx) else { return Read::Nothing };
            self.may_read_one = false;
            let event = match read {
                // Messages received after we have sent Close are discarded.
                Some(Ok(tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))
                    if self.has_said =>
                {
                    self.let_go();
                    continue;
                }
                Some(Ok(tungstenite::Message::Text(text))) => self.begin_turn(Event::Text(text)),
                Some(Ok(tungstenite::Message::Binary(bytes))) => {
                    self.begin_turn(Event::Binary(bytes))
                }
                Some(Ok(tungstenite::Message::Close(reason))) => {
                    self.heard = Some(reason);
                    self.wait(END);
                    if self.has_said {
                        continue;
                    }
                    Event::Closing
                }
                Some(Ok(tungstenite::Message::Ping(payload))) => {
                    // A node's ping is no traffic: otherwise two silent Workers would keep each
                    // other's sockets alive forever.
                    if payload != PING {
                        self.hear();
                    }
                    self.owes_pong = !self.has_said;
                    return Read::Control;
                }
                // The answer to the node's own ping is no traffic between the two sides.
                Some(Ok(tungstenite::Message::Pong(payload))) if self.vigil.is_answer(&payload) => {
                    continue;
                }
                Some(Ok(_)) => {
                    self.hear();
                    continue;
                }
                Some(Err(error)) => return Read::Event(self.fail(&error)),
                None => {
                    let closed = self.heard();
                    return Read::Event(self.close(closed));
                }
            };
            self.hear();
            return Read::Event(event);
        }
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

    fn ping(&mut self) -> Result<(), Error> {
        self.written += HEAD + PING.len();
        Pin::new(&mut self.stream).start_send(tungstenite::Message::Ping(Bytes::from_static(PING)))
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

    /// Returns the end of the socket as far as it is known.
    fn heard(&mut self) -> Closed {
        match self.heard.take() {
            None => Closed::failed(),
            Some(reason) => {
                let (code, reason) = reason.map_or((NO_CODE, String::new()), |reason| {
                    (reason.code.into(), reason.reason.as_str().to_owned())
                });
                Closed { code, reason, was_clean: true, has_failed: false }
            }
        }
    }

    /// Ends the socket after a protocol violation or a lost connection.
    fn fail(&mut self, error: &Error) -> Event {
        let closed = self.heard();
        if !closed.was_clean {
            let code = match error {
                Error::Capacity(_) => Some(CloseCode::Size),
                Error::Utf8(_) => Some(CloseCode::Invalid),
                Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
                Error::Protocol(_) => Some(CloseCode::Protocol),
                _ => None,
            };
            code.into_iter().for_each(|code| self.say_last(code));
        }
        self.close(closed)
    }

    /// Sends Close, as far as the network accepts it immediately.
    fn say_last(&mut self, code: CloseCode) {
        if !self.has_said && self.heard.is_none() {
            self.has_said = true;
            let reason = CloseFrame { code, reason: "".into() };
            let _ = self.stream.send(tungstenite::Message::Close(Some(reason))).now_or_never();
        }
    }

    fn close(&mut self, closed: Closed) -> Event {
        self.is_over = true;
        Event::Closed(closed)
    }
}

impl Drop for Pump {
    /// Sends Close if the invocation was ended: by a limit, because its isolate has ended, or
    /// because its Worker now runs elsewhere.
    fn drop(&mut self) {
        if !self.is_over {
            self.say_last(self.line.farewell());
        }
    }
}

#[cfg(test)]
mod tests;
