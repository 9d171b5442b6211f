//! Receiving: frames become events, as long as the network accepts the answers to them.

use std::task::{Context, Poll};

use futures::StreamExt as _;
use tokio_tungstenite::tungstenite;

use super::super::keepalive::PING;
use super::close::END_TIMEOUT;
use super::{Event, Pump};

/// The number of bytes of the Worker's messages that may wait for the network before reading slows
/// down. This suffices for a client that sends for a while before it reads. Without a limit, a
/// Worker that echoes messages would fill its memory with the messages of a client that never
/// reads.
const LEEWAY: usize = 256 * 1024;

/// The result of reading.
pub(super) enum Read {
    Event(Event),
    /// A control frame that may have to be answered.
    Control,
    /// No frame has arrived, or reading has to wait.
    Nothing,
}

impl Pump {
    /// Returns whether incoming data may be read now. After a Close, reading is always allowed,
    /// because the pump no longer answers anything.
    fn may_read(&self) -> bool {
        let is_ending = self.has_sent_close || self.peer_close.is_some();
        let is_within_leeway = !self.owes_pong && self.queue.weight() <= LEEWAY;
        !self.is_blocked || is_ending || is_within_leeway || self.may_read_one
    }

    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Read {
        loop {
            if !self.may_read() {
                return Read::Nothing;
            }
            let Poll::Ready(read) = self.stream.poll_next_unpin(cx) else { return Read::Nothing };
            self.may_read_one = false;
            let event = match read {
                // Messages received after we have sent Close are discarded.
                Some(Ok(tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))
                    if self.has_sent_close =>
                {
                    self.release_charge();
                    continue;
                }
                Some(Ok(tungstenite::Message::Text(text))) => self.begin_turn(Event::Text(text)),
                Some(Ok(tungstenite::Message::Binary(bytes))) => {
                    self.begin_turn(Event::Binary(bytes))
                }
                Some(Ok(tungstenite::Message::Close(reason))) => {
                    self.peer_close = Some(reason);
                    self.set_timeout(END_TIMEOUT);
                    if self.has_sent_close {
                        continue;
                    }
                    Event::Closing
                }
                Some(Ok(tungstenite::Message::Ping(payload))) => {
                    // A node's ping is not traffic; otherwise two silent Workers would keep each
                    // other's sockets alive forever.
                    if payload != PING {
                        self.record_traffic();
                    }
                    self.owes_pong = !self.has_sent_close;
                    return Read::Control;
                }
                // The answer to the node's own ping is not traffic between the two sides.
                Some(Ok(tungstenite::Message::Pong(payload)))
                    if self.keepalive.is_answer(&payload) =>
                {
                    continue;
                }
                Some(Ok(_)) => {
                    self.record_traffic();
                    continue;
                }
                Some(Err(error)) => return Read::Event(self.fail(&error)),
                None => {
                    let closed = self.take_peer_close();
                    return Read::Event(self.close(closed));
                }
            };
            self.record_traffic();
            return Read::Event(event);
        }
    }
}
