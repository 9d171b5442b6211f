//! Handles the frames of a router.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Connection;
use super::leaving::{LAST, Leaving};
use super::service::Service;
use super::slot::Slot;
use crate::block;
use crate::error::{Code, ConnectionError};
use crate::frame::{self, ACK, END_STREAM, Head, Kind, MAX_31_BITS};
use crate::incoming::{Incoming, Receive};
use crate::settings::Settings;

/// The length, in bytes, below which a payload is copied, so that it does not keep the whole buffer
/// into which it was read.
const SMALL: usize = 4 * 1024;

impl<S, V> Connection<S, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: Service,
{
    pub(super) fn receive(&mut self, head: Head) -> Result<(), ConnectionError> {
        match head.kind {
            Kind::Data => return self.receive_data(head),
            Kind::Headers => self.receive_headers(head)?,
            Kind::Reset => {
                head.check_len(4)?;
                self.check_known(head.stream)?;
                if let Some(&slot) = self.open.get(&head.stream) {
                    self.close(slot);
                }
            }
            Kind::Settings if head.has(ACK) => head.check_len(0)?,
            Kind::Settings => {
                let settings = Settings::parse(self.wire.payload(&head))?;
                self.apply(settings)?;
                frame::put_settings_ack(&mut self.outbox);
            }
            Kind::Ping => {
                head.check_len(8)?;
                let payload = self.wire.payload(&head).try_into().unwrap_or_default();
                if !head.has(ACK) {
                    frame::put_ping(&mut self.outbox, payload, true);
                } else if payload == LAST && self.leaving == Leaving::Announced {
                    self.leaving = Leaving::Final;
                    frame::put_go_away(&mut self.outbox, self.last, Code::NO_ERROR);
                }
            }
            Kind::WindowUpdate => {
                head.check_len(4)?;
                let by = frame::number(self.wire.payload(&head)) & MAX_31_BITS;
                self.widen(head.stream, by)?;
            }
            Kind::PushPromise | Kind::Continuation => {
                return Err(ConnectionError::protocol("a frame that no router sends"));
            }
            Kind::GoAway | Kind::Priority | Kind::Unknown => {}
        }
        self.wire.skip(&head);
        Ok(())
    }

    fn receive_headers(&mut self, head: Head) -> Result<(), ConnectionError> {
        head.check_plain()?;
        if head.stream.is_multiple_of(2) || head.stream <= self.last {
            return Err(ConnectionError::protocol("headers on a stream that is not new"));
        }
        let seconds = block::read_request(self.wire.payload(&head))
            .ok_or(ConnectionError::protocol("unexpected request headers"))?;
        if self.leaving == Leaving::Final {
            // The final GOAWAY tells the peer that the request is not served.
            return Ok(());
        }
        self.last = head.stream;
        if self.open.len() >= self.bounds.streams as usize {
            frame::put_reset(&mut self.outbox, head.stream, Code::REFUSED_STREAM);
            return Ok(());
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::vacant(&self.queue, self.slots.len()));
            self.slots.len() - 1
        });
        self.slots[slot].open(head.stream, Duration::from_secs(seconds), self.stream_window);
        self.open.insert(head.stream, slot);
        if head.has(END_STREAM) {
            self.begin(slot, Incoming::whole(Bytes::new()));
        }
        Ok(())
    }

    fn receive_data(&mut self, head: Head) -> Result<(), ConnectionError> {
        head.check_plain()?;
        self.count_received(head.len);
        let Some(&slot) = self.open.get(&head.stream) else {
            self.wire.skip(&head);
            // The stream may have been answered or reset.
            return self.check_known(head.stream);
        };
        let ends = head.has(END_STREAM);
        let payload = if head.len < SMALL {
            let copy = Bytes::copy_from_slice(self.wire.payload(&head));
            self.wire.skip(&head);
            copy
        } else {
            self.wire.take(&head)
        };
        if let Some(receive) = &self.slots[slot].receive {
            if !receive.push(payload, ends) {
                return Err(ConnectionError::flow("more data than the window of a stream allows"));
            }
            if ends {
                self.slots[slot].receive = None;
            }
            return Ok(());
        }
        if self.slots[slot].has_begun {
            return Err(ConnectionError::protocol("data after the end of a stream"));
        }
        let incoming = if ends {
            Incoming::whole(payload)
        } else {
            let receive = Receive::new(head.stream, self.bounds.stream_window, self.ledger.clone());
            receive.push(payload, false);
            self.slots[slot].receive = Some(receive.clone());
            Incoming::streaming(receive)
        };
        self.begin(slot, incoming);
        Ok(())
    }

    /// Counts received bytes. After every quarter of the connection's window, announces the counted
    /// bytes to the peer, which may then send as many again.
    fn count_received(&mut self, len: usize) {
        self.received += len as u32;
        if self.received >= MAX_31_BITS / 4 {
            frame::put_window_update(&mut self.outbox, 0, std::mem::take(&mut self.received));
        }
    }

    fn check_known(&self, stream: u32) -> Result<(), ConnectionError> {
        // The peer may have opened streams above the last one before the final GOAWAY arrived.
        let is_unknown = stream > self.last && self.leaving != Leaving::Final;
        if stream == 0 || is_unknown {
            return Err(ConnectionError::protocol("a frame of a stream that is not open"));
        }
        Ok(())
    }

    /// Applies settings of the peer.
    fn apply(&mut self, settings: Settings) -> Result<(), ConnectionError> {
        let Some(window) = settings.window else { return Ok(()) };
        let by = i64::from(window) - self.stream_window;
        if by == 0 {
            return Ok(());
        }
        self.stream_window = window.into();
        for &slot in self.open.values() {
            let slot = &mut self.slots[slot];
            slot.window += by;
            if slot.window > MAX_31_BITS.into() {
                return Err(ConnectionError::flow("a window that is too large"));
            }
            self.queue.push(&slot.wake);
        }
        Ok(())
    }

    /// Enlarges the window of a stream, or that of the connection if `stream` is 0.
    fn widen(&mut self, stream: u32, by: u32) -> Result<(), ConnectionError> {
        if by == 0 {
            return Err(ConnectionError::protocol("an empty window update"));
        }
        let window = if stream == 0 {
            &mut self.window
        } else if let Some(&slot) = self.open.get(&stream) {
            self.queue.push(&self.slots[slot].wake);
            &mut self.slots[slot].window
        } else {
            return self.check_known(stream);
        };
        *window += i64::from(by);
        if *window > MAX_31_BITS.into() {
            return Err(ConnectionError::flow("a window that is too large"));
        }
        Ok(())
    }
}
