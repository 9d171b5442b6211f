//! Who is in a shard's pool: warm isolates, and starts that many wait for.

use std::cell::OnceCell;
use std::rc::Rc;

use tenon_proto::failure::Failure;
use tenon_proto::id::WorkerId;

use super::weight::Weight;
use crate::admission::Gate;
use crate::engine::Isolate;
use crate::pool::{Condition, Occupant, Spent};

/// A warm isolate and how much of it is in use.
#[derive(Clone)]
pub(super) struct Resident {
    pub(super) worker: WorkerId,
    pub(super) isolate: Rc<Isolate>,
    pub(super) gate: Gate,
    /// Counts the WebSockets that clients have of it; their tenant's share is their bound.
    pub(super) tunnels: Gate,
    /// How many invocations may be in flight.
    pub(super) concurrency: u32,
    pub(super) request_body_bytes: u64,
    /// What its requests have cost, as the supervisor is to hear of it.
    pub(super) weight: Rc<Weight>,
}

impl Occupant for Resident {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn condition(&self) -> Condition {
        match self.spent() {
            Some(spent) => Condition::Spent(spent),
            None if self.gate.in_flight() > 0 || self.isolate.in_flight() > 0 => Condition::Busy,
            None => Condition::Idle,
        }
    }
}

impl Resident {
    /// Why it gets no more invocations, if it does not.
    pub(super) fn spent(&self) -> Option<Spent> {
        let condemned = self.isolate.condemned().map(Spent::Condemned);
        condemned.or_else(|| self.isolate.is_retired().then_some(Spent::Retired))
    }

    /// Whether what goes on after its response takes all of its room: otherwise `waitUntil` would be a way around the
    /// limit. It is not waited for, as it may take as long as it likes. A WebSocket goes on and does not count.
    pub(super) fn is_taken_up(&self) -> bool {
        let counted = self.gate.in_flight() + self.tunnels.in_flight();
        let lingering = self.isolate.in_flight().saturating_sub(counted as usize);
        lingering >= self.gate.limit() as usize
    }
}

/// A start that many may wait for: at the gate of the isolate to come, where nobody is let in before it is there.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) gate: Gate,
    outcome: Rc<OnceCell<Result<Resident, Failure>>>,
}

impl Start {
    /// # Arguments
    /// * `room` - how many may wait for it.
    pub(super) fn new(room: usize) -> Self {
        // For whoever it is made for there is room in any case.
        Self { gate: Gate::new(0, room.max(1)), outcome: Rc::default() }
    }

    /// How it has ended, if it has.
    pub(super) fn outcome(&self) -> Option<Result<Resident, Failure>> {
        self.outcome.get().cloned()
    }

    /// It has ended well: as many as may be in flight are let in, the earliest deadline first.
    ///
    /// # Arguments
    /// * `room` - how many may wait from now on.
    pub(super) fn succeed(self, resident: Resident, room: usize) {
        let concurrency = resident.concurrency;
        let first = self.outcome.set(Ok(resident));
        assert!(first.is_ok(), "a start ends once");
        self.gate.resize(concurrency, room);
    }

    /// It has ended badly: everybody hears of it.
    pub(super) fn fail(self, failure: Failure) {
        let first = self.outcome.set(Err(failure));
        assert!(first.is_ok(), "a start ends once");
        self.gate.close();
    }
}
