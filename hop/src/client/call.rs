//! A request on a connection, with its response and the writer of the rest of its data.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::Closed;
use super::state::State;
use super::stream::{CallError, Response};
use crate::frame;

/// A request that has been sent, and its response as a body of data and trailers. The trailers of a
/// successful response are empty. Dropping the call before the end of the response cancels the
/// request.
pub struct Call {
    state: Rc<RefCell<State>>,
    slot: usize,
}

/// Sends the rest of a request's data.
pub struct Writer {
    state: Weak<RefCell<State>>,
    stream: u32,
}

impl Call {
    pub(super) fn new(state: Rc<RefCell<State>>, slot: usize) -> Self {
        Self { state, slot }
    }

    /// Returns the writer of the rest of the request. The writer does not keep the request alive.
    pub fn writer(&self) -> Writer {
        let stream = self.state.borrow_mut().stream(self.slot).id;
        Writer { state: Rc::downgrade(&self.state), stream }
    }

    /// Returns the next piece of data or, after the data, the trailers. Returns `None` at the end.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        let mut state = self.state.borrow_mut();
        let stream = state.stream(self.slot);
        if let Some(piece) = stream.response.pieces.pop() {
            let (id, read) = (stream.id, count_read(&mut stream.response, piece.len() as u32));
            if let Some(bytes) = read {
                frame::put_window_update(&mut state.outbox, id, bytes);
                state.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match &mut stream.response.end {
            Some(Ok(trailers)) => {
                // Trailers are returned once.
                let trailers = trailers.take().map(Frame::trailers);
                Poll::Ready(trailers.map(Ok))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(*error))),
            None => {
                stream.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Counts bytes that have been read. Returns the number of bytes to announce to the peer, if any.
fn count_read(response: &mut Response, bytes: u32) -> Option<u32> {
    response.read += bytes;
    // No announcement is made while the peer may send more bytes than have been read.
    if response.end.is_some() || response.read < response.window {
        return None;
    }
    response.window += response.read;
    Some(std::mem::take(&mut response.read))
}

impl Body for Call {
    type Data = Bytes;
    type Error = CallError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        self.poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let response = &state.stream(self.slot).response;
        response.pieces.is_empty() && matches!(response.end, Some(Ok(None)))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.state.borrow_mut().close(self.slot);
    }
}

impl Writer {
    /// Waits until no data is left to send and the stream's window has room for more.
    ///
    /// # Errors
    /// Fails if the stream has ended.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        self.with(|state, slot| {
            let stream = state.stream(slot);
            if stream.unsent.is_empty() && stream.window > 0 {
                return Poll::Ready(Ok(()));
            }
            stream.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .unwrap_or(Poll::Ready(Err(Closed)))
    }

    /// Waits until the stream has ended.
    pub fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self.with(|state, slot| state.stream(slot).writer = Some(cx.waker().clone()));
        if waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Sends data. The caller first waits for [`Self::poll_ready`].
    pub fn send(&self, data: &Bytes) {
        self.with(|state, slot| {
            state.send_all(slot, data);
            state.wake();
        });
    }

    /// Ends the request normally.
    pub fn end(self) {
        self.with(|state, slot| {
            state.stream(slot).ends = true;
            state.send(slot);
            state.wake();
        });
    }

    /// Aborts the request. Its call fails.
    pub fn abort(self) {
        self.with(|state, slot| state.abort(slot));
    }

    fn with<T>(&self, f: impl FnOnce(&mut State, usize) -> T) -> Option<T> {
        let state = self.state.upgrade()?;
        let mut state = state.borrow_mut();
        let slot = state.slot(self.stream)?;
        Some(f(&mut state, slot))
    }
}
