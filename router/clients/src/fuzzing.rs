//! Gives fuzz targets access to functions that are otherwise private.

use crate::head::{Messages, Step};

/// Returns the complete messages that pass the filter of an HTTP/1 connection.
///
/// # Arguments
/// * `piece` - the number of bytes that arrive together.
///
/// # Errors
/// Fails with the reason for the first message that is refused.
pub fn messages(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, String> {
    let (mut messages, mut held) = (Messages::default(), Vec::new());
    let (mut passed, mut current) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        held.extend_from_slice(piece);
        while !held.is_empty() {
            match messages.step(&held) {
                Step::Pass(len) => {
                    assert!(
                        (1..=held.len()).contains(&len),
                        "{len} of {} bytes passed",
                        held.len()
                    );
                    current.extend(held.drain(..len));
                    if messages.is_in_head() {
                        passed.push(std::mem::take(&mut current));
                    }
                }
                Step::Hold => break,
                Step::Refuse(refusal) => return Err(refusal.to_string()),
            }
        }
    }
    Ok(passed)
}
