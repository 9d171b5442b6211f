//! How slowly a client may send a request's body.
//!
//! ```text
//!  patience ── less with the time in which the client is waited for ──► none: the request ends with 408
//!     ▲────── more with each byte that comes, up to what there was at first ──────┘
//! ```
//!
//! So a client may pause for as long as the grace, and in the long run sends at the rate at least, whatever it has sent
//! before: bytes that came quickly buy no hours. Only what is the client's own doing counts: the time in which the router
//! reads, and nothing has come. A Worker that takes its time over what has come costs no patience.
//!
//! Belongs to one thread.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What is asked of a client that sends a body.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long it may send nothing.
    pub grace: Duration,
    /// Bytes a second in the long run.
    pub rate: NonZeroU32,
}

impl Default for Pace {
    /// A modem kept it. A client that is slower, or pauses for longer, is not there to be served.
    fn default() -> Self {
        const RATE: NonZeroU32 = NonZeroU32::new(500).expect("it is not zero");
        Self { grace: Duration::from_secs(30), rate: RATE }
    }
}

/// The patience with one body.
pub(crate) struct Patience {
    left: Left,
    /// Rings no later than the patience ends. It is set again when it rings too early, and not with each piece.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { left: Left { pace, left: pace.grace, since: None }, alarm: None }
    }

    /// So many bytes have come.
    pub(crate) fn came(&mut self, bytes: usize) {
        self.left.came(bytes, Instant::now);
    }

    /// Resolves when a client that has sent nothing is waited for no longer.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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

/// The arithmetic, to which the time is an argument.
struct Left {
    pace: Pace,
    left: Duration,
    /// Since when the client is waited for.
    since: Option<Instant>,
}

impl Left {
    /// The client is waited for. Until when: never earlier than it was the time before.
    fn end(&mut self, now: impl FnOnce() -> Instant) -> Instant {
        *self.since.get_or_insert_with(now) + self.left
    }

    fn came(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
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

    /// How long a client is served that pauses and sends like that, again and again, for an hour at most.
    fn served(pause: Duration, bytes: usize) -> Duration {
        let (began, mut now) = (Instant::now(), Instant::now());
        let mut left = Left { pace: PACE, left: PACE.grace, since: None };
        while now - began < Duration::from_secs(3600) {
            let end = left.end(|| now);
            now += pause;
            if end <= now {
                return end - began;
            }
            left.came(bytes, || now);
        }
        now - began
    }

    #[test]
    fn a_client_that_sends_nothing_has_the_grace() {
        assert_eq!(served(Duration::from_secs(31), 0).as_secs(), 30);
    }

    #[test]
    fn a_byte_a_second_is_as_good_as_nothing() {
        assert!((30..32).contains(&served(Duration::from_secs(1), 1).as_secs()));
    }

    #[test]
    fn a_client_that_keeps_the_rate_is_served_for_ever() {
        assert!(served(Duration::from_secs(29), 15_000).as_secs() >= 3600);
        assert!(served(Duration::from_millis(100), 50).as_secs() >= 3600);
    }

    #[test]
    fn what_came_quickly_buys_no_more_than_the_grace() {
        let mut left = Left { pace: PACE, left: PACE.grace, since: None };
        let now = Instant::now();
        left.came(100_000_000, || now);
        assert_eq!(left.end(|| now), now + PACE.grace);
    }

    #[test]
    fn a_worker_that_takes_its_time_costs_nothing() {
        let mut left = Left { pace: PACE, left: PACE.grace, since: None };
        let now = Instant::now();
        left.came(1, || now);
        let much_later = now + Duration::from_secs(1000);
        assert_eq!(left.end(|| much_later), much_later + PACE.grace);
    }

    proptest! {
        #[test]
        fn an_end_is_never_earlier_than_one_before(steps in prop::collection::vec((0_u64..40_000, 0_usize..10_000), 1..50)) {
            let mut now = Instant::now();
            let mut left = Left { pace: PACE, left: PACE.grace, since: None };
            let mut last = left.end(|| now);
            for (pause, bytes) in steps {
                now += Duration::from_millis(pause);
                left.came(bytes, || now);
                let end = left.end(|| now);
                prop_assert!(end >= last || end <= now, "{end:?} before {last:?}");
                last = end;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_alarm_rings_when_patience_ends_and_not_before() {
        let mut patience = Patience::new(PACE);
        let began = Instant::now();
        assert!(futures::poll!(std::future::poll_fn(|cx| patience.poll_end(cx))).is_pending());
        tokio::time::advance(Duration::from_secs(20)).await;
        patience.came(10_000);
        std::future::poll_fn(|cx| patience.poll_end(cx)).await;
        assert_eq!((Instant::now() - began).as_secs(), 20 + 30);
    }
}
