//! `timerStart(callback, milliseconds, repeat)` and `timerClear(id)`.

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use tokio::time::Sleep;

use crate::engine::continuation;
use crate::engine::heap::Charge;
use crate::engine::invocation::{InvocationId, OperationId};
use crate::engine::operations::Settle;
use crate::engine::state::State;

/// A repeated timer waits at least this long, so that one cannot keep a shard's event loop to itself.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

struct Timer {
    invocation: InvocationId,
    /// One of ours (`timers.js`): it catches what a Worker's callback throws.
    callback: v8::Global<v8::Function>,
    delay: Duration,
    repeat: bool,
    /// For as long as it repeats.
    _charge: Charge,
}

/// Returns the timer's id, 0 when there is no invocation to have it, or it has too much under way, or the isolate has no
/// memory for it.
pub(super) fn start(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    rv.set_double(0.0);
    let (Ok(callback), Some(invocation)) = (args.get(0).try_cast(), state.current(scope)) else { return };
    let delay = Duration::from_millis(args.get(1).number_value(scope).unwrap_or_default() as u64);
    let repeat = args.get(2).is_true();
    let delay = if repeat { delay.max(SHORTEST_INTERVAL) } else { delay };
    let callback = v8::Global::new(scope, callback);
    let begun = state.operate(scope, invocation, |operation, charge| {
        let timer = Timer { invocation, callback, delay, repeat, _charge: charge };
        wait(&state, operation, timer, Some(tokio::time::sleep(delay)))
    });
    if let Some(id) = begun {
        rv.set_double(id.to_number());
    }
}

/// # Arguments
/// * `due` - `None` for as long as its delay from the end of the turn.
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
                // However long the callback takes, others have their turns between two of them.
                let next = continuation::keep(scope, invocation, wait(&state, operation, timer, None));
                state.operate_as(invocation, operation, next);
            }
            let undefined = v8::undefined(scope).into();
            callback.call(scope, undefined, &[]).map(drop)
        });
        fire
    }
    .boxed_local()
}

pub(super) fn clear(scope: &mut v8::PinScope<'_, '_>, args: v8::FunctionCallbackArguments<'_>, _: v8::ReturnValue<'_>) {
    let state = State::of(scope);
    let operation = OperationId::from_number(args.get(0).number_value(scope).unwrap_or_default());
    let current = state.current(scope);
    state.invocations.borrow_mut().abort(current, operation);
}
