//! Admission: how much may be in flight. A permit is a value; dropping it makes room.
//!
//! Belongs to one thread, like all of a shard.

use std::cell::Cell;
use std::rc::Rc;

/// A bound on what is in flight. Clones share it.
#[derive(Clone)]
pub struct Gate {
    counts: Rc<Counts>,
}

struct Counts {
    limit: u32,
    in_flight: Cell<u32>,
}

/// The right to be in flight.
pub struct Permit {
    counts: Rc<Counts>,
}

impl Gate {
    pub fn new(limit: u32) -> Self {
        Self { counts: Rc::new(Counts { limit, in_flight: Cell::new(0) }) }
    }

    /// A permit, or `None` when there are as many as the limit.
    pub fn enter(&self) -> Option<Permit> {
        let in_flight = self.counts.in_flight.get();
        if in_flight >= self.counts.limit {
            return None;
        }
        self.counts.in_flight.set(in_flight + 1);
        Some(Permit { counts: self.counts.clone() })
    }

    pub fn in_flight(&self) -> u32 {
        self.counts.in_flight.get()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.counts.in_flight.set(self.counts.in_flight.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_in_as_many_as_its_limit() {
        let gate = Gate::new(2);
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some() && gate.enter().is_none());
        drop(first);
        assert_eq!(gate.in_flight(), 1);
        assert!(gate.enter().is_some());
    }
}
