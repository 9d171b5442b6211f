//! WebAssembly within an isolate's limits.
//!
//! ```text
//!  bytes ──► Check: valid, bounded (in steps) ──► types, code: counted ──► V8 compiles lazily
//!                                                                          │
//!  instances ──► memory: every page of every memory is counted ◄───────────┘
//! ```
//!
//! V8 implements WebAssembly, but neither V8's memory limit nor its termination of code covers
//! everything that V8 does for WebAssembly. These modules cover the rest:
//!
//! - [`check`] bounds the work that V8 will do for a module, before V8 sees the module;
//! - [`types`], [`code`] and [`code_space`] charge the memory that V8 takes outside its heap, and
//!   keep that memory below the amounts at which V8 ends the process;
//! - [`compiled`] keeps compiled modules of a revision for the revision's other isolates;
//! - [`memory`] counts the memories of programs as array buffers are counted, and limits their
//!   growth;
//! - [`opened`] holds modules while they are being prepared;
//! - [`account`] finds the isolate to which memory is charged.
//!
//! Flags of V8 (see `flags.rs`) and `wasm.js` of `tenon-web`, which has the interfaces, make V8
//! compile only on the isolate's own thread, during the isolate's turn. Running code is terminated
//! at loops and calls, like JavaScript.

pub(crate) mod account;
pub mod check;
pub mod code;
pub mod code_space;
pub mod compiled;
pub(crate) mod memory;
pub mod preparing;
pub mod types;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tenon_proto::revision::Revision;

use super::collection::make_room;
use super::heap::CountedBytes;
use super::realm::Realm;
use super::slot::{slot, slot_value};
use super::thrown::out_of_memory;
use check::{Check, ModuleRefused, ModuleSizes};
use code::CodeCharge;
use preparing::PreparingModules;

/// The bytes of a module.
pub enum ModuleBytes {
    /// A copy of bytes that a Worker has passed, because the Worker may continue to write to the
    /// original.
    Copied(CountedBytes),
    /// The bytes of a module of the Worker's revision.
    Revision(Bytes),
}

impl Default for ModuleBytes {
    fn default() -> Self {
        Self::Revision(Bytes::new())
    }
}

impl AsRef<[u8]> for ModuleBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Copied(counted) => counted.as_ref(),
            Self::Revision(bytes) => bytes,
        }
    }
}

/// Charges the memory that V8 will keep for a module that is about to be compiled.
///
/// # Errors
/// Fails if the module has too many new types. Returns `Ok(None)` if there is not enough memory for
/// the module.
pub fn admit(
    scope: &mut v8::PinScope<'_, '_>,
    check: Check,
    sizes: &ModuleSizes,
) -> Result<Option<CodeCharge>, ModuleRefused> {
    let namespace = namespace(scope);
    types::remember(&check.into_types(), slot::<types::Added>(scope), &namespace)?;
    Ok(make_room(scope, sizes.memory())
        .and_then(|budget| CodeCharge::charge(sizes, &budget, &namespace)))
}

/// Returns the namespace of the Worker that the isolate runs.
fn namespace(scope: &v8::PinScope<'_, '_>) -> Arc<str> {
    slot_value::<Rc<Revision>>(scope).worker.namespace().into()
}

/// Returns the `WebAssembly.Module` of a module of the Worker's revision. Returns `None` if an
/// exception was thrown.
pub fn module<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    realm: &Realm,
    bytes: &Bytes,
) -> Option<v8::Local<'s, v8::Value>> {
    let hook = v8::Local::new(scope, &realm.hooks.wasm);
    let undefined = v8::undefined(scope).into();
    let Some((module, sizes)) = slot_value::<compiled::Compiled>(scope).find(bytes) else {
        let number = slot::<PreparingModules>(scope).add(ModuleBytes::Revision(bytes.clone()));
        let number = v8::Integer::new_from_unsigned(scope, number).into();
        return hook.call(scope, undefined, &[number]);
    };
    let namespace = namespace(scope);
    let budget = make_room(scope, sizes.memory());
    let Some(code) = budget.and_then(|budget| CodeCharge::charge(&sizes, &budget, &namespace))
    else {
        out_of_memory().throw(scope);
        return None;
    };
    let module = v8::WasmModuleObject::from_compiled_module(scope, &module)?;
    let kept = v8::ArrayBuffer::with_backing_store(scope, &code.into_backing_store().make_shared());
    hook.call(scope, undefined, &[undefined, module.into(), kept.into()])
}
