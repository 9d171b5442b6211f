//! The native functions behind the built-in JavaScript: `internal.ops`.
//!
//! Each module of an interface lists its own ([`native`]). The snapshot has a JavaScript function for
//! each, which refers to the native one by its index among all of them. Only the
//! built-in JavaScript calls them, never a Worker, so they trust the number and kind of their
//! arguments as far as memory safety allows. They may run a Worker's code only where their
//! documentation says so. A panic ends the isolate, because it cannot unwind through V8.

use tenon_engine::ids::InvocationId;
use tenon_engine::streams::StreamId;

/// Lists the native functions of a module with the signatures under which JavaScript finds them, in
/// TypeScript: `"timerClear(timer: number): void" => clear,`. The build script reads the names, and
/// `types/check.mjs` checks the callers. `types/internal.d.ts` defines types such as `View`. A long
/// signature continues on further lines after a backslash, and has no double quotes.
macro_rules! native {
    ($($signature:literal => $function:path),+ $(,)?) => {
        /// Returns this module's native functions as V8 callbacks, in order.
        pub(crate) fn native() -> Vec<v8::FunctionCallback> {
            use v8::MapFnTo as _;
            vec![$({
                fn op<'s>(
                    scope: &mut v8::PinScope<'s, '_>,
                    args: v8::FunctionCallbackArguments<'s>,
                    result: v8::ReturnValue<'s>,
                ) {
                    use tenon_engine::callbacks::{Callback, contain};
                    let _ = contain(scope, Callback::Operation, |scope| $function(scope, args, result));
                }
                op.map_fn_to()
            }),+]
        }
    };
}
pub(crate) use native;

// `build.rs` generates `callbacks`, which joins what all modules list.
include!(concat!(env!("OUT_DIR"), "/ops.rs"));

/// Returns the invocation that an argument names.
pub(crate) fn invocation(
    scope: &v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
) -> InvocationId {
    InvocationId::from_number(value.number_value(scope).unwrap_or_default())
}

/// Returns the stream that two arguments name: the invocation that owns it, and its number.
pub(crate) fn stream(
    scope: &v8::PinScope<'_, '_>,
    owner: v8::Local<'_, v8::Value>,
    number: v8::Local<'_, v8::Value>,
) -> (InvocationId, StreamId) {
    (
        invocation(scope, owner),
        StreamId::from_number(number.number_value(scope).unwrap_or_default()),
    )
}
