//! The event loop of one isolate, a task of the shard's `LocalSet`. It holds the isolate weakly: an
//! isolate lives while the pool keeps it, a request's future holds it, or an invocation is in
//! flight.

use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::poll_fn;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep_until};

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
    let mut tasks = Tasks { foreground, timer: None };
    loop {
        // A flood of completed operations, however short their turns, must not keep the thread from
        // other tasks.
        tokio::task::coop::consume_budget().await;
        let Some(begun) = isolate.upgrade().map(|isolate| isolate.state.operations.take()) else {
            return;
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
            () = poll_fn(|cx| tasks.poll_due(cx, &isolate)) => {
                // The response that the isolate has just made is written first.
                tokio::task::yield_now().await;
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                // Charged to no invocation: V8 does not say which one caused them.
                let _ = isolate.turn(&pass, None, |_, _| Some(()));
            }
        }
    }
}

/// V8's tasks for the isolate.
struct Tasks {
    foreground: Arc<Foreground>,
    /// The timer of the first delayed task. Few isolates ever have one.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Tasks {
    /// Returns `Ready` when a task needs a turn of its own.
    fn poll_due(&mut self, cx: &mut Context<'_>, isolate: &Weak<Isolate>) -> Poll<()> {
        let Some(due) = self.foreground.poll_due(cx) else { return Poll::Pending };
        if !isolate.upgrade().is_some_and(|isolate| isolate.heeds_tasks()) {
            return Poll::Pending;
        }
        if due <= Instant::now() {
            return Poll::Ready(());
        }
        let due = due.into();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(cx)
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
