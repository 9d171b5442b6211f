//! Decides which reports of lanes belong to the profile that a node takes. This module is pure.
//!
//! ```text
//!  begin ─► waiting: any lane ── begun ─► recording: that lane ── piece ─► sending ── end ─► none
//!              └───────────── failed, or a lane has ended, or the client has left ──────────┘
//! ```
//!
//! A node takes one profile at a time.

use tenon_proto::id::{ShardId, WorkerId};
use tenon_proto::node::ProfilePart;
use tenon_proto::node::profile_part::Part;
use tenon_proto::node::report_profile_request::Report;
use tokio::sync::mpsc;

use crate::profile::MAX_COMPRESSED;

/// The profile of a node, if it takes one.
#[derive(Default)]
pub(super) struct Profiles {
    latest: u64,
    current: Option<Current>,
}

struct Current {
    id: u64,
    worker: WorkerId,
    /// The lane with the copy, once the copy has started.
    lane: Option<ShardId>,
    /// Whether the Worker's requests still go to lanes.
    is_recording: bool,
    /// Number of bytes that the lane has sent.
    sent: usize,
    reports_tx: mpsc::Sender<Report>,
}

/// A profile that has begun.
pub(super) struct Begun {
    pub(super) id: u64,
    /// Ends when the profile does, without [`Report::Complete`] if a process has ended.
    pub(super) reports_rx: mpsc::Receiver<Report>,
}

/// A report that belongs to the profile.
pub(super) struct Accepted {
    /// Passes the report on to the client.
    pub(super) reports_tx: mpsc::Sender<Report>,
    /// Whether this lane is the first with a copy, so that the others give up.
    pub(super) is_first: bool,
    /// Whether the recording has ended with this report.
    pub(super) ends_recording: bool,
}

/// The reason why a report is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejected {
    #[error("the profile has ended")]
    Ended,
    #[error("another lane takes the profile")]
    OtherLane,
    #[error("the profile is too large")]
    TooLarge,
    #[error("the report violates the protocol")]
    Malformed,
}

impl Profiles {
    /// Begins a profile.
    ///
    /// # Errors
    /// Fails if the node takes a profile already. Returns that profile's Worker.
    pub(super) fn begin(&mut self, worker: WorkerId) -> Result<Begun, WorkerId> {
        if let Some(current) = &self.current {
            return Err(current.worker.clone());
        }
        self.latest += 1;
        let (reports_tx, reports_rx) = mpsc::channel(1);
        let id = self.latest;
        let current = Current { id, worker, lane: None, is_recording: true, sent: 0, reports_tx };
        self.current = Some(current);
        Ok(Begun { id, reports_rx })
    }

    /// Judges a report of a process, which hostile code may have subverted.
    pub(super) fn accept(
        &mut self,
        by: ShardId,
        id: u64,
        report: &Report,
    ) -> Result<Accepted, Rejected> {
        let current = self.current.as_mut().filter(|current| current.id == id);
        let current = current.ok_or(Rejected::Ended)?;
        if !by.is_lane() || current.lane.is_some_and(|lane| lane != by) {
            return Err(Rejected::OtherLane);
        }
        let (has_begun, is_begin) = (current.lane.is_some(), begins(report));
        match report {
            Report::Part(ProfilePart { part: Some(Part::Piece(piece)) }) if has_begun => {
                current.sent = current.sent.saturating_add(piece.len());
                if current.sent > MAX_COMPRESSED {
                    return Err(Rejected::TooLarge);
                }
            }
            Report::Complete(_) if has_begun => {}
            Report::Failed(_) => {}
            _ if is_begin && !has_begun => current.lane = Some(by),
            _ => return Err(Rejected::Malformed),
        }
        let ends_recording = !is_begin && std::mem::take(&mut current.is_recording);
        Ok(Accepted { reports_tx: current.reports_tx.clone(), is_first: is_begin, ends_recording })
    }

    /// Ends a profile. Returns whether the Worker's requests still went to lanes.
    pub(super) fn end(&mut self, id: u64) -> bool {
        let ended = self.current.take_if(|current| current.id == id);
        ended.is_some_and(|ended| ended.is_recording)
    }

    /// Returns the id of the profile that is lost with this lane's process, if there is one, and
    /// whether the copy ran in that process.
    pub(super) fn lost_with(&self, lane: ShardId) -> Option<(u64, bool)> {
        let current = self.current.as_ref()?;
        let had_copy = current.lane == Some(lane);
        (had_copy || current.lane.is_none() && lane.is_lane()).then_some((current.id, had_copy))
    }
}

fn begins(report: &Report) -> bool {
    matches!(report, Report::Part(ProfilePart { part: Some(Part::Begun(_)) }))
}

#[cfg(test)]
mod tests {
    use tenon_proto::node::{self, ProfileComplete};

    use super::*;

    const LANES: [ShardId; 2] = [ShardId::lane(0), ShardId::lane(1)];

    fn worker() -> WorkerId {
        WorkerId::new("shop", "cart")
    }

    fn part(part: Part) -> Report {
        Report::Part(ProfilePart { part: Some(part) })
    }

    fn begun() -> Report {
        part(Part::Begun(node::Begun::default()))
    }

    fn piece(size: usize) -> Report {
        part(Part::Piece(vec![0; size].into()))
    }

    fn rejection(outcome: Result<Accepted, Rejected>) -> Option<Rejected> {
        outcome.err()
    }

    #[test]
    fn a_node_takes_one_profile_at_a_time() {
        let mut profiles = Profiles::default();
        let first = profiles.begin(worker()).ok().unwrap();
        assert_eq!(profiles.begin(WorkerId::new("other", "menu")).err(), Some(worker()));
        assert!(!profiles.end(first.id + 1), "the end of another profile");
        assert!(profiles.end(first.id) && !profiles.end(first.id));
        let second = profiles.begin(worker()).ok().unwrap();
        assert_eq!(rejection(profiles.accept(LANES[0], first.id, &begun())), Some(Rejected::Ended));
        assert!(profiles.accept(LANES[0], second.id, &begun()).is_ok());
    }

    #[test]
    fn the_first_lane_with_a_copy_takes_the_profile() {
        let mut profiles = Profiles::default();
        let id = profiles.begin(worker()).ok().unwrap().id;
        assert_eq!(rejection(profiles.accept(ShardId(0), id, &begun())), Some(Rejected::OtherLane));
        let first = profiles.accept(LANES[1], id, &begun()).ok().unwrap();
        assert!(first.is_first && !first.ends_recording);
        assert_eq!(rejection(profiles.accept(LANES[0], id, &begun())), Some(Rejected::OtherLane));
        let failed = Report::Failed(String::new());
        assert_eq!(rejection(profiles.accept(LANES[0], id, &failed)), Some(Rejected::OtherLane));
    }

    #[test]
    fn the_recording_ends_with_the_first_piece() {
        let mut profiles = Profiles::default();
        let id = profiles.begin(worker()).ok().unwrap().id;
        let complete = Report::Complete(ProfileComplete {});
        for early in [piece(1), complete.clone()] {
            let rejected = rejection(profiles.accept(LANES[0], id, &early));
            assert_eq!(rejected, Some(Rejected::Malformed), "{early:?}");
        }
        let mut accept =
            |report| profiles.accept(LANES[0], id, &report).map(|accepted| accepted.ends_recording);
        let outcomes =
            [begun(), piece(1), piece(1), complete].map(|report| accept(report).unwrap());
        assert_eq!(outcomes, [false, true, false, false]);
        assert_eq!(accept(begun()), Err(Rejected::Malformed));
        assert!(!profiles.end(id), "the recording ended twice");
    }

    #[test]
    fn the_size_of_a_profile_is_bounded() {
        let mut profiles = Profiles::default();
        let id = profiles.begin(worker()).ok().unwrap().id;
        assert!(profiles.accept(LANES[0], id, &begun()).is_ok());
        assert!(profiles.accept(LANES[0], id, &piece(MAX_COMPRESSED)).is_ok());
        let beyond = profiles.accept(LANES[0], id, &piece(1));
        assert_eq!(rejection(beyond), Some(Rejected::TooLarge));
    }

    #[test]
    fn a_profile_is_lost_with_the_lane_of_its_copy_or_while_it_waits_with_any_lane() {
        let mut profiles = Profiles::default();
        assert_eq!(profiles.lost_with(LANES[0]), None);
        let id = profiles.begin(worker()).ok().unwrap().id;
        let lost =
            |profiles: &Profiles| [ShardId(0), LANES[0], LANES[1]].map(|id| profiles.lost_with(id));
        assert_eq!(lost(&profiles), [None, Some((id, false)), Some((id, false))]);
        assert!(profiles.accept(LANES[0], id, &begun()).is_ok());
        assert_eq!(lost(&profiles), [None, Some((id, true)), None]);
    }
}
