//! Callbacks that run in a turn of their own.

use futures::FutureExt as _;
use tenon_engine::operations::Settle;
use tenon_engine::state::State;
use tenon_op::op;

use crate::ops::Callback;

/// Calls `callback` in a turn of its own. Returns `false`, and does not call `callback`, if there
/// is no current invocation, if the invocation has too many operations in flight, or if the isolate
/// lacks memory. Callbacks run in the order in which they were started.
#[op]
pub(crate) fn task_start(scope: &mut v8::PinScope<'_, '_>, callback: Callback<'_>) -> bool {
    let state = State::of(scope);
    let Some(invocation) = state.current(scope) else { return false };
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
    begun.is_some()
}
