//! A response's body that is being sent while its invocation continues.
//!
//! A body from outside the isolate keeps the invocation alive until all of it has been sent, within
//! its wall-clock limit, which restarts with each piece. A body that the isolate's own JavaScript
//! writes does not, because that JavaScript keeps it. If the client disconnects before the end, the
//! Worker is notified.

use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{AbortHandle, Abortable, Stream};
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tokio::time::Instant;

use super::heap::Charge;
use super::invocation::{InvocationId, OperationId};
use super::state::State;
use super::streams::{Broken, ByteStream};

/// A response body in progress; see the [module documentation](self).
pub struct Sending {
    stream: Abortable<ByteStream>,
    invocation: InvocationId,
    /// The operation that keeps the invocation, if the body comes from outside.
    operation: Option<OperationId>,
    state: Weak<State>,
    is_over: bool,
    /// The charge for the response's head, which is sent before the body.
    _head: Charge,
}

impl Sending {
    /// Begins to send a body.
    ///
    /// # Arguments
    /// * `is_own` - whether JavaScript of the isolate writes the body.
    pub fn new(state: &Rc<State>, invocation: InvocationId, stream: ByteStream, is_own: bool, head: Charge) -> Self {
        let (abort, registration) = AbortHandle::new_pair();
        if let Some(invocation) = state.invocations.borrow_mut().get_mut(invocation) {
            invocation.is_sending = true;
        }
        let operation = if is_own { None } else { state.begin_sending(invocation, abort) };
        let stream = Abortable::new(stream, registration);
        Self { stream, invocation, operation, state: Rc::downgrade(state), is_over: false, _head: head }
    }

    /// Records that a piece has been sent.
    fn move_on(&self) {
        if let Some(state) = self.state.upgrade()
            && let Some(invocation) = state.invocations.borrow_mut().get_mut(self.invocation)
        {
            invocation.moved = Some(Instant::now());
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(state) = self.state.upgrade() {
            state.sent(self.invocation, self.operation);
        }
    }
}

impl Stream for Sending {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(Pin::new(&mut self.stream).poll_next(cx));
        let broke_off = || Failure::new(FailureCode::WorkerException, Phase::Response, "the response broke off");
        let next = match next {
            Some(Ok(bytes)) => {
                self.move_on();
                return Poll::Ready(Some(Ok(bytes)));
            }
            Some(Err(Broken::Failed(failure))) => Some(Err(Failure { phase: Phase::Response, ..failure })),
            Some(Err(Broken::Lost(_))) => Some(Err(broke_off())),
            // The invocation has ended.
            None if self.stream.is_aborted() => Some(Err(broke_off())),
            None => None,
        };
        self.end();
        Poll::Ready(next)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(state) = self.state.upgrade()
        {
            state.caller_left(self.invocation);
            state.sent(self.invocation, self.operation);
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream")
    }
}

impl State {
    /// Registers a body from outside, which keeps the invocation until it has been sent.
    fn begin_sending(&self, id: InvocationId, abort: AbortHandle) -> Option<OperationId> {
        let mut invocations = self.invocations.borrow_mut();
        let operation = invocations.next_operation();
        let entered = invocations.enter(id, operation, abort, usize::MAX);
        (entered && invocations.wait_until(id)).then_some(operation)
    }

    fn sent(&self, id: InvocationId, operation: Option<OperationId>) {
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.is_sending = false;
        }
        if let Some(operation) = operation {
            self.complete(id, operation);
            self.wait_over(id);
        }
        self.rest();
    }
}
