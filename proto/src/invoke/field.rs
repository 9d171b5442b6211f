//! The fields that carry the parts of requests and responses, and their encoding.

use bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use crate::frame::HEADER_LEN;

/// Number of the field `head` of both `InvokeRequest` and `InvokeResponse`.
pub(super) const PART_HEAD: u32 = 1;
/// Number of the field `body` of both `InvokeRequest` and `InvokeResponse`.
pub(super) const PART_BODY: u32 = 2;
/// Number of the field `entry_head` of `InvokeRequest`.
pub(super) const PART_ENTRY_HEAD: u32 = 3;

/// Writes gRPC's header of a message, and the key and length of its only field.
///
/// # Arguments
/// * `len` - the length of the field, in bytes.
pub(super) fn put_message(part: u32, len: usize, to: &mut impl BufMut) {
    to.put_u8(0);
    to.put_u32((key_len(len) + len) as u32);
    put_key(part, len, to);
}

/// Returns the number of bytes that [`put_message`] writes.
pub(super) fn message_key_len(len: usize) -> usize {
    HEADER_LEN + key_len(len)
}

/// Writes the key, the length and the value of a field.
pub(super) fn put(field: u32, value: &[u8], to: &mut impl BufMut) {
    put_key(field, value.len(), to);
    to.put_slice(value);
}

/// Writes the key and length of a field of `len` bytes.
pub(super) fn put_key(field: u32, len: usize, to: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

/// Returns the length of the key and length prefix of a field of `len` bytes whose number is below
/// 16.
pub(super) fn key_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64)
}
