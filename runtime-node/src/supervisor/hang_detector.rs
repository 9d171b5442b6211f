//! Detects a process that is stuck, from what its page says at each check. This module is pure.
//!
//! ```text
//!  turn ── told to end ──┬─ 1 s of CPU time later ──────────────────────────────────┬─► stuck
//!                        └─ 1 s by the clock later, and 100 ms of CPU time ─────────┤
//!  event loop stands still, with no code running, for 30 s ─────────────────────────┘
//! ```
//!
//! V8 ends a turn within microseconds of being told, unless the turn is in a built-in function that
//! does not check. CPU time tells these cases apart where a processor is shared; but a lane to
//! which shards leave a twentieth of a core would need 20 s for its first second of CPU time, and
//! delay the requests of all its Workers meanwhile.

use std::time::{Duration, Instant};

use tenon_engine::page::Look;

/// CPU time that a turn may take after it was told to end.
const OVERRUN: Duration = Duration::from_secs(1);

/// Wall-clock time that a turn may go on after it was told to end, once it has taken `LINGER_CPU`
/// of CPU time.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_CPU: Duration = Duration::from_millis(100);

/// An event loop that stands still for this long, with no code running, does not recover.
const STILL: Duration = Duration::from_secs(30);

pub(super) struct HangDetector {
    beats: u64,
    changed: Instant,
    /// Time at which the running turn was first seen to go on after it had been told to end.
    overruns_since: Option<Instant>,
    /// CPU time of the overrun at the last check.
    overrun: Duration,
}

impl HangDetector {
    pub(super) fn new(now: Instant) -> Self {
        Self { beats: 0, changed: now, overruns_since: None, overrun: Duration::ZERO }
    }

    /// Returns whether the process is to be killed, by what its page says now.
    pub(super) fn is_stuck(&mut self, look: &Look, now: Instant) -> bool {
        // A turn may take as long as its Worker's limit allows; the watchdog tells it to end.
        if look.beats != self.beats || look.running.is_some() {
            (self.beats, self.changed) = (look.beats, now);
        }
        // An overrun that has shrunk belongs to another turn.
        let since = self.overruns_since.filter(|_| look.overrun >= self.overrun);
        self.overruns_since = (!look.overrun.is_zero()).then(|| since.unwrap_or(now));
        self.overrun = look.overrun;
        let lingers =
            self.overruns_since.is_some_and(|since| now.saturating_duration_since(since) >= LINGER);
        look.overrun >= OVERRUN
            || lingers && look.overrun >= LINGER_CPU
            || now.saturating_duration_since(self.changed) >= STILL
    }
}

#[cfg(test)]
mod tests {
    use tenon_proto::id::RevisionDigest;

    use super::*;

    const LOOK: Duration = Duration::from_millis(100);

    /// Returns for how long by the clock a turn goes on after it was told to end, if it gets this
    /// percentage of a CPU.
    fn goes_on(percent: u32) -> Option<Duration> {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let running = Some(RevisionDigest::new([7; 32]));
        (0..10_000).map(|looks| looks * LOOK).find(|after| {
            detector.is_stuck(
                &Look { running, overrun: *after * percent / 100, beats: 1 },
                began + *after,
            )
        })
    }

    #[test]
    fn a_hung_turn_is_ended_after_a_second_or_later_with_little_cpu() {
        assert_eq!(goes_on(100), Some(OVERRUN));
        assert!(goes_on(20) <= Some(LINGER + LOOK));
        assert!(goes_on(5) <= Some(2 * LINGER), "{:?}", goes_on(5));
        assert_eq!(goes_on(0), None, "a turn without CPU time could not end");
    }

    #[test]
    fn turns_that_end_when_told_to_are_not_stuck() {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let running = Some(RevisionDigest::new([7; 32]));
        for looks in 0..1000 {
            let overrun = LINGER_CPU * 2 / (looks % 2 + 1);
            assert!(!detector.is_stuck(&Look { running, overrun, beats: 1 }, began + looks * LOOK));
        }
    }

    #[test]
    fn an_event_loop_that_stalls_outside_of_code_is_stuck() {
        let began = Instant::now();
        let mut detector = HangDetector::new(began);
        let mut look = |beats, after| {
            detector
                .is_stuck(&Look { running: None, overrun: Duration::ZERO, beats }, began + after)
        };
        assert!(!look(1, STILL / 2));
        assert!(!look(2, STILL));
        assert!(!look(2, STILL * 2 - LOOK));
        assert!(look(2, STILL * 2));
    }
}
