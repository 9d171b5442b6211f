//! The same bytes as they might come from a network.

use bytes::Bytes;

/// Cuts `data` where `cuts` say, each of which is the length of a piece; the last piece is the rest.
pub fn pieces(data: &[u8], cuts: &[u8]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(data);
    let mut pieces: Vec<_> = cuts.iter().map(|cut| rest.split_to(rest.len().min((*cut).into()))).collect();
    pieces.push(rest);
    pieces
}
