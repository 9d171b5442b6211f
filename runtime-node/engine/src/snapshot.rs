//! The snapshot from which every isolate starts: the built-in JavaScript of the Web interfaces,
//! evaluated when their crate was built.

#[cfg(test)]
pub(crate) mod make;

use std::borrow::Cow;
use std::ffi::c_void;
use std::ptr;

use tenon_proto::pattern::{MAX_PROPERTIES, properties};

use super::string::beginning;
use super::{fence, modules};

/// The most source text that may be compiled while a Worker runs, in UTF-16 units: far more than a
/// template engine generates.
const EVALUATED: usize = 1 << 20;

/// The context's index in the snapshot: the first that is not V8's default context, because only
/// for such a one does V8 report whether it could be made.
const CONTEXT: usize = 0;

/// The index of the object `internal` (see `bootstrap.js`) in the context's data.
const INTERNAL: usize = 0;

/// The built-in JavaScript as the engine needs it, made when a program was built (`make`).
pub struct Builtins {
    /// The snapshot.
    pub blob: &'static [u8],
    /// The texts of all files, which the snapshot refers to by index.
    pub sources: &'static [v8::OneByteConst],
    /// The names of the files that are not in the snapshot, with their indices in `sources`.
    pub late: &'static [(&'static str, usize)],
    /// The native functions, in the order of the names with which the snapshot was made.
    pub functions: fn() -> Vec<v8::FunctionCallback>,
}

impl Builtins {
    /// Returns the start-up data, which all isolates share.
    pub(crate) fn blob(&self) -> v8::StartupData {
        v8::StartupData::from(self.blob)
    }

    /// Returns the snapshot's external references, in the order in which they were registered when
    /// it was made.
    pub(crate) fn references(&self) -> Cow<'static, [v8::ExternalReference]> {
        let pointer =
            |text: &v8::OneByteConst| v8::ExternalReference { pointer: ptr::from_ref(text).cast_mut().cast() };
        let functions = (self.functions)().into_iter().map(|function| v8::ExternalReference { function });
        let getter: v8::AccessorNameGetterCallback = v8::MapFnTo::map_fn_to(fence::on_lazy);
        let getter = v8::ExternalReference { pointer: getter as *mut c_void };
        self.sources.iter().map(pointer).chain(functions).chain([getter]).collect()
    }
}

/// Implements the getter of a property of the global object that is made on first read
/// (`internal.later`).
pub fn make_lazy<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: v8::Local<'_, v8::Name>,
) -> Option<v8::Local<'s, v8::Value>> {
    let realm = modules::realm(scope)?;
    let make = v8::Local::new(scope, &realm.hooks.lazy);
    let undefined = v8::undefined(scope).into();
    make.call(scope, undefined, &[name.into()])
}

/// Evaluates a file that is not in the snapshot. Returns `None` if that threw or there
/// is no such file.
pub fn late<'s>(scope: &mut v8::PinScope<'s, '_>, name: &str) -> Option<v8::Local<'s, v8::Value>> {
    let builtins = *scope.get_slot::<&'static Builtins>().expect("every isolate gets them when it is made");
    let (_, place) = builtins.late.iter().find(|(late, _)| *late == name)?;
    let resource = v8::String::new(scope, &format!("tenon:{name}"))?.into();
    let text = v8::String::new_from_onebyte_const(scope, &builtins.sources[*place])?;
    let origin = v8::ScriptOrigin::new(scope, resource, 0, 0, false, 0, None, false, false, false, None);
    v8::Script::compile(scope, text, Some(&origin))?.run(scope)
}

/// Defines another lazy property, under a name that `later.js` or `node.js` knows, which the
/// snapshot cannot contain.
pub fn define_lazy(
    scope: &mut v8::PinScope<'_, '_>,
    object: v8::Local<'_, v8::Object>,
    name: v8::Local<'_, v8::String>,
) -> Option<bool> {
    let nothing = v8::undefined(scope).into();
    let [getting, setting] = [v8::SideEffectType::HasSideEffect, v8::SideEffectType::HasSideEffect];
    let attributes = v8::PropertyAttribute::DONT_ENUM;
    object.set_lazy_data_property_with_data(scope, name.into(), fence::on_lazy, nothing, attributes, getting, setting)
}

/// Makes another context from the snapshot. Returns `None` if the heap is full.
pub fn context<'s>(scope: &mut v8::PinScope<'s, '_, ()>) -> Option<v8::Local<'s, v8::Context>> {
    v8::Context::from_snapshot(scope, CONTEXT, v8::ContextOptions::default())
}

/// Returns the object `internal` of a context that has just been made, or `None` if the heap is
/// full.
pub fn internal<'s>(scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Object>> {
    scope.get_context_data_from_snapshot_once(INTERNAL).ok()
}

/// Gives a new context our `console` instead of the one that V8 defines in every context, and
/// removes:
/// - `WebAssembly`, which `wasm.js` replaces on first use by one that respects the isolate's
///   limits;
/// - `Atomics`, which is of no use without shared memory;
/// - `eval` and `Function` of more source text than [`EVALUATED`], or of more Unicode properties
///   than [`MAX_PROPERTIES`]: the parser's memory is outside the heap limit, and its work cannot be
///   terminated.
///
/// Returns `None` if the heap is full.
pub fn replace_what_v8_adds(scope: &mut v8::PinScope<'_, '_>, internal: v8::Local<'_, v8::Object>) -> Option<()> {
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
    // V8 calls the callback only for contexts where this is disallowed.
    scope.get_current_context().set_allow_generation_from_strings(false);
    scope.set_modify_code_generation_from_strings_callback(fence::on_code_generation);
    Some(())
}

/// Returns whether a text may be compiled: it is a string, is not too long, and does not have too
/// many Unicode properties. A value that is not a string is not compiled, but returned unchanged.
pub fn may_be_compiled(scope: &mut v8::PinScope<'_, '_>, source: v8::Local<'_, v8::Value>) -> bool {
    source.try_cast::<v8::String>().is_ok_and(|source| {
        source.length() <= EVALUATED && properties(beginning(scope, source, 3 * EVALUATED).as_bytes()) <= MAX_PROPERTIES
    })
}
