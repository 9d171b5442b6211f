//! The functions that V8 calls, and the handling of a panic in one.
//!
//! ```text
//!  V8 ─► a function of this module ─► contain ─► the module that does the work
//!                                                  ├─► a result ─► V8
//!                                                  └─► a panic: the isolate is sealed,
//!                                                      the running code is terminated
//! ```
//!
//! A panic cannot unwind through V8's frames: it would end the process, and with it all other
//! isolates. So V8 is given functions of this module only, and each does its work within
//! [`contain`]. Other modules have no callback scopes, because only unsafe code can make one.
//! Operations are wrapped in the same way where their table is made (`ops`). Functions that V8
//! calls without a scope (allocators, the heap limit, collections, tasks) are in the modules that
//! they belong to, and do nothing that can panic.

#![allow(unsafe_code)] // Makes the scopes of callbacks, and defines functions with V8's own signatures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::modules::{self, builtin, values};
use super::state::State;
use super::{exception, rejections, snapshot};

/// The purpose for which V8 calls a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    Operation,
    Rejection,
    Message,
    ImportMeta,
    DynamicImport,
    Resolve,
    Value,
    Builtin,
    Lazy,
    CodeGeneration,
}

/// The error that the work has panicked.
pub struct Panicked;

/// Runs the work of a callback, and seals the isolate if it panics.
pub fn contain<'s, 'i, R>(
    scope: &mut v8::PinScope<'s, 'i>,
    callback: Callback,
    work: impl FnOnce(&mut v8::PinScope<'s, 'i>) -> R,
) -> Result<R, Panicked> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        injected::strike(callback);
        work(scope)
    }));
    result.map_err(|_| {
        // An isolate without a Worker has no state yet.
        let state = scope.get_slot::<Rc<State>>().cloned();
        state.iter().for_each(|state| state.seal());
        scope.terminate_execution();
        Panicked
    })
}

/// Runs the work of a callback for which a missing result means an exception. Throws if the work
/// panics.
fn contain_or_throw<'s, 'i, R>(
    scope: &mut v8::PinScope<'s, 'i>,
    callback: Callback,
    work: impl FnOnce(&mut v8::PinScope<'s, 'i>) -> Option<R>,
) -> Option<R> {
    contain(scope, callback, work).unwrap_or_else(|Panicked| {
        let nothing = v8::undefined(scope);
        scope.throw_exception(nothing.into());
        None
    })
}

/// Registers this module's functions for everything that an isolate needs from its start.
pub fn install(isolate: &mut v8::Isolate) {
    isolate.set_promise_reject_callback(on_rejection);
    isolate.add_message_listener(on_message);
    isolate.set_host_initialize_import_meta_object_callback(on_import_meta);
    isolate.set_host_import_module_dynamically_callback(on_dynamic_import);
    isolate.set_allow_wasm_code_generation_callback(on_wasm_code_generation);
}

unsafe extern "C" fn on_rejection(message: v8::PromiseRejectMessage<'_>) {
    // SAFETY: V8 is calling back, the case that such a scope is for.
    v8::callback_scope!(unsafe scope, &message);
    let _ = contain(scope, Callback::Rejection, |scope| rejections::note(scope, &message));
}

unsafe extern "C" fn on_message(message: v8::Local<'_, v8::Message>, value: v8::Local<'_, v8::Value>) {
    // SAFETY: as above.
    v8::callback_scope!(unsafe scope, message);
    let _ = contain(scope, Callback::Message, |scope| exception::hear(scope, value));
}

unsafe extern "C" fn on_import_meta(
    context: v8::Local<'_, v8::Context>,
    module: v8::Local<'_, v8::Module>,
    meta: v8::Local<'_, v8::Object>,
) {
    // SAFETY: as above.
    v8::callback_scope!(unsafe scope, context);
    let _ = contain(scope, Callback::ImportMeta, |scope| modules::fill_meta(scope, module, meta));
}

fn on_dynamic_import<'s, 'i>(
    scope: &mut v8::PinScope<'s, 'i>,
    _options: v8::Local<'s, v8::Data>,
    referrer: v8::Local<'s, v8::Value>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    contain_or_throw(scope, Callback::DynamicImport, |scope| {
        modules::import_dynamically(scope, referrer, specifier, attributes)
    })
}

/// Allows V8 to compile any WebAssembly module, because each has passed the check before.
unsafe extern "C" fn on_wasm_code_generation(_: v8::Local<'_, v8::Context>, _: v8::Local<'_, v8::String>) -> bool {
    true
}

/// Resolves an import for `Module::instantiate_module`.
pub fn on_resolve<'s>(
    context: v8::Local<'s, v8::Context>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
    referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    // SAFETY: V8 is calling back, the case that such a scope is for.
    v8::callback_scope!(unsafe scope, context);
    contain_or_throw(scope, Callback::Resolve, |scope| modules::resolve_import(scope, specifier, attributes, referrer))
}

/// Evaluates a synthetic module whose value is made of the revision's content.
pub fn on_value<'s>(
    context: v8::Local<'s, v8::Context>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    // SAFETY: as above.
    v8::callback_scope!(unsafe scope, context);
    contain_or_throw(scope, Callback::Value, |scope| values::evaluate(scope, module))
}

/// Evaluates a synthetic module of Node.js.
pub fn on_builtin<'s>(
    context: v8::Local<'s, v8::Context>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    // SAFETY: as above.
    v8::callback_scope!(unsafe scope, context);
    contain_or_throw(scope, Callback::Builtin, |scope| builtin::evaluate(scope, module))
}

/// Makes a property of the global object on first read.
pub fn on_lazy(
    scope: &mut v8::PinScope<'_, '_>,
    name: v8::Local<'_, v8::Name>,
    _args: v8::PropertyCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_, v8::Value>,
) {
    if let Some(value) = contain_or_throw(scope, Callback::Lazy, |scope| snapshot::make_lazy(scope, name)) {
        result.set(value);
    }
}

/// Decides whether `eval` and similar functions may compile a text.
pub fn on_code_generation<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    source: v8::Local<'s, v8::Value>,
    _is_code_like: bool,
) -> v8::ModifyCodeGenerationFromStringsResult<'s> {
    let allowed = contain(scope, Callback::CodeGeneration, |scope| snapshot::may_be_compiled(scope, source));
    v8::ModifyCodeGenerationFromStringsResult { codegen_allowed: allowed.unwrap_or(false), modified_source: None }
}

/// Panics that tests inject.
#[cfg(test)]
mod injected {
    use std::cell::Cell;

    use super::Callback;

    thread_local! {
        static NEXT: Cell<Option<Callback>> = const { Cell::new(None) };
    }

    pub fn arm(callback: Callback) {
        NEXT.set(Some(callback));
    }

    pub fn is_armed() -> bool {
        NEXT.get().is_some()
    }

    pub fn strike(callback: Callback) {
        if NEXT.get() == Some(callback) {
            NEXT.set(None);
            panic!("a defect of the node, in a callback: {callback:?}");
        }
    }
}

#[cfg(not(test))]
mod injected {
    pub fn strike(_: super::Callback) {}
}

#[cfg(test)]
mod tests;
