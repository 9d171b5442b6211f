//! Judges from the failures of a shard whether the shard should get requests.
//!
//! A shard that cannot be connected to is *ejected*: requests avoid it, and the thread that ejected
//! the shard tries to connect in the background, at growing intervals, until a connection succeeds.
//! No request is used as a probe of an ejected shard. A draining shard gets no requests until the
//! nodes in the catalog change, or until the shard's process has ended and another
//! process answers. A shard that becomes silent while requests wait ([`pulse`](super::pulse)) gets
//! no requests until data arrives on its connection again. If a process breaks off its connection,
//! the process has ended, and requests wait for its *successor*, which the node's supervisor
//! starts. The supervisor knows whose code ended the process, and refuses that code; another node
//! would run the code and lose a process too. A new connection to a successor, or to a shard that
//! was avoided, counts only after data has arrived on it: the kernel accepts connections even
//! for a process that is stopped or has not started yet.
//!
//! This module is pure.

use std::time::Duration;

use crate::upstream::metrics::Ejection;

/// The number of consecutive refusals after which a shard is ejected. A single refusal may come
/// from a listener that is just starting.
const STRIKES: u8 = 2;

/// The pause before the first probe.
const PROBE_MIN: Duration = Duration::from_millis(50);
/// The maximum pause between two probes.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The timeout for the answer of a shard that has been unavailable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout for the start of a process that replaces one that ended. Most starts take less than
/// a tenth of a second.
const SUCCESSION: Duration = Duration::from_secs(2);

/// The health of a shard, as one thread knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Sound {
        /// The number of refused connections since the last successful one.
        strikes: u8,
    },
    /// The shard has reported that it drains, when the catalog's nodes had this version.
    Draining { nodes_version: u64 },
    /// The shard has a connection and requests, and sends nothing.
    Silent {
        /// The version of the catalog's nodes when the shard reported that it drains, if it had.
        draining_at: Option<u64>,
    },
    /// The process has ended, and its successor is expected.
    AwaitsSuccessor,
    Ejected {
        /// The number of failed probes.
        probes: u8,
    },
}

/// The way in which a connection attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    /// The connection was refused.
    Refused,
    /// Nothing answered before the timeout. A second try would delay the waiting requests too much.
    Silent,
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disconnect {
    /// The peer closed the connection properly.
    Closed,
    /// The peer broke off the connection.
    HungUp,
    /// The peer has sent nothing for too long.
    Vanished,
}

impl Health {
    /// Returns whether requests should go to the shard, given the current version of the nodes.
    pub(crate) fn takes_requests(self, version: u64) -> bool {
        match self {
            Self::Sound { .. } | Self::AwaitsSuccessor => true,
            Self::Draining { nodes_version } => nodes_version != version,
            Self::Silent { .. } | Self::Ejected { .. } => false,
        }
    }

    /// Returns the state of a shard with a new connection.
    pub(crate) fn connected() -> Self {
        Self::Sound { strikes: 0 }
    }

    /// Returns the state after a connection attempt has failed.
    pub(crate) fn failed_to_connect(self, how: ConnectFailure) -> Self {
        match (self, how) {
            (Self::Ejected { probes }, _) => Self::Ejected { probes: probes.saturating_add(1) },
            (Self::Sound { strikes }, ConnectFailure::Refused) if strikes + 1 < STRIKES => {
                Self::Sound { strikes: strikes + 1 }
            }
            _ => Self::Ejected { probes: 0 },
        }
    }

    /// Returns the state after the connection has ended.
    pub(crate) fn disconnected(self, how: Disconnect) -> Self {
        match (self, how) {
            (Self::Sound { .. }, Disconnect::HungUp)
            | (Self::Silent { draining_at: None }, Disconnect::HungUp | Disconnect::Closed) => {
                Self::AwaitsSuccessor
            }
            // A process that was draining has ended, and its node may end too. A silent process
            // whose connection vanished may be unreachable.
            (Self::Draining { .. } | Self::Silent { .. }, _) => Self::Ejected { probes: 0 },
            (other, _) => other,
        }
    }

    /// Returns the state after nothing has arrived on the connection for too long.
    pub(crate) fn fell_silent(self) -> Self {
        match self {
            Self::Sound { .. } => Self::Silent { draining_at: None },
            Self::Draining { nodes_version } => Self::Silent { draining_at: Some(nodes_version) },
            other => other,
        }
    }

    /// Returns the state after data has arrived on the connection.
    pub(crate) fn resumed(self) -> Self {
        match self {
            Self::Silent { draining_at: Some(nodes_version) } => Self::Draining { nodes_version },
            Self::Silent { draining_at: None } => Self::connected(),
            other => other,
        }
    }

    /// Returns the reason why requests avoid the shard, if they avoid it because of a failure.
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

    /// Returns the time within which the peer of a new connection must prove that it responds, or
    /// `None` if no proof is needed.
    pub(crate) fn proof(self) -> Option<Duration> {
        match self {
            Self::Ejected { .. } => Some(PROBE_TIMEOUT),
            Self::AwaitsSuccessor => Some(SUCCESSION),
            Self::Sound { .. } | Self::Draining { .. } | Self::Silent { .. } => None,
        }
    }

    /// Returns the pause before the next probe, or `None` if the shard is not ejected.
    ///
    /// # Arguments
    /// * `jitter` - a value in 0..1 that keeps the threads of many routers from probing at the same
    ///   time.
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
    fn a_shard_is_ejected_after_a_second_refusal() {
        let once = Health::connected().failed_to_connect(ConnectFailure::Refused);
        assert!(once.takes_requests(0));
        assert!(!once.failed_to_connect(ConnectFailure::Refused).takes_requests(0));
    }

    #[test]
    fn one_unanswered_connection_attempt_ejects_a_shard() {
        assert!(Health::connected().failed_to_connect(ConnectFailure::Silent).is_ejected());
    }

    #[test]
    fn probes_become_less_frequent_and_never_stop() {
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
    fn a_draining_shard_takes_requests_again_after_a_catalog_change() {
        let draining = Health::Draining { nodes_version: 7 };
        assert!(!draining.takes_requests(7));
        assert!(draining.takes_requests(8));
    }

    #[test]
    fn a_draining_shard_still_drains_after_a_silence() {
        let draining = Health::Draining { nodes_version: 7 };
        assert_eq!(draining.fell_silent().resumed(), draining);
    }

    #[test]
    fn a_silent_shard_is_used_again_once_it_responds() {
        let silent = Health::connected().fell_silent();
        assert!(silent.ejection().is_some() && !silent.is_ejected() && !silent.takes_requests(0));
        assert_eq!(silent.probe_pause(1.0), None, "a shard with an open connection is probed");
        assert_eq!(silent.resumed(), Health::connected());
        assert!(silent.disconnected(Disconnect::Vanished).is_ejected());
        let ejected = Health::Ejected { probes: 3 };
        assert_eq!((ejected.fell_silent(), ejected.resumed()), (ejected, ejected));
    }

    #[test]
    fn the_successor_of_a_lost_process_must_prove_that_it_responds() {
        let awaits = Health::connected().disconnected(Disconnect::HungUp);
        for how in [Disconnect::HungUp, Disconnect::Closed] {
            assert_eq!(Health::connected().fell_silent().disconnected(how), awaits);
        }
        assert_eq!(
            Health::connected().disconnected(Disconnect::Closed),
            Health::connected(),
            "the end of an idle connection counts as a failure"
        );
        assert!(
            awaits.takes_requests(0) && awaits.ejection().is_none() && awaits.proof().is_some()
        );
        assert_eq!(
            awaits.fell_silent(),
            awaits,
            "the silence of the previous connection counts as a failure"
        );
        for how in [ConnectFailure::Refused, ConnectFailure::Silent] {
            assert!(awaits.failed_to_connect(how).is_ejected());
        }
        assert_eq!(Health::connected().proof(), None);
    }

    #[test]
    fn a_draining_process_that_disconnects_is_probed() {
        for how in [Disconnect::Closed, Disconnect::HungUp, Disconnect::Vanished] {
            let draining = Health::Draining { nodes_version: 7 };
            assert!(
                draining.disconnected(how).is_ejected()
                    && draining.fell_silent().disconnected(how).is_ejected()
            );
            assert!(!Health::connected().disconnected(how).is_ejected());
        }
    }
}
