//! Ops: the native functions behind the built-in JavaScript, `internal.ops`.
//!
//! An op is a function with the attribute [`op`](tenon_op::op). JavaScript calls it under its
//! name in camel case. Its parameters implement [`Argument`], and its result [`Returned`]; their
//! types are the only description of the call, and `types/check.mjs` derives TypeScript types from
//! them. For each op, the snapshot has a JavaScript function, which refers to the native function
//! by its index among all ops.
//!
//! Only the built-in JavaScript calls ops, never a Worker, and tsc checks those calls: ops
//! trust the range of their arguments as far as memory safety allows. An op may run a Worker's code
//! only if its documentation says so. A panic ends the isolate, because it cannot unwind
//! through V8.

mod argument;
mod result;

use tenon_engine::callbacks::{self, contain};
use tenon_engine::thrown::Thrown;

pub(crate) use argument::{Argument, Arguments};
pub(crate) use result::{Maybe, MaybePromise, Nullable, Promised, Returned, ToValue, record};

/// A view of an array buffer: a typed array or a `DataView`.
pub(crate) type View<'s> = v8::Local<'s, v8::ArrayBufferView>;

/// Headers: name, value, name, value, …
pub(crate) type HeaderList<'s> = v8::Local<'s, v8::Array>;

/// A function without arguments, whose result is ignored.
pub(crate) type Callback<'s> = v8::Local<'s, v8::Function>;

// `build.rs` generates `callbacks`, which lists the ops of all modules.
include!(concat!(env!("OUT_DIR"), "/ops.rs"));

/// Performs a call of an op: V8 calls the functions that [`op`](tenon_op::op) generates, and they
/// call this function.
#[inline]
pub(crate) fn call<'s, 'i, R: Returned<'s>>(
    scope: &mut v8::PinScope<'s, 'i>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut result: v8::ReturnValue<'s>,
    op: impl FnOnce(&mut v8::PinScope<'s, 'i>, &mut Arguments<'s>) -> Result<R, Thrown>,
) {
    let _ = contain(scope, callbacks::Callback::Op, |scope| {
        match op(scope, &mut Arguments::new(arguments)) {
            Ok(returned) => returned.set(scope, &mut result),
            Err(thrown) => thrown.throw(scope),
        }
    });
}
