//! Makes promises of asynchronous operations.
//!
//! ```text
//!  promise(work, value) ─► an operation of the calling invocation: work ─► a turn: value ─► settle
//! ```

use futures::FutureExt as _;

use super::operations::Settle;
use super::state::State;
use super::thrown::Thrown;

/// Returns a promise of the result of `work`, or `None` if V8 could not make a promise.
///
/// The work belongs to the invocation on whose behalf JavaScript is running, and is dropped with
/// that invocation. The number of operations that an invocation may have in flight is bounded. The
/// shard's thread polls the work, so long computations belong in [`offload`](super::offload).
///
/// # Arguments
/// * `value` - a function that converts the result to a JavaScript value, in a turn of the
///   invocation.
pub fn promise<'s, T: 'static>(
    scope: &mut v8::PinScope<'s, '_>,
    work: impl Future<Output = Result<T, Thrown>> + 'static,
    value: impl for<'v> FnOnce(&mut v8::PinScope<'v, '_>, T) -> Result<v8::Local<'v, v8::Value>, Thrown>
    + 'static,
) -> Option<v8::Local<'s, v8::Promise>> {
    let resolver = v8::PromiseResolver::new(scope)?;
    let state = State::of(scope);
    let begun = state.current(scope).and_then(|invocation| {
        let held = v8::Global::new(scope, resolver);
        state.operate(scope, invocation, |_, charge| {
            async move {
                let outcome = work.await;
                let settle: Settle = Box::new(move |scope| {
                    drop(charge);
                    let resolver = v8::Local::new(scope, &held);
                    self::settle(scope, resolver, |scope| value(scope, outcome?));
                    Some(())
                });
                settle
            }
            .boxed_local()
        })
    });
    if begun.is_none() {
        let refused = "The invocation has ended, or has too many operations in flight";
        settle(scope, resolver, |_| Err(Thrown::type_error(refused)));
    }
    Some(resolver.get_promise(scope))
}

/// Settles the promise with the value that `value` returns, or with the exception.
pub fn settle(
    scope: &mut v8::PinScope<'_, '_>,
    resolver: v8::Local<'_, v8::PromiseResolver>,
    value: impl for<'s> FnOnce(&mut v8::PinScope<'s, '_>) -> Result<v8::Local<'s, v8::Value>, Thrown>,
) {
    v8::tc_scope!(let scope, scope);
    let made = value(scope);
    // An exception of V8 is more precise than the error that was derived from it.
    if let Some(exception) = scope.exception() {
        scope.reset();
        resolver.reject(scope, exception);
        return;
    }
    match made {
        Ok(value) => drop(resolver.resolve(scope, value)),
        Err(thrown) => {
            if let Some(exception) = thrown.value(scope).or_else(|| scope.exception()) {
                scope.reset();
                resolver.reject(scope, exception);
            }
        }
    }
}
