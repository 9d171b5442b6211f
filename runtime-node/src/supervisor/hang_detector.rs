//! Detects a stuck process from the readings of its page. This module is pure.
//!
//! ```text
//!  turn ── told to end ──┬─ 1 s of CPU time later ──────────────────────────────────┬─► stuck
//!                        └─ 1 s by the clock later, and 100 ms of CPU time ─────────┤
//!  event loop is stalled, with no code running, for 30 s ───────────────────────────┘
//! ```
//!
//! V8 ends a turn within microseconds of the order to end, unless the turn is in a built-in
//! function that does not check for the order. CPU time distinguishes these cases even on a shared
//! processor. But a lane to which shards leave a twentieth of a core would need 20 s for one second
//! of CPU time, and would delay the requests of all its Workers for that long, so wall-clock time
//! counts too.

use std::time::{Duration, Instant};

use tenon_engine::page::Reading;

/// CPU time after the order to end at which a turn counts as stuck.
const OVERRUN: Duration = Duration::from_secs(1);

/// Wall-clock time after the order to end at which a turn counts as stuck, if it has also taken
/// `LINGER_CPU` of CPU time since the order.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_CPU: Duration = Duration::from_millis(100);

/// An event loop that makes no progress for this long, with no code running, does not recover.
const STALL: Duration = Duration::from_secs(30);

pub(super) struct HangDetector {
    beats: u64,
    /// Time of the last reading with a new beat or with running code.
    changed: Instant,
    /// Time at which the running turn was first seen to continue after the order to end.
    overruns_since: Option<Instant>,
    /// CPU time of the overrun at the last check.
    overrun: Duration,
}

impl HangDetector {
    pub(super) fn new(now: Instant) -> Self {
        Self { beats: 0, changed: now, overruns_since: None, overrun: Duration::ZERO }
    }

    /// Returns whether the process is to be killed, according to the current reading of its page.
    pub(super) fn is_stuck(&mut self, reading: &Reading, now: Instant) -> bool {
        // A turn may take as long as its Worker's limit allows; then the watchdog orders it to end.
        if reading.beats != self.beats || reading.running.is_some() {
            (self.beats, self.changed) = (reading.beats, now);
        }
        // An overrun that has shrunk belongs to another turn.
        let since = self.overruns_since.filter(|_| reading.overrun >= self.overrun);
        self.overruns_since = (!reading.overrun.is_zero()).then(|| since.unwrap_or(now));
        self.overrun = reading.overrun;
        let lingers =
            self.overruns_since.is_some_and(|since| now.saturating_duration_since(since) >= LINGER);
        reading.overrun >= OVERRUN
            || lingers && reading.overrun >= LINGER_CPU
            || now.saturating_duration_since(self.changed) >= STALL
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::id::RevisionDigest;

    use super::*;

    const CHECK_INTERVAL: Duration = Duration::from_millis(100);

    /// Returns the wall-clock time from the order to end until a turn with this percentage of a
    /// CPU counts as stuck.
    fn time_until_stuck(percent: u32) -> Option<Duration> {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let running = Some(RevisionDigest::new([7; 32]));
        (0..10_000).map(|checks| checks * CHECK_INTERVAL).find(|after| {
            detector.is_stuck(
                &Reading { running, overrun: *after * percent / 100, beats: 1 },
                began + *after,
            )
        })
    }

    #[test]
    fn a_hung_turn_is_detected_after_a_second_and_later_if_it_gets_little_cpu_time() {
        assert_eq!(time_until_stuck(100), Some(OVERRUN));
        assert!(time_until_stuck(20) <= Some(LINGER + CHECK_INTERVAL));
        assert!(time_until_stuck(5) <= Some(2 * LINGER), "{:?}", time_until_stuck(5));
        assert_eq!(time_until_stuck(0), None, "a turn that gets no CPU time counts as stuck");
    }

    #[test]
    fn turns_that_end_when_ordered_to_are_not_stuck() {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let running = Some(RevisionDigest::new([7; 32]));
        for checks in 0..1000 {
            let overrun = LINGER_CPU * 2 / (checks % 2 + 1);
            assert!(!detector.is_stuck(
                &Reading { running, overrun, beats: 1 },
                began + checks * CHECK_INTERVAL
            ));
        }
    }

    #[test]
    fn an_event_loop_that_stalls_outside_of_code_is_stuck() {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let mut is_stuck = |beats, after| {
            detector
                .is_stuck(&Reading { running: None, overrun: Duration::ZERO, beats }, began + after)
        };
        assert!(!is_stuck(1, STALL / 2));
        assert!(!is_stuck(2, STALL));
        assert!(!is_stuck(2, STALL * 2 - CHECK_INTERVAL));
        assert!(is_stuck(2, STALL * 2));
    }
}
