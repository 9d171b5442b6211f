//! Decides when the bytecode of a revision is made, for later starts.
//!
//! V8 compiles a function when it is first called. If bytecode were made directly after a start,
//! later starts would have to compile what their requests use, while clients wait. Bytecode is
//! therefore made after the first invocation, and again when other kinds of invocations may have
//! followed:
//!
//! ```text
//!  a start without bytecode ────► 1 ────► 4 ────► 16 ────► 64 invocations of the isolate
//!  a start with bytecode of 4 invocations ──────► 16 ────► 64
//! ```
//!
//! This module is pure; [`super::background`] makes the bytecode.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tenon_engine::{Bytecode, BytecodeLookup};

/// Factor between successive numbers of invocations after which bytecode is made.
const FACTOR: u32 = 4;
/// Last number of invocations after which bytecode is made.
const LAST: u32 = 64;

/// Time after a start for which bytecode is made again. V8 discards the bytecode of functions that
/// have not run for three minutes (its flag `--bytecode-old-time`), such as those that only a start
/// calls, and a start with the rest would be slower than before.
const COMPLETE: Duration = Duration::from_secs(180);

/// The extent to which the bytecode of a revision covers the functions that its invocations use.
#[derive(Debug)]
pub(super) struct Coverage {
    started: Instant,
    /// Whether bytecode is made more than once.
    renews: bool,
    /// Number of invocations that the isolate has handled.
    invocations: Cell<u32>,
    /// Number of invocations after which bytecode is made next, or `None` if it is not made again.
    next: Cell<Option<u32>>,
}

impl Coverage {
    /// Creates the coverage of an isolate that starts at `now`.
    ///
    /// # Arguments
    /// * `lookup` - whether the start found bytecode, or `None` if none is made for the revision.
    /// * `found` - the bytecode that the start was given.
    /// * `renews` - whether bytecode is made more than once.
    pub(super) fn new(
        lookup: Option<BytecodeLookup>,
        found: Option<&Bytecode>,
        renews: bool,
        now: Instant,
    ) -> Self {
        let next = match (lookup, found) {
            (None, _) => None,
            (Some(BytecodeLookup::Hit), Some(found)) => again(found.invocations(), renews),
            (Some(_), _) => Some(1),
        };
        Self { started: now, renews, invocations: Cell::new(0), next: Cell::new(next) }
    }

    /// Counts an invocation. Returns whether bytecode is to be made now.
    pub(super) fn count(&self, now: Instant) -> bool {
        let invocations = self.invocations.get().saturating_add(1);
        self.invocations.set(invocations);
        if self.next.get().is_none_or(|next| invocations < next) {
            return false;
        }
        self.next.set(again(invocations, self.renews));
        invocations == 1 || now.saturating_duration_since(self.started) < COMPLETE
    }

    /// Returns the number of invocations that the isolate has handled.
    pub(super) fn invocations(&self) -> u32 {
        self.invocations.get()
    }
}

/// Returns the number of invocations after which bytecode of `invocations` invocations is made
/// again, or `None` if it is not.
fn again(invocations: u32, renews: bool) -> Option<u32> {
    let next = invocations.max(1).saturating_mul(FACTOR);
    Some(next).filter(|next| renews && *next <= LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: Option<BytecodeLookup> = Some(BytecodeLookup::Miss);

    /// Returns the numbers of invocations after which bytecode is made, with this pause before each
    /// invocation.
    fn times(
        lookup: Option<BytecodeLookup>,
        found: Option<u32>,
        renews: bool,
        pause: Duration,
    ) -> Vec<u32> {
        let found = found.map(|invocations| Bytecode::default().with_invocations(invocations));
        let mut now = Instant::now();
        let coverage = Coverage::new(lookup, found.as_ref(), renews, now);
        let is_due = |_: &u32| {
            now += pause;
            coverage.count(now)
        };
        (1..=1000).filter(is_due).collect()
    }

    #[test]
    fn bytecode_is_made_after_the_first_invocation_and_ever_less_often() {
        for (lookup, found) in [(MISS, None), (Some(BytecodeLookup::Rejected), Some(16))] {
            assert_eq!(times(lookup, found, true, Duration::ZERO), [1, 4, 16, 64]);
            assert_eq!(times(lookup, found, false, Duration::ZERO), [1]);
        }
    }

    #[test]
    fn bytecode_that_a_start_found_is_made_again_after_more_invocations() {
        let found = |n, renews| times(Some(BytecodeLookup::Hit), Some(n), renews, Duration::ZERO);
        assert_eq!(found(1, true), [4, 16, 64]);
        assert_eq!(found(5, true), [20]);
        for (n, renews) in [(17, true), (u32::MAX, true), (1, false)] {
            assert_eq!(found(n, renews), [0; 0]);
        }
    }

    #[test]
    fn bytecode_is_not_made_again_when_parts_of_it_have_been_discarded() {
        assert_eq!(times(MISS, None, true, COMPLETE / 20), [1, 4, 16]);
        assert_eq!(times(MISS, None, true, COMPLETE), [1]);
    }

    #[test]
    fn a_revision_for_which_no_bytecode_is_made_has_none_to_make() {
        assert_eq!(times(None, None, true, Duration::ZERO), [0; 0]);
    }
}
