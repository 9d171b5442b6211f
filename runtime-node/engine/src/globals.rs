//! Completes the global object of a new context, beyond the contents of the snapshot: with the
//! engine's own `console` instead of V8's, properties that are made when they are first read, and
//! bounds on `eval`.

use tenon_proto::pattern::{MAX_PROPERTIES, properties};

use super::callbacks::{self, CodeGeneration, LazyProperty};
use super::realm::Realm;
use super::string::beginning;

/// Maximum length of a source text that may be compiled while a Worker runs, in UTF-16 units: far
/// more than template engines generate.
const MAX_EVALUATED: usize = 1 << 20;

/// Gives a new context the engine's own `console` instead of the one that V8 defines in every
/// context, and:
/// - replaces `WebAssembly` on first use with a version in `wasm.js` that respects the isolate's
///   limits;
/// - removes `Atomics`, which is of no use without shared memory;
/// - refuses `eval` and `Function` of a source text that is longer than [`MAX_EVALUATED`], or has
///   more Unicode properties than [`MAX_PROPERTIES`]: the parser's memory is outside the heap
///   limit, and its work cannot be terminated.
///
/// Returns `None` if the heap is full.
pub(crate) fn replace_builtins(
    scope: &mut v8::PinScope<'_, '_>,
    internal: v8::Local<'_, v8::Object>,
) -> Option<()> {
    let global = scope.get_current_context().global(scope);
    let key = v8::String::new(scope, "console")?;
    let console = internal.get(scope, key.into())?;
    global.define_own_property(scope, key.into(), console, v8::PropertyAttribute::DONT_ENUM)?;
    let key = v8::String::new(scope, "Atomics")?;
    global.delete(scope, key.into()).filter(|deleted| *deleted)?;
    let key = v8::String::new(scope, "WebAssembly")?;
    let native = global.get(scope, key.into())?;
    global.delete(scope, key.into()).filter(|deleted| *deleted)?;
    internal.set(scope, key.into(), native)?;
    define_lazy(scope, global, key)?;
    // V8 calls the callback only for contexts in which code generation is disallowed.
    scope.get_current_context().set_allow_generation_from_strings(false);
    scope.set_modify_code_generation_from_strings_callback(
        callbacks::on_code_generation::<EvalBounds>,
    );
    Some(())
}

/// Defines a lazy property that the snapshot cannot contain. `wasm.js` or `node.js` must define a
/// value for the name.
pub(crate) fn define_lazy(
    scope: &mut v8::PinScope<'_, '_>,
    object: v8::Local<'_, v8::Object>,
    name: v8::Local<'_, v8::String>,
) -> Option<bool> {
    let nothing = v8::undefined(scope).into();
    let [getter, setter] = [v8::SideEffectType::HasSideEffect, v8::SideEffectType::HasSideEffect];
    let attributes = v8::PropertyAttribute::DONT_ENUM;
    object.set_lazy_data_property_with_data(
        scope,
        name.into(),
        callbacks::on_lazy::<Later>,
        nothing,
        attributes,
        getter,
        setter,
    )
}

/// The properties of the global object that the hook `lazy` makes (`internal.later`).
pub(crate) struct Later;

impl LazyProperty for Later {
    fn make<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        name: v8::Local<'_, v8::Name>,
    ) -> Option<v8::Local<'s, v8::Value>> {
        let realm = Realm::current(scope)?;
        let make = v8::Local::new(scope, &realm.hooks.lazy);
        let undefined = v8::undefined(scope).into();
        make.call(scope, undefined, &[name.into()])
    }
}

/// The bounds on the texts that `eval` and similar functions compile.
struct EvalBounds;

impl CodeGeneration for EvalBounds {
    /// Returns whether a text may be compiled: whether it is a string within the bounds. If the
    /// value is not a string, `eval` returns it unchanged, without compiling it.
    fn may_compile(scope: &mut v8::PinScope<'_, '_>, source: v8::Local<'_, v8::Value>) -> bool {
        source.try_cast::<v8::String>().is_ok_and(|source| {
            source.length() <= MAX_EVALUATED
                && properties(beginning(scope, source, 3 * MAX_EVALUATED).as_bytes())
                    <= MAX_PROPERTIES
        })
    }
}
