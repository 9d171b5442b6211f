//! The native functions behind the built-in JavaScript: `internal.ops`.
//!
//! One room per subject. `table.rs` gives their names: the snapshot has a JavaScript function for each, which refers to
//! the native one by its place in the table. All of them are called from our own JavaScript only, never by a Worker, so
//! they trust the number and kind of their arguments as far as memory safety allows. They may run a Worker's code only
//! where they say so, and must not panic: there is no frame of Rust above them that could catch it.

mod base64;
mod body;
mod bytes;
mod dispatch;
mod encoding;
mod inspect;
mod log;
mod random;
mod timers;
mod url;

use super::invocation::InvocationId;

macro_rules! ops {
    ($($name:literal => $function:path),+ $(,)?) => {
        /// The functions of the table, as V8 calls them, in its order.
        pub(super) fn callbacks() -> impl Iterator<Item = v8::FunctionCallback> {
            use v8::MapFnTo as _;
            [$($function.map_fn_to()),+].into_iter()
        }
    };
}
include!("table.rs");

/// The invocation named by an argument.
fn invocation(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> InvocationId {
    InvocationId::from_number(value.number_value(scope).unwrap_or_default())
}
