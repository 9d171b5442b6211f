//! Handles clients that disconnect before the whole response has been sent: `request.signal`
//! aborts, and the stream of the response is canceled.

use std::rc::Rc;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::State;
use crate::ids::InvocationId;
use crate::operations::Settle;

impl State {
    /// Registers a function that is called in a turn if the client disconnects before the whole
    /// response has been sent.
    pub fn on_client_left(&self, id: InvocationId, callback: v8::Global<v8::Function>) {
        self.disconnect_callbacks.borrow_mut().entry(id).or_default().push(callback);
    }

    /// Records that the client has disconnected before there was a response. If the Worker has
    /// registered functions for this, they are called, and the invocation continues while
    /// `waitUntil` keeps it, until `deadline`; otherwise the invocation ends.
    pub fn abandon(self: &Rc<Self>, id: InvocationId, deadline: Instant) {
        if !self.disconnect_callbacks.borrow().contains_key(&id) {
            return self.end(id);
        }
        self.invocations.borrow_mut().abandon(id);
        self.end_at(id, deadline);
        self.client_left(id);
        self.end_if_done(id);
        self.reap();
    }

    /// Calls the registered functions, because the client has disconnected.
    pub fn client_left(self: &Rc<Self>, id: InvocationId) {
        let Some(callbacks) = self.disconnect_callbacks.borrow_mut().remove(&id) else { return };
        let operation = {
            let mut invocations = self.invocations.borrow_mut();
            invocations.wait_until(id).then(|| invocations.next_operation())
        };
        let Some(operation) = operation else { return };
        let state = Rc::downgrade(self);
        let notify: Settle = Box::new(move |scope| {
            let undefined = v8::undefined(scope).into();
            for callback in callbacks {
                v8::Local::new(scope, callback).call(scope, undefined, &[])?;
            }
            if let Some(state) = state.upgrade() {
                state.promise_settled(id);
            }
            Some(())
        });
        if !self.operate_as(id, operation, async { notify }.boxed_local()) {
            self.promise_settled(id);
        }
    }
}
