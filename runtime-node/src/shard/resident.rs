//! The occupants of a shard's pool: warm isolates, and starts that requests wait for.

use std::cell::OnceCell;
use std::rc::Rc;

use tenon_engine::Isolate;
use tenon_proto::failure::Failure;
use tenon_proto::id::WorkerId;

use super::coverage::Coverage;
use super::heat::WorkerHeat;
use super::weight::Weight;
use crate::admission::DeadlineSemaphore;
use crate::pool::{Condition, Occupant, Spent};

/// A warm isolate, with its limits and the semaphores that count its use.
#[derive(Clone)]
pub(super) struct Resident {
    pub(super) worker: WorkerId,
    pub(super) isolate: Rc<Isolate>,
    pub(super) semaphore: DeadlineSemaphore,
    /// Counts clients' WebSockets. This semaphore has no limit of its own: the tenant's share
    /// bounds the WebSockets.
    pub(super) tunnels: DeadlineSemaphore,
    /// Maximum number of invocations in flight.
    pub(super) concurrency: u32,
    /// Maximum size of a request's body, in bytes.
    pub(super) request_body_bytes: u64,
    /// The cost of the isolate's requests, for the supervisor.
    pub(super) weight: Rc<Weight>,
    /// The load that the isolate causes, for routers.
    pub(super) heat: Rc<WorkerHeat>,
    /// The extent to which the revision's bytecode covers the functions that invocations use.
    pub(super) coverage: Rc<Coverage>,
}

impl Occupant for Resident {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn condition(&self) -> Condition {
        match self.spent() {
            Some(spent) => Condition::Spent(spent),
            None if self.semaphore.in_flight() > 0
                || self.isolate.in_flight() > 0
                || self.isolate.is_debugged() =>
            {
                Condition::Busy
            }
            None => Condition::Idle,
        }
    }
}

impl Resident {
    /// Returns the reason why the isolate gets no more invocations, or `None` if it still
    /// gets invocations.
    pub(super) fn spent(&self) -> Option<Spent> {
        let condemned = self.isolate.condemned().map(Spent::Condemned);
        condemned.or_else(|| self.isolate.is_retired().then_some(Spent::Retired))
    }

    /// Returns whether work that outlives its response fills the Worker's concurrency. Without this
    /// check, `waitUntil` would circumvent the limit. Requests do not wait for the end of such
    /// work, which may take arbitrarily long. Open WebSockets do not count.
    pub(super) fn is_full_of_background_work(&self) -> bool {
        let counted = self.semaphore.in_flight() + self.tunnels.in_flight();
        let lingering = self.isolate.in_flight().saturating_sub(counted as usize);
        lingering >= self.semaphore.limit() as usize
    }
}

/// A start for which requests wait. The requests queue at the semaphore of the future isolate,
/// which has no permits until the isolate is warm.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) semaphore: DeadlineSemaphore,
    outcome: Rc<OnceCell<Result<Resident, Failure>>>,
}

impl Start {
    /// Creates a start, whose semaphore has no permits until the start succeeds.
    ///
    /// # Arguments
    /// * `max_waiting` - maximum number of requests that wait for the start.
    pub(super) fn new(max_waiting: usize) -> Self {
        // The request that causes the start may always wait.
        Self { semaphore: DeadlineSemaphore::new(0, max_waiting.max(1)), outcome: Rc::default() }
    }

    /// Returns the start's outcome once it has ended.
    pub(super) fn outcome(&self) -> Option<Result<Resident, Failure>> {
        self.outcome.get().cloned()
    }

    /// Ends the start successfully: admits requests up to the concurrency limit, earliest deadline
    /// first.
    ///
    /// # Arguments
    /// * `max_waiting` - maximum number of requests that wait from now on.
    pub(super) fn succeed(self, resident: Resident, max_waiting: usize) {
        let concurrency = resident.concurrency;
        let first = self.outcome.set(Ok(resident));
        assert!(first.is_ok(), "a start ended twice");
        self.semaphore.resize(concurrency, max_waiting);
    }

    /// Ends the start with a failure, which every waiting request gets.
    pub(super) fn fail(self, failure: Failure) {
        let first = self.outcome.set(Err(failure));
        assert!(first.is_ok(), "a start ended twice");
        self.semaphore.close();
    }
}
