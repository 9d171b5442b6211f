//! Queues the tasks that V8 posts for an isolate's own thread until the isolate takes them.
//!
//! ```text
//!  V8's constructor, on this thread ─post─► new isolate's queue ─► then found by its address
//!  any thread of V8 ─────────────────post─► address ─► current queue ─wakes─► event loop ─► a turn
//!                                             └─► none, or closed: the task is dropped
//! ```
//!
//! A task without a delay needs a turn immediately; a delayed task needs a turn after its delay.
//! V8's memory reducer consists of delayed tasks, so an isolate that becomes idle releases memory
//! by itself.
//!
//! V8 names an isolate only by its address, and the address of an isolate that has been disposed of
//! may be reused immediately. A queue is therefore made together with its isolate and identifies
//! the isolate: a late unregistration removes only its own queue, a task for an address without an
//! isolate is dropped, and a new isolate never gets the queue of a disposed one.
//!
//! This module does not depend on V8, so that the order of events can be tested.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use rustc_hash::FxHashMap;

/// The queue of one isolate.
pub(crate) struct Foreground<T> {
    queue: Mutex<Queue<T>>,
    /// Whether a task without a delay may wait. Every turn reads this with a single load.
    /// It is set and reset while `queue` is locked.
    urgent: AtomicBool,
    waker: AtomicWaker,
}

struct Queue<T> {
    tasks: Vec<(Option<Instant>, T)>,
    /// Whether further tasks are refused, because a task must not outlive its isolate.
    closed: bool,
}

impl<T> Default for Foreground<T> {
    fn default() -> Self {
        let queue = Mutex::new(Queue { tasks: Vec::new(), closed: false });
        Self { queue, urgent: AtomicBool::new(false), waker: AtomicWaker::new() }
    }
}

impl<T> Foreground<T> {
    /// Returns the earliest time at which a task needs a turn, or `None` if there is no task. The
    /// waker of `cx` is woken when another task is posted.
    pub(crate) fn poll_due(&self, cx: &mut Context<'_>) -> Option<Instant> {
        self.waker.register(cx.waker());
        let now = Instant::now();
        if self.is_urgent() {
            return Some(now);
        }
        lock(&self.queue).tasks.iter().map(|(due, _)| due.unwrap_or(now)).min()
    }

    /// Returns whether a task without a delay needs a turn.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Acquire)
    }

    /// Wakes the waker of the latest [`Foreground::poll_due`].
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Removes and returns the tasks that need a turn now.
    pub(crate) fn take_due(&self) -> Vec<T> {
        let mut queue = lock(&self.queue);
        self.urgent.store(false, Ordering::Release);
        let now = Instant::now();
        let due = queue.tasks.extract_if(.., |(due, _)| due.is_none_or(|due| due <= now));
        due.map(|(_, task)| task).collect()
    }

    /// Drops the waiting tasks and refuses new ones.
    pub(crate) fn close(&self) {
        let tasks = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            self.urgent.store(false, Ordering::Release);
            std::mem::take(&mut queue.tasks)
        };
        drop(tasks);
    }

    fn is_closed(&self) -> bool {
        lock(&self.queue).closed
    }

    /// Adds a task.
    ///
    /// # Errors
    /// Returns the task if the queue is closed.
    fn push(&self, task: T, delay: Option<Duration>) -> Result<(), T> {
        let mut queue = lock(&self.queue);
        if queue.closed {
            return Err(task);
        }
        queue.tasks.push((delay.map(|delay| Instant::now() + delay), task));
        if delay.is_none() {
            self.urgent.store(true, Ordering::Release);
        }
        drop(queue);
        self.waker.wake();
        Ok(())
    }
}

/// The queues of a process's isolates by the isolates' addresses.
pub(crate) struct Addresses<T>(Mutex<FxHashMap<usize, Arc<Foreground<T>>>>);

impl<T> Default for Addresses<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Addresses<T> {
    /// Records that an isolate has been made at this address. An earlier isolate at the address has
    /// been disposed of.
    pub(crate) fn register(&self, address: usize, queue: Arc<Foreground<T>>) {
        let before = lock(&self.0).insert(address, queue);
        drop(before);
    }

    /// Removes the queue of an isolate that has been disposed of.
    pub(crate) fn unregister(&self, address: usize, old: &Arc<Foreground<T>>) {
        let mut queues = lock(&self.0);
        if queues.get(&address).is_some_and(|queue| Arc::ptr_eq(queue, old)) {
            queues.remove(&address);
        }
    }

    /// Adds a task to the queue of the isolate at this address. Drops the task if there is no such
    /// isolate.
    ///
    /// # Arguments
    /// * `making` - the queue of the isolate that the calling thread is making, if there is one.
    ///   Its first task makes the isolate's address known.
    pub(crate) fn post(
        &self,
        address: usize,
        making: Option<&Arc<Foreground<T>>>,
        task: T,
        delay: Option<Duration>,
    ) {
        let queue = {
            let mut queues = lock(&self.0);
            match (queues.get(&address), making) {
                (Some(queue), None) => Some(Arc::clone(queue)),
                (Some(queue), Some(_)) if !queue.is_closed() => Some(Arc::clone(queue)),
                (_, Some(new)) => {
                    queues.insert(address, Arc::clone(new));
                    Some(Arc::clone(new))
                }
                (None, None) => None,
            }
        };
        let refused = match queue {
            Some(queue) => queue.push(task, delay).err(),
            None => Some(task),
        };
        drop(refused);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and a panic would leave consistent data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const ADDRESS: usize = 0x1000;

    type Tasks = Arc<Foreground<&'static str>>;

    fn isolate(addresses: &Addresses<&'static str>) -> Tasks {
        let queue = Tasks::default();
        addresses.register(ADDRESS, Arc::clone(&queue));
        queue
    }

    #[test]
    fn an_isolate_at_the_address_of_one_that_is_being_disposed_of_gets_its_own_tasks() {
        let addresses = Addresses::default();
        let old = isolate(&addresses);
        old.close();
        let new = isolate(&addresses);
        addresses.post(ADDRESS, None, "before the old one's end", None);
        addresses.unregister(ADDRESS, &old);
        addresses.post(ADDRESS, None, "after the old one's end", None);
        assert!(new.is_urgent());
        assert_eq!(new.take_due(), ["before the old one's end", "after the old one's end"]);
    }

    #[test]
    fn tasks_posted_during_creation_belong_to_the_new_isolate() {
        let addresses = Addresses::default();
        let old = isolate(&addresses);
        old.close();
        let new = Tasks::default();
        addresses.post(ADDRESS, Some(&new), "from its constructor", None);
        addresses.unregister(ADDRESS, &old);
        addresses.register(ADDRESS, Arc::clone(&new));
        assert_eq!(new.take_due(), ["from its constructor"]);
        assert!(old.take_due().is_empty());
    }

    #[test]
    fn tasks_of_a_disposed_isolate_do_not_reach_the_next_at_its_address() {
        let addresses = Addresses::default();
        let old = isolate(&addresses);
        old.close();
        addresses.post(ADDRESS, None, "while it is disposed of", None);
        addresses.unregister(ADDRESS, &old);
        addresses.post(ADDRESS, None, "after that", None);
        assert!(isolate(&addresses).take_due().is_empty());
    }

    #[test]
    fn tasks_of_an_existing_isolate_do_not_reach_one_that_is_being_created() {
        let addresses = Addresses::default();
        let (existing, new) = (isolate(&addresses), Tasks::default());
        addresses.post(ADDRESS, Some(&new), "for the existing one", None);
        assert_eq!((existing.take_due(), new.take_due()), (vec!["for the existing one"], vec![]));
    }

    #[test]
    fn a_task_with_a_delay_needs_a_turn_after_the_delay() {
        let addresses = Addresses::default();
        let queue = isolate(&addresses);
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!(queue.poll_due(cx), None);
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        addresses.post(ADDRESS, None, "later", Some(hour));
        assert!(queue.poll_due(cx).is_some_and(|due| due >= now + hour));
        addresses.post(ADDRESS, None, "due", Some(Duration::ZERO));
        assert!(queue.poll_due(cx).is_some_and(|due| due <= Instant::now()));
        assert!(!queue.is_urgent());
        assert_eq!(queue.take_due(), ["due"]);
    }

    #[test]
    fn a_closed_queue_needs_no_turn() {
        let addresses = Addresses::default();
        let queue = isolate(&addresses);
        addresses.post(ADDRESS, None, "before the close", None);
        queue.close();
        addresses.post(ADDRESS, None, "after the close", None);
        assert_eq!(queue.poll_due(&mut Context::from_waker(Waker::noop())), None);
    }
}
