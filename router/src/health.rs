//! Whether a shard is worth a request: what its failures say about it.
//!
//! A shard that cannot be connected to is *ejected*: requests pass it by, and the thread that
//! ejected it tries to connect in the background, at growing intervals, until that works. No
//! request is the probe of an ejected shard. A shard that says it drains is passed by until the catalog has told
//! something new of its nodes, or its process has gone and another one answers. One that falls
//! silent while requests wait ([`pulse`](crate::pulse)) is passed by until something comes on its
//! connection again. If a process breaks its connection off, it has ended, and requests wait
//! for its *successor*, which the node's supervisor starts. The supervisor knows whose code ended the
//! process and refuses that code; another node would run it and lose a process too. A new connection to a successor, or to a
//! shard that was passed by, counts only when it has been answered on: the kernel takes connections for a process
//! that is stopped, or not there yet.
//!
//! Pure.

use std::time::Duration;

use crate::metrics::Ejection;

/// Refused this often in a row, a shard is ejected. Once can be a listener that is just coming up.
const STRIKES: u8 = 2;

/// The pause before the first probe, and the longest.
const PROBE_MIN: Duration = Duration::from_millis(50);
const PROBE_MAX: Duration = Duration::from_secs(5);

/// How long one that has been out of order may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a process may take to start in the place of one that ended. Most take less than a tenth of a second.
const SUCCESSION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Sound {
        /// Failed connections since the last that worked.
        strikes: u8,
    },
    /// Takes nothing new, it says; heard when the nodes had this version.
    Draining { nodes_version: u64 },
    /// It has a connection and requests, and says nothing.
    Silent {
        /// It had said that it drains.
        drains: bool,
    },
    /// Its process has ended; another one is expected.
    AwaitsSuccessor,
    Ejected {
        /// Probes that failed.
        probes: u8,
    },
}

/// How a connection failed to come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    /// Somebody said no.
    Refused,
    /// Nobody said anything in time, which costs whoever waits too much to try it twice.
    Silent,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// In order.
    Closed,
    /// The other side broke it off.
    HungUp,
    /// The other side has not been heard for too long.
    Vanished,
}

impl Health {
    /// Whether requests should go there, when the nodes have this version.
    pub(crate) fn takes_requests(self, version: u64) -> bool {
        match self {
            Self::Sound { .. } | Self::AwaitsSuccessor => true,
            Self::Draining { nodes_version } => nodes_version != version,
            Self::Silent { .. } | Self::Ejected { .. } => false,
        }
    }

    pub(crate) fn connected() -> Self {
        Self::Sound { strikes: 0 }
    }

    pub(crate) fn failed_to_connect(self, how: ConnectFailure) -> Self {
        match (self, how) {
            (Self::Ejected { probes }, _) => Self::Ejected { probes: probes.saturating_add(1) },
            (Self::Sound { strikes }, ConnectFailure::Refused) if strikes + 1 < STRIKES => {
                Self::Sound { strikes: strikes + 1 }
            }
            _ => Self::Ejected { probes: 0 },
        }
    }

    /// The connection has ended.
    pub(crate) fn disconnected(self, how: Disconnect) -> Self {
        match (self, how) {
            (Self::Sound { .. }, Disconnect::HungUp)
            | (Self::Silent { drains: false }, Disconnect::HungUp | Disconnect::Closed) => Self::AwaitsSuccessor,
            // A process that was draining has gone, and its node may go with it.
            (Self::Draining { .. } | Self::Silent { .. }, _) => Self::Ejected { probes: 0 },
            (other, _) => other,
        }
    }

    /// Nothing has come on the connection for too long.
    pub(crate) fn fell_silent(self) -> Self {
        match self {
            Self::Sound { .. } => Self::Silent { drains: false },
            Self::Draining { .. } => Self::Silent { drains: true },
            other => other,
        }
    }

    /// Something has come on the connection.
    pub(crate) fn heard(self) -> Self {
        match self {
            Self::Silent { .. } => Self::connected(),
            other => other,
        }
    }

    /// Why requests pass it by, if it is out of order and they do.
    pub(crate) fn ejection(self) -> Option<Ejection> {
        match self {
            Self::Silent { .. } => Some(Ejection::Silent),
            Self::Ejected { .. } => Some(Ejection::Unreachable),
            Self::Sound { .. } | Self::Draining { .. } | Self::AwaitsSuccessor => None,
        }
    }

    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Silent { .. })
    }

    pub(crate) fn is_ejected(self) -> bool {
        matches!(self, Self::Ejected { .. })
    }

    /// How long a new connection is given to be answered on before it counts, if it has to be.
    pub(crate) fn proof(self) -> Option<Duration> {
        match self {
            Self::Ejected { .. } => Some(PROBE_TIMEOUT),
            Self::AwaitsSuccessor => Some(SUCCESSION),
            Self::Sound { .. } | Self::Draining { .. } | Self::Silent { .. } => None,
        }
    }

    /// How long to wait before an ejected shard is tried again.
    ///
    /// # Arguments
    /// `jitter` in 0..1 keeps the threads of many routers from trying all at once.
    pub(crate) fn probe_pause(self, jitter: f64) -> Option<Duration> {
        let Self::Ejected { probes } = self else { return None };
        let pause = PROBE_MIN.saturating_mul(1 << probes.min(16)).min(PROBE_MAX);
        Some(pause.mul_f64(0.5 + jitter / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_is_forgiven_and_a_second_is_not() {
        let once = Health::connected().failed_to_connect(ConnectFailure::Refused);
        assert!(once.takes_requests(0));
        assert!(!once.failed_to_connect(ConnectFailure::Refused).takes_requests(0));
    }

    #[test]
    fn silence_is_not_listened_to_twice() {
        assert!(Health::connected().failed_to_connect(ConnectFailure::Silent).is_ejected());
    }

    #[test]
    fn probes_come_ever_more_seldom_and_never_stop() {
        let mut health = Health::Ejected { probes: 0 };
        let mut last = Duration::ZERO;
        for _ in 0..1000 {
            let pause = health.probe_pause(1.0).unwrap();
            assert!(pause >= last && pause <= PROBE_MAX);
            (last, health) = (pause, health.failed_to_connect(ConnectFailure::Refused));
        }
        assert_eq!(last, PROBE_MAX);
        assert_eq!(Health::connected().probe_pause(1.0), None);
    }

    #[test]
    fn a_draining_shard_is_asked_again_when_the_catalog_has_news() {
        let draining = Health::Draining { nodes_version: 7 };
        assert!(!draining.takes_requests(7));
        assert!(draining.takes_requests(8));
    }

    #[test]
    fn a_silent_shard_is_used_again_when_it_is_heard() {
        let silent = Health::connected().fell_silent();
        assert!(silent.ejection().is_some() && !silent.is_ejected() && !silent.takes_requests(0));
        assert_eq!(silent.probe_pause(1.0), None, "its connection is there, and is listened to");
        assert_eq!(silent.heard(), Health::connected());
        assert!(silent.disconnected(Disconnect::Vanished).is_ejected());
        let ejected = Health::Ejected { probes: 3 };
        assert_eq!((ejected.fell_silent(), ejected.heard()), (ejected, ejected));
    }

    #[test]
    fn the_successor_of_a_process_that_has_ended_is_waited_for_and_must_answer() {
        let awaits = Health::connected().disconnected(Disconnect::HungUp);
        for how in [Disconnect::HungUp, Disconnect::Closed] {
            assert_eq!(Health::connected().fell_silent().disconnected(how), awaits);
        }
        assert_eq!(Health::connected().disconnected(Disconnect::Closed), Health::connected(), "it had nothing to do");
        assert!(awaits.takes_requests(0) && awaits.ejection().is_none() && awaits.proof().is_some());
        assert_eq!(awaits.fell_silent(), awaits, "its connection is a new one");
        for how in [ConnectFailure::Refused, ConnectFailure::Silent] {
            assert!(awaits.failed_to_connect(how).is_ejected());
        }
        assert_eq!(Health::connected().proof(), None);
    }

    #[test]
    fn a_draining_process_that_has_gone_is_probed_for_its_successor() {
        for how in [Disconnect::Closed, Disconnect::HungUp, Disconnect::Vanished] {
            let draining = Health::Draining { nodes_version: 7 };
            assert!(draining.disconnected(how).is_ejected() && draining.fell_silent().disconnected(how).is_ejected());
        }
    }
}
