//! Detects Workers that one shard cannot serve alone, so that routers spread their requests.
//!
//! ```text
//!  each response ─► CPU time of the Worker, in windows ─┐
//!  event loop ────► busy in the last window? ───────────┴─► a large share of a busy shard? ─► hot
//!  admission ─────► a request waits for a permit of the Worker? ────────────────────────────► hot
//! ```
//!
//! The number of requests in flight says little: a thousand requests that wait for other servers
//! load a shard less than ten that compute. Therefore a shard, and not the router, decides.
//!
//! This module is pure.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Length of a window. Routers react within a few windows, and a burst of a few milliseconds is
/// not load.
const WINDOW: Duration = Duration::from_millis(100);

/// Share of a window, in percent, for which the thread of a busy shard runs tasks. Beyond it, the
/// queue of a shard grows fast (Kleinrock, "Queueing Systems", 1975: it is proportional to
/// 1 / (1 − utilization)).
const BUSY_PERCENT: u128 = 80;

/// Share of the CPU time of all Workers, in percent, that a hot Worker uses. At most five Workers
/// of a shard are hot for this reason; the others keep their requests on the shard.
const LARGE_PERCENT: u128 = 20;

/// The load of a shard.
pub(super) struct ShardHeat {
    /// The number of the current window, counted from 1; 0 is the `window` of a [`WorkerHeat`] that
    /// has not been observed.
    window: Cell<u64>,
    began_at: Cell<Instant>,
    /// Time for which the thread had run tasks when the window began.
    busy_at_start: Cell<Duration>,
    /// CPU time of all Workers in the current window.
    cpu: Cell<Duration>,
    /// Smallest CPU time of a hot Worker in the previous window; `None` if the shard was not busy.
    hot_from: Cell<Option<Duration>>,
}

/// The load that one isolate of a Worker causes.
#[derive(Default)]
pub(super) struct WorkerHeat {
    /// CPU time of the isolate when it was last observed.
    seen: Cell<Duration>,
    /// The window of the last observation.
    window: Cell<u64>,
    /// CPU time in that window.
    cpu: Cell<Duration>,
    /// CPU time in the window before.
    previous: Cell<Duration>,
}

impl WorkerHeat {
    /// Adds the CPU time since the last observation and returns it.
    fn observe(&self, cpu: Duration, window: u64) -> Duration {
        let last = self.window.replace(window);
        if last != window {
            let used = self.cpu.take();
            self.previous.set(if last + 1 == window { used } else { Duration::ZERO });
        }
        let used = cpu.saturating_sub(self.seen.replace(cpu));
        self.cpu.set(self.cpu.get() + used);
        used
    }
}

impl ShardHeat {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            window: Cell::new(1),
            began_at: Cell::new(now),
            busy_at_start: Cell::default(),
            cpu: Cell::default(),
            hot_from: Cell::default(),
        }
    }

    /// Observes a Worker after a response. Returns whether the Worker uses a large share of a busy
    /// shard.
    ///
    /// # Arguments
    /// * `cpu` - CPU time that the Worker's isolate has used since its start.
    /// * `busy` - returns the time for which the shard's thread has run tasks since its start.
    pub(super) fn is_hot(
        &self,
        worker: &WorkerHeat,
        cpu: Duration,
        now: Instant,
        busy: impl FnOnce() -> Duration,
    ) -> bool {
        let elapsed = now.saturating_duration_since(self.began_at.get());
        if elapsed >= WINDOW {
            self.begin_window(elapsed, now, busy());
        }
        let used = worker.observe(cpu, self.window.get());
        self.cpu.set(self.cpu.get() + used);
        self.hot_from.get().is_some_and(|from| worker.previous.get() >= from)
    }

    fn begin_window(&self, elapsed: Duration, now: Instant, busy: Duration) {
        let ran = busy.saturating_sub(self.busy_at_start.replace(busy));
        let is_busy = ran.as_nanos() * 100 >= elapsed.as_nanos() * BUSY_PERCENT;
        let large = self.cpu.take().as_nanos() * LARGE_PERCENT / 100;
        let large = Duration::from_nanos(u64::try_from(large).unwrap_or(u64::MAX).max(1));
        self.hot_from.set(is_busy.then_some(large));
        self.began_at.set(now);
        self.window.set(self.window.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A shard with two Workers.
    struct Load {
        shard: ShardHeat,
        workers: [WorkerHeat; 2],
        cpu: [Duration; 2],
        now: Instant,
        busy: Duration,
    }

    impl Load {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                shard: ShardHeat::new(now),
                workers: Default::default(),
                cpu: [Duration::ZERO; 2],
                now,
                busy: Duration::ZERO,
            }
        }

        /// Serves a request of each Worker in every millisecond of three windows, and returns which
        /// of them are hot in the end.
        ///
        /// # Arguments
        /// * `micros` - CPU time of a request of each Worker.
        /// * `busy` - time for which the thread is busy in each millisecond, in microseconds.
        fn serve(&mut self, micros: [u64; 2], busy: u64) -> [bool; 2] {
            let mut hot = [false; 2];
            for _ in 0..3 * WINDOW.as_millis() {
                self.now += MILLISECOND;
                self.busy += Duration::from_micros(busy);
                for index in 0..2 {
                    self.cpu[index] += Duration::from_micros(micros[index]);
                    let (worker, cpu) = (&self.workers[index], self.cpu[index]);
                    hot[index] = self.shard.is_hot(worker, cpu, self.now, || self.busy);
                }
            }
            hot
        }
    }

    #[test]
    fn a_worker_that_fills_a_shard_is_hot_and_its_neighbor_is_not() {
        assert_eq!(Load::new().serve([700, 50], 900), [true, false]);
    }

    #[test]
    fn no_worker_of_a_shard_with_idle_time_is_hot() {
        assert_eq!(Load::new().serve([600, 50], 700), [false, false]);
    }

    #[test]
    fn two_workers_that_fill_a_shard_together_are_both_hot() {
        assert_eq!(Load::new().serve([400, 400], 1000), [true, true]);
    }

    #[test]
    fn a_worker_cools_down_when_its_load_ends() {
        let mut load = Load::new();
        assert_eq!(load.serve([900, 1], 950), [true, false]);
        assert_eq!(load.serve([100, 1], 150), [false, false]);
    }

    #[test]
    fn work_before_a_pause_does_not_count_after_it() {
        let mut load = Load::new();
        load.serve([900, 1], 950);
        load.now += 100 * WINDOW;
        assert!(!load.shard.is_hot(&load.workers[0], load.cpu[0], load.now, || load.busy));
    }
}
