//! One socket that is open: what is said goes out, what comes in becomes events, and in the end both sides know.
//!
//! ```text
//!   open ── said, flushed ◄─► read ── a message ─► an event
//!    ├── we say Close ──────────────┐
//!    ├── the other side says Close ─┴─► closing ── answered, or too late ─► closed
//!    └── lost, wrong, full ─► failed ─────────────────────────────────────► closed
//! ```
//!
//! It is polled between turns only: while its Worker is busy nothing is read, and the network holds back the sender. Pings
//! are answered here, one at a time: the next is read when the network has taken the answer to the last, so that a client
//! that pings and never reads is held back by its own answers. While more than [`LEEWAY`] of what the Worker has said waits
//! for the network, reading goes on only as fast as writing does. A socket so has no more than [`WRITTEN`] bytes in the
//! library's buffer whatever the other side does, and [`Vigil`] ends one whose other side takes nothing.

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, Sink as _, SinkExt as _, StreamExt as _};
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
use crate::engine::heap::BufferBudget;
use crate::engine::invocation::InvocationId;
use crate::engine::state::State;

/// The longest message, in bytes: what Cloudflare's Workers take, and far more than is sensible to send at once.
pub(in crate::engine) const LONGEST: usize = 32 << 20;

/// What the library reads at a time. It keeps so much for each socket.
const READ: usize = 4 * 1024;

/// What the library may hold that the network has not taken: a fragment, or short messages that come to one with their
/// heads, and beside that its answers to a ping and to a Close. It refuses what would be more.
const WRITTEN: usize = FRAGMENT + 1024;

/// What a frame costs beside its bytes, at most: its head (RFC 6455 §5.2).
const HEAD: usize = 14;

/// How much of what the Worker has said may wait for the network while reading goes on regardless, in bytes. Enough for a
/// client that sends for a while before it reads; beyond it an echo would fill the Worker's memory for one that never does.
const LEEWAY: usize = 256 * 1024;

/// What a socket costs beside what it has to send: the library's buffers.
pub(in crate::engine) const SOCKET: usize = 2 * FRAGMENT + READ;

/// How long the other side may take to answer a Close.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a server may take to end the connection once both have said Close (RFC 6455 §7.1.1).
const END: Duration = Duration::from_secs(2);

/// How an event of JavaScript's says that a connection has ended without a Close (RFC 6455 §7.1.5).
const ABNORMAL: u16 = 1006;
/// Likewise, that the Close had no code.
const NO_CODE: u16 = 1005;

pub(in crate::engine) struct Pump {
    stream: WebSocketStream<Link>,
    line: Rc<Line>,
    sending: Option<Sending>,
    /// What has been written since the last flush, with the frames' heads.
    written: usize,
    /// A ping has been read, and its answer is not written.
    owes_pong: bool,
    /// The network did not take all that was written.
    is_blocked: bool,
    /// Something may be read although the network takes less than there is: it has taken something since the last time.
    may_read_one: bool,
    vigil: Vigil,
    /// Messages that are among that to their end, and still count.
    finished: Vec<Message>,
    finished_bytes: usize,
    /// We have said Close.
    has_said: bool,
    /// What the other side has said: a Close, and with it a reason, perhaps.
    heard: Option<Option<CloseFrame>>,
    /// When the end is not waited for any longer.
    patience: Option<Pin<Box<Sleep>>>,
    /// The node leaves.
    leaving: LocalBoxFuture<'static, ()>,
    has_left: bool,
    is_refused: bool,
    is_over: bool,
    owner: InvocationId,
    state: Weak<State>,
}

/// A message that is going out, a frame at a time.
struct Sending {
    message: Message,
    rest: Bytes,
    has_begun: bool,
}

/// What reading has come to.
enum Read {
    Event(Event),
    /// Something that may have to be answered.
    Control,
    /// There is nothing more now, or it is not to be read now.
    Nothing,
}

/// What JavaScript is to hear.
#[derive(Debug)]
pub(in crate::engine) enum Event {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// The other side has begun to close.
    Closing,
    /// The message that comes needs so many bytes more of the isolate's memory.
    Short(usize),
    /// The last.
    Closed(Closed),
}

/// How a socket has ended, as a `CloseEvent` says it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) struct Closed {
    pub(in crate::engine) code: u16,
    pub(in crate::engine) reason: String,
    pub(in crate::engine) was_clean: bool,
    /// There is an event `error` before.
    pub(in crate::engine) has_failed: bool,
}

impl Closed {
    fn failed() -> Self {
        Self { code: ABNORMAL, reason: String::new(), was_clean: false, has_failed: true }
    }
}

impl Pump {
    /// # Arguments
    /// * `leaving` - resolves when the node leaves.
    pub(in crate::engine) fn new(
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

    /// Goes on until there is something to hear. Not to be called again after [`Event::Closed`].
    pub(in crate::engine) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        self.line.listen(cx);
        if self.line.is_full() || self.is_refused {
            return Poll::Ready(self.close(Closed::failed()));
        }
        if !self.has_left && self.leaving.as_mut().poll(cx).is_ready() {
            self.has_left = true;
            self.line.say(Said::Close(Some(CloseFrame { code: CloseCode::Away, reason: "".into() })));
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
        // Who does not answer has not failed.
        let closed = Closed { has_failed: false, ..self.heard() };
        Poll::Ready(self.close(closed))
    }

    /// Whether the memory that was short is there now.
    pub(in crate::engine) fn try_again(&mut self) -> bool {
        self.stream.get_mut().try_again()
    }

    /// A message has come for which there is no memory: it is the last.
    pub(in crate::engine) fn refuse(&mut self) {
        self.say_last(CloseCode::Size);
        self.is_refused = true;
    }

    /// The message that came last is JavaScript's now.
    pub(in crate::engine) fn let_go(&mut self) {
        self.stream.get_mut().let_go();
    }

    /// Writes as much of what was said as the network takes.
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

    /// What goes out next. `None` when there is nothing, or it has to wait until what is written has been flushed.
    fn next_frame(&mut self) -> Option<tungstenite::Message> {
        // Nothing comes after a Close, ours or the answer to theirs.
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

    /// Whether what comes may be read now. Once there is a Close it may, because nothing is answered any more.
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
                // What comes after we have said Close is for nobody.
                Some(Ok(tungstenite::Message::Text(_) | tungstenite::Message::Binary(_))) if self.has_said => {
                    self.let_go();
                    continue;
                }
                Some(Ok(tungstenite::Message::Text(text))) => self.begin_turn(Event::Text(text)),
                Some(Ok(tungstenite::Message::Binary(bytes))) => self.begin_turn(Event::Binary(bytes)),
                Some(Ok(tungstenite::Message::Close(reason))) => {
                    self.heard = Some(reason);
                    self.wait(END);
                    if self.has_said {
                        continue;
                    }
                    Event::Closing
                }
                Some(Ok(tungstenite::Message::Ping(payload))) => {
                    // Two Workers that have nothing to say would otherwise keep each other for ever.
                    if payload != PING {
                        self.hear();
                    }
                    self.owes_pong = !self.has_said;
                    return Read::Control;
                }
                // An answer to a ping of the node's own says nothing of what the two have to say to each other.
                Some(Ok(tungstenite::Message::Pong(payload))) if self.vigil.is_answer(&payload) => continue,
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

    /// Looks after the other side from time to time.
    fn watch(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            let link = self.stream.get_ref();
            let look = Look { read: link.read(), written: link.written(), is_blocked: self.is_blocked };
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

    /// Something goes over the socket: the time that its invocation may be idle begins anew.
    fn hear(&self) {
        if let Some(state) = self.state.upgrade() {
            state.moved(self.owner);
        }
    }

    /// A message begins a turn like a request's.
    fn begin_turn(&self, event: Event) -> Event {
        if let Some(state) = self.state.upgrade() {
            state.refresh(self.owner);
        }
        event
    }

    fn wait(&mut self, patience: Duration) {
        self.patience = Some(Box::pin(tokio::time::sleep(patience)));
    }

    /// What is known of the end.
    fn heard(&mut self) -> Closed {
        match self.heard.take() {
            None => Closed::failed(),
            Some(reason) => {
                let (code, reason) = reason
                    .map_or((NO_CODE, String::new()), |reason| (reason.code.into(), reason.reason.as_str().to_owned()));
                Closed { code, reason, was_clean: true, has_failed: false }
            }
        }
    }

    /// The other side does not do as the protocol has it, or is gone.
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

    /// Says Close, as far as the network takes it at once.
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
    /// Its invocation has been ended: by a limit, because its isolate has come to its end, or because its Worker runs
    /// elsewhere.
    fn drop(&mut self) {
        if !self.is_over {
            self.say_last(self.line.farewell());
        }
    }
}

#[cfg(test)]
mod tests;
