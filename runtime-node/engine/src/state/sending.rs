//! Sends the bodies of responses while their invocations continue.

use std::rc::{Rc, Weak};

use futures::stream::{AbortHandle, Abortable};

use super::State;
use crate::byte_stream::ByteStream;
use crate::heap::Charge;
use crate::ids::{InvocationId, OperationId};
use crate::sending::{SendProgress, Sending};

impl State {
    /// Begins to send the body of the invocation's response.
    ///
    /// # Arguments
    /// * `is_own` - whether JavaScript of the isolate writes the body.
    /// * `head` - the charge for the response's head.
    pub fn send(
        self: &Rc<Self>,
        id: InvocationId,
        stream: ByteStream,
        is_own: bool,
        head: Charge,
    ) -> Sending {
        let (abort, registration) = AbortHandle::new_pair();
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.is_sending = true;
        }
        let operation = if is_own { None } else { self.begin_sending(id, abort) };
        let progress: Weak<Self> = Rc::downgrade(self);
        Sending::new(Abortable::new(stream, registration), id, operation, progress, head)
    }

    /// Registers a body that JavaScript of the isolate does not write. The registration keeps the
    /// invocation alive until the body has been sent. Returns `None` if the invocation has ended.
    fn begin_sending(&self, id: InvocationId, abort: AbortHandle) -> Option<OperationId> {
        let mut invocations = self.invocations.borrow_mut();
        let operation = invocations.next_operation();
        let entered = invocations.enter(id, operation, abort, usize::MAX);
        (entered && invocations.wait_until(id)).then_some(operation)
    }
}

impl SendProgress for State {
    fn piece_sent(&self, id: InvocationId) {
        self.record_progress(id);
    }

    fn client_disconnected(self: Rc<Self>, id: InvocationId) {
        self.client_left(id);
    }

    fn sending_ended(&self, id: InvocationId, operation: Option<OperationId>) {
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.is_sending = false;
        }
        if let Some(operation) = operation {
            self.complete(id, operation);
            self.promise_settled(id);
        }
        self.reap();
    }
}
