//! The native half of `clone.js`: the kind of an object to be cloned, determined by its internal
//! slots, and an array's properties that are not indices.

use tenon_op::op;

/// Returns the number that stands for an object's kind in `clone-kinds.js`.
#[op]
pub(crate) fn clone_kind(value: v8::Local<'_, v8::Value>) -> u32 {
    Kind::of(value) as u32
}

/// The kinds of objects, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An object without internal slots that V8 exposes.
    Plain,
    Array,
    /// A function, which is never cloned.
    Function,
    Proxy,
    /// An object with slots that cannot be cloned.
    Opaque,
    Map,
    Set,
    Date,
    RegExp,
    Error,
    /// A wrapper of a string, a number, a boolean or a bigint.
    Wrapper,
    ArrayBuffer,
    TypedArray,
    DataView,
}

impl Kind {
    fn of(value: v8::Local<'_, v8::Value>) -> Self {
        // The common kinds come first, except that proxies precede functions, because a proxy of a
        // function is also a function.
        match value {
            v if v.is_array() => Self::Array,
            v if v.is_proxy() => Self::Proxy,
            v if v.is_function() => Self::Function,
            v if v.is_map() => Self::Map,
            v if v.is_set() => Self::Set,
            v if v.is_date() => Self::Date,
            v if v.is_typed_array() => Self::TypedArray,
            v if v.is_array_buffer() => Self::ArrayBuffer,
            v if v.is_native_error() => Self::Error,
            v if v.is_reg_exp() => Self::RegExp,
            v if v.is_data_view() => Self::DataView,
            v if v.is_string_object()
                || v.is_number_object()
                || v.is_boolean_object()
                || v.is_big_int_object() =>
            {
                Self::Wrapper
            }
            v if v.is_promise()
                || v.is_symbol_object()
                || v.is_weak_map()
                || v.is_weak_set()
                || v.is_generator_object()
                || v.is_map_iterator()
                || v.is_set_iterator()
                || v.is_module_namespace_object()
                || v.is_shared_array_buffer()
                || v.is_external()
                || v.is_wasm_module_object()
                || v.is_wasm_memory_object() =>
            {
                Self::Opaque
            }
            _ => Self::Plain,
        }
    }
}

/// Returns the names of an array's enumerable properties that are not indices; `undefined` if there
/// are none.
#[op]
pub(crate) fn clone_names<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    array: v8::Local<'s, v8::Object>,
) -> Option<Names<'s>> {
    let options = v8::GetPropertyNamesArgsBuilder::new()
        .mode(v8::KeyCollectionMode::OwnOnly)
        .property_filter(v8::PropertyFilter::ONLY_ENUMERABLE | v8::PropertyFilter::SKIP_SYMBOLS)
        .index_filter(v8::IndexFilter::SkipIndices)
        .build();
    // `get_own_property_names` would ignore the index filter.
    array.get_property_names(scope, options).filter(|names| names.length() > 0)
}

type Names<'s> = v8::Local<'s, v8::Array>;
