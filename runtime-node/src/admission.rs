//! Admission: how much may be in flight, and what is said to those over the bound. A permit is a value; dropping
//! it makes room.
//!
//! ```text
//!  draining? ─► isolate cold? ─► a place in its waiting room ─► the shard's permit ─► the Worker's permit
//! ```
//!
//! Those who wait for a cold isolate hold no permit of the shard: a catalog that cannot be reached must not take
//! room from Workers that are warm. Belongs to one thread, like all of a shard.

use std::cell::Cell;
use std::rc::Rc;

use tenon_proto::failure::{Failure, FailureCode, Phase};

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
        if self.is_full() {
            return None;
        }
        self.counts.in_flight.set(self.counts.in_flight.get() + 1);
        Some(Permit { counts: Rc::clone(&self.counts) })
    }

    pub fn is_full(&self) -> bool {
        self.counts.in_flight.get() >= self.counts.limit
    }

    pub fn in_flight(&self) -> u32 {
        self.counts.in_flight.get()
    }

    pub fn limit(&self) -> u32 {
        self.counts.limit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.counts.in_flight.set(self.counts.in_flight.get() - 1);
    }
}

/// Why an invocation is refused although nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node is about to end.
    Draining,
    /// The shard has as much in flight as it may.
    ShardFull,
    /// The Worker has as much in flight as it may.
    WorkerFull,
    /// As many as may wait already wait for the Worker to start.
    WaitingRoomFull,
    /// Every isolate is in use, and there may be no more.
    NoIdleIsolate,
    /// The node's memory is nearly used up: what is warm is served, nothing new is started.
    MemoryShort,
}

impl Refusal {
    pub const ALL: [Self; 6] = [
        Self::Draining,
        Self::ShardFull,
        Self::WorkerFull,
        Self::WaitingRoomFull,
        Self::NoIdleIsolate,
        Self::MemoryShort,
    ];

    /// As metrics and logs see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::ShardFull => "shard_full",
            Self::WorkerFull => "worker_full",
            Self::WaitingRoomFull => "waiting_room_full",
            Self::NoIdleIsolate => "no_idle_isolate",
            Self::MemoryShort => "memory_short",
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (code, why) = match refusal {
            Refusal::Draining => (FailureCode::Draining, "the node is shutting down"),
            Refusal::ShardFull => (FailureCode::Overloaded, "the node has as many invocations as it may"),
            Refusal::WorkerFull => (FailureCode::Overloaded, "the Worker has as many invocations as it may"),
            Refusal::WaitingRoomFull => (FailureCode::Overloaded, "too many requests wait for the Worker to start"),
            Refusal::NoIdleIsolate => (FailureCode::Overloaded, "the node has no isolate to spare"),
            Refusal::MemoryShort => (FailureCode::Overloaded, "the node has no memory for another isolate"),
        };
        Self::new(code, Phase::Admission, why)
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

    #[test]
    fn clones_of_a_gate_share_its_room() {
        let gate = Gate::new(1);
        let permit = gate.clone().enter();
        assert!(permit.is_some() && gate.is_full());
    }

    #[test]
    fn whoever_is_refused_may_try_elsewhere() {
        for refusal in Refusal::ALL {
            assert!(Failure::from(refusal).may_retry_elsewhere(), "{}", refusal.as_str());
        }
    }
}
