//! `timerStart(callback, milliseconds, repeat)` and `timerClear(id)`.

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
use tokio::time::Sleep;

crate::ops::native! {
    "timerStart(callback: () => void, milliseconds: number, repeat: boolean): number" => start,
    "timerClear(timer: number): void" => clear,
}

/// The shortest interval of a repeating timer, which keeps it from monopolising the shard's event
/// loop.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

struct Timer {
    invocation: InvocationId,
    /// A function of `timers.js`, which catches exceptions of the Worker's callback.
    callback: v8::Global<v8::Function>,
    delay: Duration,
    repeat: bool,
    /// Held for as long as the timer repeats.
    _charge: Charge,
}

/// `timerStart(callback, milliseconds, repeat)`: returns the timer's id, or 0 if there is no
/// current invocation, if that has too many operations in flight, or if the isolate has not enough
/// memory.
pub(crate) fn start(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    rv.set_double(0.0);
    let (Ok(callback), Some(invocation)) = (args.get(0).try_cast(), state.current(scope)) else {
        return;
    };
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

/// Waits for the timer, and then fires it.
///
/// # Arguments
/// * `due` - the time of expiry; `None` for the timer's delay after the end of the turn.
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
                // callbacks, however long they take.
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

pub(crate) fn clear(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    let operation = OperationId::from_number(args.get(0).number_value(scope).unwrap_or_default());
    let current = state.current(scope);
    state.invocations.borrow_mut().abort(current, operation);
}
