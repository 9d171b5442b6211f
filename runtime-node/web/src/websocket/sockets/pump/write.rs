//! Sending: messages of the queue become frames, as fast as the network accepts them.

use std::pin::Pin;
use std::task::Context;

use bytes::{Buf as _, Bytes};
use futures::Sink as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{self, Error};

use super::super::keepalive::PING;
use super::super::send_queue::{Message, SendEntry};
use super::super::split::FRAGMENT;
use super::Pump;
use super::close::ANSWER;

/// The largest frame header, in bytes (RFC 6455 §5.2).
const HEAD: usize = 14;

/// A message that is being sent, one frame at a time.
pub(super) struct MessageInProgress {
    message: Message,
    rest: Bytes,
    has_begun: bool,
}

impl Pump {
    /// Writes as many queued messages as the network accepts.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
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
            self.queue.sent(std::mem::take(&mut self.finished_bytes));
            self.finished.clear();
        }
    }

    /// Returns the next frame to send, or `None` if there is no frame or sending has to wait for a
    /// flush.
    fn next_frame(&mut self) -> Option<tungstenite::Message> {
        // No frame follows a Close, whether it is ours or the peer's.
        if self.has_sent_close || self.peer_close.is_some() {
            return None;
        }
        if self.sending.is_none() {
            match self.queue.next()? {
                SendEntry::Message(message) => {
                    self.record_traffic();
                    let rest = message.bytes.clone();
                    self.sending = Some(MessageInProgress { message, rest, has_begun: false });
                }
                SendEntry::Close(reason) => {
                    self.has_sent_close = true;
                    self.set_timeout(ANSWER);
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

    pub(super) fn ping(&mut self) -> Result<(), Error> {
        self.written += HEAD + PING.len();
        Pin::new(&mut self.stream).start_send(tungstenite::Message::Ping(Bytes::from_static(PING)))
    }
}
