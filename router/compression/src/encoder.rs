//! Encodes one response in a content coding, piece by piece.
//!
//! The levels are those at which a thread compresses text at hundreds of megabytes per second, and
//! the windows are at most 64 KiB: a larger window takes more memory for each stream, and
//! makes the text of web pages hardly any smaller.

use std::io::{self, Write as _};

use flate2::{Compress, Compression as Level, FlushCompress, Status};
use zstd::stream::raw::{CParameter, InBuffer, Operation as _, OutBuffer};

use crate::Coding;

const GZIP_LEVEL: u32 = 3;
const GZIP_WINDOW_BITS: u8 = 15;

const ZSTD_LEVEL: i32 = 3;
/// The sizes of the window and the tables, as exponents of two. The tables are smaller than this
/// level's own tables, which are meant for a larger window.
const ZSTD_PARAMETERS: [CParameter; 3] =
    [CParameter::WindowLog(16), CParameter::HashLog(15), CParameter::ChainLog(14)];

const BROTLI_QUALITY: u32 = 3;
const BROTLI_WINDOW_BITS: u32 = 16;
/// The size of the pieces in which the encoder writes, in bytes.
const BROTLI_BUFFER: usize = 4096;

/// The space that is reserved for the output at a time, in bytes. The marker of a flush fits into
/// it.
const SPACE: usize = 1024;

/// The state of the compression of one response.
pub enum Encoder {
    /// The writer is `None` once the content is complete.
    Brotli(Option<Box<brotli::CompressorWriter<Vec<u8>>>>),
    Zstd(zstd::stream::raw::Encoder<'static>),
    Gzip(Compress),
}

/// The step after a piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// More content follows. The output may be held back.
    Continue,
    /// The client receives all content so far.
    Flush,
    /// The content is complete.
    Finish,
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Brotli => Self::Brotli(Some(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER,
                BROTLI_QUALITY,
                BROTLI_WINDOW_BITS,
            )))),
            Coding::Zstd => {
                let mut encoder = zstd::stream::raw::Encoder::new(ZSTD_LEVEL)?;
                for parameter in ZSTD_PARAMETERS {
                    encoder.set_parameter(parameter)?;
                }
                Self::Zstd(encoder)
            }
            Coding::Gzip => {
                Self::Gzip(Compress::new_gzip(Level::new(GZIP_LEVEL), GZIP_WINDOW_BITS))
            }
        })
    }

    /// Returns the memory that an encoder takes, in bytes, with its input and its output.
    pub const fn memory(coding: Coding) -> usize {
        match coding {
            Coding::Brotli => 1408 << 10,
            Coding::Zstd => 704 << 10,
            Coding::Gzip => 384 << 10,
        }
    }

    /// Encodes a piece of the content, and appends the result to `output`. No content may follow
    /// [`Then::Finish`].
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode(&mut self, piece: &[u8], then: Then, output: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Brotli(encoder) => brotli(encoder, piece, then, output),
            Self::Zstd(encoder) => zstd(encoder, piece, then, output),
            Self::Gzip(encoder) => Ok(gzip(encoder, piece, then, output)?),
        }
    }

    /// Prepares the encoder for other content. Returns `None` if it cannot be used again.
    pub fn reset(mut self) -> Option<Self> {
        match &mut self {
            Self::Brotli(_) => return None,
            Self::Zstd(encoder) => encoder.reinit().ok()?,
            Self::Gzip(encoder) => encoder.reset(),
        }
        Some(self)
    }
}

fn brotli(
    encoder: &mut Option<Box<brotli::CompressorWriter<Vec<u8>>>>,
    piece: &[u8],
    then: Then,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(mut writer) = encoder.take() else { return Ok(()) };
    writer.write_all(piece)?;
    match then {
        Then::Continue => {}
        Then::Flush => writer.flush()?,
        Then::Finish => {
            output.append(&mut writer.into_inner());
            return Ok(());
        }
    }
    output.append(writer.get_mut());
    *encoder = Some(writer);
    Ok(())
}

fn zstd(
    encoder: &mut zstd::stream::raw::Encoder<'static>,
    piece: &[u8],
    then: Then,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    let mut input = InBuffer::around(piece);
    while input.pos() < piece.len() {
        output.reserve(SPACE);
        let end = output.len();
        encoder.run(&mut input, &mut OutBuffer::around_pos(output, end))?;
    }
    loop {
        output.reserve(SPACE);
        let end = output.len();
        let mut room = OutBuffer::around_pos(output, end);
        let left = match then {
            Then::Continue => return Ok(()),
            Then::Flush => encoder.flush(&mut room)?,
            Then::Finish => encoder.finish(&mut room, false)?,
        };
        if left == 0 {
            return Ok(());
        }
    }
}

fn gzip(
    encoder: &mut Compress,
    mut piece: &[u8],
    then: Then,
    output: &mut Vec<u8>,
) -> Result<(), flate2::CompressError> {
    let flush = match then {
        Then::Continue => FlushCompress::None,
        Then::Flush => FlushCompress::Sync,
        Then::Finish => FlushCompress::Finish,
    };
    loop {
        output.reserve(SPACE);
        let read = encoder.total_in();
        let status = encoder.compress_vec(piece, output, flush)?;
        piece = &piece[(encoder.total_in() - read) as usize..];
        // If the encoder has left room in the output, it has written everything that it has.
        let is_written = piece.is_empty() && output.len() < output.capacity();
        if status == Status::StreamEnd || then != Then::Finish && is_written {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes content whose end may be missing.
    fn decode(coding: Coding, encoded: &[u8]) -> Vec<u8> {
        let mut reader: Box<dyn io::Read> = match coding {
            Coding::Brotli => Box::new(brotli::Decompressor::new(encoded, 4096)),
            Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(encoded).unwrap()),
            Coding::Gzip => Box::new(flate2::read::GzDecoder::new(encoded)),
        };
        let (mut decoded, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            decoded.extend_from_slice(&piece[..length]);
        }
        decoded
    }

    /// Returns content of which every other kilobyte cannot be compressed.
    fn content(len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(1);
        let kilobyte = |i: usize| match i % 2 {
            0 => b"0123456789abcdef".repeat(64),
            _ => std::iter::repeat_with(|| random.u8(..)).take(1024).collect(),
        };
        let mut content: Vec<u8> = (0..len.div_ceil(1024)).flat_map(kilobyte).collect();
        content.truncate(len);
        content
    }

    #[test]
    fn content_of_every_length_can_be_decoded() {
        for coding in Coding::ALL {
            for len in [0, 1, 1000, 65_536, 300_000] {
                let (content, mut encoded) = (content(len), Vec::new());
                let mut encoder = Encoder::new(coding).unwrap();
                encoder.encode(&content, Then::Finish, &mut encoded).unwrap();
                assert!(decode(coding, &encoded) == content, "{coding:?}, {len} bytes");
                assert!(encoded.len() < len * 3 / 4 + 100, "{coding:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn a_flush_lets_the_client_decode_all_content_so_far() {
        for coding in Coding::ALL {
            let (content, mut encoded) = (content(200_000), Vec::new());
            let mut encoder = Encoder::new(coding).unwrap();
            let mut end = 0;
            for piece in [1, 10, 0, 30_000, 1, 100_000, 20] {
                let piece = &content[end..end + piece];
                end += piece.len();
                encoder.encode(piece, Then::Flush, &mut encoded).unwrap();
                assert!(decode(coding, &encoded) == content[..end], "{coding:?}, {end} bytes");
            }
            encoder.encode(&content[end..], Then::Finish, &mut encoded).unwrap();
            assert!(decode(coding, &encoded) == content, "{coding:?}");
        }
    }

    #[test]
    fn an_encoder_that_was_reset_encodes_other_content() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            for len in [70_000, 100, 5000] {
                let (content, mut encoded) = (content(len), Vec::new());
                for piece in content.chunks(1500) {
                    encoder.encode(piece, Then::Continue, &mut encoded).unwrap();
                }
                encoder.encode(&[], Then::Finish, &mut encoded).unwrap();
                assert!(decode(coding, &encoded) == content, "{coding:?}, {len} bytes");
                encoder = encoder.reset().unwrap_or_else(|| Encoder::new(coding).unwrap());
            }
        }
    }
}
