//! The search for a sequence of bytes, for `multipart.js`.

use memchr::memmem;
use tenon_engine::bytes;
use tenon_op::op;

use crate::ops::View;

/// Returns the index in `bytes` of the first `needle` that lies between `from` and `to`, or -1.
/// Takes time proportional to `to - from`, which the caller bounds.
#[op]
pub(crate) fn bytes_find(bytes: View<'_>, needle: View<'_>, from: usize, to: usize) -> f64 {
    let found = bytes::read(needle, |needle| {
        bytes::read(bytes, |all| {
            let within = all.get(from.min(all.len())..to.min(all.len())).unwrap_or_default();
            memmem::find(within, needle)
        })
    });
    found.map_or(-1.0, |index| (from + index) as f64)
}
