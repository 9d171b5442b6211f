//! Checks that a socket's peer is alive and accepts data.
//!
//! A client that loses power or its network closes no connection, and a client that never reads
//! occupies the memory of the data written for it. The pump therefore inspects each socket every
//! [`INTERVAL`]. If nothing has arrived since the last inspection, the node pings the peer; if
//! nothing has arrived by the next one either, the peer is gone. If writing is blocked at two
//! inspections in a row and the network has accepted no byte in between, the peer does not read.
//!
//! This module does no I/O except for the timer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The time between two inspections. Proxies and address translators drop connections that are
/// silent for a minute or more.
const INTERVAL: Duration = Duration::from_secs(30);

/// The payload of the node's pings, which distinguishes their answers from unsolicited pongs.
pub(crate) const PING: &[u8] = b"still there?";

pub(crate) struct Vigil {
    next: Pin<Box<Sleep>>,
    seen: Seen,
}

/// The state of a socket at an inspection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Bytes received so far.
    pub(crate) read: u64,
    /// Bytes that the network has accepted so far.
    pub(crate) written: u64,
    /// Set when data waits to be written.
    pub(crate) is_blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Well,
    /// The peer has sent nothing and should be pinged.
    Silent,
    /// The peer does not answer, or accepts nothing.
    Gone,
}

#[derive(Debug, Default)]
struct Seen {
    last: Look,
    pinged: bool,
}

impl Vigil {
    pub(crate) fn new() -> Self {
        Self { next: Box::pin(tokio::time::sleep(INTERVAL)), seen: Seen::default() }
    }

    /// Resolves at the next inspection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, look: Look) -> Poll<Finding> {
        ready!(self.next.as_mut().poll(cx));
        self.next.as_mut().reset(Instant::now() + INTERVAL);
        Poll::Ready(self.seen.judge(look))
    }

    /// Returns whether a pong with this payload answers the node's latest ping.
    pub(crate) fn is_answer(&self, payload: &[u8]) -> bool {
        self.seen.pinged && payload == PING
    }
}

impl Seen {
    fn judge(&mut self, look: Look) -> Finding {
        let last = std::mem::replace(&mut self.last, look);
        let has_come = look.read > last.read;
        if look.is_blocked {
            // A ping would wait behind the blocked data, and incoming data might not be read.
            self.pinged = false;
            let stands_still = last.is_blocked && look.written == last.written && !has_come;
            return if stands_still { Finding::Gone } else { Finding::Well };
        }
        match (has_come, self.pinged) {
            (true, _) => {
                self.pinged = false;
                Finding::Well
            }
            (false, false) => {
                self.pinged = true;
                Finding::Silent
            }
            (false, true) => Finding::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(looks: &[Look]) -> Vec<Finding> {
        let mut seen = Seen::default();
        looks.iter().map(|look| seen.judge(*look)).collect()
    }

    fn at(read: u64, written: u64) -> Look {
        Look { read, written, is_blocked: false }
    }

    fn blocked_at(read: u64, written: u64) -> Look {
        Look { is_blocked: true, ..at(read, written) }
    }

    #[test]
    fn a_silent_client_is_pinged_once_and_then_disconnected() {
        assert_eq!(
            judge(&[at(1, 0), at(1, 0), at(1, 0)]),
            [Finding::Well, Finding::Silent, Finding::Gone]
        );
    }

    #[test]
    fn any_received_byte_is_an_answer() {
        let looks = [at(0, 0), at(14, 14), at(14, 14), at(28, 28)];
        assert_eq!(judge(&looks), [Finding::Silent, Finding::Well, Finding::Silent, Finding::Well]);
    }

    #[test]
    fn a_blocked_client_is_disconnected_at_the_second_look() {
        assert_eq!(judge(&[blocked_at(9, 5), blocked_at(9, 5)]), [Finding::Well, Finding::Gone]);
    }

    #[test]
    fn a_slow_reader_stays_connected() {
        let looks =
            [blocked_at(9, 5), blocked_at(9, 6), at(9, 7), blocked_at(9, 8), blocked_at(9, 9)];
        assert!(!judge(&looks).contains(&Finding::Gone));
    }

    #[test]
    fn a_pong_counts_as_an_answer_only_after_a_ping() {
        let mut vigil = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(async { Vigil::new() });
        assert!(!vigil.is_answer(PING));
        assert_eq!(vigil.seen.judge(Look::default()), Finding::Silent);
        assert!(vigil.is_answer(PING) && !vigil.is_answer(b"a heartbeat"));
    }
}
