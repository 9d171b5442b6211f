//! Compresses the messages of sockets (RFC 7692), a piece at a time.
//!
//! ```text
//!  message:  ……… │ history │ piece │ ………
//!                  └ known ┘ └─────┴─► a frame
//! ```
//!
//! All sockets of a thread share one encoder, which keeps nothing between two pieces. Before
//! each piece, the encoder gets the part of the message before it, so that it finds repetitions of
//! that part. However many sockets compress at the same time, and however slowly their peers read,
//! a thread has one encoder of 280 KiB.
//!
//! A piece ends with an empty stored block, so that the next piece begins on a byte boundary. This
//! module does no I/O.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::inflate::TAIL;
use super::split::FRAGMENT;

/// The minimum length of a message that is compressed, in bytes. Shorter messages fit into one
/// packet with and without compression.
pub(crate) const MIN_COMPRESSED: usize = 256;

/// The number of bytes by which a stored piece without its [`TAIL`] is longer than its content: a
/// block's header of five bytes, and the first byte of the empty block at the end.
pub(crate) const STORED_OVERHEAD: usize = 6;

/// The level at which text still shrinks to a third of its length, at several times the speed of
/// the default level.
const LEVEL: u32 = 3;

thread_local! {
    static ENCODER: RefCell<Compress> =
        RefCell::new(Compress::new(Compression::new(LEVEL), false));
}

/// The compression of one socket's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deflater {
    /// The maximum length of a piece, and of the history before it, in bytes. Together they are no
    /// longer than the window, so that no repetition is further away than the window allows.
    step: usize,
}

impl Deflater {
    /// Creates the compression for a window, given as its base-2 logarithm.
    pub(crate) fn new(window: u8) -> Self {
        Self { step: ((1 << window) / 2).min(FRAGMENT) }
    }

    /// Returns the maximum length of a piece, in bytes.
    pub(crate) fn step(self) -> usize {
        self.step
    }

    /// Compresses the piece of a message from one position to another. Returns `None` if the piece
    /// would not become shorter.
    pub(crate) fn compress(self, message: &[u8], from: usize, to: usize) -> Option<Vec<u8>> {
        let piece = &message[from..to];
        let history = &message[from.saturating_sub(self.step)..from];
        ENCODER.with_borrow_mut(|encoder| {
            encoder.reset();
            if !history.is_empty() {
                encoder.set_dictionary(history).ok()?;
            }
            let mut output = Vec::with_capacity(piece.len());
            let status = encoder.compress_vec(piece, &mut output, FlushCompress::Sync).ok()?;
            let is_whole = status == Status::Ok
                && encoder.total_in() == piece.len() as u64
                && output.len() < output.capacity();
            (is_whole && output.ends_with(&TAIL)).then_some(output)
        })
    }
}

/// Returns a piece of a compressed message as a stored block, which is not compressed.
pub(crate) fn store(piece: &[u8]) -> Vec<u8> {
    let length = u16::try_from(piece.len()).expect("a piece is shorter than 64 KiB");
    let mut output = Vec::with_capacity(piece.len() + STORED_OVERHEAD + TAIL.len());
    output.push(0);
    output.extend(length.to_le_bytes());
    output.extend((!length).to_le_bytes());
    output.extend_from_slice(piece);
    output.push(0);
    output.extend(TAIL);
    output
}

/// Removes the bytes that a message's last piece must not end with (RFC 7692 §7.2.1).
pub(crate) fn trim_tail(piece: &mut Vec<u8>) {
    piece.truncate(piece.len() - TAIL.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compresses a message as a socket does.
    fn deflated(message: &[u8], window: u8) -> Vec<u8> {
        let deflater = Deflater::new(window);
        let mut all = Vec::new();
        let mut from = 0;
        while from < message.len() {
            let to = message.len().min(from + deflater.step());
            let piece = deflater.compress(message, from, to);
            all.extend(piece.unwrap_or_else(|| store(&message[from..to])));
            from = to;
        }
        trim_tail(&mut all);
        all
    }

    /// Inflates a message with a decoder that has a window of this size.
    fn inflated(message: &[u8], window: u8) -> Vec<u8> {
        let mut decoder = flate2::Decompress::new_with_window_bits(false, window);
        let mut output = Vec::with_capacity(1 << 20);
        let input = [message, &TAIL].concat();
        decoder.decompress_vec(&input, &mut output, flate2::FlushDecompress::None).unwrap();
        assert_eq!(decoder.total_in(), input.len() as u64);
        output
    }

    #[test]
    fn repetitions_are_found_across_pieces() {
        let line: Vec<u8> = (0..3_000_u32).flat_map(|n| (n * 7919).to_be_bytes()).collect();
        let message = line.repeat(8);
        let whole = deflated(&message, 15);
        assert_eq!(inflated(&whole, 15), message);
        let once = deflated(&line, 15).len();
        assert!(whole.len() < 2 * once, "{} bytes, and one line {once}", whole.len());
    }

    #[test]
    fn a_piece_that_would_not_shrink_is_stored() {
        let noise: Vec<u8> = (0..40_000_u64)
            .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 7) as u8)
            .scan(1_u32, |seed, byte| {
                *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Some(byte ^ (*seed >> 24) as u8)
            })
            .collect();
        let deflated = deflated(&noise, 15);
        assert!(deflated.len() <= noise.len() + 3 * (STORED_OVERHEAD + TAIL.len()));
        assert_eq!(inflated(&deflated, 15), noise);
    }

    proptest! {
        #[test]
        fn a_message_is_restored_with_a_window_of_the_agreed_size(
            parts in prop::collection::vec((any::<u8>(), 1_usize..5_000, any::<bool>()), 1..30),
            window in 9_u8..=15,
        ) {
            let message: Vec<u8> = parts
                .iter()
                .flat_map(|(byte, length, is_text)| {
                    let byte = *byte;
                    (0..*length).map(move |n| if *is_text { b"abcdefgh"[(n * usize::from(byte)) % 8] } else { byte })
                })
                .collect();
            prop_assert_eq!(inflated(&deflated(&message, window), window), message);
        }
    }
}
