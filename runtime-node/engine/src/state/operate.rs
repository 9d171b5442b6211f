//! Begins the operations of invocations, and records their completion.

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{AbortHandle, Abortable, LocalBoxFuture};
use tenon_proto::failure::FailureCode;
use tokio::time::Instant;

use super::State;
use crate::collection::make_room;
use crate::continuation;
use crate::heap::Charge;
use crate::ids::{InvocationId, OperationId};
use crate::operations::Settle;

/// Maximum number of operations that one invocation may have in progress.
const MAX_OPERATIONS: usize = 10_000;

/// Memory of an operation outside V8's heap, in bytes: its future and the task that polls it, its
/// entries among the timers and in its invocation, and the handle to its callback. The measured
/// value for a timer is about 750 bytes.
const OPERATION_MEMORY: usize = 1024;

impl State {
    /// Begins an operation of the invocation. Returns `None` if the invocation has ended or has too
    /// many operations, or if there is no memory for another operation.
    ///
    /// # Arguments
    /// * `make` - a function that makes the operation, which must hold the charge for its memory
    ///   for as long as it runs.
    pub fn operate(
        &self,
        scope: &mut v8::PinScope<'_, '_>,
        invocation: InvocationId,
        make: impl FnOnce(OperationId, Charge) -> LocalBoxFuture<'static, Settle>,
    ) -> Option<OperationId> {
        let charge = make_room(scope, OPERATION_MEMORY)?.charge(OPERATION_MEMORY)?;
        let operation = self.invocations.borrow_mut().next_operation();
        let work = continuation::keep(scope, invocation, make(operation, charge));
        self.operate_as(invocation, operation, work).then_some(operation)
    }

    /// Begins an operation with a given id, which may be that of a previous operation. Returns
    /// whether the invocation accepted the operation.
    pub fn operate_as(
        &self,
        invocation: InvocationId,
        operation: OperationId,
        work: LocalBoxFuture<'static, Settle>,
    ) -> bool {
        let (abort, registration) = AbortHandle::new_pair();
        if !self.invocations.borrow_mut().enter(invocation, operation, abort, MAX_OPERATIONS) {
            return false;
        }
        let work = Abortable::new(work, registration);
        let completed =
            async move { work.await.ok().map(|settle| (invocation, operation, settle)) };
        self.operations.begin(Box::pin(completed));
        true
    }

    /// Records that an operation has completed. Returns whether it was in progress and had not been
    /// aborted.
    pub fn complete(&self, id: InvocationId, operation: OperationId) -> bool {
        self.invocations.borrow_mut().complete(id, operation)
    }

    /// Ends, at `deadline`, an invocation whose outcome has been taken. If a piece of the response
    /// or data of a socket has moved in the meantime, the invocation ends once nothing has moved
    /// for the duration of the wall-clock limit.
    pub fn end_at(self: &Rc<Self>, id: InvocationId, deadline: Instant) {
        let state = Rc::downgrade(self);
        let work = async move {
            let mut deadline = deadline;
            loop {
                tokio::time::sleep_until(deadline).await;
                let Some(state) = state.upgrade() else { return };
                let moved = state
                    .invocations
                    .borrow()
                    .get(id)
                    .and_then(|invocation| invocation.last_progress);
                let later = moved.map(|moved| {
                    moved + Duration::from_millis(state.revision.limits.wall_ms.into())
                });
                match later.filter(|later| *later > Instant::now()) {
                    Some(later) => deadline = later,
                    None => {
                        state.fail(id, FailureCode::WallLimitExceeded);
                        return state.reap();
                    }
                }
            }
        };
        let (abort, registration) = AbortHandle::new_pair();
        if let Some(invocation) = self.invocations.borrow_mut().get_mut(id) {
            invocation.set_wall_timer(abort);
        }
        let work = Abortable::new(work, registration).map(|_| None);
        self.operations.begin(Box::pin(work));
    }
}
