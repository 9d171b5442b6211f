//! The native half of `inspect.js`: properties of an object that only V8 can read without running
//! the object's code, and the place where an error was thrown.

use tenon_engine::string::from_name;
use tenon_op::{Record, op};

use crate::ops::Maybe;

/// Returns the kind of an object, which its internal slots determine.
#[op]
pub(crate) fn kind_of<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    value: v8::Local<'s, v8::Value>,
) -> Maybe<v8::Local<'s, v8::String>> {
    Maybe(from_name(scope, kind(value)))
}

fn kind(value: v8::Local<'_, v8::Value>) -> &'static str {
    // A proxy of a function is also a function, so proxies come first.
    match value {
        v if v.is_proxy() => "proxy",
        v if v.is_function() => "function",
        v if v.is_array() => "array",
        v if v.is_native_error() => "error",
        v if v.is_map() => "map",
        v if v.is_set() => "set",
        v if v.is_promise() => "promise",
        v if v.is_date() => "date",
        v if v.is_reg_exp() => "regexp",
        v if v.is_typed_array() => "typedarray",
        v if v.is_array_buffer() => "arraybuffer",
        v if v.is_weak_map() => "weakmap",
        v if v.is_weak_set() => "weakset",
        v if v.is_arguments_object() => "arguments",
        v if v.is_string_object() => "stringobject",
        v if v.is_number_object() => "numberobject",
        v if v.is_boolean_object() => "booleanobject",
        v if v.is_symbol_object() => "symbolobject",
        v if v.is_module_namespace_object() => "module",
        _ => "object",
    }
}

/// The state of a promise.
#[derive(Record)]
pub(crate) struct PromiseDetails<'s> {
    state: PromiseState,
    /// The value or the reason; undefined while the promise is pending.
    result: v8::Local<'s, v8::Value>,
}

/// One of `pending`, `fulfilled` and `rejected`.
type PromiseState = &'static str;

/// Returns the state of a promise.
#[op]
pub(crate) fn promise_details<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    promise: v8::Local<'s, v8::Promise>,
) -> PromiseDetails<'s> {
    match promise.state() {
        v8::PromiseState::Pending => {
            PromiseDetails { state: "pending", result: v8::undefined(scope).into() }
        }
        v8::PromiseState::Fulfilled => {
            PromiseDetails { state: "fulfilled", result: promise.result(scope) }
        }
        v8::PromiseState::Rejected => {
            PromiseDetails { state: "rejected", result: promise.result(scope) }
        }
    }
}

/// The origin of an error, as far as V8 knows it.
#[derive(Record)]
pub(crate) struct Origin<'s> {
    message: v8::Local<'s, v8::String>,
    /// The name of the file; empty if V8 does not know it.
    file: v8::Local<'s, v8::String>,
    /// The number of the line, from 1; 0 if V8 does not know it. The same holds for the column.
    line: usize,
    column: usize,
}

/// Returns the origin of an error. Finding the origin may run the Worker's code.
#[op]
pub(crate) fn where_thrown<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    error: v8::Local<'s, v8::Value>,
) -> Origin<'s> {
    v8::tc_scope!(let scope, scope);
    let message = v8::Exception::create_message(scope, error);
    let file = message.get_script_resource_name(scope).and_then(|name| name.try_cast().ok());
    Origin {
        message: message.get(scope),
        file: file.unwrap_or_else(|| v8::String::empty(scope)),
        line: message.get_line_number(scope).unwrap_or_default(),
        // V8 returns -1, here `usize::MAX`, if it does not know the column.
        column: message.get_start_column().checked_add(1).unwrap_or_default(),
    }
}
