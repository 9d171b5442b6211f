//! Compresses a profile while it is written, within bounds. This module is pure.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::profile::{MAX_COMPRESSED, MAX_SIZE, PIECE};

/// A writer that compresses with gzip, and fails beyond [`MAX_SIZE`] or [`MAX_COMPRESSED`]. The
/// profile of a large heap is thus held in a tenth of its size.
pub(super) struct Compressor {
    encoder: GzEncoder<Pieces>,
    written: usize,
}

/// The profile is larger than a bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Compressor {
    pub(super) fn new() -> Self {
        Self { encoder: GzEncoder::new(Pieces::default(), Compression::fast()), written: 0 }
    }

    /// Compresses the next part.
    pub(super) fn write(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        self.written += part.len();
        if self.written > MAX_SIZE {
            return Err(TooLarge);
        }
        self.encoder.write_all(part).map_err(|_| TooLarge)
    }

    /// Returns the compressed profile.
    pub(super) fn finish(self) -> Result<Vec<Bytes>, TooLarge> {
        let Pieces { mut full, last, .. } = self.encoder.finish().map_err(|_| TooLarge)?;
        full.push(last.into());
        Ok(full)
    }
}

/// The output in pieces of at most [`PIECE`], so that no large buffer is copied when the profile
/// grows.
#[derive(Default)]
struct Pieces {
    full: Vec<Bytes>,
    last: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        if (self.full.len() + 1) * PIECE > MAX_COMPRESSED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let taken = output.len().min(PIECE - self.last.len());
        self.last.extend_from_slice(&output[..taken]);
        if self.last.len() == PIECE {
            self.full.push(std::mem::take(&mut self.last).into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Returns bytes that do not compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn a_compressed_profile_is_the_same_after_decompression() {
        let text = [noise(3 * PIECE), vec![b'x'; 5 * PIECE]].concat();
        let mut compressor = Compressor::new();
        text.chunks(1000).for_each(|part| compressor.write(part).unwrap());
        let pieces = compressor.finish().unwrap();
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        assert!(pieces.len() < 6, "{} pieces", pieces.len());
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&pieces.concat()[..]).read_to_end(&mut read).unwrap();
        assert!(read == text);
    }

    #[test]
    fn a_profile_is_refused_beyond_either_bound() {
        let part = noise(1 << 20);
        let mut compressor = Compressor::new();
        let accepted = (0..128).take_while(|_| compressor.write(&part).is_ok()).count();
        assert!(accepted * part.len() <= MAX_COMPRESSED, "{accepted} MiB were accepted");
        let mut compressor = Compressor::new();
        let zeros = vec![0; 16 << 20];
        let accepted = (0..64).take_while(|_| compressor.write(&zeros).is_ok()).count();
        assert_eq!(accepted * zeros.len(), MAX_SIZE);
    }
}
