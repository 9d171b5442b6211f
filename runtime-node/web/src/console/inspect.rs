//! The native half of `inspect.js`: properties of an object that only V8 can read without running
//! the object's code.

crate::ops::native! {
    "kindOf(value: unknown): string" => kind_of,
    "promiseDetails(promise: object): \
     [state: 'pending' | 'fulfilled' | 'rejected', result: unknown]" => promise_details,
    "whereThrown(error: unknown): [message: string, file: string, line: number, column: number]" => where_thrown,
}

/// `kindOf(value)`: returns the object's kind, by its internal slots.
pub(crate) fn kind_of(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let kind = kind(args.get(0)).as_bytes();
    if let Some(kind) = v8::String::new_from_one_byte(scope, kind, v8::NewStringType::Internalized)
    {
        result.set(kind.into());
    }
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

/// `promiseDetails(promise)`: returns ["pending" | "fulfilled" | "rejected", its result].
pub(crate) fn promise_details(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(promise) = args.get(0).try_cast::<v8::Promise>() else { return };
    let (state, value) = match promise.state() {
        v8::PromiseState::Pending => ("pending", v8::undefined(scope).into()),
        v8::PromiseState::Fulfilled => ("fulfilled", promise.result(scope)),
        v8::PromiseState::Rejected => ("rejected", promise.result(scope)),
    };
    if let Some(state) = v8::String::new(scope, state) {
        result.set(v8::Array::new_with_elements(scope, &[state.into(), value]).into());
    }
}

/// `whereThrown(error)`: returns [its message, the file, the line and the column of its origin, as
/// far as V8 knows them]. Reading them may run the Worker's code.
pub(crate) fn where_thrown(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    v8::tc_scope!(let scope, scope);
    let message = v8::Exception::create_message(scope, args.get(0));
    let file = message.get_script_resource_name(scope).filter(|name| name.is_string());
    let file = file.unwrap_or_else(|| v8::String::empty(scope).into());
    let line = message.get_line_number(scope).unwrap_or_default();
    // V8 returns -1 if it does not know the column.
    let column = message.get_start_column().checked_add(1).unwrap_or_default();
    let parts = [
        message.get(scope).into(),
        file,
        v8::Number::new(scope, line as f64).into(),
        v8::Number::new(scope, column as f64).into(),
    ];
    result.set(v8::Array::new_with_elements(scope, &parts).into());
}
