//! The queue of a WebSocket's outgoing messages.
//!
//! JavaScript never waits: its messages are queued, and charged to the isolate's memory, until the
//! network accepts them. If there is no memory for another message, the socket is **full** and
//! fails (WebSockets §3, "flag the `WebSocket` as full").

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Waker};

use bytes::Bytes;
use tenon_engine::heap::Charge;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data};

/// The memory of a message besides its content, in bytes: its entries in the queue and in the
/// accounting.
pub(crate) const MESSAGE_OVERHEAD: usize = 256;

/// The queue, which its two ends share: native functions enqueue messages, and the task that sends
/// them dequeues them.
#[derive(Default)]
pub(crate) struct SendQueue {
    entries: RefCell<VecDeque<SendEntry>>,
    /// The number of bytes of messages that have not been sent.
    buffered: Cell<usize>,
    is_full: Cell<bool>,
    /// The close code to send if the invocation is ended.
    end_code: Cell<Option<CloseCode>>,
    listener: RefCell<Option<Waker>>,
}

/// An entry of the queue.
pub(crate) enum SendEntry {
    Message(Message),
    /// A Close frame, after which nothing is sent.
    Close(Option<CloseFrame>),
}

/// A message to send.
pub(crate) struct Message {
    pub(crate) kind: Data,
    pub(crate) bytes: Bytes,
    /// The charge for [`MESSAGE_OVERHEAD`]. The bytes are charged separately.
    pub(crate) _charge: Charge,
}

impl SendQueue {
    pub(crate) fn push(&self, entry: SendEntry) {
        if let SendEntry::Message(message) = &entry {
            self.buffered.set(self.buffered.get() + message.bytes.len());
        }
        self.entries.borrow_mut().push_back(entry);
        self.wake();
    }

    /// Marks the socket as full.
    pub(crate) fn overflow(&self) {
        self.is_full.set(true);
        self.wake();
    }

    /// Sets the close code that the peer gets, instead of an error, if the invocation is ended.
    pub(crate) fn set_end_code(&self, code: CloseCode) {
        self.end_code.set(Some(code));
    }

    pub(crate) fn end_code(&self) -> CloseCode {
        self.end_code.get().unwrap_or(CloseCode::Error)
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buffered.get()
    }

    /// Returns the memory of everything that waits to be sent, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.buffered.get() + self.entries.borrow().len() * MESSAGE_OVERHEAD
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.get()
    }

    /// Removes and returns the oldest entry.
    pub(crate) fn next(&self) -> Option<SendEntry> {
        self.entries.borrow_mut().pop_front()
    }

    /// Deducts the bytes of messages that have been sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.buffered.set(self.buffered.get().saturating_sub(bytes));
    }

    /// Registers the current task, which is woken when an entry is added or the socket becomes
    /// full. It replaces the task that was registered before.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
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
