//! A rate limit of warnings whose number peers could otherwise choose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Minimum interval between two warnings.
const INTERVAL: Duration = Duration::from_secs(10);

/// A rate limit of one kind of warning. Any thread may use it.
pub struct Warnings {
    epoch: Instant,
    /// Earliest time of the next warning, in milliseconds after `epoch`.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Default for Warnings {
    fn default() -> Self {
        Self { epoch: Instant::now(), next: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }
}

impl Warnings {
    /// Returns the number of suppressed warnings if a warning may be logged now, and `None`
    /// otherwise.
    pub fn due(&self) -> Option<u64> {
        self.due_at(self.epoch.elapsed())
    }

    /// Implements [`due`](Self::due) at a time after `epoch`.
    fn due_at(&self, elapsed: Duration) -> Option<u64> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (now, next) = (millis(elapsed), self.next.load(Ordering::Relaxed));
        let later = now.saturating_add(millis(INTERVAL));
        let may_log = now >= next
            && self
                .next
                .compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if may_log {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_within_the_interval_are_counted_instead_of_logged() {
        let warnings = Warnings::default();
        assert_eq!(warnings.due_at(Duration::ZERO), Some(0));
        for _ in 0..3 {
            assert_eq!(warnings.due_at(INTERVAL / 2), None);
        }
        assert_eq!(warnings.due_at(INTERVAL), Some(3));
        assert_eq!(warnings.due_at(INTERVAL), None);
    }
}
