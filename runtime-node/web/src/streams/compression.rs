//! The native half of `streams-compression.js`: codecs that read and produce one piece at a time.
//!
//! ```text
//!  codecOpen ─► codecPush ─► codecTake ─┐   until the chunk is consumed, and once more at the end
//!                  ▲────────────────────┘ ─► codecClose
//! ```
//!
//! A push reads at most [`INPUT`] bytes and produces at most [`OUTPUT`], which is less than a
//! millisecond of work for any input: a Worker can be stopped between two pushes. The memory of a
//! codec is charged to the Worker.

use std::collections::HashMap;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::slot::slot;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::ops::View;

/// The maximum number of bytes that a push reads. In the worst case, deflate at its default level
/// takes about 20 ns per byte.
const INPUT: usize = 16 << 10;

/// The maximum number of bytes that a push produces.
const OUTPUT: usize = 64 << 10;

/// The base-2 logarithm of deflate's window: the largest, which every decoder must support.
const DEFLATE_WINDOW: u8 = 15;

/// The base-2 logarithm of Brotli's window. The largest window would be 16 MiB, but matches that
/// are more than a megabyte back are rare.
const BROTLI_WINDOW: u32 = 20;

/// The quality at which Brotli compresses as well as gzip at gzip's default level, and about as
/// fast. The best quality takes a hundred times as long.
const BROTLI_QUALITY: u32 = 4;

/// The memory of a deflate encoder, in bytes: 268 KB according to zlib.
const DEFLATING: usize = 280 << 10;

/// The memory of a deflate decoder, in bytes: its window and its tables.
const INFLATING: usize = 48 << 10;

/// The memory of a Brotli encoder, in bytes: twice its window, a hash table of that size, and the
/// commands of a block.
const BROTLI_ENCODING: usize = 4 << 20;

/// The memory of a Brotli decoder without its window, in bytes.
const BROTLI_DECODING: usize = 512 << 10;

/// An isolate's codecs, by number. Numbers are not reused.
#[derive(Default)]
struct Codecs {
    last: u32,
    open: HashMap<u32, Open>,
    /// The output of the latest push.
    made: Vec<u8>,
}

struct Open {
    codec: Codec,
    /// The charge for the codec itself.
    _charge: Charge,
    /// The charge for the window that the first byte of the input requires.
    window: Option<Charge>,
}

enum Codec {
    Deflate(Compress),
    Inflate(Decompress),
    BrotliEncode(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    BrotliDecode(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
}

impl Open {
    /// Charges the memory that the first of these bytes requires. Returns whether there was enough
    /// memory.
    fn reserve(&mut self, scope: &mut v8::PinScope<'_, '_>, input: &[u8]) -> bool {
        let more = input.first().map_or(0, |first| self.codec.memory_for(*first));
        if more > 0 && self.window.is_none() {
            self.window = make_room(scope, more).and_then(|budget| budget.charge(more));
            return self.window.is_some();
        }
        true
    }
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum CodecStatus {
    /// No more output can be produced without more input.
    WantsMore = 0,
    HasMore = 1,
    Ended = 2,
    Invalid = 3,
    NoMemory = 4,
}

impl Codec {
    /// Creates a codec. Returns `None` for an unknown format.
    fn new(format: &str, decompress: bool) -> Option<Self> {
        let level = Compression::default();
        Some(match (format, decompress) {
            ("gzip", false) => Self::Deflate(Compress::new_gzip(level, DEFLATE_WINDOW)),
            ("gzip", true) => Self::Inflate(Decompress::new_gzip(DEFLATE_WINDOW)),
            ("deflate" | "deflate-raw", false) => {
                Self::Deflate(Compress::new(level, format == "deflate"))
            }
            ("deflate" | "deflate-raw", true) => {
                Self::Inflate(Decompress::new(format == "deflate"))
            }
            ("brotli", false) => Self::BrotliEncode(brotli_encoder()),
            ("brotli", true) => {
                let [bytes, words, codes] = [StandardAlloc::default(); 3];
                Self::BrotliDecode(Box::new(BrotliState::new_strict(bytes, words, codes)))
            }
            _ => return None,
        })
    }

    /// Returns the codec's initial memory, in bytes.
    fn memory(&self) -> usize {
        match self {
            Self::Deflate(_) => DEFLATING,
            Self::Inflate(_) => INFLATING,
            Self::BrotliEncode(_) => BROTLI_ENCODING,
            Self::BrotliDecode(_) => BROTLI_DECODING,
        }
    }

    /// Returns the additional memory that the first byte of the input requires, in bytes.
    fn memory_for(&self, first: u8) -> usize {
        match self {
            Self::BrotliDecode(_) => 1 << brotli_window(first),
            _ => 0,
        }
    }

    /// Reads from `input` and appends to `output`, which is empty and has capacity. Returns the
    /// number of bytes read, and the codec's status.
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>, last: bool) -> (usize, CodecStatus) {
        match self {
            Self::Deflate(deflate) => {
                let before = deflate.total_in();
                let flush = if last { FlushCompress::Finish } else { FlushCompress::None };
                let status = deflate.compress_vec(input, output, flush);
                let progress = match status {
                    Ok(Status::StreamEnd) => CodecStatus::Ended,
                    Ok(_) if output.len() == output.capacity() => CodecStatus::HasMore,
                    Ok(_) => CodecStatus::WantsMore,
                    Err(_) => CodecStatus::Invalid,
                };
                ((deflate.total_in() - before) as usize, progress)
            }
            Self::Inflate(inflate) => {
                let before = inflate.total_in();
                let status = inflate.decompress_vec(input, output, FlushDecompress::None);
                let progress = match status {
                    Ok(Status::StreamEnd) => CodecStatus::Ended,
                    Ok(_) if output.len() == output.capacity() => CodecStatus::HasMore,
                    Ok(_) => CodecStatus::WantsMore,
                    Err(_) => CodecStatus::Invalid,
                };
                ((inflate.total_in() - before) as usize, progress)
            }
            Self::BrotliEncode(encoder) => brotli_encode(encoder, input, output, last),
            Self::BrotliDecode(decoder) => brotli_decode(decoder, input, output),
        }
    }
}

fn brotli_encoder() -> Box<BrotliEncoderStateStruct<StandardAlloc>> {
    let mut encoder = BrotliEncoderStateStruct::new(StandardAlloc::default());
    encoder.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
    encoder.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
    Box::new(encoder)
}

fn brotli_encode(
    encoder: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    output: &mut Vec<u8>,
    last: bool,
) -> (usize, CodecStatus) {
    use BrotliEncoderOperation::{BROTLI_OPERATION_FINISH, BROTLI_OPERATION_PROCESS};
    let operation = if last { BROTLI_OPERATION_FINISH } else { BROTLI_OPERATION_PROCESS };
    output.resize(output.capacity(), 0);
    let (mut left, mut taken, mut room, mut made) = (input.len(), 0, output.len(), 0);
    let is_ok = encoder.compress_stream(
        operation,
        &mut left,
        input,
        &mut taken,
        &mut room,
        output,
        &mut made,
        &mut None,
        &mut |_, _, _, _| (),
    );
    output.truncate(made);
    let progress = match is_ok {
        false => CodecStatus::Invalid,
        true if encoder.is_finished() => CodecStatus::Ended,
        true if encoder.has_more_output() => CodecStatus::HasMore,
        true => CodecStatus::WantsMore,
    };
    (taken, progress)
}

fn brotli_decode(
    decoder: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut Vec<u8>,
) -> (usize, CodecStatus) {
    output.resize(output.capacity(), 0);
    let (mut left, mut taken, mut room, mut made, mut total) = (input.len(), 0, output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left, &mut taken, input, &mut room, &mut made, output, &mut total, decoder,
    );
    output.truncate(made);
    let progress = match result {
        BrotliResult::ResultSuccess => CodecStatus::Ended,
        BrotliResult::NeedsMoreInput => CodecStatus::WantsMore,
        BrotliResult::NeedsMoreOutput => CodecStatus::HasMore,
        BrotliResult::ResultFailure => CodecStatus::Invalid,
    };
    (taken, progress)
}

/// Returns the base-2 logarithm of the window of a stream that begins with this byte (RFC 7932
/// §9.1).
fn brotli_window(first: u8) -> u32 {
    match (first & 1, (first >> 1) & 7, (first >> 4) & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, n) => 8 + u32::from(n),
        (_, n, _) => 17 + u32::from(n),
    }
}

/// Opens a codec of a format. Returns its number, or 0 if the format is unknown or there is not
/// enough memory.
#[op]
pub(crate) fn codec_open(
    scope: &mut v8::PinScope<'_, '_>,
    format: String,
    decompress: bool,
) -> u32 {
    let Some(codec) = Codec::new(&format, decompress) else { return 0 };
    let memory = codec.memory();
    let Some(charge) = make_room(scope, memory).and_then(|budget| budget.charge(memory)) else {
        return 0;
    };
    let codecs = slot::<Codecs>(scope);
    codecs.last += 1;
    codecs.open.insert(codecs.last, Open { codec, _charge: charge, window: None });
    codecs.last
}

/// Feeds the bytes after the first `from` to a codec, at most [`INPUT`] of them. If `last` is set,
/// they end the stream; the caller then passes no bytes beyond this number.
/// Returns status + 8 · (bytes read + 2²⁰ · bytes produced). `codec_take` then returns the output.
#[op]
pub(crate) fn codec_push(
    scope: &mut v8::PinScope<'_, '_>,
    codec: u32,
    bytes: View<'_>,
    from: usize,
    last: bool,
) -> Result<f64, Thrown> {
    let codecs = slot::<Codecs>(scope);
    let open = codecs.open.remove(&codec);
    let mut open = open.ok_or_else(|| Thrown::type_error("The codec has been closed"))?;
    let mut made = std::mem::take(&mut codecs.made);
    made.clear();
    made.reserve_exact(OUTPUT);
    let (taken, progress) = bytes::read(bytes, |bytes| {
        let input = bytes.get(from..).unwrap_or_default();
        let input = &input[..input.len().min(INPUT)];
        if open.reserve(scope, input) {
            open.codec.push(input, &mut made, last)
        } else {
            (0, CodecStatus::NoMemory)
        }
    });
    let numbers = taken as f64 + f64::from(1 << 20) * made.len() as f64;
    let codecs = slot::<Codecs>(scope);
    codecs.made = made;
    codecs.open.insert(codec, open);
    Ok(f64::from(progress as u8) + 8.0 * numbers)
}

/// Copies the output of the latest push into a view that has the output's length.
#[op]
pub(crate) fn codec_take(scope: &mut v8::PinScope<'_, '_>, into: View<'_>) {
    let made = &slot::<Codecs>(scope).made;
    bytes::cells(into, |cells| cells.iter().zip(made).for_each(|(cell, byte)| cell.set(*byte)));
}

/// Drops a codec.
#[op]
pub(crate) fn codec_close(scope: &mut v8::PinScope<'_, '_>, codec: u32) {
    if let Some(codecs) = scope.get_slot_mut::<Codecs>() {
        codecs.open.remove(&codec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes all input, piece by piece. Returns the output, and the last status.
    fn run(codec: &mut Codec, mut input: &[u8], last: bool) -> (Vec<u8>, CodecStatus) {
        let (mut all, mut made) = (Vec::new(), Vec::with_capacity(OUTPUT));
        loop {
            made.clear();
            let (taken, progress) = codec.push(&input[..input.len().min(INPUT)], &mut made, last);
            assert!(made.len() <= OUTPUT);
            all.extend_from_slice(&made);
            input = &input[taken..];
            let done = match progress {
                CodecStatus::WantsMore => input.is_empty(),
                CodecStatus::HasMore => false,
                CodecStatus::Ended | CodecStatus::Invalid | CodecStatus::NoMemory => true,
            };
            if done {
                return (all, progress);
            }
        }
    }

    #[test]
    fn compressed_data_decompresses_to_the_original() {
        let text: Vec<u8> =
            (0..300_000_u64).flat_map(|n| (n * n).to_string().into_bytes()).collect();
        for format in ["gzip", "deflate", "deflate-raw", "brotli"] {
            let mut encoder = Codec::new(format, false).unwrap();
            let (mut packed, progress) = run(&mut encoder, &text, false);
            assert_eq!(progress, CodecStatus::WantsMore, "{format}");
            let (end, progress) = run(&mut encoder, &[], true);
            assert_eq!(progress, CodecStatus::Ended, "{format}");
            packed.extend(end);
            assert!(packed.len() < text.len() / 2, "{format}: {}", packed.len());
            let mut decoder = Codec::new(format, true).unwrap();
            let (unpacked, progress) = run(&mut decoder, &packed, false);
            assert_eq!((unpacked == text, progress), (true, CodecStatus::Ended), "{format}");
        }
    }

    #[test]
    fn a_decompression_bomb_expands_one_buffer_at_a_time() {
        let mut encoder = Codec::new("gzip", false).unwrap();
        let (mut packed, _) = run(&mut encoder, &vec![0; 64 << 20], false);
        packed.extend(run(&mut encoder, &[], true).0);
        let mut decoder = Codec::new("gzip", true).unwrap();
        let mut made = Vec::with_capacity(OUTPUT);
        let (taken, progress) = decoder.push(&packed[..INPUT], &mut made, false);
        assert_eq!((made.len(), progress), (OUTPUT, CodecStatus::HasMore));
        assert!(taken < 1024);
    }

    #[test]
    fn malformed_compressed_data_is_an_error() {
        for format in ["gzip", "deflate", "deflate-raw", "brotli"] {
            let mut decoder = Codec::new(format, true).unwrap();
            assert_eq!(run(&mut decoder, &[0xff; 100], false).1, CodecStatus::Invalid, "{format}");
        }
    }

    #[test]
    fn the_brotli_window_is_read_from_the_first_byte() {
        assert_eq!([0x00, 0x0b, 0x01, 0x11, 0x71].map(brotli_window), [16, 22, 17, 9, 15]);
    }
}
