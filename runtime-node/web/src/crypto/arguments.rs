//! Arguments from JavaScript. Every buffer is copied: the Worker may change its own while another
//! thread works.

use std::ops::Deref;
use std::sync::Arc;

use tenon_engine::bytes as contents;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::thrown::out_of_memory;

use super::hash::Hash;
use super::keys::{self, Key};

/// The largest copy, in bytes, that is not charged, because it is dropped soon.
const SMALL: usize = 64 << 10;

/// A copy of a Worker's bytes, charged to its memory if it is large.
#[derive(Default)]
pub(crate) struct Data {
    bytes: Vec<u8>,
    _charge: Option<Charge>,
}

impl Data {
    /// Returns the bytes, for changes in place.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the bytes that a view shows; a value that is not a view counts as empty. Returns `None`
/// if there is not enough memory, after throwing.
pub(crate) fn bytes(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
) -> Option<Data> {
    let Ok(view) = value.try_cast::<v8::ArrayBufferView>() else { return Some(Data::default()) };
    let len = view.byte_length();
    let charge = if len > SMALL {
        let charge = make_room(scope, len).and_then(|buffers| buffers.charge(len));
        if charge.is_none() {
            out_of_memory().throw(scope);
            return None;
        }
        charge
    } else {
        None
    };
    Some(Data { bytes: contents::read(view, <[u8]>::to_vec), _charge: charge })
}

/// Returns a hash by its name. The built-in JavaScript always passes a valid one.
pub(crate) fn hash(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Option<Hash> {
    Hash::named(&name(scope, value))
}

/// Returns a short name.
pub(crate) fn name(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> String {
    value.try_cast::<v8::String>().map(|name| name.to_rust_string_lossy(scope)).unwrap_or_default()
}

/// Returns a number whose range JavaScript has checked; 0 if it is omitted.
pub(crate) fn number(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> u32 {
    value.uint32_value(scope).unwrap_or_default()
}

/// Returns the key of a handle.
pub(crate) fn key(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
) -> Option<Arc<Key>> {
    keys::find(scope, value.try_cast::<v8::ArrayBuffer>().ok()?)
}
