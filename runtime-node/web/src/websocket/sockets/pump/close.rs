//! Ends sockets: after a closing handshake, a failure, or the end of their invocations.

use std::time::Duration;

use futures::{FutureExt as _, SinkExt as _};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Error};

use super::{Closed, Event, Pump};

/// The timeout for the peer to answer a Close.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for a server to end the connection once both sides have sent Close (RFC 6455
/// §7.1.1).
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The close code that reports a Close without a code (RFC 6455 §7.1.5).
const NO_CODE: u16 = 1005;

impl Pump {
    /// Returns the close code and reason from the peer's Close, or a failure if no Close has
    /// arrived.
    pub(super) fn take_peer_close(&mut self) -> Closed {
        match self.peer_close.take() {
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
    pub(super) fn fail(&mut self, error: &Error) -> Event {
        let closed = self.take_peer_close();
        if !closed.was_clean {
            let code = match error {
                Error::Io(_) => self.stream.get_ref().refusal(),
                Error::Capacity(_) => Some(CloseCode::Size),
                Error::Utf8(_) => Some(CloseCode::Invalid),
                Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
                Error::Protocol(_) => Some(CloseCode::Protocol),
                _ => None,
            };
            code.into_iter().for_each(|code| self.send_close(code));
        }
        self.close(closed)
    }

    /// Sends a Close frame, if the network accepts it immediately.
    pub(super) fn send_close(&mut self, code: CloseCode) {
        if !self.has_sent_close && self.peer_close.is_none() {
            self.has_sent_close = true;
            let reason = CloseFrame { code, reason: "".into() };
            let _ = self.stream.send(tungstenite::Message::Close(Some(reason))).now_or_never();
        }
    }

    /// Marks the socket as over. Returns its last event.
    pub(super) fn close(&mut self, closed: Closed) -> Event {
        self.is_over = true;
        Event::Closed(closed)
    }
}

impl Drop for Pump {
    /// Sends a Close frame if the invocation was ended: by a limit, because its isolate has ended,
    /// or because its Worker now runs elsewhere.
    fn drop(&mut self) {
        if !self.is_over {
            self.send_close(self.queue.end_code());
        }
    }
}
