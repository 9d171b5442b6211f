//! Splits bytes into pieces, as they might arrive from a network.

use bytes::Bytes;

/// Splits `data` into pieces.
///
/// # Arguments
/// * `cuts` - the length of each piece, in bytes; the last piece is the rest.
pub fn pieces(data: &[u8], cuts: &[u8]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(data);
    let mut pieces: Vec<_> =
        cuts.iter().map(|cut| rest.split_to(rest.len().min((*cut).into()))).collect();
    pieces.push(rest);
    pieces
}
