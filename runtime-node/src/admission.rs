//! Bounds the invocations in flight, queues requests for permits and sheds the requests beyond the
//! bounds. A permit is a value; dropping it hands it to the waiting request with the earliest
//! deadline.
//!
//! ```text
//!  draining? ─► the Worker's permit ─► its tenant's permit ─► the shard's permit
//!               └───────── a queue before each: the earliest deadline first ────────┘
//! ```
//!
//! Requests for a Worker whose isolate is cold wait for the Worker's permit, which is not granted
//! before the isolate runs. Requests that wait for a permit of their Worker or tenant hold no
//! permit of the shard: one tenant's queue must not take room from the other tenants. A semaphore
//! belongs to one thread, like everything in a shard.

mod metrics;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tenon_lifecycle::label_values;
use tenon_proto::failure::{Failure, FailureCode, Phase};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use metrics::{AdmissionFamilies, AdmissionMetrics};

/// A semaphore with a bounded queue that is ordered by deadline. Clones share permits and queue.
#[derive(Clone)]
pub struct DeadlineSemaphore {
    shared: Rc<Shared>,
}

struct Shared {
    limit: Cell<u32>,
    /// Maximum number of requests that may wait.
    max_waiting: Cell<usize>,
    in_flight: Cell<u32>,
    /// Waiting requests by deadline, then by order of arrival.
    waiting: RefCell<BTreeMap<(Instant, u64), oneshot::Sender<Permit>>>,
    arrivals: Cell<u64>,
}

/// One permit of a [`DeadlineSemaphore`]: usually the right to one invocation in flight.
pub struct Permit {
    shared: Rc<Shared>,
}

impl DeadlineSemaphore {
    /// Creates a semaphore.
    ///
    /// # Arguments
    /// * `limit` - number of permits.
    /// * `max_waiting` - maximum number of requests that may wait for a permit.
    pub fn new(limit: u32, max_waiting: usize) -> Self {
        let shared = Shared {
            limit: Cell::new(limit),
            max_waiting: Cell::new(max_waiting),
            in_flight: Cell::new(0),
            waiting: RefCell::default(),
            arrivals: Cell::new(0),
        };
        Self { shared: Rc::new(shared) }
    }

    /// Changes both bounds. Lowering them revokes no permit and removes no waiting request; raising
    /// the limit admits waiting requests, earliest deadline first.
    pub fn resize(&self, limit: u32, max_waiting: usize) {
        self.shared.limit.set(limit);
        self.shared.max_waiting.set(max_waiting);
        while self.in_flight() < limit {
            let Some((_, permit_tx)) = self.shared.next() else { return };
            self.shared.in_flight.set(self.in_flight() + 1);
            // If the receiver has been dropped, `send` returns the permit, and dropping the permit
            // hands it to the next request.
            drop(permit_tx.send(Permit { shared: Rc::clone(&self.shared) }));
        }
    }

    /// Sheds all waiting requests and all later ones.
    pub fn close(&self) {
        self.resize(0, 0);
        drop(self.shared.waiting.take());
    }

    /// Returns a permit, or `None` if all are taken.
    pub fn try_acquire(&self) -> Option<Permit> {
        let in_flight = self.in_flight();
        (in_flight < self.limit()).then(|| {
            self.shared.in_flight.set(in_flight + 1);
            Permit { shared: Rc::clone(&self.shared) }
        })
    }

    /// Waits for a permit; the request with the earliest deadline gets the next one. Returns `None`
    /// immediately if the queue is full, and as soon as the semaphore is closed. The deadline is no
    /// time limit: to leave the queue, the caller drops the future.
    pub async fn acquire(&self, deadline: Instant) -> Option<Permit> {
        // The queue is empty while permits are free: a dropped permit goes to a waiting request.
        if let Some(permit) = self.try_acquire() {
            return Some(permit);
        }
        if !self.has_room() {
            return None;
        }
        let arrival = self.shared.arrivals.get();
        self.shared.arrivals.set(arrival + 1);
        let (permit_tx, permit_rx) = oneshot::channel();
        let entry = QueueEntry { shared: Rc::clone(&self.shared), at: (deadline, arrival) };
        self.shared.waiting.borrow_mut().insert(entry.at, permit_tx);
        permit_rx.await.ok()
    }

    /// Returns whether one more request would be admitted or could wait.
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.limit() || self.waiting() < self.shared.max_waiting.get()
    }

    /// Returns the number of permits that are taken.
    pub fn in_flight(&self) -> u32 {
        self.shared.in_flight.get()
    }

    /// Returns the number of requests that wait for a permit.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.borrow().len()
    }

    /// Returns the number of permits.
    pub fn limit(&self) -> u32 {
        self.shared.limit.get()
    }
}

impl Shared {
    /// Removes the request with the earliest deadline from the queue.
    fn next(&self) -> Option<((Instant, u64), oneshot::Sender<Permit>)> {
        self.waiting.borrow_mut().pop_first()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let shared = &self.shared;
        // The limit may have been lowered below the number in flight.
        let next = if shared.in_flight.get() <= shared.limit.get() { shared.next() } else { None };
        match next {
            // If the receiver has been dropped, this permit is dropped in turn.
            Some((_, permit_tx)) => drop(permit_tx.send(Self { shared: Rc::clone(shared) })),
            None => shared.in_flight.set(shared.in_flight.get() - 1),
        }
    }
}

/// A waiting request's entry in the queue, removed on drop.
struct QueueEntry {
    shared: Rc<Shared>,
    at: (Instant, u64),
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let permit_tx = self.shared.waiting.borrow_mut().remove(&self.at);
        drop(permit_tx);
    }
}

label_values! {
    /// The reason for shedding an invocation that is itself valid.
    pub enum Refusal {
        /// The node is shutting down.
        Draining = "draining",
        /// The shard has its maximum of invocations in flight.
        ShardFull = "shard_full",
        /// The Worker has its maximum of invocations in flight.
        WorkerFull = "worker_full",
        /// The tenant, which is the namespace, has used up its share of the shard.
        TenantFull = "tenant_full",
        /// The queue for the Worker's start is full.
        WaitingRoomFull = "waiting_room_full",
        /// Every isolate is busy, and the pool is full.
        NoIdleIsolate = "no_idle_isolate",
        /// The node's memory is nearly used up: only warm isolates serve; no isolate is started.
        MemoryShort = "memory_short",
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (code, why) = match refusal {
            Refusal::Draining => (FailureCode::Draining, "the node is shutting down"),
            Refusal::ShardFull => {
                (FailureCode::Overloaded, "the shard has its maximum of invocations in flight")
            }
            Refusal::WorkerFull => {
                (FailureCode::Overloaded, "the Worker has its maximum of invocations in flight")
            }
            Refusal::TenantFull => {
                (FailureCode::Overloaded, "the namespace has used up its share of the shard")
            }
            Refusal::WaitingRoomFull => {
                (FailureCode::Overloaded, "too many requests wait for the Worker to start")
            }
            Refusal::NoIdleIsolate => {
                (FailureCode::Overloaded, "all isolates of the shard are busy")
            }
            Refusal::MemoryShort => {
                (FailureCode::Overloaded, "the node has no memory for another isolate")
            }
        };
        Self::new(code, Phase::Admission, why)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::time::Duration;

    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_semaphore_grants_as_many_permits_as_its_limit() {
        let semaphore = DeadlineSemaphore::new(2, 0);
        let first = semaphore.try_acquire();
        let second = semaphore.try_acquire();
        assert!(
            first.is_some()
                && second.is_some()
                && semaphore.try_acquire().is_none()
                && !semaphore.has_room()
        );
        drop(first);
        assert_eq!(semaphore.in_flight(), 1);
        assert!(semaphore.try_acquire().is_some());
    }

    #[test]
    fn clones_of_a_semaphore_share_its_permits() {
        let semaphore = DeadlineSemaphore::new(1, 0);
        let permit = semaphore.clone().try_acquire();
        assert!(permit.is_some() && !semaphore.has_room());
    }

    #[test]
    fn a_request_that_finds_the_queue_full_is_shed() {
        let semaphore = DeadlineSemaphore::new(1, 1);
        let now = Instant::now();
        let permit = semaphore.try_acquire();
        let mut waits = pin!(semaphore.acquire(now));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(semaphore.acquire(now).now_or_never(), Some(None)));
        drop(permit);
        assert!(matches!(waits.now_or_never(), Some(Some(_))));
        assert_eq!((semaphore.in_flight(), semaphore.waiting()), (0, 0));
    }

    type Waiting = Pin<Box<dyn Future<Output = Option<Permit>>>>;

    /// An event at a semaphore.
    #[derive(Clone, Debug)]
    enum Step {
        /// A request arrives whose deadline is this many seconds away.
        Arrive(u64),
        /// An invocation in flight ends.
        End(prop::sample::Index),
        /// A waiting request gives up.
        Leave(prop::sample::Index),
        /// The limit changes to this value.
        Resize(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..5_u64).prop_map(Step::Arrive),
            any::<prop::sample::Index>().prop_map(Step::End),
            any::<prop::sample::Index>().prop_map(Step::Leave),
            (0..4_u32).prop_map(Step::Resize),
        ]
    }

    proptest! {
        #[test]
        fn no_permit_is_free_while_requests_wait_and_the_earliest_deadline_comes_first(
            steps in prop::collection::vec(step(), 0..60),
            mut limit in 0..4_u32,
            max_waiting in 0..4_usize,
        ) {
            let (semaphore, now) = (DeadlineSemaphore::new(limit, max_waiting), Instant::now());
            let mut held: Vec<Permit> = Vec::new();
            let mut waiting: Vec<(u64, Waiting)> = Vec::new();
            for step in steps {
                match step {
                    Step::Arrive(seconds) => {
                        let deadline = now + Duration::from_secs(seconds);
                        let full = !semaphore.has_room();
                        let semaphore = semaphore.clone();
                        let acquire = async move { semaphore.acquire(deadline).await };
                        let mut acquire: Waiting = Box::pin(acquire);
                        match acquire.as_mut().now_or_never() {
                            Some(Some(permit)) => held.push(permit),
                            Some(None) => prop_assert!(full),
                            None => waiting.push((seconds, acquire)),
                        }
                    }
                    Step::End(index) if !held.is_empty() => {
                        drop(held.swap_remove(index.index(held.len())));
                    }
                    Step::Leave(index) if !waiting.is_empty() => {
                        drop(waiting.remove(index.index(waiting.len())));
                    }
                    Step::Resize(other) => {
                        limit = other;
                        semaphore.resize(limit, max_waiting);
                    }
                    Step::End(_) | Step::Leave(_) => {}
                }
                let before = held.len();
                let (mut admitted, mut remaining) = (Vec::new(), Vec::new());
                for (seconds, mut acquire) in waiting {
                    match acquire.as_mut().now_or_never() {
                        Some(permit) => {
                            admitted.push(seconds);
                            held.push(permit.expect("a waiting request is not refused"));
                        }
                        None => remaining.push((seconds, acquire)),
                    }
                }
                waiting = remaining;
                let is_earliest =
                    |seconds: &u64| waiting.iter().all(|(later, _)| seconds <= later);
                prop_assert!(admitted.iter().all(is_earliest));
                prop_assert!(
                    admitted.is_empty() || held.len() <= limit as usize,
                    "{before} permits were held before"
                );
                prop_assert_eq!(semaphore.in_flight() as usize, held.len());
                prop_assert_eq!(semaphore.waiting(), waiting.len());
                prop_assert!(waiting.len() <= max_waiting);
                prop_assert!(waiting.is_empty() || held.len() >= limit as usize);
            }
        }
    }

    #[test]
    fn a_semaphore_that_grows_admits_the_earliest_deadlines_and_one_that_closes_sheds_all() {
        let (semaphore, now) = (DeadlineSemaphore::new(0, 3), Instant::now());
        let mut waits = [3, 1, 2].map(|seconds| {
            let semaphore = semaphore.clone();
            Box::pin(async move { semaphore.acquire(now + Duration::from_secs(seconds)).await })
        });
        assert!(waits.iter_mut().all(|wait| wait.as_mut().now_or_never().is_none()));
        semaphore.resize(2, 3);
        let [third, first, second] = waits.each_mut().map(|wait| wait.as_mut().now_or_never());
        let held = (first, second);
        assert!(matches!(held, (Some(Some(_)), Some(Some(_)))) && third.is_none());
        semaphore.close();
        assert!(matches!(waits[0].as_mut().now_or_never(), Some(None)));
        assert!(matches!(semaphore.acquire(now).now_or_never(), Some(None)));
    }

    #[test]
    fn every_refusal_may_be_retried_elsewhere() {
        for refusal in Refusal::ALL {
            assert!(Failure::from(refusal).may_retry_elsewhere(), "{}", refusal.as_str());
        }
    }
}
