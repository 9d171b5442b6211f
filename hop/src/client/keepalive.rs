//! Decides when to ping a shard, and when to give up on it.

use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::error::ConnectionError;

/// The number of timer ticks in [`Pings::after`]. One tick is the precision of both times of
/// [`Pings`].
const TICKS: u32 = 3;

/// The times after which the peer of a connection with streams is pinged and counts as lost.
#[derive(Clone, Copy, Debug)]
pub struct Pings {
    /// The time without a frame from the peer after which it is pinged.
    pub after: Duration,
    /// The time after which a peer that has not answered a ping counts as lost.
    pub timeout: Duration,
}

/// The state with which a connection detects a silent peer.
pub(super) struct Keepalive {
    pings: Pings,
    ticks: Interval,
    /// The connection had no streams at the last poll.
    was_idle: bool,
    /// The number of ticks since the last frame.
    quiet: u32,
    /// The time at which the unanswered ping was sent, if there is such a ping.
    pinged: Option<Instant>,
}

impl Keepalive {
    pub(super) fn new(pings: Pings) -> Self {
        let period = pings.after / TICKS;
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { pings, ticks, was_idle: true, quiet: 0, pinged: None }
    }

    /// Records a frame from the peer.
    pub(super) fn record_frame(&mut self) {
        self.quiet = 0;
    }

    /// Records the answer to a ping.
    pub(super) fn record_pong(&mut self) {
        self.pinged = None;
    }

    /// Returns whether to send a ping now: there are streams, and nothing has arrived for
    /// [`Pings::after`]. The timer does not run without streams.
    ///
    /// # Errors
    /// Fails if the last ping has not been answered within [`Pings::timeout`].
    pub(super) fn poll_ping(
        &mut self,
        cx: &mut Context<'_>,
        is_idle: bool,
    ) -> Result<bool, ConnectionError> {
        let was_idle = std::mem::replace(&mut self.was_idle, is_idle);
        if is_idle {
            self.quiet = 0;
            return Ok(false);
        }
        if was_idle {
            self.ticks.reset();
        }
        let mut should_ping = false;
        while self.ticks.poll_tick(cx).is_ready() {
            if self.pinged.is_some_and(|at| at.elapsed() >= self.pings.timeout) {
                return Err(ConnectionError::Silent);
            }
            self.quiet += 1;
            if self.quiet >= TICKS && self.pinged.is_none() {
                self.pinged = Some(Instant::now());
                should_ping = true;
            }
        }
        Ok(should_ping)
    }
}
