//! How many of a thread's requests may be with one shard: one that is silent or slow must not use
//! up the room of all others.
//!
//! A request counts from before it is sent until the last byte of its answer has come. A tunnel
//! does not, once it is open: tunnels have bounds of their own.
//!
//! Belongs to one thread.

use std::cell::Cell;
use std::rc::Rc;

/// One shard's part of the requests that its thread may have in hand is one of so many. A shard
/// that answers has a hundred times less; eight that do not are no longer one shard's fault.
const PARTS: usize = 8;

/// The requests with one shard.
pub(crate) struct Bulkhead {
    held: Rc<Cell<usize>>,
    most: usize,
}

/// The place of one of them.
pub(crate) struct Berth(Rc<Cell<usize>>);

impl Bulkhead {
    /// # Arguments
    /// `of` is how many the thread may have in hand.
    pub(crate) fn new(of: usize) -> Self {
        Self { held: Rc::default(), most: (of / PARTS).max(1) }
    }

    /// Room for one more, if there is any.
    pub(crate) fn berth(&self) -> Option<Berth> {
        let held = self.held.get();
        (held < self.most).then(|| {
            self.held.set(held + 1);
            Berth(self.held.clone())
        })
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shard_gets_its_part_and_no_more() {
        let bulkhead = Bulkhead::new(800);
        let berths: Vec<_> = std::iter::from_fn(|| bulkhead.berth()).collect();
        assert_eq!(berths.len(), 100);
        drop(berths);
        assert!(bulkhead.berth().is_some());
    }

    #[test]
    fn what_goes_makes_room_for_what_comes() {
        let bulkhead = Bulkhead::new(PARTS);
        let berth = bulkhead.berth();
        assert!(bulkhead.berth().is_none());
        drop(berth);
        assert!(bulkhead.berth().is_some());
    }
}
