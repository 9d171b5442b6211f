//! Bounds the number of concurrent handshakes. If there are too many, the oldest handshake is
//! closed: honest handshakes complete within milliseconds, and connections that stay silent
//! displace one another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The handshakes in progress. Any thread may add one.
pub(super) struct HandshakeLimiter {
    limit: usize,
    in_progress: Mutex<InProgress>,
}

#[derive(Default)]
struct InProgress {
    /// The number of the next handshake.
    next: u64,
    /// The handshakes in order of arrival. Dropping the sender of a handshake displaces it.
    all: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A handshake in progress, which is counted until it is displaced or this value is dropped.
pub(super) struct HandshakeSlot<'a> {
    limiter: &'a HandshakeLimiter,
    number: u64,
    displaced_rx: oneshot::Receiver<()>,
}

impl HandshakeLimiter {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, in_progress: Mutex::default() }
    }

    /// Adds a handshake, and displaces the oldest one if there are too many.
    pub(super) fn enter(&self) -> HandshakeSlot<'_> {
        let (displaced_tx, displaced_rx) = oneshot::channel();
        let mut in_progress = self.lock();
        let number = in_progress.next;
        in_progress.next += 1;
        in_progress.all.insert(number, displaced_tx);
        if in_progress.all.len() > self.limit {
            in_progress.all.pop_first();
        }
        HandshakeSlot { limiter: self, number, displaced_rx }
    }

    fn lock(&self) -> MutexGuard<'_, InProgress> {
        // Each change of the map is one call, so a panic cannot leave the map half changed.
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandshakeSlot<'_> {
    /// Resolves when newer handshakes have displaced this one.
    pub(super) async fn displaced(&mut self) {
        let _ = (&mut self.displaced_rx).await;
    }
}

impl Drop for HandshakeSlot<'_> {
    fn drop(&mut self) {
        self.limiter.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    #[test]
    fn the_oldest_handshake_is_displaced_when_there_are_too_many() {
        let limiter = HandshakeLimiter::new(2);
        let (mut first, mut second) = (limiter.enter(), limiter.enter());
        assert_pending!(task::spawn(first.displaced()).poll());
        let mut third = limiter.enter();
        assert_ready!(task::spawn(first.displaced()).poll());
        assert_pending!(task::spawn(second.displaced()).poll());
        assert_pending!(task::spawn(third.displaced()).poll());
    }

    #[test]
    fn a_finished_handshake_makes_room_for_another() {
        let limiter = HandshakeLimiter::new(2);
        let (first, mut second) = (limiter.enter(), limiter.enter());
        drop(first);
        let _third = limiter.enter();
        assert_pending!(task::spawn(second.displaced()).poll());
    }
}
