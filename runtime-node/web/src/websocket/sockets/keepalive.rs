//! Checks that a socket's peer is alive and accepts data.
//!
//! A client that loses power or its network closes no connection, and a client that never reads
//! occupies the memory of the data written for it. The pump therefore checks each socket every
//! [`INTERVAL`]. If nothing has arrived since the last check, the node pings the peer; if nothing
//! has arrived by the next check either, the peer is unresponsive. The peer is also unresponsive if
//! writing is blocked at two checks in a row, and in between the network has accepted no byte and
//! nothing has arrived.
//!
//! This module performs no I/O; it only sets a timer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The time between two checks. Proxies and address translators drop connections that are
/// silent for a minute or more.
const INTERVAL: Duration = Duration::from_secs(30);

/// The payload of the node's pings, which distinguishes the peer's answers from unsolicited pongs.
pub(crate) const PING: &[u8] = b"still there?";

/// The timer of a socket's checks, and the socket's state at the last check.
pub(crate) struct Keepalive {
    next: Pin<Box<Sleep>>,
    history: History,
}

/// The state of a socket at a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The number of bytes received so far.
    pub(crate) read: u64,
    /// The number of bytes that the network has accepted so far.
    pub(crate) written: u64,
    /// Set if data waits to be written.
    pub(crate) is_blocked: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    /// The peer has sent nothing and should be pinged.
    Silent,
    /// The peer does not answer, or accepts no data.
    Unresponsive,
}

#[derive(Debug, Default)]
struct History {
    last: Sample,
    pinged: bool,
}

impl Keepalive {
    pub(crate) fn new() -> Self {
        Self { next: Box::pin(tokio::time::sleep(INTERVAL)), history: History::default() }
    }

    /// Resolves at the next check, to the result for a socket in the state `sample`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sample: Sample) -> Poll<Liveness> {
        ready!(self.next.as_mut().poll(cx));
        self.next.as_mut().reset(Instant::now() + INTERVAL);
        Poll::Ready(self.history.check(sample))
    }

    /// Returns whether a pong with this payload answers the node's latest ping.
    pub(crate) fn is_answer(&self, payload: &[u8]) -> bool {
        self.history.pinged && payload == PING
    }
}

impl History {
    fn check(&mut self, sample: Sample) -> Liveness {
        let last = std::mem::replace(&mut self.last, sample);
        let has_received = sample.read > last.read;
        if sample.is_blocked {
            // A ping would wait behind the blocked data, and incoming data might not be read.
            self.pinged = false;
            let is_stalled = last.is_blocked && sample.written == last.written && !has_received;
            return if is_stalled { Liveness::Unresponsive } else { Liveness::Alive };
        }
        match (has_received, self.pinged) {
            (true, _) => {
                self.pinged = false;
                Liveness::Alive
            }
            (false, false) => {
                self.pinged = true;
                Liveness::Silent
            }
            (false, true) => Liveness::Unresponsive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[Sample]) -> Vec<Liveness> {
        let mut history = History::default();
        samples.iter().map(|sample| history.check(*sample)).collect()
    }

    fn at(read: u64, written: u64) -> Sample {
        Sample { read, written, is_blocked: false }
    }

    fn blocked_at(read: u64, written: u64) -> Sample {
        Sample { is_blocked: true, ..at(read, written) }
    }

    #[test]
    fn a_silent_client_is_pinged_once_and_then_disconnected() {
        assert_eq!(
            check(&[at(1, 0), at(1, 0), at(1, 0)]),
            [Liveness::Alive, Liveness::Silent, Liveness::Unresponsive]
        );
    }

    #[test]
    fn any_received_byte_is_an_answer() {
        let samples = [at(0, 0), at(14, 14), at(14, 14), at(28, 28)];
        assert_eq!(
            check(&samples),
            [Liveness::Silent, Liveness::Alive, Liveness::Silent, Liveness::Alive]
        );
    }

    #[test]
    fn a_blocked_client_is_disconnected_at_the_second_check() {
        assert_eq!(
            check(&[blocked_at(9, 5), blocked_at(9, 5)]),
            [Liveness::Alive, Liveness::Unresponsive]
        );
    }

    #[test]
    fn a_slow_reader_stays_connected() {
        let samples =
            [blocked_at(9, 5), blocked_at(9, 6), at(9, 7), blocked_at(9, 8), blocked_at(9, 9)];
        assert!(!check(&samples).contains(&Liveness::Unresponsive));
    }

    #[test]
    fn a_pong_counts_as_an_answer_only_after_a_ping() {
        let mut keepalive = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(async { Keepalive::new() });
        assert!(!keepalive.is_answer(PING));
        assert_eq!(keepalive.history.check(Sample::default()), Liveness::Silent);
        assert!(keepalive.is_answer(PING) && !keepalive.is_answer(b"a heartbeat"));
    }
}
