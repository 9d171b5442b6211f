//! The world every isolate begins from: the built-in JavaScript of `src/js`, evaluated when this crate was built.

use std::borrow::Cow;
use std::ffi::c_void;
use std::ptr;

use tenon_proto::pattern::{MAX_PROPERTIES, properties};

use super::string::beginning;
use super::{fence, modules, ops};

/// Made by `build.rs`.
static BLOB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bin"));

// `SOURCES`, made by `build.rs`: the texts of `src/js`; and `LATE`: the names of those that are not in the snapshot, and their
// places among the texts.
include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The most source text that may be compiled while a Worker runs, in UTF-16 units: far more than a template engine makes.
const EVALUATED: usize = 1 << 20;

/// Where `build.rs` left the context: the first that is not V8's default, of which alone V8 says whether it could be made.
const CONTEXT: usize = 0;

/// Where `build.rs` left the object `internal` (see `bootstrap.js`): the context's first data.
const INTERNAL: usize = 0;

/// The start-up data, shared by all isolates.
pub(super) fn blob() -> v8::StartupData {
    v8::StartupData::from(BLOB)
}

/// What the snapshot refers to outside of itself, in the order in which `build.rs` named it.
pub(super) fn references() -> Cow<'static, [v8::ExternalReference]> {
    let sources = SOURCES.iter().map(|text| v8::ExternalReference { pointer: ptr::from_ref(text).cast_mut().cast() });
    let functions = ops::callbacks().map(|function| v8::ExternalReference { function });
    let getter: v8::AccessorNameGetterCallback = v8::MapFnTo::map_fn_to(fence::on_lazy);
    sources.chain(functions).chain([v8::ExternalReference { pointer: getter as *mut c_void }]).collect()
}

/// The getter of a property of the global object that is made when it is first read (`internal.later`).
pub(super) fn make_lazy<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: v8::Local<'_, v8::Name>,
) -> Option<v8::Local<'s, v8::Value>> {
    let realm = modules::realm(scope)?;
    let make = v8::Local::new(scope, &realm.hooks.lazy);
    let undefined = v8::undefined(scope).into();
    make.call(scope, undefined, &[name.into()])
}

/// What a file of `src/js` evaluates to that is not in the snapshot. `None` when that threw, or there is none of that name.
pub(super) fn late<'s>(scope: &mut v8::PinScope<'s, '_>, name: &str) -> Option<v8::Local<'s, v8::Value>> {
    let (_, place) = LATE.iter().find(|(late, _)| *late == name)?;
    let resource = v8::String::new(scope, &format!("tenon:{name}"))?.into();
    let text = v8::String::new_from_onebyte_const(scope, &SOURCES[*place])?;
    let origin = v8::ScriptOrigin::new(scope, resource, 0, 0, false, 0, None, false, false, false, None);
    v8::Script::compile(scope, text, Some(&origin))?.run(scope)
}

/// Makes such a property, which no snapshot has, of one more name that `later.js` or `node.js` knows.
pub(super) fn define_lazy(
    scope: &mut v8::PinScope<'_, '_>,
    object: v8::Local<'_, v8::Object>,
    name: v8::Local<'_, v8::String>,
) -> Option<bool> {
    let nothing = v8::undefined(scope).into();
    let [getting, setting] = [v8::SideEffectType::HasSideEffect, v8::SideEffectType::HasSideEffect];
    let attributes = v8::PropertyAttribute::DONT_ENUM;
    object.set_lazy_data_property_with_data(scope, name.into(), fence::on_lazy, nothing, attributes, getting, setting)
}

/// One more context as the snapshot has it. `None` when the heap is full.
pub(super) fn context<'s>(scope: &mut v8::PinScope<'s, '_, ()>) -> Option<v8::Local<'s, v8::Context>> {
    v8::Context::from_snapshot(scope, CONTEXT, v8::ContextOptions::default())
}

/// The object `internal` of a context that has just been made. `None` when the heap is full.
pub(super) fn internal<'s>(scope: &mut v8::PinScope<'s, '_>) -> Option<v8::Local<'s, v8::Object>> {
    scope.get_context_data_from_snapshot_once(INTERNAL).ok()
}

/// Gives a new context our `console` in place of the one that V8 defines in every context, and takes from it:
/// - `WebAssembly`, in whose place `wasm.js` puts, when it is wanted, one that keeps to the isolate's limits;
/// - `Atomics`, which is of no use without shared memory;
/// - `eval` and `Function` of more source text than [`EVALUATED`], or of more properties of Unicode than
///   [`MAX_PROPERTIES`]: the parser's memory is outside of the heap limit, and its work cannot be terminated.
///
/// `None` when the heap is full.
pub(super) fn replace_what_v8_adds(
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
    // V8 asks only where it is not allowed anyway.
    scope.get_current_context().set_allow_generation_from_strings(false);
    scope.set_modify_code_generation_from_strings_callback(fence::on_code_generation);
    Some(())
}

/// Whether a text is compiled: it is one, not too long, and has no patterns that are. What is not a string is not
/// compiled, but handed back.
pub(super) fn may_be_compiled(scope: &mut v8::PinScope<'_, '_>, source: v8::Local<'_, v8::Value>) -> bool {
    source.try_cast::<v8::String>().is_ok_and(|source| {
        source.length() <= EVALUATED && properties(beginning(scope, source, 3 * EVALUATED).as_bytes()) <= MAX_PROPERTIES
    })
}
