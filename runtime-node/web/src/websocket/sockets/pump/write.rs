//! Sending: messages of the queue become frames, as fast as the network accepts them.

use std::pin::Pin;
use std::task::Context;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use futures::Sink as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{self, Error};

use super::super::deflate::{self, Deflater, MIN_COMPRESSED};
use super::super::keepalive::PING;
use super::super::send_queue::{Message, SendEntry};
use super::super::split::FRAGMENT;
use super::Pump;
use super::close::ANSWER_TIMEOUT;

/// The largest frame header, in bytes (RFC 6455 §5.2).
const MAX_HEADER: usize = 14;

/// A message that is being sent, one frame at a time.
pub(super) struct MessageInProgress {
    message: Message,
    /// The part of the message that has not been sent.
    rest: Bytes,
    has_begun: bool,
    is_compressed: bool,
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
    /// flush or for the thread's other tasks.
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
                    let is_compressed = rest.len() >= MIN_COMPRESSED && self.may_compress();
                    self.sending =
                        Some(MessageInProgress { message, rest, has_begun: false, is_compressed });
                }
                SendEntry::Close(reason) => {
                    self.has_sent_close = true;
                    self.set_timeout(ANSWER_TIMEOUT);
                    self.written += MAX_HEADER;
                    return Some(tungstenite::Message::Close(reason));
                }
            }
        }
        let sending = self.sending.as_ref()?;
        let step = self.deflater.filter(|_| sending.is_compressed).map_or(FRAGMENT, Deflater::step);
        let size = sending.rest.remaining().min(step);
        if self.written > 0 && self.written + MAX_HEADER + size > FRAGMENT
            || sending.is_compressed && self.pieces_left == 0
        {
            return None;
        }
        let mut sending = self.sending.take()?;
        let mut piece = sending.rest.split_to(size);
        let is_final = sending.rest.is_empty();
        if let Some(compressed) = self.compress(&mut sending, &piece, is_final) {
            piece = compressed;
        }
        self.written += MAX_HEADER + piece.len();
        let kind = if sending.has_begun { Data::Continue } else { sending.message.kind };
        let rsv1 = sending.is_compressed && !sending.has_begun;
        sending.has_begun = true;
        if is_final {
            self.finished_bytes += sending.message.bytes.len();
            self.finished.push(sending.message);
        } else {
            self.sending = Some(sending);
        }
        let mut frame = Frame::message(piece, OpCode::Data(kind), is_final);
        frame.header_mut().rsv1 = rsv1;
        Some(tungstenite::Message::Frame(frame))
    }

    /// Compresses `piece`, which directly precedes `sending.rest` in the message. Returns `None` if
    /// the message is sent without compression, which is decided at its first piece.
    fn compress(
        &mut self,
        sending: &mut MessageInProgress,
        piece: &Bytes,
        is_final: bool,
    ) -> Option<Bytes> {
        let deflater = self.deflater.filter(|_| sending.is_compressed)?;
        self.pieces_left = self.pieces_left.saturating_sub(1);
        let message = &sending.message.bytes;
        let to = message.len() - sending.rest.len();
        let compressed = self.may_compress().then(|| {
            let begun = Instant::now();
            let compressed = deflater.compress(message, to - piece.len(), to);
            if let Some(state) = self.state.upgrade() {
                state.charge(Some(self.owner), begun.elapsed());
            }
            compressed
        });
        let mut compressed = match compressed.flatten() {
            Some(compressed) => compressed,
            None if sending.has_begun => deflate::store(piece),
            None => {
                sending.is_compressed = false;
                return None;
            }
        };
        if is_final {
            deflate::trim_tail(&mut compressed);
        }
        Some(compressed.into())
    }

    /// Returns whether messages are compressed now: both sides have agreed on compression, and the
    /// invocation has CPU time to spare.
    fn may_compress(&self) -> bool {
        let state = self.deflater.and_then(|_| self.state.upgrade());
        state.is_some_and(|state| state.has_spare_cpu(self.owner))
    }

    /// Writes a ping, which the next flush sends.
    pub(super) fn ping(&mut self) -> Result<(), Error> {
        self.written += MAX_HEADER + PING.len();
        Pin::new(&mut self.stream).start_send(tungstenite::Message::Ping(Bytes::from_static(PING)))
    }
}
