//! Detects that a connection on which requests wait is silent, which means that no byte arrives,
//! not even the answer to a ping.
//!
//! ```text
//!  last byte         ping                        silent
//!     ├────────────────┼────────────────────────────┤
//!     0              0.75 s                   1.5 s to 1.75 s
//! ```
//!
//! Time is counted in ticks and not read from a clock. A tick that is late because this thread was
//! busy counts as one tick, and data that has arrived in the meantime is read before the next tick.
//!
//! This module is pure.

use std::time::Duration;

/// The interval between two checks of a connection.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// The time without a byte after which a ping is sent.
pub(crate) const PING_AFTER: Duration = Duration::from_millis(750);

/// The number of whole ticks without a byte after which the peer counts as silent. A ping is
/// outstanding for half of these ticks.
const SILENT_AFTER: u32 = 6;

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// The counter of reads at the last tick.
    reads: u64,
    /// The number of whole ticks since the last read.
    quiet: u32,
}

impl Pulse {
    /// Creates the state of a connection.
    ///
    /// # Arguments
    /// * `reads` - a counter that increases with every read.
    pub(crate) fn new(reads: u64) -> Self {
        Self { reads, quiet: 0 }
    }

    /// Records a tick.
    pub(crate) fn tick(&mut self, reads: u64) -> Beat {
        self.quiet = if reads == self.reads { self.quiet.saturating_add(1) } else { 0 };
        self.reads = reads;
        match self.quiet {
            0 => Beat::Alive,
            quiet if quiet < SILENT_AFTER => Beat::Quiet,
            _ => Beat::Silent,
        }
    }
}

/// The result of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Data has arrived.
    Alive,
    /// Nothing has arrived, but for fewer than [`SILENT_AFTER`] ticks.
    Quiet,
    /// Nothing has arrived for at least [`SILENT_AFTER`] ticks.
    Silent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_detected_within_two_seconds_but_after_a_ping() {
        let mut pulse = Pulse::new(0);
        // The last byte arrived right after the previous tick.
        assert_eq!(pulse.tick(1), Beat::Alive);
        let ticks = 1 + (1..).find(|_| pulse.tick(1) == Beat::Silent).unwrap();
        assert!(ticks * TICK < Duration::from_secs(2));
        assert!((ticks - 1) * TICK >= 2 * PING_AFTER);
    }

    #[test]
    fn any_byte_is_a_sign_of_life() {
        let mut pulse = Pulse::new(0);
        for reads in 1..100 {
            assert_eq!(pulse.tick(reads), Beat::Alive);
            assert!((0..SILENT_AFTER - 1).all(|_| pulse.tick(reads) == Beat::Quiet));
        }
        assert_eq!(pulse.tick(99), Beat::Silent);
        assert_eq!(pulse.tick(100), Beat::Alive);
    }
}
