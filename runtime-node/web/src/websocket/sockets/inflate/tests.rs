//! Tests with the examples of RFC 7692, and with messages that another encoder has compressed.

use flate2::{Compress, Compression, FlushCompress};
use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { length: 1 << 20, time: Duration::MAX };

/// Passes `bytes` through an inflater, in pieces of `cut` bytes, and returns the output.
fn passed(bytes: &[u8], cut: usize) -> Result<Vec<u8>, InflateError> {
    let mut inflater = Inflater::new(BOUNDS);
    let mut output = Vec::new();
    for piece in bytes.chunks(cut) {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(piece) = inflater.next(&mut input)? {
            assert!(piece.len() <= FRAGMENT + 14);
            output.extend_from_slice(&piece);
        }
        assert!(input.is_empty());
    }
    Ok(output)
}

/// Reads unmasked frames without RSV1. Returns the first byte and the payload of each.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        let (len, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            short => (usize::from(*short), rest),
        };
        frames.push((*first, rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    frames
}

/// Returns the messages in a stream of unmasked frames, each with the first byte of its first
/// frame.
fn messages(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut messages: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut is_open = false;
    for (first, payload) in frames(bytes) {
        if is_open {
            assert_eq!(first & 0x7f, 0, "a frame continues the message");
            messages.last_mut().unwrap().1.extend(payload);
        } else {
            messages.push((first & 0x7f, payload));
        }
        is_open = first & 0x80 == 0;
    }
    assert!(!is_open, "the last message is incomplete");
    messages
}

/// Compresses a message as a sender of the whole message does.
fn deflated(message: &[u8]) -> Vec<u8> {
    let mut encoder = Compress::new(Compression::best(), false);
    let mut output = Vec::with_capacity(message.len() + 1024);
    encoder.compress_vec(message, &mut output, FlushCompress::Sync).unwrap();
    output.truncate(output.len() - TAIL.len());
    output
}

fn written(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..126 => frame.push(bit | len as u8),
        len => {
            frame.push(bit | 126);
            frame.extend((len as u16).to_be_bytes());
        }
    }
    frame.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The examples of RFC 7692 §7.2.3 that need no context takeover.
#[test]
fn the_examples_of_the_standard_are_inflated() {
    let hello = [
        // One compressed block, in one frame and in two.
        &[0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
        &[0x41, 0x03, 0xf2, 0x48, 0xcd, 0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00],
        // A block without compression.
        &[0xc1, 0x0b, 0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        // A block that is marked as the last one.
        &[0xc1, 0x08, 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
        // Two blocks.
        &[0xc1, 0x0d, 0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
    ];
    for frame in hello {
        for cut in [1, 2, 100] {
            let output = passed(frame, cut).unwrap();
            assert_eq!(messages(&output), [(1, b"Hello".to_vec())], "{frame:x?}");
        }
    }
    assert_eq!(messages(&passed(&[0xc2, 1, 0], 1).unwrap()), [(2, Vec::new())]);
}

#[test]
fn control_frames_pass_between_the_frames_of_a_compressed_message() {
    let frames =
        [&[0x41, 0x03, 0xf2, 0x48, 0xcd][..], b"\x89\x02hi", &[0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00]];
    let output = passed(&frames.concat(), 3).unwrap();
    let ping = self::frames(&output).iter().position(|frame| *frame == (0x89, b"hi".to_vec()));
    assert!(ping.is_some_and(|ping| ping > 0));
}

#[test]
fn frames_that_violate_the_protocol_pass_unchanged_to_the_library() {
    for violation in [
        // RSV1 of a control frame, of a continuation and with other bits.
        &b"\xc9\x02hi"[..],
        b"\xc0\x02hi",
        b"\xe1\x02hi",
        // A reserved opcode.
        b"\xc3\x02hi",
    ] {
        assert_eq!(passed(violation, 1).unwrap(), violation, "{violation:x?}");
    }
    // A continuation with RSV1, and a second compressed message within the first one.
    for violation in [&b"\xc0\x02hi"[..], b"\xc1\x02hi"] {
        let begun = &[0x41, 0x03, 0xf2, 0x48, 0xcd][..];
        let output = passed(&[begun, violation].concat(), 2).unwrap();
        assert!(output.ends_with(violation), "{violation:x?}");
    }
}

#[test]
fn data_that_is_not_compressed_is_an_error() {
    assert_eq!(passed(&[0xc1, 3, 0xff, 0xff, 0xff], 1), Err(InflateError::Invalid));
    assert_eq!(InflateError::Invalid.code(), CloseCode::Invalid);
}

#[test]
fn a_bomb_expands_one_frame_at_a_time() {
    let packed = deflated(&vec![0; 8 << 20]);
    assert!(packed.len() < 60_000);
    let mut inflater = Inflater::new(BOUNDS);
    let mut input = Bytes::from(written(0xc2, &packed, Some([1, 2, 3, 4])));
    let before = input.len();
    inflater.next(&mut input).unwrap();
    assert_eq!((inflater.take_counted(), inflater.take_counted()), (INFLATING, 0));
    let piece = inflater.next(&mut input).unwrap().unwrap();
    assert!(piece.len() <= FRAGMENT + 14);
    assert!(before - input.len() <= INPUT + 14);
}

#[test]
fn a_message_beyond_its_bounds_is_refused() {
    let refused = |bounds, bytes: Vec<u8>| {
        let mut inflater = Inflater::new(bounds);
        let mut input = Bytes::from(bytes);
        loop {
            match inflater.next(&mut input) {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(refused) => return Some(refused),
            }
        }
    };
    let short = Bounds { length: 10, ..BOUNDS };
    assert_eq!(refused(short, written(0xc2, &[0; 11], None)), Some(InflateError::TooLong));
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07];
    let [first, second] = [0x42, 0].map(|first| written(first, &hello, None));
    assert_eq!(refused(short, [first, second].concat()), Some(InflateError::TooLong));
    let brief = Bounds { time: Duration::ZERO, ..BOUNDS };
    let packed = deflated(&vec![0; 1 << 20]);
    assert_eq!(refused(brief, written(0xc2, &packed, None)), Some(InflateError::TooLong));
    assert_eq!(InflateError::TooLong.code(), CloseCode::Size);
}

proptest! {
    #[test]
    fn messages_are_restored_from_any_frames_and_pieces(
        sent in prop::collection::vec((0_usize..60_000, any::<u8>(), any::<bool>(), 1_usize..400), 1..5),
        cut in 1_usize..5_000,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (length, salt, is_compressed, fragment) in sent {
            let message: Vec<u8> =
                (0..length).map(|n| ((n / 7) as u8).wrapping_mul(salt)).collect();
            let (flag, payload) =
                if is_compressed { (0x40, deflated(&message)) } else { (0, message.clone()) };
            let fragment = fragment * 100;
            let last = payload.len().saturating_sub(1) / fragment;
            let parts = payload.chunks(fragment).chain(payload.is_empty().then_some(&[][..]));
            for (n, part) in parts.enumerate() {
                let first = if n == 0 { flag | 2 } else { 0 };
                let fin = if n == last { 0x80 } else { 0 };
                bytes.extend(written(first | fin, part, None));
            }
            expected.push((2, message));
        }
        prop_assert_eq!(messages(&passed(&bytes, cut).unwrap()), expected);
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_grow_without_bounds(
        first in prop_oneof![Just(0xc1_u8), Just(0x42), any::<u8>()],
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        cut in 1_usize..100,
    ) {
        let bytes = written(first, &bytes, Some([9, 8, 7, 6]));
        if let Ok(output) = passed(&bytes, cut) {
            // Deflate expands a byte to at most 1,032, and a frame has at most 14 bytes more.
            prop_assert!(output.len() <= 1_100 * bytes.len() + 100);
        }
    }
}
