//! The native functions behind the built-in JavaScript: `internal.ops`.
//!
//! One room per subject. `table.rs` gives their names: the snapshot has a JavaScript function for each, which refers to
//! the native one by its place in the table. All of them are called from our own JavaScript only, never by a Worker, so
//! they trust the number and kind of their arguments as far as memory safety allows. They may run a Worker's code only
//! where they say so. One that panics ends its isolate; it could not unwind through V8.

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
        /// The functions of the table, as V8 calls them, in its order.
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

/// The invocation named by an argument.
fn invocation(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> InvocationId {
    InvocationId::from_number(value.number_value(scope).unwrap_or_default())
}

/// The stream named by two arguments: its number, and the invocation that has it.
fn stream(
    scope: &v8::PinScope<'_, '_>,
    owner: v8::Local<'_, v8::Value>,
    number: v8::Local<'_, v8::Value>,
) -> (InvocationId, StreamId) {
    (invocation(scope, owner), StreamId::from_number(number.number_value(scope).unwrap_or_default()))
}
