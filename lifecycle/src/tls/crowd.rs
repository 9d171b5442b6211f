//! Who may shake hands at once. Where there are too many the one that has taken longest is turned away: those who mean it
//! are done within milliseconds, and those who open connections and say nothing displace one another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Handshakes that are under way. Any thread may add one.
pub(super) struct Crowd {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By when they came. One whose sender is dropped is turned away.
    all: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A handshake that is under way for as long as this lives.
pub(super) struct Place<'a> {
    crowd: &'a Crowd,
    number: u64,
    displaced_rx: oneshot::Receiver<()>,
}

impl Crowd {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: Mutex::default() }
    }

    pub(super) fn enter(&self) -> Place<'_> {
        let (displaced_tx, displaced_rx) = oneshot::channel();
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.insert(number, displaced_tx);
        if waiting.all.len() > self.limit {
            waiting.all.pop_first();
        }
        Place { crowd: self, number, displaced_rx }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A map that is changed by single calls: a panic leaves no half of one.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Resolves when too many have come since.
    pub(super) async fn displaced(&mut self) {
        let _ = (&mut self.displaced_rx).await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.crowd.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[test]
    fn where_too_many_come_the_one_that_came_first_is_turned_away() {
        let crowd = Crowd::new(2);
        let (mut first, mut second) = (crowd.enter(), crowd.enter());
        assert_pending!(task::spawn(first.displaced()).poll());
        let mut third = crowd.enter();
        assert_ready!(task::spawn(first.displaced()).poll());
        assert_pending!(task::spawn(second.displaced()).poll());
        assert_pending!(task::spawn(third.displaced()).poll());
    }

    #[test]
    fn one_that_is_done_leaves_room() {
        let crowd = Crowd::new(2);
        let (first, mut second) = (crowd.enter(), crowd.enter());
        drop(first);
        let _third = crowd.enter();
        assert_pending!(task::spawn(second.displaced()).poll());
    }
}
