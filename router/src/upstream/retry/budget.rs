//! Bounds the retries of a thread, so that retries do not double the load of overloaded nodes.
//!
//! This module is pure.

use std::time::{Duration, Instant};

/// The maximum number of retries per request in the current and the last window, above the floor.
const BUDGET_SHARE: f64 = 0.2;
/// The number of retries that is available regardless of the number of requests.
const BUDGET_FLOOR: f64 = 256.0;
/// The duration of a window.
const BUDGET_WINDOW: Duration = Duration::from_secs(5);

/// The retries that a thread has left.
#[derive(Debug)]
pub(crate) struct Budget {
    began: Instant,
    current: Window,
    last: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    requests: u64,
    retries: u64,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, current: Window::default(), last: Window::default() }
    }

    /// Counts a request.
    pub(crate) fn count_request(&mut self, now: Instant) {
        self.advance(now);
        self.current.requests += 1;
    }

    /// Takes a retry if one is left, and returns whether one was left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.advance(now);
        let requests = (self.current.requests + self.last.requests) as f64;
        let retries = (self.current.retries + self.last.retries) as f64;
        let is_left = retries < BUDGET_FLOOR + BUDGET_SHARE * requests;
        self.current.retries += u64::from(is_left);
        is_left
    }

    fn advance(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if age >= BUDGET_WINDOW {
            self.last = if age < 2 * BUDGET_WINDOW { self.current } else { Window::default() };
            self.current = Window::default();
            self.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_share_of_recent_requests_and_a_floor() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        (0..1000).for_each(|_| budget.count_request(now));
        let taken = |budget: &mut Budget, now| (0..10_000).take_while(|_| budget.take(now)).count();
        assert_eq!(taken(&mut budget, now), 256 + 200);
        assert_eq!(taken(&mut budget, now + BUDGET_WINDOW), 0, "the last window does not count");
        assert_eq!(taken(&mut budget, now + 3 * BUDGET_WINDOW), 256);
    }
}
