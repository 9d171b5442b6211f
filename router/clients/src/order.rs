//! Instructions to a connection. The code that keeps the list of clients gives them, and the
//! connection's task awaits them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

/// An instruction to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The connection gives up its buffers.
    Rest = 1,
    /// The connection ends.
    End = 2,
}

/// The instruction that a connection has not followed yet.
#[derive(Default)]
pub struct Orders {
    /// An [`Order`], or 0.
    pending: AtomicU8,
    waker: AtomicWaker,
}

impl Orders {
    /// Gives an instruction, unless a stronger one is pending.
    pub(crate) fn give(&self, order: Order) {
        if self.pending.load(Relaxed) < order as u8 {
            self.pending.store(order as u8, Relaxed);
            self.waker.wake();
        }
    }

    /// Returns whether the connection must end.
    pub(crate) fn must_end(&self) -> bool {
        self.pending.load(Relaxed) == Order::End as u8
    }

    /// Waits for an instruction. [`Order::End`] stays pending.
    pub async fn next(&self) -> Order {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next instruction, for which [`next`](Self::next) waits.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Order> {
        self.waker.register(cx.waker());
        match self.pending.load(Relaxed) {
            0 => Poll::Pending,
            order if order == Order::Rest as u8 => {
                self.pending.store(0, Relaxed);
                Poll::Ready(Order::Rest)
            }
            _ => Poll::Ready(Order::End),
        }
    }
}
