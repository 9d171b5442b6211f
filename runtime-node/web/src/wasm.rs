//! The native half of `wasm.js`: WebAssembly modules from their bytes to V8.
//!
//! ```text
//!  wasmOpen(bytes) ─► n ─► wasmStep(n) … ─► wasmAdmit(n)
//!      ─┬─► wasmCompile(n) ───────┬─► wasmKeep(n) ─► wasmClose(n)
//!       └─► wasmBytes(n), for V8 ─┘
//! ```
//!
//! An invalid module is reported as a returned text; a module that exceeds the Worker's memory as
//! an exception.

use tenon_engine::bytes as contents;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Counted;
use tenon_engine::slot::slot;
use tenon_engine::state::State;
use tenon_engine::string::array_of;
use tenon_engine::thrown::out_of_memory;
use tenon_engine::wasm::check::MODULE;
use tenon_engine::wasm::compiled::Compiled;
use tenon_engine::wasm::opened::{Opened, Preparing};
use tenon_engine::wasm::{Text, admit as admit_module, code_space};

crate::ops::native! {
    "wasmFits(bytes: number): boolean" => fits,
    "wasmOpen(bytes: View): number | string" => open,
    "wasmStep(module: number): true | string | undefined" => step,
    "wasmAdmit(module: number): true | string" => admit,
    "wasmCompile(module: number): object" => compile,
    "wasmBytes(module: number): Uint8Array" => bytes,
    "wasmKeep(module: number): ArrayBuffer" => keep,
    "wasmClose(module: number): void" => close,
}

fn opened<'a>(
    scope: &'a mut v8::PinScope<'_, '_>,
    args: &v8::FunctionCallbackArguments<'_>,
) -> Option<&'a mut Preparing> {
    let number = args.get(0).uint32_value(scope)?;
    slot::<Opened>(scope).get_mut(number)
}

/// `wasmFits(n)`: returns whether a Worker may have this many bytes.
pub(crate) fn fits(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    // The conversion from floating point saturates.
    let bytes = args.get(0).number_value(scope).unwrap_or_default() as usize;
    result.set_bool(bytes <= State::of(scope).buffers.limit());
}

/// `wasmOpen(view)`: returns a number for a copy of the view's bytes, or a text if they are too
/// many.
pub(crate) fn open(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(view) = args.get(0).try_cast::<v8::ArrayBufferView>() else { return };
    let length = view.byte_length();
    if length > MODULE {
        say(
            scope,
            &mut result,
            &format!("the module has {length} bytes; at most {MODULE} are supported"),
        );
        return;
    }
    let counted = make_room(scope, length)
        .and_then(|budget| budget.count(contents::read(view, <[u8]>::to_vec)));
    match counted {
        Some(counted) => result.set_uint32(slot::<Opened>(scope).add(Text::Copied(counted))),
        None => out_of_memory().throw(scope),
    }
}

/// `wasmStep(n)`: validates the next part. Returns true if the module is valid, undefined if there
/// is more to validate, or a text if the module is refused.
pub(crate) fn step(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(module) = opened(scope, &args) else { return };
    let Some(check) = module.check.as_mut() else { return };
    match check.step(module.text.as_ref()) {
        Ok(None) => {}
        Ok(Some(facts)) => {
            module.facts = facts;
            result.set_bool(true);
        }
        Err(refused) => say(scope, &mut result, &refused.to_string()),
    }
}

/// `wasmAdmit(n)`: returns true if the valid module may be compiled, or a text if not.
pub(crate) fn admit(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(module) = opened(scope, &args) else { return };
    let facts = module.facts;
    let Some(check) = module.check.take() else { return };
    match admit_module(scope, check, &facts) {
        Ok(Some(code)) => {
            opened(scope, &args).expect("nothing has closed it").code = Some(code);
            result.set_bool(true);
        }
        Ok(None) => out_of_memory().throw(scope),
        Err(refused) => say(scope, &mut result, &refused.to_string()),
    }
}

/// `wasmCompile(n)`: returns V8's module object, or throws.
pub(crate) fn compile(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(module) = opened(scope, &args) else { return };
    let (text, facts) = (std::mem::take(&mut module.text), module.facts);
    let made = code_space::while_compiling(|| v8::WasmModuleObject::compile(scope, text.as_ref()));
    let Some(object) = made else { return };
    if let Text::Revision(_) = text
        && let Some(compiled) = scope.get_slot::<Compiled>()
    {
        compiled.add(object.get_compiled_module(), facts);
    }
    result.set(object.into());
}

/// `wasmBytes(n)`: returns the copy as a `Uint8Array`.
pub(crate) fn bytes(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(module) = opened(scope, &args) else { return };
    let text = std::mem::take(&mut module.text);
    match counted(scope, text) {
        Some(counted) => {
            if let Some(array) = array_of(scope, counted) {
                result.set(array.into());
            }
        }
        None => out_of_memory().throw(scope),
    }
}

fn counted(scope: &mut v8::PinScope<'_, '_>, text: Text) -> Option<Counted> {
    match text {
        Text::Copied(counted) => Some(counted),
        Text::Revision(bytes) => make_room(scope, bytes.len())?.count(bytes.to_vec()),
    }
}

/// `wasmKeep(n)`: returns an array buffer that accounts for V8's memory for the module, and must
/// live as long.
pub(crate) fn keep(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(code) = opened(scope, &args).and_then(|module| module.code.take()) else { return };
    result.set(
        v8::ArrayBuffer::with_backing_store(scope, &code.into_backing_store().make_shared()).into(),
    );
}

/// `wasmClose(n)`: drops the module.
pub(crate) fn close(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let number = args.get(0).uint32_value(scope).unwrap_or_default();
    slot::<Opened>(scope).close(number);
}

fn say(scope: &mut v8::PinScope<'_, '_>, result: &mut v8::ReturnValue<'_>, text: &str) {
    if let Some(text) = v8::String::new(scope, text) {
        result.set(text.into());
    }
}
