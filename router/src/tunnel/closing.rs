//! Follows the frames of a WebSocket, and encodes a Close frame (RFC 6455, sections 5.2 and 5.5.1).
//!
//! A tunnel does not interpret its data. But when a tunnel must end early, because the router
//! drains or the node is lost, a Close frame tells the client the reason. A Close frame may come
//! only between two frames, so the heads of the frames from the Worker are read as they pass.
//!
//! This module is pure.

use bytes::{BufMut, Bytes, BytesMut};

/// The maximum length of a frame's head, in bytes: two bytes, a length of up to eight bytes and a
/// mask of four.
const LONGEST_HEAD: usize = 14;

const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x08;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// The maximum length of a reason, in bytes: the maximum payload of a control frame, without the
/// code of two bytes.
const MAX_REASON: usize = 125 - 2;

/// The reason why an endpoint closes (RFC 6455, section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The endpoint is going away.
    GoingAway = 1001,
    /// The endpoint cannot continue.
    Unexpected = 1011,
}

/// Follows the frames of one direction.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The bytes of the current frame's head so far.
    head: [u8; LONGEST_HEAD],
    len: usize,
    /// The remaining payload of the current frame, in bytes.
    payload: u64,
    /// Whether a Close frame has passed.
    closed: bool,
}

impl Frames {
    /// Records bytes that have passed.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.payload > 0 {
                let skipped =
                    usize::try_from(self.payload).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.payload -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head[self.len] = *byte;
            self.len += 1;
            bytes = rest;
            if let Some(payload) = payload(&self.head[..self.len]) {
                self.closed |= self.head[0] & OPCODE == CLOSE;
                (self.len, self.payload) = (0, payload);
            }
        }
    }

    /// Returns whether a Close frame may be sent now.
    pub(crate) fn may_close(&self) -> bool {
        self.len == 0 && self.payload == 0 && !self.closed
    }
}

/// Returns the payload's length, in bytes, once the head is complete.
fn payload(head: &[u8]) -> Option<u64> {
    let (second, rest) = head.get(1).map(|second| (*second, &head[2..]))?;
    let (short, mask) = (second & !MASKED, if second & MASKED == 0 { 0 } else { 4 });
    let extended = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let length = rest.get(..extended).filter(|_| rest.len() == extended + mask)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
    Some(if extended == 0 { short.into() } else { length })
}

/// Encodes a Close frame as a server sends it.
///
/// # Arguments
/// * `reason` - ASCII text, which is truncated to [`MAX_REASON`].
pub(crate) fn frame(code: Code, reason: &str) -> Bytes {
    let reason = &reason.as_bytes()[..reason.len().min(MAX_REASON)];
    let mut frame = BytesMut::with_capacity(4 + reason.len());
    frame.put_u8(FIN | CLOSE);
    // The sum is below 126, so this byte is the whole length.
    frame.put_u8(2 + reason.len() as u8);
    frame.put_u16(code as u16);
    frame.put_slice(reason);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a frame as any implementation would.
    fn written(opcode: u8, len: usize, masked: bool) -> Vec<u8> {
        let mask_bit = if masked { MASKED } else { 0 };
        let mut frame = vec![FIN | opcode];
        match len {
            0..126 => frame.push(mask_bit | len as u8),
            126..65536 => {
                frame.push(mask_bit | 126);
                frame.extend((len as u16).to_be_bytes());
            }
            _ => {
                frame.push(mask_bit | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        frame.extend(masked.then_some([1, 2, 3, 4]).into_iter().flatten());
        // A payload that looks like a head must not be mistaken for a head.
        frame.extend(std::iter::repeat_n(FIN | CLOSE, len));
        frame
    }

    proptest! {
        #[test]
        fn the_end_of_every_frame_is_found_however_its_bytes_are_split(
            frames in prop::collection::vec(
                (0_u8..8, prop_oneof![Just(0), 1_usize..130, 65_000_usize..66_000], any::<bool>()),
                1..6,
            ),
            cut in 1_usize..70_000,
        ) {
            let mut follower = Frames::default();
            for (opcode, len, masked) in frames {
                let frame = written(opcode, len, masked);
                let (last, before) = frame.split_last().unwrap();
                for piece in before.chunks(cut) {
                    follower.pass(piece);
                    prop_assert!(!follower.may_close());
                }
                follower.pass(&[*last]);
                prop_assert!(follower.may_close());
            }
            follower.pass(&written(CLOSE, 2, false));
            prop_assert!(!follower.may_close(), "a second Close frame may be sent");
        }
    }

    #[test]
    fn a_frame_of_the_maximum_length_does_not_overflow() {
        let mut follower = Frames::default();
        follower.pass(&[FIN | 2, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        follower.pass(&[0; 1000]);
        assert!(!follower.may_close());
    }

    #[test]
    fn a_close_frame_carries_the_code_and_the_reason() {
        assert_eq!(frame(Code::GoingAway, "bye")[..], *b"\x88\x05\x03\xe9bye");
        let long = frame(Code::Unexpected, &"x".repeat(500));
        let mut follower = Frames::default();
        follower.pass(&long[..long.len() - 1]);
        assert_eq!((long[1], follower.payload), (125, 1));
    }
}
