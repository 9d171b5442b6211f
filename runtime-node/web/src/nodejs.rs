//! The native half of `node.js` and some `node-*.js`: late scripts, the Worker's variables, and
//! properties of an object that only V8 can read.

pub(crate) mod buffer;
pub(crate) mod hash;

use tenon_engine::snapshot;
use tenon_engine::state::State;
use tenon_proto::revision::ByKind;

crate::ops::native! {
    "isKind(value: unknown, kind: string): boolean" => is_kind,
    "lateScript(name: string): (internal: object) => void" => late_script,
    "environment(): string[]" => environment,
}

/// `lateScript(name)`: returns the value of a script that is not part of the snapshot.
pub(crate) fn late_script(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let name = args.get(0).to_rust_string_lossy(scope);
    if let Some(function) = snapshot::late(scope, &name) {
        result.set(function);
    }
}

/// `environment()`: returns the variables and secrets for `process.env`, as name, value, name,
/// value, ….
pub(crate) fn environment(
    scope: &mut v8::PinScope<'_, '_>,
    _args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    let ByKind { vars, secrets, services: _ } = ByKind::of(&state.revision.bindings);
    let pairs = vars.into_iter().chain(secrets);
    let strings =
        pairs.flat_map(|(name, value)| [name, value]).map(|text| v8::String::new(scope, text));
    let strings = strings.map(|string| string.map(v8::Local::from)).collect::<Option<Vec<_>>>();
    if let Some(strings) = strings {
        result.set(v8::Array::new_with_elements(scope, &strings).into());
    }
}

/// `isKind(value, kind)`: returns whether the predicate of that name in `util.types` holds.
pub(crate) fn is_kind(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    result.set_bool(is(args.get(0), &args.get(1).to_rust_string_lossy(scope)));
}

fn is(value: v8::Local<'_, v8::Value>, kind: &str) -> bool {
    match kind {
        "AnyArrayBuffer" => value.is_array_buffer() || value.is_shared_array_buffer(),
        "ArgumentsObject" => value.is_arguments_object(),
        "ArrayBuffer" => value.is_array_buffer(),
        "AsyncFunction" => value.is_async_function(),
        "BigIntObject" => value.is_big_int_object(),
        "BooleanObject" => value.is_boolean_object(),
        "DataView" => value.is_data_view(),
        "Date" => value.is_date(),
        "External" => value.is_external(),
        "GeneratorFunction" => value.is_generator_function(),
        "GeneratorObject" => value.is_generator_object(),
        "Map" => value.is_map(),
        "MapIterator" => value.is_map_iterator(),
        "ModuleNamespaceObject" => value.is_module_namespace_object(),
        "NativeError" => value.is_native_error(),
        "NumberObject" => value.is_number_object(),
        "Promise" => value.is_promise(),
        "Proxy" => value.is_proxy(),
        "RegExp" => value.is_reg_exp(),
        "Set" => value.is_set(),
        "SetIterator" => value.is_set_iterator(),
        "SharedArrayBuffer" => value.is_shared_array_buffer(),
        "StringObject" => value.is_string_object(),
        "SymbolObject" => value.is_symbol_object(),
        "WeakMap" => value.is_weak_map(),
        "WeakSet" => value.is_weak_set(),
        _ => false,
    }
}
