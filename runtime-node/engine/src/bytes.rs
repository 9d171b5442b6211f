//! Accesses the memory of array buffers without retaining it.

use std::cell::Cell;

/// Calls `read` with the bytes of `view`: an empty slice if the view's buffer has been detached. No
/// JavaScript may run during the call.
pub fn read<R>(view: v8::Local<'_, v8::ArrayBufferView>, read: impl FnOnce(&[u8]) -> R) -> R {
    // The contents of small arrays are in V8's heap, and are copied to `storage`.
    let mut storage = [0; v8::TYPED_ARRAY_MAX_SIZE_IN_HEAP];
    read(view.get_contents(&mut storage))
}

/// Calls `write` with the memory of `view`, which is empty if its buffer has been detached or has
/// shrunk.
pub fn cells<R>(
    view: v8::Local<'_, v8::ArrayBufferView>,
    write: impl FnOnce(&[Cell<u8>]) -> R,
) -> R {
    let store = view.get_backing_store();
    let start = view.byte_offset();
    let visible =
        store.as_ref().and_then(|store| store.get(start..start.checked_add(view.byte_length())?));
    write(visible.unwrap_or_default())
}
