//! The task of a connection, which reads and writes for all streams, and pings the peer.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite};

use super::keepalive::{Keepalive, Pings};
use super::state::State;
use super::stream::CallError;
use crate::block::{self, RESPONSE, SUCCESS};
use crate::error::{Code, ConnectionError};
use crate::frame::{self, ACK, END_STREAM, HEADER, Head, Kind, MAX_31_BITS};
use crate::pieces::SMALL;
use crate::settings::Settings;
use crate::wire::Wire;

/// The maximum number of bytes of unread answers that a shard may cause before the connection ends
/// with an error.
const MAX_OWED: usize = 1024 * 1024;

/// The maximum number of frames that are handled before the connection writes and other tasks run.
const MAX_FRAMES: usize = 1024;

/// A connection, which is driven as a future until it ends.
pub struct Connection<S> {
    wire: Wire<S>,
    state: Rc<RefCell<State>>,
    keepalive: Option<Keepalive>,
    /// The number of bytes received since the connection's window was last enlarged.
    received: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Creates a connection.
    ///
    /// # Arguments
    /// * `inbox` - the peer's first frames, as far as they have been read.
    pub(super) fn new(
        stream: S,
        inbox: BytesMut,
        state: Rc<RefCell<State>>,
        pings: Option<Pings>,
    ) -> Self {
        let wire = Wire::new(stream, inbox);
        Self { wire, state, keepalive: pings.map(Keepalive::new), received: 0 }
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        match &mut self.state.borrow_mut().task {
            Some(task) => task.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        {
            // Write first, because reads may use up the task's budget in tokio. An error is ignored
            // until the flush after the reads, because the peer may have sent a GOAWAY frame that
            // gives the reason.
            let mut state = self.state.borrow_mut();
            if !state.outbox.is_empty() {
                _ = self.wire.poll_flush(cx, &mut state.outbox);
            }
        }
        // Read even if nothing can be written, because the shard may have to write before it reads.
        let mut left = MAX_FRAMES;
        while left > 0 {
            match self.wire.poll_head(cx)? {
                Poll::Ready(Some(head)) => {
                    self.keepalive.iter_mut().for_each(Keepalive::record_frame);
                    self.receive(head)?;
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
            left -= 1;
        }
        if left == 0 {
            // More frames may have arrived.
            cx.waker().wake_by_ref();
        }
        let mut state = self.state.borrow_mut();
        if let Some(keepalive) = &mut self.keepalive
            && keepalive.poll_ping(cx, state.is_idle())?
        {
            frame::put_ping(&mut state.outbox, [0; 8], false);
        }
        if state.owed > MAX_OWED {
            return Poll::Ready(Err(ConnectionError::protocol(
                "frames without reading the answers",
            )));
        }
        loop {
            ready!(self.wire.poll_flush(cx, &mut state.outbox))?;
            state.owed = 0;
            if !state.resume() {
                break;
            }
        }
        let is_last = state.is_closed() || Rc::strong_count(&self.state) == 1;
        if is_last && state.is_idle() {
            drop(state);
            return self.wire.poll_shutdown(cx).map_err(ConnectionError::from);
        }
        Poll::Pending
    }

    fn receive(&mut self, head: Head) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        match head.kind {
            Kind::Data => {
                drop(state);
                return self.receive_data(head);
            }
            Kind::Headers => receive_headers(&mut state, head, self.wire.payload(&head))?,
            Kind::Reset => {
                head.check_len(4)?;
                state.check_known(head.stream)?;
                state.reset(head.stream, Code(frame::number(self.wire.payload(&head))));
            }
            Kind::Settings if head.has(ACK) => head.check_len(0)?,
            Kind::Settings => {
                state.apply(Settings::parse(self.wire.payload(&head))?)?;
                frame::put_settings_ack(&mut state.outbox);
                state.owed += HEADER;
            }
            Kind::Ping => {
                head.check_len(8)?;
                let payload = self.wire.payload(&head).try_into().unwrap_or_default();
                if head.has(ACK) {
                    self.keepalive.iter_mut().for_each(Keepalive::record_pong);
                    state.ponged.notify_waiters();
                } else {
                    frame::put_ping(&mut state.outbox, payload, true);
                    state.owed += HEADER + payload.len();
                }
            }
            Kind::GoAway => {
                let payload = self.wire.payload(&head);
                if payload.len() < 8 {
                    return Err(ConnectionError::size("a frame of the wrong length"));
                }
                let code = Code(frame::number(&payload[4..]));
                if code != Code::NO_ERROR {
                    return Err(ConnectionError::GoAway(code));
                }
                state.close_above(frame::number(payload) & MAX_31_BITS);
            }
            Kind::WindowUpdate => {
                head.check_len(4)?;
                let by = frame::number(self.wire.payload(&head)) & MAX_31_BITS;
                state.widen(head.stream, by)?;
            }
            Kind::PushPromise | Kind::Continuation => {
                return Err(ConnectionError::protocol("a frame that no shard sends"));
            }
            Kind::Priority | Kind::Unknown => {}
        }
        drop(state);
        self.wire.skip(&head);
        Ok(())
    }

    fn receive_data(&mut self, head: Head) -> Result<(), ConnectionError> {
        head.check_plain()?;
        let mut state = self.state.borrow_mut();
        self.received += head.len as u32;
        if self.received >= MAX_31_BITS / 4 {
            frame::put_window_update(&mut state.outbox, 0, std::mem::take(&mut self.received));
        }
        let Some(slot) = state.slot(head.stream) else {
            self.wire.skip(&head);
            // The call may have been canceled.
            return state.check_known(head.stream);
        };
        let payload = if head.len < SMALL {
            let copy = Bytes::copy_from_slice(self.wire.payload(&head));
            self.wire.skip(&head);
            copy
        } else {
            self.wire.take(&head)
        };
        let stream = state.stream(slot);
        let response = &mut stream.response;
        if !response.has_begun || response.end.is_some() {
            return Err(ConnectionError::protocol("data outside a response"));
        }
        let window = response.window.checked_sub(payload.len() as u32);
        response.window =
            window.ok_or(ConnectionError::flow("more data than the window of a stream allows"))?;
        response.pieces.push(payload);
        if head.has(END_STREAM) {
            // gRPC's status is missing.
            stream.end(Err(CallError::Broken));
        } else {
            stream.reader.take().into_iter().for_each(std::task::Waker::wake);
        }
        Ok(())
    }
}

/// Handles the headers or the trailers of a response.
fn receive_headers(state: &mut State, head: Head, block: &[u8]) -> Result<(), ConnectionError> {
    const UNEXPECTED: ConnectionError = ConnectionError::protocol("unexpected response headers");
    head.check_plain()?;
    let Some(slot) = state.slot(head.stream) else { return state.check_known(head.stream) };
    let stream = state.stream(slot);
    if stream.response.end.is_some() {
        return Err(ConnectionError::protocol("headers after the end of a response"));
    }
    let block = match block.strip_prefix(RESPONSE) {
        Some(rest) if !stream.response.has_begun => rest,
        None if stream.response.has_begun => block,
        _ => return Err(UNEXPECTED),
    };
    stream.response.has_begun = true;
    match (head.has(END_STREAM), block) {
        (false, []) => {}
        (true, SUCCESS) => stream.end(Ok(Some(HeaderMap::new()))),
        (true, trailers) => stream.end(Ok(Some(block::read_literals(trailers).ok_or(UNEXPECTED)?))),
        (false, _) => return Err(UNEXPECTED),
    }
    Ok(())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Connection<S> {
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.poll_connection(cx));
        let Self { wire, state, .. } = &mut *self;
        let mut state = state.borrow_mut();
        if let Err(ConnectionError::Violation { code, .. }) = &ended {
            frame::put_go_away(&mut state.outbox, 0, *code);
            // The connection ends even if the frame cannot be written.
            _ = wire.poll_flush(cx, &mut state.outbox);
        }
        state.break_off();
        Poll::Ready(ended)
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.state.borrow_mut().break_off();
    }
}
