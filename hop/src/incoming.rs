//! The body of a request, on the shard's side.
//!
//! Nearly every body arrives whole, in one frame, and needs no state. Any other body is buffered up
//! to the window of its stream, which grows again as the body is read.
//!
//! A body belongs to one thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::pieces::Pieces;

/// A request's body.
pub struct Incoming(Source);

enum Source {
    Whole(Bytes),
    Streaming(Rc<Receive>),
}

/// The error for a body whose stream was reset, or whose connection has ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream was reset")]
pub struct Reset;

/// The numbers of bytes that have been read from a connection's bodies, which the connection
/// announces to the peer.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Pairs of a stream id and a number of bytes.
    read: RefCell<Vec<(u32, u32)>>,
    task: RefCell<Option<Waker>>,
}

/// A body that arrives in pieces. Its connection and its reader share this value.
pub(crate) struct Receive {
    stream: u32,
    state: RefCell<State>,
    ledger: Rc<Ledger>,
}

struct State {
    pieces: Pieces,
    /// The number of bytes that the peer may still send.
    window: u32,
    /// The number of bytes that have been read but not announced to the peer.
    read: u32,
    end: Option<Result<(), Reset>>,
    /// Nothing reads the body any longer.
    is_dropped: bool,
    reader: Option<Waker>,
}

impl Ledger {
    /// Registers the waker that is called when bytes that were read are to be announced.
    pub(crate) fn register(&self, waker: &Waker) {
        match &mut *self.task.borrow_mut() {
            Some(before) => before.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Removes and returns the ids of streams, each with a number of bytes to announce.
    pub(crate) fn take(&self) -> Vec<(u32, u32)> {
        self.read.take()
    }

    /// Drops the waker of the task, because the connection has ended.
    pub(crate) fn close(&self) {
        self.task.take();
    }

    fn announce(&self, stream: u32, bytes: u32) {
        self.read.borrow_mut().push((stream, bytes));
        self.task.borrow().iter().for_each(Waker::wake_by_ref);
    }
}

impl Receive {
    /// Creates a body that has not begun to arrive.
    ///
    /// # Arguments
    /// * `window` - the initial window of the stream, in bytes.
    pub(crate) fn new(stream: u32, window: u32, ledger: Rc<Ledger>) -> Rc<Self> {
        let state = State {
            pieces: Pieces::default(),
            window,
            read: 0,
            end: None,
            is_dropped: false,
            reader: None,
        };
        Rc::new(Self { stream, state: RefCell::new(state), ledger })
    }

    /// Appends a piece. Returns whether the peer was allowed to send it.
    pub(crate) fn push(&self, piece: Bytes, ends: bool) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(window) = state.window.checked_sub(piece.len() as u32) else { return false };
        state.window = window;
        if !state.is_dropped {
            state.pieces.push(piece);
        }
        if ends {
            state.end = Some(Ok(()));
        }
        state.wake();
        true
    }

    /// Ends the body with an error, unless it has ended.
    pub(crate) fn reset(&self) {
        let mut state = self.state.borrow_mut();
        if state.end.is_none() {
            state.end = Some(Err(Reset));
            state.wake();
        }
    }

    fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reset>>> {
        let mut state = self.state.borrow_mut();
        if let Some(piece) = state.pieces.pop() {
            state.read += piece.len() as u32;
            // No announcement is made while the peer may send more bytes than have been read.
            if state.end.is_none() && state.read >= state.window {
                let read = std::mem::take(&mut state.read);
                state.window += read;
                self.ledger.announce(self.stream, read);
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        match state.end {
            Some(end) => Poll::Ready(end.err().map(Err)),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl State {
    fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}

impl Incoming {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Source::Whole(bytes))
    }

    pub(crate) fn streaming(receive: Rc<Receive>) -> Self {
        Self(Source::Streaming(receive))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Source::Streaming(receive) = &self.0 {
            let mut state = receive.state.borrow_mut();
            state.is_dropped = true;
            state.pieces = Pieces::default();
        }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        match &mut self.0 {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Streaming(receive) => {
                receive.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 64 * 1024;

    fn body() -> (Rc<Receive>, Incoming) {
        let receive = Receive::new(1, WINDOW, Rc::default());
        (receive.clone(), Incoming::streaming(receive))
    }

    fn next(receive: &Receive) -> Poll<Option<Result<Bytes, Reset>>> {
        receive.poll_piece(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_window_grows_again_by_the_bytes_that_have_been_read() {
        let (receive, _incoming) = body();
        assert!(receive.push(Bytes::from(vec![0; WINDOW as usize]), false));
        assert!(!receive.push(Bytes::from_static(b"x"), false), "a full window was exceeded");
        assert!(next(&receive).is_ready());
        assert_eq!(receive.ledger.take(), [(1, WINDOW)]);
        assert!(receive.push(Bytes::from(vec![0; WINDOW as usize]), false));
    }

    #[test]
    fn a_reset_fails_the_body_unless_it_has_ended() {
        let (receive, _incoming) = body();
        receive.reset();
        assert!(matches!(next(&receive), Poll::Ready(Some(Err(Reset)))));
        let (receive, _incoming) = body();
        receive.push(Bytes::new(), true);
        receive.reset();
        assert!(matches!(next(&receive), Poll::Ready(None)));
    }

    #[test]
    fn a_dropped_body_buffers_nothing() {
        let (receive, incoming) = body();
        drop(incoming);
        assert!(receive.push(Bytes::from(vec![0; 20_000]), false));
        assert!(receive.state.borrow().pieces.is_empty());
    }
}
