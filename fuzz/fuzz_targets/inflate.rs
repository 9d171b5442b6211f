//! Fuzzes the compression of WebSocket messages. Frames that pass unchanged do so wherever the
//! input is split, and the output has pieces of bounded length. A message that the node compresses
//! is restored, even by a decoder with a window of the agreed size.

#![no_main]

use arbitrary::Arbitrary;
use flate2::{Decompress, FlushDecompress};
use libfuzzer_sys::fuzz_target;
use tenon_fuzz::pieces;
use tenon_web::fuzzing::{deflate, inflate};

/// The maximum number of inflated bytes. A decompression bomb need not be inflated to its end.
const MAX_INFLATED: usize = 1 << 20;

/// The maximum length of a piece: 16 KiB and a header.
const MAX_PIECE: usize = (16 << 10) + 14;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    window: u8,
    /// The first byte of a frame, and its mask.
    first: u8,
    mask: Option<[u8; 4]>,
    cuts: Vec<u8>,
    bytes: &'a [u8],
}

/// Writes a frame (RFC 6455 §5.2).
fn frame(first: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let payload = &payload[..payload.len().min(u16::MAX.into())];
    let mut frame = vec![first, bit | 126];
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend(mask.into_iter().flatten());
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns the payload of a message in unmasked frames, or in frames with a mask of zeros.
fn payload(mut frames: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    while let [_, second, rest @ ..] = frames {
        let (len, rest) = match second & 0x7f {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            short => (usize::from(short), rest),
        };
        let rest = if second & 0x80 == 0 { rest } else { &rest[4..] };
        payload.extend_from_slice(&rest[..len]);
        frames = &rest[len..];
    }
    payload
}

fuzz_target!(|input: Input<'_>| {
    let Input { window, first, mask, cuts, bytes } = input;
    let stream = [&frame(first, mask, bytes)[..], bytes].concat();
    let whole = inflate(pieces(&stream, &[]), MAX_INFLATED);
    let cut = inflate(pieces(&stream, &cuts), MAX_INFLATED);
    assert!(cut.longest <= MAX_PIECE.max(stream.len()), "a piece of {} bytes", cut.longest);
    // The division of a message into frames depends on the pieces.
    if whole.bytes == stream {
        assert_eq!(cut.bytes, stream);
    }

    let window = 9 + window % 7;
    let compressed = deflate(bytes, window);
    let mut decoder = Decompress::new_with_window_bits(false, window);
    let mut restored = Vec::with_capacity(bytes.len() + 1);
    let ended = [&compressed[..], &[0, 0, 0xff, 0xff]].concat();
    if !bytes.is_empty() {
        decoder
            .decompress_vec(&ended, &mut restored, FlushDecompress::None)
            .expect("the message is malformed");
        assert_eq!(restored, bytes);
    }
    if (1..=usize::from(u16::MAX)).contains(&compressed.len()) {
        let sent = frame(0xc2, mask, &compressed);
        let inflated = inflate(pieces(&sent, &cuts), usize::MAX);
        assert_eq!((inflated.failure, payload(&inflated.bytes)), (None, bytes.to_vec()));
    }
});
