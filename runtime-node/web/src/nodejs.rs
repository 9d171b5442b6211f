//! The native half of `node.js` and some `node-*.js`: late scripts, the Worker's variables, and
//! properties of an object that only V8 can read.

pub(crate) mod buffer;
pub(crate) mod cipher;
pub(crate) mod encrypted;
pub(crate) mod files;
pub(crate) mod hash;
pub(crate) mod keys;
pub(crate) mod scrypt;
pub(crate) mod sign;

use tenon_engine::snapshot;
use tenon_engine::state::State;
use tenon_op::op;
use tenon_proto::revision::ByKind;

use crate::ops::Maybe;

/// Returns the value of a script that is not part of the snapshot.
#[op]
pub(crate) fn late_script<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: String,
) -> Maybe<LateScript<'s>> {
    Maybe(snapshot::late(scope, &name))
}

type LateScript<'s> = v8::Local<'s, v8::Value>;

/// Returns the variables and secrets for `process.env`, as name, value, name, value, …
#[op]
pub(crate) fn environment(scope: &mut v8::PinScope<'_, '_>) -> Vec<String> {
    let state = State::of(scope);
    let ByKind { vars, secrets, services: _, assets: _ } = ByKind::of(&state.revision.bindings);
    let pairs = vars.into_iter().chain(secrets);
    pairs.flat_map(|(name, value)| [name.to_owned(), value.to_owned()]).collect()
}

/// Returns whether the predicate of `util.types` for this kind, such as `isMap` for `Map`, holds
/// for the value.
#[op]
pub(crate) fn is_kind(value: v8::Local<'_, v8::Value>, kind: String) -> bool {
    is_of_kind(value, &kind)
}

fn is_of_kind(value: v8::Local<'_, v8::Value>, kind: &str) -> bool {
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
