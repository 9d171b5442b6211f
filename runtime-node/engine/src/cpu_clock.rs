//! Measures the CPU time of threads and of turns.
//!
//! ```text
//!             ┌── anchor: both clocks, read at most 1 ms before the turn
//!             ▼
//!  ───────────●────────┬─ begin              end ─┬──────►
//!                      └───── monotonic ──────────┘
//!                              shorter than 100 µs: charged by the monotonic clock
//!                              longer: charged by the CPU clock since the anchor; new anchor
//! ```
//!
//! Reading a thread's CPU clock is a system call of half a microsecond, as long as a short turn;
//! reading the monotonic clock, through the kernel's shared page, takes a tenth of that. CPU time
//! never runs faster than monotonic time, so both charges are upper bounds. The charge for a short
//! turn includes the time for which the kernel gave its processor to other threads. The charge for
//! a long turn is the CPU time that the thread has used since the anchor, or the duration of the
//! turn if that is shorter.

#![allow(unsafe_code)] // Reads the CPU clocks of threads, which the standard library cannot read.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Duration of a turn below which the monotonic clock is accurate enough. Such a turn is seldom
/// interrupted, and an interrupted one is overcharged by less than this duration.
const SHORT: Duration = Duration::from_micros(100);

/// Age at which an anchor is renewed. A long turn can be overcharged by at most this time, and a
/// deadline can be late by at most this time.
const FRESH: Duration = Duration::from_millis(1);

/// A clock of the CPU time that one thread has used. Any thread may read the clock.
#[derive(Clone, Copy)]
pub(crate) struct CpuClock(libc::clockid_t);

impl CpuClock {
    pub(crate) fn of_this_thread() -> Self {
        let mut id = 0;
        // SAFETY: the thread is the calling one, so it exists; `id` receives the result.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut id) };
        // On a system without such clocks, the watchdog measures wall-clock time, which makes the
        // limits stricter but never laxer.
        Self(if failed == 0 { id } else { libc::CLOCK_MONOTONIC })
    }

    /// Returns the CPU time used so far, or zero if the thread has ended.
    pub(crate) fn now(self) -> Duration {
        let mut time = MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: `time` receives the result, and stays zero, a valid time, if the call fails.
        let time = unsafe {
            libc::clock_gettime(self.0, time.as_mut_ptr());
            time.assume_init()
        };
        Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
    }
}

/// Measures the turns of one thread, one at a time.
pub(crate) struct TurnClock {
    cpu: CpuClock,
    anchor: Anchor,
}

/// The start of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnStart {
    at: Instant,
    anchor: Anchor,
}

/// A simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: Instant,
    cpu: Duration,
}

impl TurnClock {
    /// Creates the clock for the thread of `cpu`.
    pub(crate) fn new(cpu: CpuClock) -> Self {
        Self { cpu, anchor: Anchor { at: Instant::now(), cpu: cpu.now() } }
    }

    pub(crate) fn begin(&mut self) -> TurnStart {
        self.anchor.begin(Instant::now(), || self.cpu.now())
    }

    /// Ends a turn and returns the CPU time to charge for it.
    pub(crate) fn end(&mut self, begun: TurnStart) -> Duration {
        self.anchor.end(begun, Instant::now(), || self.cpu.now())
    }
}

impl TurnStart {
    /// Returns the latest reading of the CPU clock at which the turn may have begun.
    pub(crate) fn latest_cpu(&self) -> Duration {
        self.anchor.cpu + self.at.saturating_duration_since(self.anchor.at)
    }
}

impl Anchor {
    /// Begins a turn, on an anchor that is renewed if it is old.
    fn begin(&mut self, at: Instant, cpu: impl FnOnce() -> Duration) -> TurnStart {
        if at.saturating_duration_since(self.at) > FRESH {
            *self = Self { at, cpu: cpu() };
        }
        TurnStart { at, anchor: *self }
    }

    /// Ends a turn and returns the CPU time to charge for it.
    fn end(&mut self, begun: TurnStart, at: Instant, cpu: impl FnOnce() -> Duration) -> Duration {
        let elapsed = at.saturating_duration_since(begun.at);
        if elapsed < SHORT {
            return elapsed;
        }
        *self = Self { at, cpu: cpu() };
        elapsed.min(self.cpu.saturating_sub(begun.anchor.cpu))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    fn anchor() -> Anchor {
        Anchor { at: Instant::now(), cpu: Duration::from_secs(7) }
    }

    #[test]
    fn turns_in_close_succession_do_not_read_the_cpu_clock() {
        let mut anchor = anchor();
        let mut now = anchor.at;
        for _ in 0..100 {
            let begun = anchor.begin(now, || unreachable!());
            let charged = anchor.end(begun, now + 2 * MICROSECOND, || unreachable!());
            assert_eq!(charged, 2 * MICROSECOND);
            now += 10 * MICROSECOND;
        }
    }

    #[test]
    fn a_turn_after_a_pause_reads_the_cpu_clock_again() {
        let mut anchor = anchor();
        let begin = anchor.at + 60_000 * MICROSECOND;
        let used = anchor.cpu + 5 * MICROSECOND;
        let begun = anchor.begin(begin, || used);
        assert_eq!(begun.latest_cpu(), used);
        let end = begin + 3_000 * MICROSECOND;
        let charged = anchor.end(begun, end, || used + 2_000 * MICROSECOND);
        assert_eq!(charged, 2_000 * MICROSECOND, "in 3 ms, one of which went to another thread");
    }

    proptest! {
        /// No turn is charged less CPU time than it used, or more than `FRESH` or `SHORT` beyond
        /// that. No deadline is early, or late by more than `FRESH`.
        #[test]
        fn a_charge_is_never_too_small_and_never_much_too_large(
            turns in prop::collection::vec(
                (0u32..3_000, 0u32..3_000, 0u32..3_000, 0u32..3_000),
                1..50,
            ),
        ) {
            let mut anchor = anchor();
            let (mut now, cpu) = (anchor.at, Cell::new(anchor.cpu));
            for (idle, busy, runs, waits) in turns {
                now += (idle + busy) * MICROSECOND;
                cpu.set(cpu.get() + busy * MICROSECOND);
                let before = cpu.get();
                let begun = anchor.begin(now, || cpu.get());
                let latest = begun.latest_cpu();
                prop_assert!(before <= latest && latest <= before + FRESH);
                now += (runs + waits) * MICROSECOND;
                cpu.set(before + runs * MICROSECOND);
                let charged = anchor.end(begun, now, || cpu.get());
                prop_assert!(charged >= runs * MICROSECOND);
                prop_assert!(charged <= runs * MICROSECOND + FRESH.max(SHORT));
            }
        }
    }
}
