//! The native half of `node-fs-tree.js`: the Worker's modules as files, and an object for each
//! invocation, which holds the files that the invocation writes.
//!
//! The files themselves are in the Worker's heap: their contents count as array buffers and their
//! names as objects, so the isolate's limits bound both.

use tenon_engine::Attachment;
use tenon_engine::collection::make_room;
use tenon_engine::state::State;
use tenon_engine::string::array_of;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;

/// The object that the invocation's JavaScript fills, if it has asked for one. It becomes garbage
/// when the invocation ends.
#[derive(Default)]
struct Files(Option<v8::Global<v8::Object>>);

impl Attachment for Files {}

/// Returns an object that lives as long as the running invocation, or `undefined` if no invocation
/// is running. All calls by an invocation return the same object.
#[op]
pub(crate) fn invocation_object<'s>(
    scope: &mut v8::PinScope<'s, '_>,
) -> Option<v8::Local<'s, v8::Object>> {
    let state = State::of(scope);
    let id = state.current(scope)?;
    // No object is allocated while the table is borrowed, because V8 may then call back.
    let kept =
        state.invocations.borrow().get(id)?.attached::<Files>().and_then(|files| files.0.clone());
    if let Some(object) = kept {
        return Some(v8::Local::new(scope, object));
    }
    let object = v8::Object::new(scope);
    let global = v8::Global::new(scope, object);
    state.invocations.borrow_mut().get_mut(id)?.attach::<Files>().0 = Some(global);
    Some(object)
}

/// Returns the names of the Worker's modules.
#[op]
pub(crate) fn bundle_names(scope: &mut v8::PinScope<'_, '_>) -> Vec<String> {
    State::of(scope).revision.modules.keys().cloned().collect()
}

/// Returns the length of a module in bytes, or 0 if there is no such module.
#[op]
pub(crate) fn bundle_length(scope: &mut v8::PinScope<'_, '_>, name: String) -> u32 {
    let state = State::of(scope);
    let module = state.revision.modules.get(&name);
    module.and_then(|content| content.len().try_into().ok()).unwrap_or_default()
}

/// Returns up to `max_len` bytes of a module, beginning at the byte `from`.
#[op]
pub(crate) fn bundle_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: String,
    from: u32,
    max_len: u32,
) -> Result<v8::Local<'s, v8::Uint8Array>, Thrown> {
    let state = State::of(scope);
    let content = state.revision.modules.get(&name).map(|content| &content[..]).unwrap_or_default();
    let from = (from as usize).min(content.len());
    let to = from.saturating_add(max_len as usize).min(content.len());
    let bytes = content[from..to].to_vec();
    let counted = make_room(scope, bytes.len()).and_then(|buffers| buffers.count(bytes));
    let counted = counted.ok_or_else(out_of_memory)?;
    array_of(scope, counted).ok_or_else(out_of_memory)
}
