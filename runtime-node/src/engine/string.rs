//! Text and bytes between Rust and V8.

use std::sync::Arc;

use bytes::Bytes;

use super::heap::BufferBudget;
use super::response::ResponseBody;
use super::state::State;
use crate::buffers::{Block, BufferPool};

/// The first `limit` bytes of `string` as UTF-8, at most: the whole may be as large as the heap.
pub(super) fn beginning(scope: &v8::PinScope<'_, '_>, string: v8::Local<'_, v8::String>, limit: usize) -> String {
    let mut bytes = vec![0; limit.min(string.length().saturating_mul(3))];
    let written = string.write_utf8_v2(scope, &mut bytes, v8::WriteFlags::kReplaceInvalidUtf8, None);
    bytes.truncate(written);
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A string of one character per octet, as HTTP's header values are shown to JavaScript. `None` when it is too long
/// for V8.
pub(super) fn from_octets<'s>(scope: &v8::PinScope<'s, '_>, octets: &[u8]) -> Option<v8::Local<'s, v8::String>> {
    v8::String::new_from_one_byte(scope, octets, v8::NewStringType::Normal)
}

/// The same, for one of few names.
pub(super) fn from_name<'s>(scope: &v8::PinScope<'s, '_>, name: &str) -> Option<v8::Local<'s, v8::String>> {
    v8::String::new_from_one_byte(scope, name.as_bytes(), v8::NewStringType::Internalized)
}

/// The octets of such a string.
pub(super) fn to_octets(scope: &v8::PinScope<'_, '_>, string: v8::Local<'_, v8::String>) -> Bytes {
    let mut octets = vec![0; string.length()];
    string.write_one_byte_v2(scope, 0, &mut octets, v8::WriteFlags::empty());
    octets.into()
}

/// The bytes of a string (as UTF-8), an array buffer view, or neither, which has none; counted against the isolate's
/// budget until they are dropped. `None` when they are too many.
///
/// They are written once, into a block of the shard's, unless they are too long for one.
pub(super) fn to_body(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<'_, v8::Value>) -> Option<ResponseBody> {
    if let Ok(string) = value.try_cast::<v8::String>() {
        let block = block(scope, string.length()).and_then(|block| block.fill(|room| write_utf8(scope, string, room)));
        match block {
            Some(block) => charged(scope, block),
            None => long_string(scope, string),
        }
    } else if let Ok(view) = value.try_cast::<v8::ArrayBufferView>() {
        let copy = |room: &mut [u8]| Some(view.copy_contents(room)).filter(|copied| *copied == view.byte_length());
        match block(scope, view.byte_length()).and_then(|block| block.fill(copy)) {
            Some(block) => charged(scope, block),
            None => long_view(scope, view),
        }
    } else {
        Some(ResponseBody::default())
    }
}

fn block(scope: &v8::PinScope<'_, '_>, len: usize) -> Option<Block> {
    scope.get_slot::<BufferPool>().expect("every isolate gets its shard's when it is made").take(len)
}

fn charged(scope: &mut v8::PinScope<'_, '_>, block: Block) -> Option<ResponseBody> {
    let charge = make_room(scope, block.len())?.charge(block.len())?;
    Some(ResponseBody::in_block(block, charge))
}

/// All of the string, and how many bytes that is; `None` when it is too long.
fn write_utf8(scope: &mut v8::PinScope<'_, '_>, string: v8::Local<'_, v8::String>, room: &mut [u8]) -> Option<usize> {
    {
        // Nothing can be allocated in V8's heap while this is there.
        let view = v8::ValueView::new(scope, string);
        if let v8::ValueViewData::OneByte(octets) = view.data()
            && octets.is_ascii()
        {
            room.get_mut(..octets.len())?.copy_from_slice(octets);
            return Some(octets.len());
        }
    }
    // What converts fast wants memory of its own, which is gone again at once.
    let text = string.to_rust_string_lossy(scope);
    room.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(text.len())
}

fn long_string(scope: &mut v8::PinScope<'_, '_>, string: v8::Local<'_, v8::String>) -> Option<ResponseBody> {
    // First by what it has at least: to know more is to read it, and it may be as large as V8 lets one be.
    make_room(scope, string.length())?;
    let length = string.utf8_length(scope);
    let buffers = make_room(scope, length)?;
    buffers.lend(length, || string.to_rust_string_lossy(scope).into_bytes()).map(ResponseBody::from)
}

fn long_view(scope: &mut v8::PinScope<'_, '_>, view: v8::Local<'_, v8::ArrayBufferView>) -> Option<ResponseBody> {
    let length = view.byte_length();
    let copied = make_room(scope, length)?.lend(length, || {
        let mut bytes = vec![0; length];
        view.copy_contents(&mut bytes);
        bytes
    });
    copied.map(ResponseBody::from)
}

/// The isolate's budget, once it has room for so many bytes more: what fills it may be garbage, as V8 finds out for the
/// array buffers that it makes itself. `None` when it has not.
fn make_room(scope: &mut v8::PinScope<'_, '_>, length: usize) -> Option<Arc<BufferBudget>> {
    let buffers = Arc::clone(&State::of(scope).buffers);
    if !buffers.has_room(length) && length <= buffers.limit() {
        scope.low_memory_notification();
    }
    buffers.has_room(length).then_some(buffers)
}

/// A `Uint8Array` of these bytes, counted against the isolate's budget. `None` when it threw, for want of memory.
pub(super) fn to_uint8_array<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: Vec<u8>,
) -> Option<v8::Local<'s, v8::Uint8Array>> {
    let length = bytes.len();
    let Some(store) = make_room(scope, length).and_then(|buffers| buffers.adopt(bytes)) else {
        let message = v8::String::new(scope, "Array buffer allocation failed")?;
        let exception = v8::Exception::range_error(scope, message);
        scope.throw_exception(exception);
        return None;
    };
    let buffer = v8::ArrayBuffer::with_backing_store(scope, &store.make_shared());
    v8::Uint8Array::new(scope, buffer, 0, length)
}
