//! Encodes the part of a message before a response's body, so that the body is sent from where it
//! lies.
//!
//! ```text
//!  gRPC: flags, length │ part: key, length │ status, headers, more_body │ body: key, length │ body
//!  └────────────────────────────────── prologue ──────────────────────────────────────────┘
//! ```
//!
//! The generated types would copy the body into the message. The bytes written here are the same
//! `InvokeResponse`, with the body as its last field; a test decodes them with the generated types.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use tenon_proto::frame::HEADER_LEN;
use tenon_proto::runtime::ResponseHead;

/// Field numbers of `InvokeResponse.head` and `InvokeResponse.body`.
const PART_HEAD: u32 = 1;
const PART_BODY: u32 = 2;

/// Field number of `ResponseHead.body`.
const BODY: u32 = 3;

/// All of a message except the body at its end.
pub(super) struct Prologue<'a> {
    /// The head without its body. `None` in the messages after the first.
    head: Option<&'a ResponseHead>,
    /// Encoded length of the head, in bytes.
    head_len: usize,
    /// Length of the body that follows, in bytes.
    body_len: usize,
}

impl<'a> Prologue<'a> {
    /// Creates the prologue of the first message.
    pub(super) fn of_head(head: &'a ResponseHead, body_len: usize) -> Self {
        debug_assert!(head.body.is_empty(), "the body follows");
        Self { head: Some(head), head_len: head.encoded_len(), body_len }
    }

    /// Creates the prologue of a later message.
    pub(super) fn of_piece(body_len: usize) -> Self {
        Self { head: None, head_len: 0, body_len }
    }

    /// Returns its length, in bytes.
    pub(super) fn len(&self) -> usize {
        HEADER_LEN + key_len(self.part_len()) + self.part_len() - self.body_len
    }

    /// Writes [`Self::len`] bytes.
    pub(super) fn write(&self, mut to: impl BufMut) {
        let part_len = self.part_len();
        to.put_u8(0);
        to.put_u32((key_len(part_len) + part_len) as u32);
        let Some(head) = self.head else {
            return put_key(PART_BODY, self.body_len, &mut to);
        };
        put_key(PART_HEAD, part_len, &mut to);
        head.encode_raw(&mut to);
        if self.body_len > 0 {
            put_key(BODY, self.body_len, &mut to);
        }
    }

    /// Encodes the prologue into its own buffer.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.len());
        self.write(&mut bytes);
        bytes.freeze()
    }

    /// Returns the length of the part: the body and all that precedes it in the part.
    fn part_len(&self) -> usize {
        let key_len = if self.head.is_some() && self.body_len > 0 { key_len(self.body_len) } else { 0 };
        self.head_len + key_len + self.body_len
    }
}

fn put_key(field: u32, len: usize, to: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

/// Returns the length of the key and length prefix of a field of `len` bytes whose number is below
/// 16.
fn key_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_proto::frame::Decoder;
    use tenon_proto::runtime::invoke_response::Part;
    use tenon_proto::runtime::{Header, InvokeResponse};

    use super::*;

    fn read(prologue: &Prologue<'_>, body: &[u8]) -> Part {
        let mut message = Vec::new();
        prologue.write(&mut message);
        assert_eq!(message.len(), prologue.len());
        message.extend_from_slice(body);
        let mut decoder = Decoder::default();
        decoder.push(message.into());
        let part = decoder.next::<InvokeResponse>().unwrap().unwrap().part.unwrap();
        decoder.finish().unwrap();
        part
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_the_generated_types_read(
            status in 0_u32..1000,
            headers in prop::collection::vec(("[a-z-]{0,40}", prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            body in prop_oneof![Just(0_usize), 0_usize..300, 16_000_usize..70_000],
            more_body: bool,
        ) {
            let headers = headers.into_iter().map(|(name, value)| Header { name, value: value.into() }).collect();
            let body = vec![7; body];
            let mut head = ResponseHead { status, headers, body: Bytes::new(), more_body };
            let part = read(&Prologue::of_head(&head, body.len()), &body);
            head.body = body.into();
            prop_assert_eq!(part, Part::Head(head));
        }

        #[test]
        fn a_piece_is_a_message_of_its_own(body in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let part = read(&Prologue::of_piece(body.len()), &body);
            prop_assert_eq!(part, Part::Body(body.into()));
        }
    }
}
