//! The native half of `timers.js`: timers as operations of their invocations.

pub(crate) mod task;

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use tenon_engine::continuation;
use tenon_engine::heap::Charge;
use tenon_engine::ids::{InvocationId, OperationId};
use tenon_engine::operations::Settle;
use tenon_engine::state::State;
use tenon_op::op;
use tokio::time::Sleep;

use crate::ops::Callback;

/// The shortest interval of a repeating timer, which keeps it from monopolizing the shard's event
/// loop.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

struct Timer {
    invocation: InvocationId,
    /// A function of `timers.js`, which catches exceptions of the Worker's callback.
    callback: v8::Global<v8::Function>,
    delay: Duration,
    repeat: bool,
    /// The charge for the operation, held until the timer has fired for the last time.
    _charge: Charge,
}

/// Calls `callback` after this many milliseconds, once or repeatedly. Returns the timer's id, or 0
/// if there is no current invocation, if the invocation has too many operations in flight, or if
/// the isolate does not have enough memory.
#[op]
pub(crate) fn timer_start(
    scope: &mut v8::PinScope<'_, '_>,
    callback: Callback<'_>,
    milliseconds: f64,
    repeat: bool,
) -> f64 {
    let state = State::of(scope);
    let Some(invocation) = state.current(scope) else { return 0.0 };
    let delay = Duration::from_millis(milliseconds as u64);
    let delay = if repeat { delay.max(SHORTEST_INTERVAL) } else { delay };
    let callback = v8::Global::new(scope, callback);
    let begun = state.operate(scope, invocation, |operation, charge| {
        let timer = Timer { invocation, callback, delay, repeat, _charge: charge };
        wait(&state, operation, timer, Some(tokio::time::sleep(delay)))
    });
    begun.map_or(0.0, OperationId::to_number)
}

/// Waits for the timer, and then fires it.
///
/// # Arguments
/// * `due` - the time of expiry; `None` means the end of the turn plus the timer's delay.
fn wait(
    state: &Rc<State>,
    operation: OperationId,
    timer: Timer,
    due: Option<Sleep>,
) -> LocalBoxFuture<'static, Settle> {
    let state = Rc::downgrade(state);
    async move {
        match due {
            Some(due) => due.await,
            None => tokio::time::sleep(timer.delay).await,
        }
        let fire: Settle = Box::new(move |scope| {
            let callback = v8::Local::new(scope, &timer.callback);
            if timer.repeat
                && let Some(state) = state.upgrade()
            {
                let invocation = timer.invocation;
                // The delay starts when the turn has ended, so that other work runs between two
                // callbacks even if these take long.
                let next =
                    continuation::keep(scope, invocation, wait(&state, operation, timer, None));
                state.operate_as(invocation, operation, next);
            }
            let undefined = v8::undefined(scope).into();
            callback.call(scope, undefined, &[]).map(drop)
        });
        fire
    }
    .boxed_local()
}

/// Stops a timer of the current invocation; any other id is ignored.
#[op]
pub(crate) fn timer_clear(scope: &mut v8::PinScope<'_, '_>, timer: OperationId) {
    let state = State::of(scope);
    let current = state.current(scope);
    state.invocations.borrow_mut().abort(current, timer);
}
