//! Accounts for the ranges of addresses that all isolates of a process share.
//!
//! ```text
//!  4 GiB    heaps: compressed references are offsets within them
//!  512 MiB  machine code: near jumps reach all of it
//! ```
//!
//! V8 ends the process when either range is full, whichever isolate runs. Before a range is full,
//! the process therefore evicts idle isolates, and then starts no further ones ([`HEAPS_LIMIT`],
//! [`code_room`]). The isolates of a namespace may hold only a share of the machine code.
//! Upstream's V8 does not compress references, so each of its isolates has its own ranges.

use std::cell::RefCell;
use std::sync::Arc;

use crate::V8_IS_PATCHED;
use crate::shares::{Part, Shares};

/// Maximum size of all heaps of a process together, in bytes; [`u64::MAX`] if V8 is not patched,
/// because each isolate then has its own ranges.
pub const HEAPS_LIMIT: u64 = if V8_IS_PATCHED { 4 << 30 } else { u64::MAX };

/// Size of the range for machine code, in bytes, the largest that V8 supports. V8 uses the size
/// that the first isolate of a process requests.
pub(crate) const CODE: usize = 512 << 20;

/// Maximum size of the machine code of all isolates together, in bytes: three quarters of the
/// range, because free pieces of the range may be too small for further code, and because an
/// isolate's code is measured only after it has grown.
const USABLE: usize = CODE / 4 * 3;

/// The sizes of the machine code of all isolates, in bytes.
static TAKEN: Shares = Shares::new(USABLE);

/// Returns by how many bytes the machine code in this process may grow; [`u64::MAX`] if V8 is not
/// patched.
pub fn code_room() -> u64 {
    if V8_IS_PATCHED { USABLE.saturating_sub(TAKEN.all()) as u64 } else { u64::MAX }
}

/// The part of the range for machine code that an isolate had when it was last measured.
#[derive(Default)]
pub(crate) struct CodePart(RefCell<Option<Part>>);

impl CodePart {
    /// Updates the part. Returns false if the isolate has to end, because its namespace holds more
    /// than its share, or more than an eighth of the whole while all namespaces together hold more
    /// than the whole.
    ///
    /// # Arguments
    /// * `bytes` - size of the isolate's machine code with the free memory around it.
    pub(crate) fn set(&self, namespace: &Arc<str>, bytes: usize) -> bool {
        if !V8_IS_PATCHED {
            return true;
        }
        let part = TAKEN.take_forced(namespace, bytes);
        // The earlier part is released before the check, so that it does not count against the new
        // one.
        let mut current = self.0.borrow_mut();
        *current = None;
        !current.insert(part).must_be_released()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_may_hold_its_share_of_the_machine_code() {
        if !V8_IS_PATCHED {
            return;
        }
        let (one, other) = (CodePart::default(), CodePart::default());
        let (namespace, neighbor) = ("cage-one".into(), "cage-other".into());
        assert!(other.set(&neighbor, 1 << 20));
        assert!(one.set(&namespace, USABLE / 2));
        // A new amount replaces the old one.
        assert!(one.set(&namespace, USABLE / 2));
        assert!(!one.set(&namespace, USABLE / 2 + 1));
        assert!(other.set(&neighbor, 2 << 20), "the isolate of the neighbor has to end");
        assert!(one.set(&namespace, 1 << 20), "code that was released still counts");
    }
}
