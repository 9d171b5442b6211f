//! `taskStart(callback)`: runs a callback in a turn of its own.

use futures::FutureExt as _;
use tenon_engine::operations::Settle;
use tenon_engine::state::State;

crate::ops::native! {
    "taskStart(callback: () => void): boolean" => start,
}

/// Returns whether the callback will run: not if there is no current invocation, if that has too
/// many operations in flight, or if the isolate has not enough memory. Callbacks run in the order
/// in which they were started.
pub(crate) fn start(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut rv: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    rv.set_bool(false);
    let (Ok(callback), Some(invocation)) =
        (args.get(0).try_cast::<v8::Function>(), state.current(scope))
    else {
        return;
    };
    let callback = v8::Global::new(scope, callback);
    let begun = state.operate(scope, invocation, |_, charge| {
        let settle: Settle = Box::new(move |scope| {
            drop(charge);
            let callback = v8::Local::new(scope, &callback);
            let undefined = v8::undefined(scope).into();
            callback.call(scope, undefined, &[]).map(drop)
        });
        futures::future::ready(settle).boxed_local()
    });
    rv.set_bool(begun.is_some());
}
