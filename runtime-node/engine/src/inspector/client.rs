//! One client of a target, with the messages that wait to be sent to the client.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::Notify;

use super::lock;
use super::target::Target;

/// Maximum number of bytes in messages that wait for a client. If a message would exceed this
/// maximum, the thread of the isolate waits until there is room, because a heap snapshot is
/// produced faster than a socket sends it.
const MAX_WAITING: usize = 64 << 20;

/// The id of a client of a target.
pub(super) type ClientId = u64;

/// A client that is attached to a target. Dropping it detaches the client: paused code continues if
/// no other client is attached.
#[derive(Debug)]
pub struct Client {
    id: ClientId,
    target: Arc<Target>,
    outbox: Arc<Outbox>,
}

impl Client {
    pub(super) fn new(id: ClientId, target: Arc<Target>, outbox: Arc<Outbox>) -> Self {
        Self { id, target, outbox }
    }

    /// Sends a message of the protocol to the isolate.
    pub fn send(&self, message: String) {
        self.target.send(self.id, message);
    }

    /// Returns the next message for the client, or `None` once the isolate has ended or the Worker
    /// has another revision.
    pub async fn receive(&self) -> Option<String> {
        self.outbox.pop().await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.outbox.close();
        self.target.disconnect(self.id);
    }
}

/// The messages that wait to be sent to a client.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    outgoing: Mutex<Outgoing>,
    has_room: Condvar,
    has_messages: Notify,
}

#[derive(Debug, Default)]
struct Outgoing {
    messages: VecDeque<String>,
    bytes: usize,
    is_closed: bool,
}

impl Outgoing {
    fn has_room(&self, message: &str) -> bool {
        self.is_closed || self.bytes == 0 || self.bytes + message.len() <= MAX_WAITING
    }
}

impl Outbox {
    /// Appends a message, and blocks the thread while there is no room for it. A message for a
    /// closed outbox is dropped.
    pub(super) fn push(&self, message: String) {
        let mut outgoing = self
            .has_room
            .wait_while(lock(&self.outgoing), |outgoing| !outgoing.has_room(&message))
            .unwrap_or_else(PoisonError::into_inner);
        if outgoing.is_closed {
            return;
        }
        outgoing.bytes += message.len();
        outgoing.messages.push_back(message);
        drop(outgoing);
        self.has_messages.notify_one();
    }

    /// Removes and returns the first message, or `None` if the outbox is closed and empty.
    async fn pop(&self) -> Option<String> {
        loop {
            if let Some(ended) = self.take() {
                return ended;
            }
            self.has_messages.notified().await;
        }
    }

    /// Returns the result of [`Outbox::pop`], or `None` if `pop` has to wait.
    fn take(&self) -> Option<Option<String>> {
        let mut outgoing = lock(&self.outgoing);
        let Some(message) = outgoing.messages.pop_front() else {
            return outgoing.is_closed.then_some(None);
        };
        outgoing.bytes -= message.len();
        drop(outgoing);
        self.has_room.notify_all();
        Some(Some(message))
    }

    /// Refuses further messages. The messages that wait can still be sent.
    pub(super) fn close(&self) {
        lock(&self.outgoing).is_closed = true;
        self.has_room.notify_all();
        self.has_messages.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn messages_arrive_in_order_even_after_the_outbox_is_closed() {
        let outbox = Outbox::default();
        assert_eq!(outbox.pop().now_or_never(), None);
        ["first", "second"].into_iter().for_each(|message| outbox.push(message.to_owned()));
        outbox.close();
        outbox.push("too late".to_owned());
        let popped = || outbox.pop().now_or_never().unwrap();
        assert_eq!((popped().as_deref(), popped().as_deref()), (Some("first"), Some("second")));
        assert_eq!(popped(), None);
    }

    #[test]
    fn an_outbox_has_room_for_a_message_of_any_size_if_no_other_message_waits() {
        let outgoing = |bytes, is_closed| Outgoing { bytes, is_closed, ..Outgoing::default() };
        let large = "x".repeat(MAX_WAITING + 1);
        assert!(outgoing(0, false).has_room(&large) && !outgoing(1, false).has_room(&large));
        assert!(
            outgoing(MAX_WAITING - 1, false).has_room("x")
                && !outgoing(MAX_WAITING, false).has_room("x")
        );
        assert!(outgoing(MAX_WAITING, true).has_room("x"), "a writer to a closed outbox blocks");
    }

    #[test]
    fn a_full_outbox_blocks_its_writer_until_the_client_reads() {
        let outbox = Outbox::default();
        let large = "x".repeat(MAX_WAITING / 2 + 1);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| outbox.push(large.clone())));
            let mut read = 0;
            while read < 3 {
                let taken = outbox.pop().now_or_never();
                assert!(lock(&outbox.outgoing).messages.len() <= 1);
                read += u32::from(taken.is_some());
            }
        });
    }
}
