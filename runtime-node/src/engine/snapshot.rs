//! The world every isolate begins from: the built-in JavaScript of `src/js`, evaluated when this crate was built.

/// Made by `build.rs`.
static BLOB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/snapshot.bin"));

/// Where `build.rs` left the object `internal` (see `bootstrap.js`): the context's first data.
const INTERNAL: usize = 0;

/// The start-up data, shared by all isolates.
pub(super) fn blob() -> v8::StartupData {
    v8::StartupData::from(BLOB)
}

/// The object `internal` of a context that has just been made.
pub(super) fn internal<'s>(scope: &mut v8::PinScope<'s, '_>) -> v8::Local<'s, v8::Object> {
    scope
        .get_context_data_from_snapshot_once(INTERNAL)
        .expect("build.rs gave the snapshot's context its `internal` object")
}

/// Takes from a new context what V8 puts into it again after the snapshot:
/// - `WebAssembly`, whose memory is outside of both the heap limit and the buffer budget, and can be shared;
/// - `Atomics`, which is of no use without shared memory.
pub(super) fn remove_what_cannot_be_limited(scope: &mut v8::PinScope<'_, '_>) {
    let global = scope.get_current_context().global(scope);
    let removed = ["Atomics", "WebAssembly"].into_iter().all(|name| {
        let key = v8::String::new(scope, name);
        key.and_then(|key| global.delete(scope, key.into())) == Some(true)
    });
    assert!(removed, "V8 defines these as configurable, and nothing of a Worker has run");
}
