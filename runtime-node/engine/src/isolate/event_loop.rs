//! The event loop of one isolate, a task of the shard's `LocalSet`. It holds the isolate weakly: an
//! isolate lives while the pool keeps it, a request's future holds it, or an invocation is in
//! flight.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures::future::poll_fn;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;

use super::Isolate;
use super::turn::Stop;
use crate::fair_scheduler::Pass;
use crate::ids::InvocationId;
use crate::operations::Settle;
use crate::platform::Foreground;

/// Runs the event loop of one isolate.
pub(super) async fn run(
    isolate: Weak<Isolate>,
    has_begun: Rc<Notify>,
    foreground: Arc<Foreground>,
) {
    let mut operations = FuturesUnordered::new();
    loop {
        // A flood of completed operations, however short their turns, must not keep the thread from
        // other tasks.
        tokio::task::coop::consume_budget().await;
        let (begun, heeds_tasks) = match isolate.upgrade() {
            Some(isolate) => (isolate.state.operations.take(), isolate.heeds_tasks()),
            None => return,
        };
        operations.extend(begun);
        tokio::select! {
            biased;
            () = has_begun.notified() => {}
            Some(completed) = operations.next(), if !operations.is_empty() => {
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                if let Some((id, operation, settle)) = completed
                    && isolate.state.complete(id, operation)
                {
                    isolate.complete(&pass, id, settle);
                }
            }
            () = poll_fn(|cx| foreground.poll_urgent(cx)), if heeds_tasks => {
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                // Charged to no invocation: V8 does not say which one caused them.
                let _ = isolate.turn(&pass, None, |_, _| Some(()));
            }
        }
    }
}

impl Isolate {
    /// Returns whether V8's tasks get turns of their own. Once they have used up the CPU time
    /// reserved for that, they wait for the next invocation's turn.
    fn heeds_tasks(&self) -> bool {
        !self.is_sealed() && !self.state.unattended_cpu().is_zero()
    }

    /// Runs the turn of a completed operation.
    fn complete(&self, pass: &Pass, id: InvocationId, settle: Settle) {
        if let Err(Stop::Threw(exception)) = self.turn(pass, Some(id), |scope, _| settle(scope)) {
            self.state.log_uncaught(Some(id), "uncaught", &exception);
        }
    }
}
