//! Entry points for fuzz targets, which are not part of this crate's public interface.

use std::time::Duration;

use bytes::Bytes;

use crate::websocket::sockets::deflate::{self, Deflater};
use crate::websocket::sockets::inflate::{Bounds, Inflater};

/// A stream of frames whose messages have been decompressed.
#[derive(Debug, PartialEq, Eq)]
pub struct Inflated {
    pub bytes: Vec<u8>,
    /// The error that ended the stream.
    pub failure: Option<String>,
    /// The length of the longest piece, in bytes.
    pub longest: usize,
}

/// Decompresses the messages of a stream of frames.
///
/// # Arguments
/// * `most` - the number of decompressed bytes after which the stream is not read any further.
pub fn inflate(pieces: Vec<Bytes>, most: usize) -> Inflated {
    let mut inflater = Inflater::new(Bounds { length: 1 << 20, time: Duration::MAX });
    let mut inflated = Inflated { bytes: Vec::new(), failure: None, longest: 0 };
    for mut input in pieces {
        loop {
            match inflater.next(&mut input) {
                Ok(Some(piece)) => {
                    inflated.longest = inflated.longest.max(piece.len());
                    inflated.bytes.extend_from_slice(&piece);
                }
                Ok(None) => break,
                Err(error) => {
                    inflated.failure = Some(error.to_string());
                    return inflated;
                }
            }
            if inflated.bytes.len() >= most {
                return inflated;
            }
        }
    }
    inflated
}

/// Compresses a message as a socket does, for a window of the given base-2 logarithm.
pub fn deflate(message: &[u8], window: u8) -> Vec<u8> {
    let deflater = Deflater::new(window);
    let mut deflated = Vec::new();
    let mut from = 0;
    while from < message.len() {
        let to = message.len().min(from + deflater.step());
        let piece = deflater.compress(message, from, to);
        deflated.extend(piece.unwrap_or_else(|| deflate::store(&message[from..to])));
        from = to;
    }
    if !deflated.is_empty() {
        deflate::trim_tail(&mut deflated);
    }
    deflated
}
