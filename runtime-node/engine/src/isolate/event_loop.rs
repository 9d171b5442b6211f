//! The event loop of one isolate, a task of the shard's `LocalSet`. It holds the isolate weakly: an
//! isolate lives while the pool keeps it, a request's future holds it, or an invocation is in
//! flight.

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

/// The most operations that are settled before the thread's other tasks have their turn.
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
    /// Returns whether V8's tasks get turns of their own. Once they have used up the CPU time
    /// reserved for that, they wait for the next invocation's turn.
    fn may_run_tasks(&self) -> bool {
        !self.is_sealed() && !self.state.unattended_cpu().is_zero()
    }

    /// Settles the completed operations of an invocation that are first in line, in one turn. If
    /// one of them throws, the next call continues with those behind it.
    fn settle(&self, pass: &Pass, id: InvocationId, ready: &mut VecDeque<Completed>) {
        let settled = self.turn(pass, Some(id), |scope, _| {
            let mut is_first = true;
            while let Some((operation, settle)) = next_of(id, ready) {
                // Each is settled as if it had a turn of its own.
                if !std::mem::take(&mut is_first) {
                    if self.engine.turn_timer.is_over() {
                        return None;
                    }
                    scope.perform_microtask_checkpoint();
                    let owner = v8::Number::new(scope, id.to_number());
                    scope.set_continuation_preserved_embedder_data(owner.into());
                }
                // An earlier operation of this turn, or its microtasks, may have cancelled it.
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

/// Removes and returns the first operation in line, if it is of this invocation.
fn next_of(id: InvocationId, ready: &mut VecDeque<Completed>) -> Option<(OperationId, Settle)> {
    let next = ready.pop_front_if(|next| next.as_ref().is_some_and(|(owner, ..)| *owner == id))?;
    next.map(|(_, operation, settle)| (operation, settle))
}
