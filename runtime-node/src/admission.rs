//! Admission: how much may be in flight, who waits for room, and what is said to those over the bound. A permit is a
//! value; dropping it makes room, and gives it to whoever waits and has the least time left.
//!
//! ```text
//!  draining? ─► isolate cold? ─► a place in its waiting room ─► the Worker's permit ─► the shard's permit
//!                                                                └── a queue: the earliest deadline first ──┘
//! ```
//!
//! Those who wait for a cold isolate, or for room of their own Worker, hold no permit of the shard: what one tenant waits
//! for must not take room from the others. Belongs to one thread, like all of a shard.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tenon_proto::failure::{Failure, FailureCode, Phase};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A bound on what is in flight, and on who waits to be. Clones share it.
#[derive(Clone)]
pub struct Gate {
    shared: Rc<Shared>,
}

struct Shared {
    limit: u32,
    /// How many may wait.
    room: usize,
    in_flight: Cell<u32>,
    /// By their deadlines, and among equals by who came first.
    waiting: RefCell<BTreeMap<(Instant, u64), oneshot::Sender<Permit>>>,
    arrivals: Cell<u64>,
}

/// The right to be in flight.
pub struct Permit {
    shared: Rc<Shared>,
}

impl Gate {
    /// # Arguments
    /// * `limit` - how many may be in flight.
    /// * `room` - how many may wait besides.
    pub fn new(limit: u32, room: usize) -> Self {
        let shared =
            Shared { limit, room, in_flight: Cell::new(0), waiting: RefCell::default(), arrivals: Cell::new(0) };
        Self { shared: Rc::new(shared) }
    }

    /// A permit, or `None` when there are as many as the limit.
    pub fn try_enter(&self) -> Option<Permit> {
        let in_flight = self.in_flight();
        (in_flight < self.limit()).then(|| {
            self.shared.in_flight.set(in_flight + 1);
            Permit { shared: Rc::clone(&self.shared) }
        })
    }

    /// A permit, as soon as there is one and nobody waits whose deadline is earlier. `None`, at once, when as many wait
    /// as may. How long to wait is the caller's affair: who drops the future has left the queue.
    pub async fn enter(&self, deadline: Instant) -> Option<Permit> {
        // Nobody waits while there is room: a permit that is dropped goes to who waits.
        if let Some(permit) = self.try_enter() {
            return Some(permit);
        }
        if !self.has_room() {
            return None;
        }
        let arrival = self.shared.arrivals.get();
        self.shared.arrivals.set(arrival + 1);
        let (permit_tx, permit_rx) = oneshot::channel();
        let place = Place { shared: Rc::clone(&self.shared), at: (deadline, arrival) };
        self.shared.waiting.borrow_mut().insert(place.at, permit_tx);
        permit_rx.await.ok()
    }

    /// Whether one more would be let in or could wait.
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.limit() || self.waiting() < self.shared.room
    }

    pub fn in_flight(&self) -> u32 {
        self.shared.in_flight.get()
    }

    pub fn waiting(&self) -> usize {
        self.shared.waiting.borrow().len()
    }

    pub fn limit(&self) -> u32 {
        self.shared.limit
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = self.shared.waiting.borrow_mut().pop_first();
        match next {
            // One who has left meanwhile drops it in turn.
            Some((_, permit_tx)) => drop(permit_tx.send(Self { shared: Rc::clone(&self.shared) })),
            None => self.shared.in_flight.set(self.shared.in_flight.get() - 1),
        }
    }
}

/// A place in the queue, left when it is dropped.
struct Place {
    shared: Rc<Shared>,
    at: (Instant, u64),
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.shared.waiting.borrow_mut().remove(&self.at);
        drop(left);
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
    use std::pin::{Pin, pin};
    use std::time::Duration;

    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_gate_lets_in_as_many_as_its_limit() {
        let gate = Gate::new(2, 0);
        let first = gate.try_enter();
        let second = gate.try_enter();
        assert!(first.is_some() && second.is_some() && gate.try_enter().is_none() && !gate.has_room());
        drop(first);
        assert_eq!(gate.in_flight(), 1);
        assert!(gate.try_enter().is_some());
    }

    #[test]
    fn clones_of_a_gate_share_its_room() {
        let gate = Gate::new(1, 0);
        let permit = gate.clone().try_enter();
        assert!(permit.is_some() && !gate.has_room());
    }

    #[test]
    fn over_the_room_nobody_waits() {
        let gate = Gate::new(1, 1);
        let now = Instant::now();
        let permit = gate.try_enter();
        let mut waits = pin!(gate.enter(now));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(gate.enter(now).now_or_never(), Some(None)));
        drop(permit);
        assert!(matches!(waits.now_or_never(), Some(Some(_))));
        assert_eq!((gate.in_flight(), gate.waiting()), (0, 0));
    }

    type Waiting = Pin<Box<dyn Future<Output = Option<Permit>>>>;

    /// What may happen at a gate.
    #[derive(Clone, Debug)]
    enum Step {
        /// Somebody comes whose deadline is so many seconds away.
        Come(u64),
        /// Somebody who is in flight ends.
        End(prop::sample::Index),
        /// Somebody who waits gives up.
        Leave(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..5_u64).prop_map(Step::Come),
            any::<prop::sample::Index>().prop_map(Step::End),
            any::<prop::sample::Index>().prop_map(Step::Leave),
        ]
    }

    proptest! {
        #[test]
        fn there_is_never_room_while_somebody_waits_and_the_earliest_deadline_is_next(
            steps in prop::collection::vec(step(), 0..60), limit in 1..4_u32, room in 0..4_usize,
        ) {
            let (gate, now) = (Gate::new(limit, room), Instant::now());
            let mut inside: Vec<Permit> = Vec::new();
            let mut waiting: Vec<(u64, Waiting)> = Vec::new();
            for step in steps {
                match step {
                    Step::Come(seconds) => {
                        let deadline = now + Duration::from_secs(seconds);
                        let full = !gate.has_room();
                        let gate = gate.clone();
                        let mut enters: Waiting = Box::pin(async move { gate.enter(deadline).await });
                        match enters.as_mut().now_or_never() {
                            Some(Some(permit)) => inside.push(permit),
                            Some(None) => prop_assert!(full),
                            None => waiting.push((seconds, enters)),
                        }
                    }
                    Step::End(who) if !inside.is_empty() => drop(inside.swap_remove(who.index(inside.len()))),
                    Step::Leave(who) if !waiting.is_empty() => drop(waiting.remove(who.index(waiting.len()))),
                    Step::End(_) | Step::Leave(_) => {}
                }
                let earliest = waiting.iter().map(|(seconds, _)| *seconds).min();
                let mut still = Vec::new();
                for (seconds, mut enters) in waiting {
                    match enters.as_mut().now_or_never() {
                        Some(permit) => {
                            prop_assert_eq!(Some(seconds), earliest);
                            inside.push(permit.expect("who waits is not refused"));
                        }
                        None => still.push((seconds, enters)),
                    }
                }
                waiting = still;
                prop_assert_eq!((gate.in_flight() as usize, gate.waiting()), (inside.len(), waiting.len()));
                prop_assert!(inside.len() <= limit as usize && waiting.len() <= room);
                prop_assert!(waiting.is_empty() || inside.len() == limit as usize);
            }
        }
    }

    #[test]
    fn whoever_is_refused_may_try_elsewhere() {
        for refusal in Refusal::ALL {
            assert!(Failure::from(refusal).may_retry_elsewhere(), "{}", refusal.as_str());
        }
    }
}
