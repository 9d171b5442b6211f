//! The event loop of one isolate, which is a task of the shard's `LocalSet`. The loop has only a
//! weak reference to the isolate: an isolate lives while the pool keeps it, a request's future
//! holds it, or an invocation is in flight.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::{FutureExt as _, poll_fn};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep_until};

use super::Isolate;
use super::turn::Stop;
use crate::fair_scheduler::Pass;
use crate::ids::{InvocationId, OperationId};
use crate::operations::{Completed, Settle};
use crate::platform::Foreground;

/// Maximum number of operations that are settled before the thread's other tasks run.
const BATCH: usize = 32;

/// Runs the event loop of one isolate.
pub(super) async fn run(
    isolate: Weak<Isolate>,
    has_begun: Rc<Notify>,
    foreground: Arc<Foreground>,
) {
    let mut operations = FuturesUnordered::new();
    let mut tasks = Tasks { foreground, timer: None };
    loop {
        // A flood of completed operations must not keep the thread from other tasks, however short
        // the operations' turns are.
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
                let mut ready = VecDeque::from([completed]);
                while ready.len() < BATCH
                    && let Some(Some(completed)) = operations.next().now_or_never()
                {
                    ready.push_back(completed);
                }
                while let Some(next) = ready.front() {
                    let Some((id, ..)) = *next else {
                        ready.pop_front();
                        continue;
                    };
                    let pass = isolate.queue().await;
                    isolate.settle(&pass, id, &mut ready);
                }
            }
            () = poll_fn(|cx| tasks.poll_due(cx, &isolate)) => {
                // Other tasks run first, so that a response of the isolate is written before this
                // turn.
                tokio::task::yield_now().await;
                let Some(isolate) = isolate.upgrade() else { return };
                let pass = isolate.queue().await;
                // V8's tasks are charged to no invocation, because V8 does not report which
                // invocation caused them.
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
    /// Returns `Ready` when a task needs a separate turn.
    fn poll_due(&mut self, cx: &mut Context<'_>, isolate: &Weak<Isolate>) -> Poll<()> {
        let Some(due) = self.foreground.poll_due(cx) else { return Poll::Pending };
        if !isolate.upgrade().is_some_and(|isolate| isolate.may_run_tasks()) {
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
    /// Returns whether V8's tasks get separate turns. Once the tasks have used up the CPU time that
    /// is reserved for such turns, they wait for the next turn of an invocation.
    fn may_run_tasks(&self) -> bool {
        !self.is_sealed() && !self.state.unattended_cpu().is_zero()
    }

    /// Settles, in one turn, the completed operations at the front of the queue that belong to one
    /// invocation. If settling an operation throws, the next call continues with the operations
    /// behind it.
    fn settle(&self, pass: &Pass, id: InvocationId, ready: &mut VecDeque<Completed>) {
        let settled = self.turn(pass, Some(id), |scope, _| {
            let mut is_first = true;
            while let Some((operation, settle)) = next_of(id, ready) {
                // Each operation is settled as if it had a separate turn.
                if !std::mem::take(&mut is_first) {
                    if self.engine.turn_timer.is_over() {
                        return None;
                    }
                    scope.perform_microtask_checkpoint();
                    let owner = v8::Number::new(scope, id.to_number());
                    scope.set_continuation_preserved_embedder_data(owner.into());
                }
                // An earlier operation of this turn, or its microtasks, may have canceled this
                // one.
                if self.state.complete(id, operation) {
                    settle(scope)?;
                }
            }
            Some(())
        });
        match settled {
            Ok(()) => {}
            Err(Stop::Threw(exception)) => {
                self.state.log_uncaught(Some(id), "uncaught", &exception);
            }
            Err(Stop::Limit | Stop::NotBegun) => {
                while let Some((operation, _)) = next_of(id, ready) {
                    self.state.complete(id, operation);
                }
            }
        }
    }
}

/// Removes and returns the first operation of the queue, if it belongs to this invocation.
fn next_of(id: InvocationId, ready: &mut VecDeque<Completed>) -> Option<(OperationId, Settle)> {
    let next = ready.pop_front_if(|next| next.as_ref().is_some_and(|(owner, ..)| *owner == id))?;
    next.map(|(_, operation, settle)| (operation, settle))
}
