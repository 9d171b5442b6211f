//! Converts text and bytes between Rust and V8.

use bytes::Bytes;

use super::buffers::{Block, BufferPool};
use super::bytes as contents;
use super::collection::make_room;
use super::heap::CountedBytes;
use super::piece::Piece;

/// Returns at most the first `limit` bytes of `string` as UTF-8. The limit is needed because a
/// string may be as large as the heap.
pub fn beginning(
    scope: &v8::PinScope<'_, '_>,
    string: v8::Local<'_, v8::String>,
    limit: usize,
) -> String {
    let mut bytes = vec![0; limit.min(string.length().saturating_mul(3))];
    let written =
        string.write_utf8_v2(scope, &mut bytes, v8::WriteFlags::kReplaceInvalidUtf8, None);
    bytes.truncate(written);
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Makes a string with one character per octet, which is how JavaScript sees HTTP header values.
/// Returns `None` if the string would be too long for V8.
pub fn from_octets<'s>(
    scope: &v8::PinScope<'s, '_>,
    octets: &[u8],
) -> Option<v8::Local<'s, v8::String>> {
    v8::String::new_from_one_byte(scope, octets, v8::NewStringType::Normal)
}

/// Makes a string of text. Returns `None` if the string would be too long for V8.
pub fn from_text<'s>(
    scope: &v8::PinScope<'s, '_>,
    text: &str,
) -> Option<v8::Local<'s, v8::String>> {
    // V8 only copies octets, whereas it decodes UTF-8 in two passes.
    if text.is_ascii() { from_octets(scope, text.as_bytes()) } else { v8::String::new(scope, text) }
}

/// Makes a string that V8 internalizes, with one character per octet. This function is for names,
/// most of which occur again and again. Returns `None` if the string would be too long for V8.
pub fn from_name<'s>(
    scope: &v8::PinScope<'s, '_>,
    name: &str,
) -> Option<v8::Local<'s, v8::String>> {
    v8::String::new_from_one_byte(scope, name.as_bytes(), v8::NewStringType::Internalized)
}

/// Makes a header list in the form that JavaScript keeps: name, value, name, value, … Returns
/// `None` if a string would be too long for V8.
pub fn from_headers<'s, 'h>(
    scope: &v8::PinScope<'s, '_>,
    headers: impl Iterator<Item = (&'h str, &'h [u8])>,
) -> Option<Vec<v8::Local<'s, v8::Value>>> {
    let strings = headers.flat_map(|(name, value)| {
        [
            from_name(scope, name).map(v8::Local::from),
            from_octets(scope, value).map(v8::Local::from),
        ]
    });
    strings.collect()
}

/// Returns the octets of a string with one character per octet.
pub fn to_octets(scope: &v8::PinScope<'_, '_>, string: v8::Local<'_, v8::String>) -> Bytes {
    let mut octets = Vec::new();
    append_octets(scope, string, &mut octets);
    octets.into()
}

/// Appends the octets of a string with one character per octet to a buffer, and returns the
/// appended octets.
pub fn append_octets<'b>(
    scope: &v8::PinScope<'_, '_>,
    string: v8::Local<'_, v8::String>,
    buffer: &'b mut Vec<u8>,
) -> &'b [u8] {
    let start = buffer.len();
    buffer.resize(start + string.length(), 0);
    let octets = &mut buffer[start..];
    string.write_one_byte_v2(scope, 0, octets, v8::WriteFlags::empty());
    octets
}

/// Copies the bytes of a string (as UTF-8) or of an array buffer view; the copy of another value is
/// empty. The bytes are counted against the isolate's budget until they are dropped. Returns `None`
/// if the bytes exceed the budget.
///
/// The bytes are written into one of the shard's blocks, unless they are too long for a block or no
/// block is free. Only a string that is not ASCII is copied once more.
///
/// # Arguments
/// * `extra` - the number of further bytes to count, for the data that is sent before the copy.
pub fn to_body(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
    extra: usize,
) -> Option<Piece> {
    if let Ok(string) = value.try_cast::<v8::String>() {
        let block = block(scope, string.length())
            .and_then(|block| block.fill(|room| write_utf8(scope, string, room)));
        match block {
            Some(block) => charged(scope, block, extra),
            None => long_string(scope, string, extra).map(Piece::from),
        }
    } else if let Ok(view) = value.try_cast::<v8::ArrayBufferView>() {
        let copy = |room: &mut [u8]| {
            Some(view.copy_contents(room)).filter(|copied| *copied == view.byte_length())
        };
        match block(scope, view.byte_length()).and_then(|block| block.fill(copy)) {
            Some(block) => charged(scope, block, extra),
            None => long_view(scope, view, extra).map(Piece::from),
        }
    } else if extra > 0 {
        make_room(scope, extra)?.lend(extra, Vec::new).map(Piece::from)
    } else {
        Some(Piece::default())
    }
}

/// Copies bytes like [`to_body`], but never into one of the shard's blocks. Callers that may keep
/// the bytes use this function.
pub fn to_bytes(
    scope: &mut v8::PinScope<'_, '_>,
    value: v8::Local<'_, v8::Value>,
) -> Option<Bytes> {
    if let Ok(string) = value.try_cast::<v8::String>() {
        long_string(scope, string, 0)
    } else if let Ok(view) = value.try_cast::<v8::ArrayBufferView>() {
        long_view(scope, view, 0)
    } else {
        Some(Bytes::new())
    }
}

fn block(scope: &v8::PinScope<'_, '_>, len: usize) -> Option<Block> {
    scope
        .get_slot::<BufferPool>()
        .expect("the isolate has no slot with its shard's buffer pool")
        .take(len)
}

fn charged(scope: &mut v8::PinScope<'_, '_>, block: Block, extra: usize) -> Option<Piece> {
    let size = block.len() + extra;
    let charge = make_room(scope, size)?.charge(size)?;
    Some(Piece::in_block(block, charge))
}

/// Writes the whole string to `room` as UTF-8 and returns the number of bytes, or `None` if `room`
/// is too short.
fn write_utf8(
    scope: &mut v8::PinScope<'_, '_>,
    string: v8::Local<'_, v8::String>,
    room: &mut [u8],
) -> Option<usize> {
    {
        // V8's heap must not allocate while the view exists.
        let view = v8::ValueView::new(scope, string);
        if let v8::ValueViewData::OneByte(octets) = view.data()
            && octets.is_ascii()
        {
            room.get_mut(..octets.len())?.copy_from_slice(octets);
            return Some(octets.len());
        }
    }
    // The fast conversion needs a buffer of its own, which is freed when this function returns.
    let text = string.to_rust_string_lossy(scope);
    room.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(text.len())
}

fn long_string(
    scope: &mut v8::PinScope<'_, '_>,
    string: v8::Local<'_, v8::String>,
    extra: usize,
) -> Option<Bytes> {
    // The minimum size is checked first, because the exact size can be found only by reading the
    // string, which may have V8's maximum length.
    make_room(scope, string.length())?;
    let size = string.utf8_length(scope) + extra;
    let buffers = make_room(scope, size)?;
    buffers.lend(size, || string.to_rust_string_lossy(scope).into_bytes())
}

fn long_view(
    scope: &mut v8::PinScope<'_, '_>,
    view: v8::Local<'_, v8::ArrayBufferView>,
    extra: usize,
) -> Option<Bytes> {
    let length = view.byte_length();
    make_room(scope, length + extra)?.lend(length + extra, || contents::read(view, <[u8]>::to_vec))
}

/// Makes a `Uint8Array` of bytes that are already counted. Returns `None` if that threw.
pub fn array_of<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    counted: CountedBytes,
) -> Option<v8::Local<'s, v8::Uint8Array>> {
    let length = counted.len();
    let buffer =
        v8::ArrayBuffer::with_backing_store(scope, &counted.into_backing_store().make_shared());
    v8::Uint8Array::new(scope, buffer, 0, length)
}
