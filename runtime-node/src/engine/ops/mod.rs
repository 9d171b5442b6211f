//! The native functions behind the built-in JavaScript: `internal.ops`.
//!
//! One room per subject; each names its functions in a table with [`ops!`]. All of them are called from our own
//! JavaScript only, never by a Worker, so they trust the number and kind of their arguments as far as memory safety
//! allows. They may run a Worker's code only where they say so, and must not panic: there is no frame of Rust
//! above them that could catch it.

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

/// A function's name in `internal.ops`, and the function.
pub(super) type Op = (&'static str, v8::FunctionCallback);

/// Declares a room's `table()`.
macro_rules! ops {
    ($($name:literal => $function:path),+ $(,)?) => {
        pub(super) fn table() -> Vec<$crate::engine::ops::Op> {
            use v8::MapFnTo as _;
            vec![$(($name, $function.map_fn_to())),+]
        }
    };
}
use ops;

/// Fills `internal.ops` of a new realm, and gives its global object the console. `None` when the heap is full.
pub(super) fn install(scope: &mut v8::PinScope<'_, '_>, internal: v8::Local<'_, v8::Object>) -> Option<()> {
    let key = v8::String::new(scope, "ops")?;
    let object: v8::Local<'_, v8::Object> = internal.get(scope, key.into())?.try_into().ok()?;
    let tables = [
        base64::table(),
        body::table(),
        dispatch::table(),
        encoding::table(),
        inspect::table(),
        log::table(),
        random::table(),
        timers::table(),
        url::table(),
    ];
    for (name, callback) in tables.into_iter().flatten() {
        let key = v8::String::new_from_utf8(scope, name.as_bytes(), v8::NewStringType::Internalized)?;
        let builder = v8::Function::builder_raw(callback).constructor_behavior(v8::ConstructorBehavior::Throw);
        let function = builder.build(scope)?;
        object.create_data_property(scope, key.into(), function.into())?;
    }
    // In place of V8's own, which it defines in every new context and wants to be the first to.
    let key = v8::String::new(scope, "console")?;
    let console = internal.get(scope, key.into())?;
    let global = scope.get_current_context().global(scope);
    global.define_own_property(scope, key.into(), console, v8::PropertyAttribute::DONT_ENUM)?.then_some(())
}

/// The invocation named by an argument.
fn invocation(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> InvocationId {
    InvocationId::from_number(value.number_value(scope).unwrap_or_default())
}
