//! The queue of slots that have been woken. A waker adds its slot to the queue, and wakes the
//! connection's task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures::task::AtomicWaker;

/// The woken slots of a connection.
pub(super) struct Queue {
    /// The slots, or `None` once the connection has ended. The queue and its slots refer to each
    /// other, so the slots would leak if the queue kept them.
    woken: Mutex<Option<Vec<Arc<Wake>>>>,
    task: AtomicWaker,
}

/// The waker of a slot.
pub(super) struct Wake {
    queue: Arc<Queue>,
    index: usize,
    is_queued: AtomicBool,
}

impl Default for Queue {
    fn default() -> Self {
        Self { woken: Mutex::new(Some(Vec::new())), task: AtomicWaker::new() }
    }
}

impl Queue {
    /// Registers the connection's task, which the next woken slot wakes.
    pub(super) fn register(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Adds a slot.
    pub(super) fn push(&self, wake: &Arc<Wake>) {
        if !wake.is_queued.swap(true, Ordering::AcqRel) {
            self.woken().iter_mut().for_each(|woken| woken.push(wake.clone()));
        }
    }

    /// Moves the woken slots to `taken`, which is empty, in the order in which they were woken.
    pub(super) fn take(&self, taken: &mut Vec<Arc<Wake>>) {
        self.woken().iter_mut().for_each(|woken| std::mem::swap(woken, taken));
    }

    /// Drops the slots and the task, because the connection has ended.
    pub(super) fn close(&self) {
        let woken = self.woken().take();
        // The slots are dropped outside the lock.
        drop((woken, self.task.take()));
    }

    fn woken(&self) -> MutexGuard<'_, Option<Vec<Arc<Wake>>>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake {
    pub(super) fn new(queue: &Arc<Queue>, index: usize) -> Arc<Self> {
        Arc::new(Self { queue: queue.clone(), index, is_queued: AtomicBool::new(false) })
    }

    /// Returns the slot, which can be woken again from now on.
    pub(super) fn take(&self) -> usize {
        // Acquires what another thread wrote before it found that the slot was queued.
        self.is_queued.swap(false, Ordering::AcqRel);
        self.index
    }
}

impl std::task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self);
        self.queue.task.wake();
    }
}
