//! Decodes the content codings of bodies (Fetch, "HTTP-network fetch"; RFC 9110 §8.4).
//!
//! A body is decoded as it is read, up to [`PIECE`] bytes at a time, so that a decompression bomb
//! takes only as much memory as its reader has requested. The first bytes of the body determine how
//! much memory its decoder needs; this memory is charged to the Worker before the decoder is
//! created.

use std::io;
use std::pin::Pin;
use std::rc::Rc;

use async_compression::codecs::zstd::params::DParameter;
use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, header};
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use super::{BodyStream, EgressError, InvocationBudget};

/// Maximum number of bytes that are decoded at a time, which takes about 0.1 ms.
const PIECE: usize = 32 * 1024;

/// Number of pieces after which the task yields: a reader would otherwise never be suspended while
/// input is buffered.
const PIECES_PER_YIELD: u32 = 8;

/// Maximum number of codings of one body that are undone. No honest origin applies more.
const MAX_CODINGS: usize = 3;

/// Length of the prefix that determines a decoder's memory, in bytes: the length of the longest
/// header of any coding, that of a Zstandard frame.
const PREFIX: usize = 18;

/// The largest window of Zstandard that HTTP allows (RFC 9659), 8 MiB, as a base-2 logarithm.
const ZSTD_WINDOW: u32 = 23;
/// The smallest window for which memory is charged, 128 KiB, as a base-2 logarithm.
const ZSTD_SMALLEST: u32 = 17;

/// The magic number of a Zstandard frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Returns the codings of a body in the order in which they were applied. Returns an empty list if
/// a coding is unknown or there are more than [`MAX_CODINGS`]: the Worker then gets the encoded
/// body.
pub(super) fn codings(headers: &HeaderMap) -> Vec<Coding> {
    let values = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let names = names
        .map(|name| name.trim_ascii())
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
    let codings: Option<Vec<_>> = names.map(Coding::of).collect();
    codings.filter(|codings| codings.len() <= MAX_CODINGS).unwrap_or_default()
}

impl Coding {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Self::Gzip,
            b"deflate" => Self::Deflate,
            b"br" => Self::Brotli,
            b"zstd" => Self::Zstd,
            _ => return None,
        })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// Returns an upper bound on the memory that a decoder of a body with this prefix needs, in
    /// bytes.
    fn memory(self, prefix: &[u8]) -> usize {
        match self {
            Self::Gzip | Self::Deflate => 64 << 10,
            Self::Brotli => (1 << brotli_window(prefix)) + (1 << 20),
            Self::Zstd => (1 << zstd_window(prefix)) + (512 << 10),
        }
    }
}

/// Undoes the codings of a body.
///
/// # Arguments
/// * `budget` - charged for the decoders' memory.
pub(super) fn decode(
    codings: &[Coding],
    body: BodyStream,
    budget: &Rc<dyn InvocationBudget>,
) -> BodyStream {
    codings.iter().rev().fold(body, |body, coding| undo(*coding, body, Rc::clone(budget)))
}

fn undo(coding: Coding, mut body: BodyStream, budget: Rc<dyn InvocationBudget>) -> BodyStream {
    let decoded = async move {
        let prefix = read_prefix(&mut body).await?;
        if prefix.is_empty() {
            return Ok(stream::empty().boxed_local());
        }
        let held = budget.hold(coding.memory(&prefix)).ok_or(EgressError::Memory)?;
        let decoder = decoder(coding, prefix, body);
        let pieces = ReaderStream::with_capacity(decoder, PIECE)
            .map_err(move |error| failure(coding, error));
        let mut since_yield = 0;
        let pieces = pieces.then(move |piece| {
            // The closure holds the memory until the stream is dropped.
            let _ = &held;
            since_yield = (since_yield + 1) % PIECES_PER_YIELD;
            let yields = since_yield == 0;
            async move {
                if yields {
                    tokio::task::yield_now().await;
                }
                piece
            }
        });
        Ok::<_, EgressError>(pieces.boxed_local())
    };
    stream::once(decoded).try_flatten().boxed_local()
}

/// Reads pieces of the body until they contain at least [`PREFIX`] bytes, or the whole of a shorter
/// body.
async fn read_prefix(body: &mut BodyStream) -> Result<Bytes, EgressError> {
    let mut first = BytesMut::new();
    while let Some(piece) = body.next().await.transpose()? {
        if first.is_empty() && piece.len() >= PREFIX {
            return Ok(piece);
        }
        first.extend_from_slice(&piece);
        if first.len() >= PREFIX {
            break;
        }
    }
    Ok(first.freeze())
}

fn decoder(coding: Coding, prefix: Bytes, rest: BodyStream) -> Pin<Box<dyn AsyncRead>> {
    // The coding named deflate is the zlib format, but some servers send raw deflate.
    let is_zlib = matches!(prefix[..], [method, flags, ..]
        if method & 0x0f == 8 && u16::from_be_bytes([method, flags]) % 31 == 0);
    // A later frame must not take more memory than was charged for the first one.
    let window = DParameter::window_log_max(zstd_window(&prefix));
    let body = stream::once(async { Ok(prefix) }).chain(rest).map_err(io::Error::other);
    let body = StreamReader::new(body.boxed_local());
    match coding {
        Coding::Gzip => {
            let mut decoder = GzipDecoder::new(body);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Coding::Deflate if is_zlib => Box::pin(ZlibDecoder::new(body)),
        Coding::Deflate => Box::pin(DeflateDecoder::new(body)),
        Coding::Brotli => Box::pin(BrotliDecoder::new(body)),
        Coding::Zstd => Box::pin(ZstdDecoder::with_params(body, &[window])),
    }
}

fn failure(coding: Coding, error: io::Error) -> EgressError {
    let why = error.to_string();
    // A failure of the body itself passes through the decoder.
    match error.into_inner().map(|inner| inner.downcast::<EgressError>()) {
        Some(Ok(failure)) => *failure,
        _ => EgressError::Decode { coding: coding.as_str(), why },
    }
}

/// Returns the base-2 logarithm of a Brotli stream's window size (RFC 7932 §9.1).
fn brotli_window(prefix: &[u8]) -> u32 {
    let bits = u32::from(prefix.first().copied().unwrap_or_default());
    match (bits & 1, (bits >> 1) & 7, (bits >> 4) & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, n) => 8 + n,
        (_, n, _) => 17 + n,
    }
}

/// Returns the base-2 logarithm of a Zstandard frame's window size (RFC 8878 §3.1.1.1), between
/// [`ZSTD_SMALLEST`] and [`ZSTD_WINDOW`]. Returns [`ZSTD_WINDOW`] if the body does not begin with a
/// frame.
fn zstd_window(prefix: &[u8]) -> u32 {
    zstd_window_bytes(prefix).map_or(ZSTD_WINDOW, |bytes| {
        let bits = u64::BITS - bytes.saturating_sub(1).leading_zeros();
        bits.clamp(ZSTD_SMALLEST, ZSTD_WINDOW)
    })
}

fn zstd_window_bytes(prefix: &[u8]) -> Option<u64> {
    let (descriptor, rest) = prefix.strip_prefix(&ZSTD_MAGIC)?.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size[..length].copy_from_slice(rest.get(dictionary..dictionary + length)?);
    u64::from_le_bytes(size).checked_add(if length == 2 { 256 } else { 0 })
}

#[cfg(test)]
mod tests;
