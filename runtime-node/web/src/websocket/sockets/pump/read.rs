//! Receiving: frames become events, as long as their answers reach the network.

use std::task::{Context, Poll};

use futures::StreamExt as _;
use tokio_tungstenite::tungstenite;

use super::super::vigil::PING;
use super::close::END;
use super::{Event, Pump};

/// The number of bytes of the Worker's messages that may wait for the network before reading slows
/// down. Enough for a client that sends for a while before it reads; beyond that, an echo would
/// fill the Worker's memory for a client that never reads.
const LEEWAY: usize = 256 * 1024;

/// The result of reading.
pub(super) enum Read {
    Event(Event),
    /// A control frame that may have to be answered.
    Control,
    /// Nothing is available now, or nothing may be read now.
    Nothing,
}

impl Pump {
    /// Returns whether incoming data may be read now. After a Close it may, because nothing is
    /// answered any more.
    fn may_read(&self) -> bool {
        let is_ending = self.has_said || self.heard.is_some();
        let is_within_leeway = !self.owes_pong && self.line.weight() <= LEEWAY;
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
}
