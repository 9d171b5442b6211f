//! Defines the functions that V8 calls, and handles panics in them.
//!
//! ```text
//!  V8 ─► a function of this module ─► contain ─► the module that does the work
//!                                                  ├─► a result ─► V8
//!                                                  └─► a panic: the isolate is sealed,
//!                                                      the running code is terminated
//! ```
//!
//! A panic cannot unwind through V8's frames: it would end the process, and with it all other
//! isolates. V8 therefore gets only functions of this module, each of which does its work within
//! [`contain`]. Except for the inspector's agent, other modules make no callback scopes, because
//! only unsafe code can make one; they implement a trait of this module, which does not depend on
//! those modules. The macro of ops, which are the native functions of the interfaces, wraps each op
//! in the same way. The functions that V8 calls without a scope (for allocation, the heap limit,
//! collections, tasks and debugging) are in their own modules, and do nothing that can panic.

#![allow(unsafe_code)] // Makes the scopes of callbacks, and defines functions with V8's signatures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The purpose for which V8 calls a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callback {
    Op,
    Rejection,
    Message,
    ImportMeta,
    DynamicImport,
    Resolve,
    Value,
    Builtin,
    Lazy,
    CodeGeneration,
    Console,
}

/// The error of a callback whose work has panicked.
pub struct Panicked;

/// A handler of panics in native functions. An isolate with a Worker has a handler in one of V8's
/// slots of the isolate, as `Rc<dyn OnPanic>`.
pub trait OnPanic {
    /// Ends everything in flight, and ensures that the isolate is never entered again.
    fn native_function_panicked(&self);
}

/// The work that ECMAScript and V8 leave to the host, for every isolate.
pub trait HostHooks {
    /// Implements HostPromiseRejectionTracker (ECMAScript §27.2.1.9).
    fn track_rejection(scope: &mut v8::PinScope<'_, '_>, message: &v8::PromiseRejectMessage<'_>);

    /// Reports a thrown value that nothing can catch any longer.
    fn report_uncaught<'s>(scope: &mut v8::PinScope<'s, '_>, value: v8::Local<'s, v8::Value>);

    /// Implements HostFinalizeImportMeta (ECMAScript §13.3.12.1.2).
    fn fill_import_meta(
        scope: &mut v8::PinScope<'_, '_>,
        module: v8::Local<'_, v8::Module>,
        meta: v8::Local<'_, v8::Object>,
    );

    /// Implements `import()`.
    fn import_dynamically<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        referrer: v8::Local<'s, v8::Value>,
        specifier: v8::Local<'s, v8::String>,
        attributes: v8::Local<'s, v8::FixedArray>,
    ) -> Option<v8::Local<'s, v8::Promise>>;
}

/// Finds the modules that `import` statements name.
pub trait ResolveImport {
    fn resolve<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        specifier: v8::Local<'s, v8::String>,
        attributes: v8::Local<'s, v8::FixedArray>,
        referrer: v8::Local<'s, v8::Module>,
    ) -> Option<v8::Local<'s, v8::Module>>;
}

/// A kind of synthetic module.
pub trait SyntheticModule {
    /// The purpose of the module's evaluation.
    const CALLBACK: Callback;

    /// Sets the module's exports, and returns a promise that is resolved.
    fn evaluate<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        module: v8::Local<'s, v8::Module>,
    ) -> Option<v8::Local<'s, v8::Value>>;
}

/// A kind of property that is made when it is first read.
pub trait LazyProperty {
    fn make<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        name: v8::Local<'_, v8::Name>,
    ) -> Option<v8::Local<'s, v8::Value>>;
}

/// A kind of function that is made while isolates run.
pub trait NativeFunction {
    /// The purpose of a call.
    const CALLBACK: Callback;

    fn call<'s>(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &v8::FunctionCallbackArguments<'s>,
    ) -> Option<v8::Local<'s, v8::Value>>;
}

/// Decides what `eval` and similar functions may compile.
pub trait CodeGeneration {
    fn may_compile(scope: &mut v8::PinScope<'_, '_>, source: v8::Local<'_, v8::Value>) -> bool;
}

/// Runs the work of a callback. If the work panics, seals the isolate, terminates the running code
/// and fails with [`Panicked`].
pub fn contain<'s, 'i, R>(
    scope: &mut v8::PinScope<'s, 'i>,
    callback: Callback,
    work: impl FnOnce(&mut v8::PinScope<'s, 'i>) -> R,
) -> Result<R, Panicked> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        injected::panic_if_armed(callback);
        work(scope)
    }));
    result.map_err(|_| {
        let on_panic = scope.get_slot::<Rc<dyn OnPanic>>().cloned();
        on_panic.iter().for_each(|on_panic| on_panic.native_function_panicked());
        scope.terminate_execution();
        Panicked
    })
}

/// Runs the work of a callback in which a missing result means an exception. Throws if the work
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
pub fn install<H: HostHooks>(isolate: &mut v8::Isolate) {
    isolate.set_promise_reject_callback(on_rejection::<H>);
    isolate.add_message_listener(on_message::<H>);
    isolate.set_host_initialize_import_meta_object_callback(on_import_meta::<H>);
    isolate.set_host_import_module_dynamically_callback(on_dynamic_import::<H>);
    isolate.set_allow_wasm_code_generation_callback(on_wasm_code_generation);
}

unsafe extern "C" fn on_rejection<H: HostHooks>(message: v8::PromiseRejectMessage<'_>) {
    // SAFETY: V8 is calling this function, the case for which a callback scope is meant.
    v8::callback_scope!(unsafe scope, &message);
    let _ = contain(scope, Callback::Rejection, |scope| H::track_rejection(scope, &message));
}

unsafe extern "C" fn on_message<H: HostHooks>(
    message: v8::Local<'_, v8::Message>,
    value: v8::Local<'_, v8::Value>,
) {
    // SAFETY: V8 is calling this function, the case for which a callback scope is meant.
    v8::callback_scope!(unsafe scope, message);
    let _ = contain(scope, Callback::Message, |scope| H::report_uncaught(scope, value));
}

unsafe extern "C" fn on_import_meta<H: HostHooks>(
    context: v8::Local<'_, v8::Context>,
    module: v8::Local<'_, v8::Module>,
    meta: v8::Local<'_, v8::Object>,
) {
    // SAFETY: V8 is calling this function, the case for which a callback scope is meant.
    v8::callback_scope!(unsafe scope, context);
    let _ = contain(scope, Callback::ImportMeta, |scope| H::fill_import_meta(scope, module, meta));
}

fn on_dynamic_import<'s, 'i, H: HostHooks>(
    scope: &mut v8::PinScope<'s, 'i>,
    _options: v8::Local<'s, v8::Data>,
    referrer: v8::Local<'s, v8::Value>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
) -> Option<v8::Local<'s, v8::Promise>> {
    contain_or_throw(scope, Callback::DynamicImport, |scope| {
        H::import_dynamically(scope, referrer, specifier, attributes)
    })
}

/// Allows V8 to compile any WebAssembly module, because `wasm::check` has checked every module
/// before.
unsafe extern "C" fn on_wasm_code_generation(
    _: v8::Local<'_, v8::Context>,
    _: v8::Local<'_, v8::String>,
) -> bool {
    true
}

/// Resolves an import for `Module::instantiate_module`.
pub fn on_resolve<'s, R: ResolveImport>(
    context: v8::Local<'s, v8::Context>,
    specifier: v8::Local<'s, v8::String>,
    attributes: v8::Local<'s, v8::FixedArray>,
    referrer: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Module>> {
    // SAFETY: V8 is calling this function, the case for which a callback scope is meant.
    v8::callback_scope!(unsafe scope, context);
    contain_or_throw(scope, Callback::Resolve, |scope| {
        R::resolve(scope, specifier, attributes, referrer)
    })
}

/// Evaluates a synthetic module.
pub fn on_evaluate<'s, M: SyntheticModule>(
    context: v8::Local<'s, v8::Context>,
    module: v8::Local<'s, v8::Module>,
) -> Option<v8::Local<'s, v8::Value>> {
    // SAFETY: V8 is calling this function, the case for which a callback scope is meant.
    v8::callback_scope!(unsafe scope, context);
    contain_or_throw(scope, M::CALLBACK, |scope| M::evaluate(scope, module))
}

/// Makes a property on first read.
pub fn on_lazy<P: LazyProperty>(
    scope: &mut v8::PinScope<'_, '_>,
    name: v8::Local<'_, v8::Name>,
    _args: v8::PropertyCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_, v8::Value>,
) {
    if let Some(value) = contain_or_throw(scope, Callback::Lazy, |scope| P::make(scope, name)) {
        result.set(value);
    }
}

/// Calls a native function.
pub fn on_call<'s, F: NativeFunction>(
    scope: &mut v8::PinScope<'s, '_>,
    arguments: v8::FunctionCallbackArguments<'s>,
    mut result: v8::ReturnValue<'s, v8::Value>,
) {
    if let Some(value) = contain_or_throw(scope, F::CALLBACK, |scope| F::call(scope, &arguments)) {
        result.set(value);
    }
}

/// Decides whether `eval` and similar functions may compile a text.
pub fn on_code_generation<'s, G: CodeGeneration>(
    scope: &mut v8::PinScope<'s, '_>,
    source: v8::Local<'s, v8::Value>,
    _is_code_like: bool,
) -> v8::ModifyCodeGenerationFromStringsResult<'s> {
    let allowed = contain(scope, Callback::CodeGeneration, |scope| G::may_compile(scope, source));
    v8::ModifyCodeGenerationFromStringsResult {
        codegen_allowed: allowed.unwrap_or(false),
        modified_source: None,
    }
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

    pub fn panic_if_armed(callback: Callback) {
        if NEXT.get() == Some(callback) {
            NEXT.set(None);
            panic!("a test injected this panic into the callback {callback:?}");
        }
    }
}

#[cfg(not(test))]
mod injected {
    pub fn panic_if_armed(_: super::Callback) {}
}

#[cfg(test)]
mod tests;
