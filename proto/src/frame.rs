//! gRPC's message framing over HTTP/2: one byte of flags, four bytes of length, then the message.
//!
//! The request path speaks HTTP/2 through `tenon-hop`, or through hyper with a peer of another
//! version, and frames its messages here, without the boxed bodies and `Send` bounds of a general
//! gRPC stack, because a shard's state never leaves its thread. The bytes on the wire are ordinary
//! gRPC (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use std::mem;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// Length of a message's header, which is its flags and its length field, in bytes.
pub const HEADER_LEN: usize = 5;

/// Maximum size of a message, in bytes. Bodies are streamed in far smaller messages.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Maximum size of a body that is sent within the head message, in bytes. Larger bodies follow in
/// messages of their own.
pub const INLINE_BODY: usize = 64 * 1024;

/// The reason why bytes could not be decoded as gRPC messages.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the message is compressed, which was not negotiated")]
    Compressed,
    #[error("a message of {0} bytes exceeds the limit of {MAX_MESSAGE}")]
    TooLarge(usize),
    #[error("the stream ended within a message")]
    Truncated,
    #[error("the message cannot be decoded: {0}")]
    Malformed(#[from] prost::DecodeError),
}

/// Returns the framed form of a message.
pub fn encode(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut buffer = BytesMut::with_capacity(HEADER_LEN + len);
    buffer.put_u8(0);
    buffer.put_u32(len as u32);
    message.encode(&mut buffer).expect("the buffer is too small for the message");
    buffer.freeze()
}

/// Splits DATA frames into messages, regardless of the frame boundaries. Byte fields of a message
/// that arrived in one frame share that frame's memory.
#[derive(Default)]
pub struct Decoder {
    buffer: Bytes,
}

impl Decoder {
    /// Appends the next DATA frame.
    pub fn push(&mut self, data: Bytes) {
        if self.buffer.is_empty() {
            self.buffer = data;
            return;
        }
        // A buffer that was joined before is not shared, so it grows in place. The time to join a
        // message that arrives in frames of one byte must not grow with the square of its length.
        let mut joined = mem::take(&mut self.buffer).try_into_mut().unwrap_or_else(|shared| {
            let mut joined = BytesMut::with_capacity(shared.len() + data.len());
            joined.put_slice(&shared);
            joined
        });
        joined.put_slice(&data);
        self.buffer = joined.freeze();
    }

    /// Returns the next complete message, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Fails if the bytes are not a message. The decoder must not be used after that.
    #[expect(clippy::should_implement_trait, reason = "each call chooses the type of its message")]
    pub fn next<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        if self.buffer.len() < HEADER_LEN {
            return Ok(None);
        }
        if self.buffer[0] != 0 {
            return Err(FrameError::Compressed);
        }
        let len =
            u32::from_be_bytes([self.buffer[1], self.buffer[2], self.buffer[3], self.buffer[4]])
                as usize;
        if len > MAX_MESSAGE {
            return Err(FrameError::TooLarge(len));
        }
        if self.buffer.len() < HEADER_LEN + len {
            return Ok(None);
        }
        self.buffer.advance(HEADER_LEN);
        Ok(Some(M::decode(self.buffer.split_to(len))?))
    }

    /// Checks that the stream ended between two messages. This method must be called at the end of
    /// the stream.
    ///
    /// # Errors
    /// Fails with [`FrameError::Truncated`] if the stream ended within a message.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Route;

    fn route(path: &str) -> Route {
        Route { host: "a.example".into(), path: path.into() }
    }

    #[test]
    fn messages_are_decoded_regardless_of_the_chunking() {
        let stream =
            [encode(&route("/")), encode(&Route::default()), encode(&route("/api"))].concat();
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::default();
            let mut paths = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                decoder.push(Bytes::copy_from_slice(part));
                while let Some(message) = decoder.next::<Route>().unwrap() {
                    paths.push(message.path);
                }
            }
            assert_eq!(paths, ["/", "", "/api"], "cut at {cut}");
            decoder.finish().unwrap();
        }
    }

    #[test]
    fn a_message_in_one_byte_chunks_is_decoded() {
        let long = "x".repeat(512 * 1024);
        let mut decoder = Decoder::default();
        for chunk in encode(&route(&long)).chunks(1) {
            assert_eq!(decoder.next::<Route>().unwrap(), None);
            decoder.push(Bytes::copy_from_slice(chunk));
        }
        assert_eq!(decoder.next::<Route>().unwrap(), Some(route(&long)));
    }

    #[test]
    fn a_malformed_message_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert!(matches!(decoder.next::<Route>(), Err(FrameError::Compressed)));

        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]));
        assert!(matches!(decoder.next::<Route>(), Err(FrameError::TooLarge(_))));

        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(&[0, 0, 0, 0, 1, 0xff]));
        assert!(matches!(decoder.next::<Route>(), Err(FrameError::Malformed(_))));

        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(&[0, 0, 0]));
        assert!(matches!(decoder.next::<Route>(), Ok(None)));
        assert!(matches!(decoder.finish(), Err(FrameError::Truncated)));
    }
}
