//! Which slots have been woken. A waker marks its slot and wakes the connection's task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use futures::task::AtomicWaker;

/// The woken slots of a connection.
#[derive(Default)]
pub(super) struct Queue {
    woken: Mutex<Vec<Arc<Wake>>>,
    task: AtomicWaker,
}

/// The waker of a slot.
pub(super) struct Wake {
    queue: Arc<Queue>,
    index: usize,
    is_queued: AtomicBool,
}

impl Queue {
    /// Has the connection's task woken with the next slot.
    pub(super) fn register(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Adds a slot.
    pub(super) fn push(&self, wake: &Arc<Wake>) {
        if !wake.is_queued.swap(true, Ordering::AcqRel) {
            self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(wake.clone());
        }
    }

    /// Takes a woken slot. It can be woken again from now on.
    pub(super) fn pop(&self) -> Option<usize> {
        let wake = self.woken.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        wake.is_queued.store(false, Ordering::Release);
        Some(wake.index)
    }
}

impl Wake {
    pub(super) fn new(queue: &Arc<Queue>, index: usize) -> Arc<Self> {
        Arc::new(Self { queue: queue.clone(), index, is_queued: AtomicBool::new(false) })
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
