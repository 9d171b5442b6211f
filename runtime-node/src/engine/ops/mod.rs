//! The native functions behind the built-in JavaScript: `internal.ops`.
//!
//! There is one module per subject. `table.rs` lists the functions' names: the snapshot has a
//! JavaScript function for each, which refers to the native one by its index in the table. Only the
//! built-in JavaScript calls them, never a Worker, so they trust the number and kind of their
//! arguments as far as memory safety allows. They may run a Worker's code only where their
//! documentation says so. A panic ends the isolate, because it cannot unwind through V8.

mod base64;
mod body;
mod buffer;
pub(super) mod bytes;
mod cache;
mod clone;
mod compression;
mod crypto;
mod dispatch;
mod encoding;
mod fetch;
mod find;
mod hash;
mod inspect;
mod log;
mod node;
mod pipe;
pub(super) mod promise;
mod random;
mod service;
mod stack;
mod task;
mod timers;
mod url;
mod urlpattern;
pub(super) mod wasm;
mod websocket;

use super::fence::{Callback, contain};
use super::invocation::InvocationId;
use super::streams::StreamId;

macro_rules! ops {
    ($($name:literal => $function:path),+ $(,)?) => {
        /// Returns the table's functions as V8 callbacks, in order.
        pub(super) fn callbacks() -> impl Iterator<Item = v8::FunctionCallback> {
            use v8::MapFnTo as _;
            [$({
                fn op<'s>(
                    scope: &mut v8::PinScope<'s, '_>,
                    args: v8::FunctionCallbackArguments<'s>,
                    result: v8::ReturnValue<'s>,
                ) {
                    let _ = contain(scope, Callback::Operation, |scope| $function(scope, args, result));
                }
                op.map_fn_to()
            }),+].into_iter()
        }
    };
}
include!("table.rs");

/// Returns the invocation that an argument names.
fn invocation(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> InvocationId {
    InvocationId::from_number(value.number_value(scope).unwrap_or_default())
}

/// Returns the stream that two arguments name: the invocation that owns it, and its number.
fn stream(
    scope: &v8::PinScope<'_, '_>,
    owner: v8::Local<'_, v8::Value>,
    number: v8::Local<'_, v8::Value>,
) -> (InvocationId, StreamId) {
    (invocation(scope, owner), StreamId::from_number(number.number_value(scope).unwrap_or_default()))
}
