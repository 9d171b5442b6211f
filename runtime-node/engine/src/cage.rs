//! The addresses that all isolates of a process share.
//!
//! ```text
//!  4 GiB    heaps: compressed references are offsets within them
//!  512 MiB  machine code: near jumps reach all of it
//! ```
//!
//! V8 ends the process when either is full, whichever isolate runs. A process is therefore under
//! pressure before that: it evicts idle isolates, and then starts no others ([`HEAPS_LIMIT`],
//! [`code_room`]). The isolates of a namespace may hold only a share of the machine code.
//! Upstream's V8 does not compress references, so each of its isolates has its own addresses.

use std::cell::RefCell;
use std::sync::Arc;

use crate::V8_IS_PATCHED;
use crate::shares::{Part, Shares};

/// The most that all heaps of a process may take, in bytes.
pub const HEAPS_LIMIT: u64 = if V8_IS_PATCHED { 4 << 30 } else { u64::MAX };

/// The size in bytes of the range for machine code, the largest that V8 supports. V8 takes the size
/// that the first isolate of a process requests.
pub(crate) const CODE: usize = 512 << 20;

/// The machine code that all isolates may have, in bytes: three quarters of the range, because
/// free pieces of it may be too small for what is needed, and an isolate is inspected after it has
/// grown.
const USABLE: usize = CODE / 4 * 3;

/// The machine code of all isolates, in bytes.
static TAKEN: Shares = Shares::new(USABLE);

/// Returns how much more machine code there may be in this process, in bytes.
pub fn code_room() -> u64 {
    if V8_IS_PATCHED { USABLE.saturating_sub(TAKEN.all()) as u64 } else { u64::MAX }
}

/// The part of the range for machine code that an isolate had when it was last inspected.
#[derive(Default)]
pub(crate) struct CodePart(RefCell<Option<Part>>);

impl CodePart {
    /// Updates the part. Returns false if the isolate has to end, because its namespace has more
    /// than its share, or much while there is too little for all.
    ///
    /// # Arguments
    /// * `bytes` - the isolate's machine code with the free memory around it.
    pub(crate) fn set(&self, namespace: &Arc<str>, bytes: usize) -> bool {
        if !V8_IS_PATCHED {
            return true;
        }
        let part = TAKEN.take_forced(namespace, bytes);
        // Gives the earlier part back first, so that it does not count against this one.
        let mut current = self.0.borrow_mut();
        *current = None;
        !current.insert(part).must_be_given_back()
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
        let (namespace, neighbour) = ("cage-one".into(), "cage-other".into());
        assert!(other.set(&neighbour, 1 << 20));
        assert!(one.set(&namespace, USABLE / 2));
        // A new amount replaces the old one.
        assert!(one.set(&namespace, USABLE / 2));
        assert!(!one.set(&namespace, USABLE / 2 + 1));
        assert!(other.set(&neighbour, 2 << 20), "a neighbour is affected");
        assert!(one.set(&namespace, 1 << 20), "memory that was given back is not available");
    }
}
