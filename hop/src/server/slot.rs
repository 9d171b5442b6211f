//! The place of a stream in its connection. Later streams reuse the memory and the waker of a slot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::service::{Outgoing, Response, Service};
use super::wake::{Queue, Wake};
use crate::incoming::Receive;

type DataOf<V> = <<V as Service>::Reply as Outgoing>::Data;

pub(super) struct Slot<V: Service> {
    pub(super) stream: u32,
    pub(super) timeout: Duration,
    /// The request's first data has arrived.
    pub(super) has_begun: bool,
    future: Option<Pin<Box<Option<V::Future>>>>,
    /// The receiver of the rest of the request's body, until the body has ended.
    pub(super) receive: Option<Rc<Receive>>,
    pub(super) reply: Option<V::Reply>,
    /// A part of the reply that waits to be sent.
    pub(super) data: Option<DataOf<V>>,
    /// The number of bytes that may be sent.
    pub(super) window: i64,
    /// The response waits for the connection's window or for room in the outbox.
    pub(super) is_blocked: bool,
    pub(super) wake: Arc<Wake>,
    pub(super) waker: Waker,
}

/// The error for a request whose code has panicked. The panic hook has logged the panic.
pub(super) struct Panicked;

impl<V: Service> Slot<V> {
    pub(super) fn vacant(queue: &Arc<Queue>, index: usize) -> Self {
        let wake = Wake::new(queue, index);
        Self {
            stream: 0,
            timeout: Duration::ZERO,
            has_begun: false,
            future: None,
            receive: None,
            reply: None,
            data: None,
            window: 0,
            is_blocked: false,
            waker: Waker::from(wake.clone()),
            wake,
        }
    }

    pub(super) fn open(&mut self, stream: u32, timeout: Duration, window: i64) {
        (self.stream, self.timeout, self.window) = (stream, timeout, window);
        self.has_begun = false;
    }

    pub(super) fn begin(&mut self, future: V::Future) {
        self.has_begun = true;
        self.future.get_or_insert_with(|| Box::pin(None)).set(Some(future));
    }

    /// Polls a request. Returns `None` if the request has been answered, or has not begun.
    pub(super) fn poll(&mut self) -> Option<Poll<Result<Response<V::Reply>, Panicked>>> {
        let mut future = self.future.as_mut()?.as_mut();
        let request = future.as_mut().as_pin_mut()?;
        let mut cx = Context::from_waker(&self.waker);
        // A request that has panicked is not polled again.
        let polled = match catch_panic(|| request.poll(&mut cx)) {
            Ok(polled) => polled.map(Ok),
            Err(Panicked) => Poll::Ready(Err(Panicked)),
        };
        if polled.is_ready() {
            _ = catch_panic(|| future.set(None));
        }
        Some(polled)
    }

    /// Drops the state of the stream, which cancels a request that has not been answered.
    ///
    /// # Arguments
    /// * `keeps_memory` - whether the memory of the future is kept for the next stream.
    pub(super) fn close(&mut self, keeps_memory: bool) {
        self.reset_receive();
        // A value whose drop panics is removed nevertheless.
        _ = catch_panic(|| match &mut self.future {
            Some(future) if keeps_memory => future.set(None),
            dropped => *dropped = None,
        });
        _ = catch_panic(|| self.reply = None);
        _ = catch_panic(|| self.data = None);
    }

    fn reset_receive(&mut self) {
        self.receive.take().into_iter().for_each(|receive| receive.reset());
    }
}

impl<V: Service> Drop for Slot<V> {
    fn drop(&mut self) {
        // A body may outlive its connection.
        self.reset_receive();
    }
}

/// Calls the code of a request, and catches its panic, which must not affect other requests.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Panicked)
}
