//! What JavaScript has to say over a socket, from when it says it to when it has been sent.
//!
//! JavaScript never waits: what it says is queued, charged to its memory, until the network takes it. When there is no memory
//! for more the socket is **full**, and fails (WebSockets §3, "flag the `WebSocket` as full").

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Waker};

use bytes::Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};

use crate::engine::heap::Charge;

/// What a message costs beside its bytes: its places in the queue and in what counts it.
pub(in crate::engine) const MESSAGE: usize = 256;

/// Belongs to the two ends of it: native functions speak, and the pump listens.
#[derive(Default)]
pub(in crate::engine) struct Line {
    said: RefCell<VecDeque<Said>>,
    /// Bytes of messages that have not been sent.
    buffered: Cell<usize>,
    is_full: Cell<bool>,
    /// What the other side is told if the invocation is ended.
    farewell: Cell<Option<CloseCode>>,
    listener: RefCell<Option<Waker>>,
}

pub(in crate::engine) enum Said {
    Message(Message),
    /// The last.
    Close(Option<CloseFrame>),
}

/// A message on its way out.
pub(in crate::engine) struct Message {
    pub(in crate::engine) kind: Data,
    pub(in crate::engine) bytes: Bytes,
    /// For its place; its bytes are counted where they come from.
    pub(in crate::engine) _charge: Charge,
}

impl Line {
    pub(in crate::engine) fn say(&self, said: Said) {
        if let Said::Message(message) = &said {
            self.buffered.set(self.buffered.get() + message.bytes.len());
        }
        self.said.borrow_mut().push_back(said);
        self.wake();
    }

    /// There is no room for more.
    pub(in crate::engine) fn overflow(&self) {
        self.is_full.set(true);
        self.wake();
    }

    /// If the invocation is ended, the other side is told this instead of an error.
    pub(super) fn end_with(&self, farewell: CloseCode) {
        self.farewell.set(Some(farewell));
    }

    pub(super) fn farewell(&self) -> CloseCode {
        self.farewell.get().unwrap_or(CloseCode::Error)
    }

    pub(in crate::engine) fn buffered(&self) -> usize {
        self.buffered.get()
    }

    /// What waits to be sent costs so much, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.buffered.get() + self.said.borrow().len() * MESSAGE
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full.get()
    }

    /// What was said first, if there is anything.
    pub(super) fn next(&self) -> Option<Said> {
        self.said.borrow_mut().pop_front()
    }

    /// So many bytes have been sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.buffered.set(self.buffered.get().saturating_sub(bytes));
    }

    /// Has the task woken when something is said.
    pub(super) fn listen(&self, cx: &Context<'_>) {
        let mut listener = self.listener.borrow_mut();
        if listener.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *listener = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        let waker = self.listener.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
