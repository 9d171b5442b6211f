//! The activity of a connection: whether the connection serves requests, or how long it has waited
//! for its client.
//!
//! The connection and the list of clients share the activity, on one thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time for which a client may leave all its responses unread before its connection can be
/// ended to make room for another connection.
pub(crate) const UNREAD_FOR: Duration = Duration::from_secs(5);

/// The activity of one connection.
pub struct Activity {
    /// The thread's start.
    epoch: Instant,
    in_flight: AtomicUsize,
    /// Whether a request has been served.
    has_served: AtomicBool,
    /// The number of requests in flight whose response has a piece that the client has not read.
    unread: AtomicUsize,
    /// The time at which the connection began to wait for its client, in milliseconds after
    /// `epoch`.
    waiting_since: AtomicU32,
    /// Whether the connection has only its socket, and no buffers.
    resting: AtomicBool,
    /// Whether a part of a head has arrived, but not the whole head.
    in_head: AtomicBool,
    /// Whether a part of a response may not have been sent.
    unsent: AtomicBool,
}

impl Activity {
    /// Returns the activity of a new connection, which waits for its client and has no buffers.
    pub(crate) fn new(epoch: Instant) -> Self {
        let activity = Self {
            epoch,
            in_flight: AtomicUsize::new(0),
            has_served: AtomicBool::new(false),
            unread: AtomicUsize::new(0),
            waiting_since: AtomicU32::new(0),
            resting: AtomicBool::new(true),
            in_head: AtomicBool::new(false),
            unsent: AtomicBool::new(false),
        };
        activity.restart_wait();
        activity
    }

    pub(crate) fn begin_request(&self) {
        self.in_flight.store(self.in_flight.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn end_request(&self) {
        self.has_served.store(true, Relaxed);
        self.in_flight.store(self.in_flight.load(Relaxed) - 1, Relaxed);
        self.restart_wait();
    }

    /// Counts one more response that waits for the client to read on, or one fewer.
    ///
    /// # Arguments
    /// * `is_unread` - true if a response has begun to wait, and false if a response no longer
    ///   waits.
    pub(crate) fn count_unread(&self, is_unread: bool) {
        let unread = self.unread.load(Relaxed);
        self.unread.store(if is_unread { unread + 1 } else { unread - 1 }, Relaxed);
        if is_unread {
            self.restart_wait();
        }
    }

    /// Records that the first bytes of a head have arrived, which starts the head's timeout.
    pub(crate) fn begin_head(&self) {
        self.in_head.store(true, Relaxed);
        self.restart_wait();
    }

    /// Records that the head is complete.
    pub(crate) fn end_head(&self) {
        self.in_head.store(false, Relaxed);
    }

    /// Records whether the connection has given up its buffers.
    pub fn set_resting(&self, resting: bool) {
        self.resting.store(resting, Relaxed);
    }

    /// Records whether part of a response may not have been sent.
    pub(crate) fn set_unsent(&self, unsent: bool) {
        self.unsent.store(unsent, Relaxed);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
    }

    pub(crate) fn has_requests(&self) -> bool {
        self.in_flight.load(Relaxed) > 0
    }

    /// Returns whether the connection can give up its buffers, because nothing is being received,
    /// served or sent.
    pub fn may_rest(&self) -> bool {
        !self.has_requests() && !self.in_head.load(Relaxed) && !self.unsent.load(Relaxed)
    }

    /// Returns whether the connection is between two requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_served.load(Relaxed) && self.may_rest()
    }

    /// Returns whether the connection may be ended to make room for another connection, because it
    /// has no request in flight, or its client has left all responses unread for [`UNREAD_FOR`].
    pub(crate) fn can_end(&self) -> bool {
        let (in_flight, unread) = (self.in_flight.load(Relaxed), self.unread.load(Relaxed));
        in_flight == 0 || in_flight == unread && self.waited(Instant::now()) >= UNREAD_FOR
    }

    /// Returns the time for which the connection has waited for its client. The time has no meaning
    /// while the connection serves a request whose response is not unread.
    pub(crate) fn waited(&self, now: Instant) -> Duration {
        let since = self.waiting_since.load(Relaxed);
        Duration::from_millis(self.millis(now).wrapping_sub(since).into())
    }

    /// Returns the time since the thread's start.
    pub(crate) fn uptime(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Records that the connection begins to wait for its client now.
    fn restart_wait(&self) {
        self.waiting_since.store(self.millis(Instant::now()), Relaxed);
    }

    fn millis(&self, now: Instant) -> u32 {
        // The value wraps after 49 days, but only differences between values matter, and these are
        // shorter.
        now.saturating_duration_since(self.epoch).as_millis() as u32
    }

    /// Moves the beginning of the wait back to the thread's start.
    #[cfg(test)]
    pub(crate) fn wait_since_start(&self) {
        self.waiting_since.store(0, Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Relaxed)
    }
}
