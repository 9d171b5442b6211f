//! The native half of `wasm.js`: the path of a WebAssembly module from its bytes to V8's module
//! object.
//!
//! ```text
//!  wasmOpen(bytes) ─► n ─► wasmStep(n) … ─► wasmAdmit(n)
//!      ─┬─► wasmCompile(n) ───────┬─► wasmKeep(n) ─► wasmClose(n)
//!       └─► wasmBytes(n), for V8 ─┘
//! ```
//!
//! Ops report an invalid module with a string that they return, and a module that exceeds the
//! Worker's memory with an exception.

use tenon_engine::bytes as contents;
use tenon_engine::collection::make_room;
use tenon_engine::heap::CountedBytes;
use tenon_engine::slot::slot;
use tenon_engine::state::State;
use tenon_engine::string::array_of;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_engine::wasm::check::MODULE;
use tenon_engine::wasm::compiled::Compiled;
use tenon_engine::wasm::preparing::{Preparing, PreparingModules};
use tenon_engine::wasm::{ModuleBytes, admit, code_space};
use tenon_op::op;

use crate::ops::{Maybe, Returned, View};

fn find<'a>(scope: &'a mut v8::PinScope<'_, '_>, module: u32) -> Option<&'a mut Preparing> {
    slot::<PreparingModules>(scope).get_mut(module)
}

/// A value, or the reason for a refusal.
pub(crate) enum OrRefusal<T> {
    Value(T),
    Refused(String),
}

impl<'s, T: Returned<'s>> Returned<'s> for OrRefusal<T> {
    fn set(self, scope: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        match self {
            Self::Value(value) => value.set(scope, result),
            Self::Refused(why) => why.set(scope, result),
        }
    }
}

/// The value `true` in JavaScript.
pub(crate) struct True;

impl<'s> Returned<'s> for True {
    fn set(self, _: &mut v8::PinScope<'s, '_>, result: &mut v8::ReturnValue<'s>) {
        result.set_bool(true);
    }
}

/// Returns whether the Worker's memory limit is at least this many bytes.
#[op]
pub(crate) fn wasm_fits(scope: &mut v8::PinScope<'_, '_>, bytes: usize) -> bool {
    bytes <= State::of(scope).buffers.limit()
}

/// Copies a module's bytes. Returns a number that stands for the copy, or the reason if the module
/// is too large.
#[op]
pub(crate) fn wasm_open(
    scope: &mut v8::PinScope<'_, '_>,
    bytes: View<'_>,
) -> Result<OrRefusal<u32>, Thrown> {
    let length = bytes.byte_length();
    if length > MODULE {
        let why = format!("the module has {length} bytes; at most {MODULE} are supported");
        return Ok(OrRefusal::Refused(why));
    }
    let counted = make_room(scope, length)
        .and_then(|budget| budget.count(contents::read(bytes, <[u8]>::to_vec)));
    let copy = ModuleBytes::Copied(counted.ok_or_else(out_of_memory)?);
    Ok(OrRefusal::Value(slot::<PreparingModules>(scope).add(copy)))
}

/// Validates the next part of a module. Returns true if the module is valid, `undefined` if there
/// is more to validate, or the reason if the module is refused.
#[op]
pub(crate) fn wasm_step(scope: &mut v8::PinScope<'_, '_>, module: u32) -> Option<OrRefusal<True>> {
    let module = find(scope, module)?;
    match module.check.as_mut()?.step(module.bytes.as_ref()) {
        Ok(sizes) => {
            module.sizes = sizes?;
            Some(OrRefusal::Value(True))
        }
        Err(refused) => Some(OrRefusal::Refused(refused.to_string())),
    }
}

/// Returns true if a valid module may be compiled, and otherwise the reason why not. Returns
/// `undefined` if the module is not open, or was admitted before.
///
/// # Errors
/// Fails if there is not enough memory.
#[op]
pub(crate) fn wasm_admit(
    scope: &mut v8::PinScope<'_, '_>,
    module: u32,
) -> Result<Option<OrRefusal<True>>, Thrown> {
    let valid = find(scope, module).and_then(|valid| Some((valid.sizes, valid.check.take()?)));
    let Some((sizes, check)) = valid else { return Ok(None) };
    match admit(scope, check, &sizes) {
        Ok(code) => {
            let code = code.ok_or_else(out_of_memory)?;
            find(scope, module).expect("the module is open during its own admission").code =
                Some(code);
            Ok(Some(OrRefusal::Value(True)))
        }
        Err(refused) => Ok(Some(OrRefusal::Refused(refused.to_string()))),
    }
}

/// Compiles a module. Returns V8's module object, or throws.
#[op]
pub(crate) fn wasm_compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: u32,
) -> Maybe<v8::Local<'s, v8::WasmModuleObject>> {
    Maybe(compile(scope, module))
}

fn compile<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: u32,
) -> Option<v8::Local<'s, v8::WasmModuleObject>> {
    let module = find(scope, module)?;
    let (bytes, sizes) = (std::mem::take(&mut module.bytes), module.sizes);
    let object =
        code_space::while_compiling(|| v8::WasmModuleObject::compile(scope, bytes.as_ref()))?;
    if let ModuleBytes::Revision(_) = bytes
        && let Some(compiled) = scope.get_slot::<Compiled>()
    {
        compiled.add(object.get_compiled_module(), sizes);
    }
    Some(object)
}

/// Takes the bytes of a module and returns them. They can be taken once, here or by
/// [`wasm_compile`].
///
/// # Errors
/// Fails if there is not enough memory.
#[op]
pub(crate) fn wasm_bytes<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: u32,
) -> Result<Maybe<v8::Local<'s, v8::Uint8Array>>, Thrown> {
    let Some(module) = find(scope, module) else { return Ok(Maybe(None)) };
    let bytes = std::mem::take(&mut module.bytes);
    let counted = counted(scope, bytes).ok_or_else(out_of_memory)?;
    Ok(Maybe(array_of(scope, counted)))
}

fn counted(scope: &mut v8::PinScope<'_, '_>, bytes: ModuleBytes) -> Option<CountedBytes> {
    match bytes {
        ModuleBytes::Copied(counted) => Some(counted),
        ModuleBytes::Revision(bytes) => make_room(scope, bytes.len())?.count(bytes.to_vec()),
    }
}

/// Returns an array buffer that accounts for V8's memory for a module, and must live as long as the
/// module.
#[op]
pub(crate) fn wasm_keep<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    module: u32,
) -> Maybe<v8::Local<'s, v8::ArrayBuffer>> {
    let code = find(scope, module).and_then(|module| module.code.take());
    Maybe(code.map(|code| {
        let store = code.into_backing_store().make_shared();
        v8::ArrayBuffer::with_backing_store(scope, &store)
    }))
}

/// Drops a module.
#[op]
pub(crate) fn wasm_close(scope: &mut v8::PinScope<'_, '_>, module: u32) {
    slot::<PreparingModules>(scope).close(module);
}
