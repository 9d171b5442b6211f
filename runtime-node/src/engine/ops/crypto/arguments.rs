//! What JavaScript hands over. Every buffer is copied: the Worker may change its own while another thread works.

use std::ops::Deref;
use std::sync::Arc;

use super::digest::Hash;
use super::keys::{self, Key};
use crate::engine::collection::make_room;
use crate::engine::heap::Charge;
use crate::engine::ops::bytes as contents;
use crate::engine::ops::promise::out_of_memory;

/// A copy that is smaller is gone again so soon that it need not be counted.
const SMALL: usize = 64 << 10;

/// A copy of a Worker's bytes, counted against its memory if it is large.
#[derive(Default)]
pub(super) struct Data {
    bytes: Vec<u8>,
    _charge: Option<Charge>,
}

impl Data {
    /// To be changed in place.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A copy of what a view shows; of what is none, nothing. `None` when there is no memory for it, which has been thrown.
pub(super) fn bytes(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Option<Data> {
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

/// A hash by its name. Ours always is one.
pub(super) fn hash(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Option<Hash> {
    Hash::named(&name(scope, value))
}

/// One of few words.
pub(super) fn name(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> String {
    value.try_cast::<v8::String>().map(|name| name.to_rust_string_lossy(scope)).unwrap_or_default()
}

/// A number that JavaScript has seen to be in range; 0 when it is left out.
pub(super) fn number(scope: &v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> u32 {
    value.uint32_value(scope).unwrap_or_default()
}

/// The key of a handle.
pub(super) fn key(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Option<Arc<Key>> {
    keys::find(scope, value.try_cast::<v8::ArrayBuffer>().ok()?)
}
