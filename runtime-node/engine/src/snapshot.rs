//! The snapshot from which every isolate starts, which contains the built-in JavaScript of the Web
//! interfaces, evaluated when their crate was built.

#![allow(unsafe_code)] // Shares the addresses of functions and static texts between threads.

#[cfg(test)]
pub(crate) mod make;

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

use super::callbacks;
use super::globals::{self, Later};
use super::inspector::agent::Agent;
use super::realm::Realm;
use super::slot::slot_value;

/// Index in the snapshot of the context from which realms are made. It is not V8's default context,
/// because V8 does not report whether a context could be made from the default context.
const CONTEXT: usize = 0;

/// Index of the object `internal` (see `bootstrap.js`) in the context's data.
const INTERNAL: usize = 0;

/// The built-in JavaScript in the form that the engine needs, made when a program was built
/// (`make`).
pub struct Builtins {
    /// The snapshot.
    pub blob: &'static [u8],
    /// The texts of all files, to which the snapshot refers by index.
    pub sources: &'static [v8::OneByteConst],
    /// The names of the files that are not in the snapshot, with their indices in `sources`.
    pub late: &'static [(&'static str, usize)],
    /// The native functions, in the order of the names with which the snapshot was made.
    pub functions: fn() -> Vec<v8::FunctionCallback>,
    /// The external references of the snapshot, which are collected when the first isolate is made.
    pub references: References,
}

/// A snapshot's external references, collected when the first isolate of the process is made.
#[derive(Default)]
pub struct References(OnceLock<Vec<v8::ExternalReference>>);

// SAFETY: the references are addresses of functions and of static texts, which are only ever read.
unsafe impl Send for References {}

// SAFETY: as above; the lock ensures that they are collected once.
unsafe impl Sync for References {}

impl References {
    /// Returns references that have not been collected yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

impl Builtins {
    /// Returns the parameters of an isolate that starts from the snapshot. Every isolate of a
    /// process must start from the same snapshot: the isolates share V8's read-only heap, which
    /// comes from the first isolate's snapshot, and V8 ends the process if another snapshot refers
    /// to an object that is not in that heap.
    pub(crate) fn params(&'static self) -> v8::CreateParams {
        v8::CreateParams::default()
            .snapshot_blob(v8::StartupData::from(self.blob))
            .external_references(self.references().into())
    }

    /// Returns the snapshot's external references, in the order in which they were registered when
    /// the snapshot was made.
    fn references(&'static self) -> &'static [v8::ExternalReference] {
        self.references.0.get_or_init(|| {
            let pointer = |text: &v8::OneByteConst| v8::ExternalReference {
                pointer: ptr::from_ref(text).cast_mut().cast(),
            };
            let functions =
                (self.functions)().into_iter().map(|function| v8::ExternalReference { function });
            let getter: v8::AccessorNameGetterCallback =
                v8::MapFnTo::map_fn_to(callbacks::on_lazy::<Later>);
            let getter = v8::ExternalReference { pointer: getter as *mut c_void };
            // V8 takes a list that ends with null.
            let end = v8::ExternalReference { pointer: ptr::null_mut() };
            self.sources.iter().map(pointer).chain(functions).chain([getter, end]).collect()
        })
    }
}

/// Evaluates a file that is not in the snapshot. Returns `None` if the file throws or does not
/// exist.
pub fn late<'s>(scope: &mut v8::PinScope<'s, '_>, name: &str) -> Option<v8::Local<'s, v8::Value>> {
    let builtins = slot_value::<&'static Builtins>(scope);
    let (_, index) = builtins.late.iter().find(|(late, _)| *late == name)?;
    let resource = v8::String::new(scope, &format!("tenon:{name}"))?.into();
    let text = v8::String::new_from_onebyte_const(scope, &builtins.sources[*index])?;
    let origin =
        v8::ScriptOrigin::new(scope, resource, 0, 0, false, 0, None, false, false, false, None);
    v8::Script::compile(scope, text, Some(&origin))?.run(scope)
}

/// Makes a realm without modules, in a new context from the snapshot. Returns `None` if the heap is
/// full. The guard has then requested termination, so any step of this function may have failed.
///
/// # Arguments
/// * `agent` - the isolate's agent, which reports the realm to its clients.
pub(crate) fn new_realm(
    scope: &mut v8::PinScope<'_, '_, ()>,
    agent: Option<&Agent>,
) -> Option<Rc<Realm>> {
    let context = v8::Context::from_snapshot(scope, CONTEXT, v8::ContextOptions::default())?;
    let scope = &mut v8::ContextScope::new(scope, context);
    let internal: v8::Local<'_, v8::Object> =
        scope.get_context_data_from_snapshot_once(INTERNAL).ok()?;
    if let Some(agent) = agent {
        agent.add_realm(scope, internal)?;
    }
    globals::replace_builtins(scope, internal)?;
    Realm::new(scope, internal)
}
