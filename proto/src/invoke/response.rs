//! Encodes the part of a message before a response's body, so that the body is sent without
//! being copied.
//!
//! ```text
//!  gRPC: flags, length │ part: key, length │ status, headers, more_body │ body: key, length │ body
//!  └────────────────────────────────── prologue ──────────────────────────────────────────┘
//! ```
//!
//! The generated types would copy the body into the message. This module writes the same
//! `InvokeResponse`, with the body as its last field. A test decodes it with the generated types.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use super::field::{PART_BODY, PART_HEAD, key_len, message_key_len, put_key, put_message};
use crate::runtime::ResponseHead;

/// Field number of `ResponseHead.body`.
const BODY: u32 = 3;

/// All of a message except the body at its end.
pub struct Prologue<'a> {
    /// The head without its body. `None` in the messages after the first.
    head: Option<&'a ResponseHead>,
    /// Encoded length of the head, in bytes.
    head_len: usize,
    /// Length of the body that follows, in bytes.
    body_len: usize,
}

impl<'a> Prologue<'a> {
    /// Creates the prologue of the first message.
    pub fn of_head(head: &'a ResponseHead, body_len: usize) -> Self {
        debug_assert!(head.body.is_empty(), "the head contains a body");
        Self { head: Some(head), head_len: head.encoded_len(), body_len }
    }

    /// Creates the prologue of a later message of a response, or of a later message of a request.
    pub fn of_piece(body_len: usize) -> Self {
        Self { head: None, head_len: 0, body_len }
    }

    /// Returns the length of the prologue, in bytes.
    pub fn encoded_len(&self) -> usize {
        message_key_len(self.part_len()) + self.part_len() - self.body_len
    }

    /// Writes [`Self::encoded_len`] bytes.
    pub fn write(&self, mut to: impl BufMut) {
        let Some(head) = self.head else {
            return put_message(PART_BODY, self.body_len, &mut to);
        };
        put_message(PART_HEAD, self.part_len(), &mut to);
        head.encode_raw(&mut to);
        if self.body_len > 0 {
            put_key(BODY, self.body_len, &mut to);
        }
    }

    /// Encodes the prologue into its own buffer.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.encoded_len());
        self.write(&mut bytes);
        bytes.freeze()
    }

    /// Returns the length of the part: the body and all that precedes it in the part.
    fn part_len(&self) -> usize {
        let key_len =
            if self.head.is_some() && self.body_len > 0 { key_len(self.body_len) } else { 0 };
        self.head_len + key_len + self.body_len
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::Decoder;
    use crate::runtime::invoke_request;
    use crate::runtime::invoke_response::Part;
    use crate::runtime::{Header, InvokeRequest, InvokeResponse};

    fn read(prologue: &Prologue<'_>, body: &[u8]) -> Part {
        let mut message = Vec::new();
        prologue.write(&mut message);
        assert_eq!(message.len(), prologue.encoded_len());
        message.extend_from_slice(body);
        let mut decoder = Decoder::default();
        decoder.push(message.into());
        let part = decoder.next::<InvokeResponse>().unwrap().unwrap().part.unwrap();
        decoder.finish().unwrap();
        part
    }

    proptest! {
        #[test]
        fn a_written_response_decodes_as_the_generated_types(
            status in 0_u32..1000,
            headers in prop::collection::vec(("[a-z-]{0,40}", prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            body in prop_oneof![Just(0_usize), 0_usize..300, 16_000_usize..70_000],
            more_body: bool,
            is_hot: bool,
            cold: bool,
        ) {
            let headers = headers.into_iter().map(|(name, value)| Header { name, value: value.into() }).collect();
            let body = vec![7; body];
            let mut head = ResponseHead { status, headers, body: Bytes::new(), more_body, is_hot, cold };
            let part = read(&Prologue::of_head(&head, body.len()), &body);
            head.body = body.into();
            prop_assert_eq!(part, Part::Head(head));
        }

        #[test]
        fn a_piece_of_a_body_is_its_own_message(body in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let part = read(&Prologue::of_piece(body.len()), &body);
            prop_assert_eq!(part, Part::Body(body.into()));
        }

        #[test]
        fn a_piece_of_a_request_is_encoded_like_one_of_a_response(len in 0_usize..100_000) {
            let body = Bytes::from(vec![7; len]);
            let mut decoder = Decoder::default();
            decoder.push(Prologue::of_piece(len).to_bytes());
            decoder.push(body.clone());
            let message = decoder.next::<InvokeRequest>().unwrap().unwrap();
            decoder.finish().unwrap();
            prop_assert_eq!(message.part, Some(invoke_request::Part::Body(body)));
        }
    }
}
