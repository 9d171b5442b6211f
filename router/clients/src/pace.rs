//! Limits how slowly a client may send a request's body.
//!
//! ```text
//! time left ─ shrinks while the router waits for the client ──► none: the request ends with 408
//!    ▲────── grows with each byte received, up to its initial value ──────┘
//! ```
//!
//! A client may therefore pause for at most the grace, and must send at least at the minimum rate
//! in the long run. A fast start does not earn more than the grace. Only the client's own delay
//! counts, which is the time in which the router reads and nothing arrives. A Worker that reads
//! slowly costs the client no time.
//!
//! A timer belongs to one thread.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The minimum pace of a client that sends a body.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The maximum time for which the client may send nothing.
    pub grace: Duration,
    /// The minimum rate in the long run, in bytes per second.
    pub rate: NonZeroU32,
}

impl Default for Pace {
    /// Returns a pace that a modem could keep. A slower client, or one that pauses for longer, is
    /// not served.
    fn default() -> Self {
        const RATE: NonZeroU32 = NonZeroU32::new(500).expect("the rate is zero");
        Self { grace: Duration::from_secs(30), rate: RATE }
    }
}

/// The time that a client has left to send one body.
pub struct PaceTimer {
    left: TimeLeft,
    /// Fires when the time is up, or earlier. The alarm is reset when it has fired too early, and
    /// not with each piece.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl PaceTimer {
    /// Creates the timer of a body of which nothing has arrived.
    pub fn new(pace: Pace) -> Self {
        Self { left: TimeLeft { pace, left: pace.grace, since: None }, alarm: None }
    }

    /// Records that bytes have arrived.
    pub fn received(&mut self, bytes: usize) {
        self.left.received(bytes, Instant::now);
    }

    /// Waits until the time of a client that sends nothing is up.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = self.left.end(Instant::now);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        loop {
            ready!(alarm.as_mut().poll(cx));
            if alarm.deadline() >= end {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(end);
        }
    }
}

/// The computation of the time that is left, with the current time as an argument.
struct TimeLeft {
    pace: Pace,
    left: Duration,
    /// The time at which the router began to wait for the client.
    since: Option<Instant>,
}

impl TimeLeft {
    /// Records that the router waits for the client. Returns the time at which the client's time is
    /// up. This end never becomes earlier, unless it has already passed.
    fn end(&mut self, now: impl FnOnce() -> Instant) -> Instant {
        *self.since.get_or_insert_with(now) + self.left
    }

    fn received(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(now().saturating_duration_since(since));
        }
        let worth = Duration::from_secs_f64(bytes as f64 / f64::from(self.pace.rate.get()));
        self.left = self.pace.grace.min(self.left.saturating_add(worth));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: Pace = Pace { grace: Duration::from_secs(30), rate: NonZeroU32::new(500).unwrap() };

    /// Returns the time for which a client that repeatedly pauses and sends is served, up to an
    /// hour.
    fn served(pause: Duration, bytes: usize) -> Duration {
        let (began, mut now) = (Instant::now(), Instant::now());
        let mut left = TimeLeft { pace: PACE, left: PACE.grace, since: None };
        while now - began < Duration::from_secs(3600) {
            let end = left.end(|| now);
            now += pause;
            if end <= now {
                return end - began;
            }
            left.received(bytes, || now);
        }
        now - began
    }

    #[test]
    fn a_client_that_sends_nothing_is_served_for_the_grace() {
        assert_eq!(served(Duration::from_secs(31), 0).as_secs(), 30);
    }

    #[test]
    fn a_client_that_sends_a_byte_a_second_is_served_for_little_more_than_the_grace() {
        assert!((30..32).contains(&served(Duration::from_secs(1), 1).as_secs()));
    }

    #[test]
    fn a_client_that_keeps_the_rate_is_served_for_an_hour() {
        assert!(served(Duration::from_secs(29), 15_000).as_secs() >= 3600);
        assert!(served(Duration::from_millis(100), 50).as_secs() >= 3600);
    }

    #[test]
    fn a_fast_upload_earns_no_more_than_the_grace() {
        let mut left = TimeLeft { pace: PACE, left: PACE.grace, since: None };
        let now = Instant::now();
        left.received(100_000_000, || now);
        assert_eq!(left.end(|| now), now + PACE.grace);
    }

    #[test]
    fn waiting_for_the_worker_costs_the_client_no_time() {
        let mut left = TimeLeft { pace: PACE, left: PACE.grace, since: None };
        let now = Instant::now();
        left.received(1, || now);
        let much_later = now + Duration::from_secs(1000);
        assert_eq!(left.end(|| much_later), much_later + PACE.grace);
    }

    proptest! {
        #[test]
        fn a_deadline_never_moves_backwards_before_it_has_passed(
            steps in prop::collection::vec((0_u64..40_000, 0_usize..10_000), 1..50),
        ) {
            let mut now = Instant::now();
            let mut left = TimeLeft { pace: PACE, left: PACE.grace, since: None };
            let mut last = left.end(|| now);
            for (pause, bytes) in steps {
                now += Duration::from_millis(pause);
                left.received(bytes, || now);
                let end = left.end(|| now);
                prop_assert!(end >= last || end <= now, "{end:?} before {last:?}");
                last = end;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_fires_when_the_time_is_up_and_not_before() {
        let mut timer = PaceTimer::new(PACE);
        let began = Instant::now();
        assert!(futures::poll!(std::future::poll_fn(|cx| timer.poll_end(cx))).is_pending());
        tokio::time::advance(Duration::from_secs(20)).await;
        timer.received(10_000);
        std::future::poll_fn(|cx| timer.poll_end(cx)).await;
        assert_eq!((Instant::now() - began).as_secs(), 20 + 30);
    }
}
