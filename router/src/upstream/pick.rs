//! Picks the shard for a request: the first candidate that takes requests, on a node that has not
//! failed this request yet, or a lane of that candidate's node.
//!
//! ```text
//!  candidates of the ring:   node b, shard 2     node a, shard 0     …
//!  the request goes to       that shard, or a lane of node b; then the same for the next
//! ```
//!
//! A request goes to a lane if the Worker is known to run in a lane or is new
//! ([`placement`](super::placement)), if a shard redirects the request, or if the request may have
//! ended a shard. The Worker's key selects the lane within a node, so that the Worker's isolate
//! stays warm; if that lane is not available, another one of the same node is used.
//!
//! The requests of a Worker that needs more than one shard go to the least loaded of several
//! candidates ([`spread`](super::spread)).

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tenon_proto::failure::FailureCode;
use tenon_table::ring::{Candidates, Key, SlotIndex};
use tenon_table::{Pool, Shard, Worker};

use crate::upstream::Upstream;
use crate::upstream::health::ConnectFailure;
use crate::upstream::link::Link;
use crate::upstream::metrics::Spill;
use crate::upstream::placement::Move;
use crate::upstream::retry::AttemptError;
use crate::upstream::spread::Width;

/// The maximum number of candidates that are examined per request. If all of them are unavailable,
/// the pool counts as unavailable.
const MAX_CANDIDATES: usize = 64;

/// A shard or a lane to which a request goes.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) link: Rc<Link>,
    /// The candidate to which this target belongs.
    slot: SlotIndex,
    /// The place of this target among the Worker's candidates, from 0.
    pub(crate) rank: usize,
    /// Whether the target is a pinned shard whose node has lanes for long turns.
    pub(crate) turns_are_short: bool,
    /// Whether the target is a lane that must run the request, because there is no alternative.
    pub(crate) stays: bool,
}

impl Target {
    pub(crate) fn is_lane(&self) -> bool {
        self.link.shard().id.is_lane()
    }
}

/// The preferred kind of target on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// The shard or the lane on which the Worker is believed to run.
    Placement,
    /// A lane, if the node has any.
    Lane,
}

/// The progress of one request through its candidates.
pub(crate) struct Picker<'a> {
    upstream: &'a Upstream,
    pool: &'a Pool,
    key: Key,
    worker: &'a Worker,
    nodes_version: u64,
    candidates: Candidates,
    /// The candidates for the first attempt, if there are several.
    width: Option<Width>,
    /// The candidate that was chosen among those of the width.
    spread_to: Option<SlotIndex>,
    /// The number of candidates that may still be examined.
    candidates_left: usize,
    /// Nodes that have failed this request.
    avoided_nodes: Vec<Arc<str>>,
    /// Nodes on which one process refused the connection, or ended before the request had begun.
    refusing_nodes: Vec<Arc<str>>,
    /// The first node with lanes on which a process was lost while it had this request.
    lost_node: Option<Arc<str>>,
    /// Whether a shard has turned out to be unavailable.
    is_any_unavailable: bool,
    /// Lanes that failed the request, except those in `ended_lanes`.
    failed_lanes: Vec<Rc<Link>>,
    /// Lanes whose processes ended while they had the request.
    ended_lanes: Vec<Rc<Link>>,
    /// The candidate to which the request went last.
    last_slot: Option<SlotIndex>,
    /// A target that may be unavailable, which is used if there is no other.
    last_resort: Option<Target>,
    /// The first reason why the request does not run on the Worker's pinned shard: a target was
    /// avoided, or has failed the request.
    spill_reason: Option<Spill>,
    /// Whether the request has been counted in the metric of spills.
    spilled: bool,
}

impl<'a> Picker<'a> {
    pub(crate) fn new(
        upstream: &'a Upstream,
        pool: &'a Pool,
        worker: &'a Worker,
        nodes_version: u64,
    ) -> Self {
        Self {
            upstream,
            pool,
            key: worker.key,
            worker,
            nodes_version,
            candidates: Candidates::new(worker.key),
            width: upstream.spread.borrow().width(worker.key).filter(|_| !worker.is_strict),
            spread_to: None,
            candidates_left: MAX_CANDIDATES,
            avoided_nodes: Vec::new(),
            refusing_nodes: Vec::new(),
            lost_node: None,
            is_any_unavailable: false,
            failed_lanes: Vec::new(),
            ended_lanes: Vec::new(),
            last_slot: None,
            last_resort: None,
            spill_reason: None,
            spilled: false,
        }
    }

    /// Returns the number of candidates in the pool.
    pub(crate) fn slots(&self) -> usize {
        self.pool.ring.len()
    }

    /// Records that a target has failed the request.
    pub(crate) fn record_failure(&mut self, target: &Target, error: &AttemptError) {
        let why = match error {
            AttemptError::Full => Spill::Overloaded,
            AttemptError::Failed(failure) if failure.code == FailureCode::Overloaded => {
                Spill::Overloaded
            }
            AttemptError::Failed(failure) if failure.code == FailureCode::Draining => {
                Spill::Draining
            }
            _ => Spill::Failed,
        };
        self.spill_reason.get_or_insert(why);
        if target.is_lane() {
            let lanes = if matches!(error, AttemptError::Lost) {
                &mut self.ended_lanes
            } else {
                &mut self.failed_lanes
            };
            lanes.push(target.link.clone());
        }
        self.is_any_unavailable |= matches!(
            error,
            AttemptError::Unreachable(_)
                | AttemptError::NotBegun
                | AttemptError::Lost
                | AttemptError::NodeLost
                | AttemptError::Unresponsive { .. }
        );
        let node = &target.link.shard().node;
        if matches!(error, AttemptError::NotBegun | AttemptError::Lost) {
            // The shard's next connection may well work.
            self.last_resort.get_or_insert_with(|| target.clone());
        }
        match error {
            AttemptError::Failed(failure) if failure.code == FailureCode::Draining => {
                target.link.record_drain(self.nodes_version)
            }
            // One missing process says little about the node; two say more.
            AttemptError::Unreachable(ConnectFailure::Refused) | AttemptError::NotBegun
                if !self.refusing_nodes.contains(node) =>
            {
                return self.refusing_nodes.push(node.clone());
            }
            // The node's supervisor knows which revision was running, and its lanes refuse that
            // revision.
            AttemptError::Lost if self.has_lanes(target.slot) && self.lost_node.is_none() => {
                return self.lost_node = Some(node.clone());
            }
            AttemptError::Unreachable(_)
            | AttemptError::NotBegun
            | AttemptError::Lost
            | AttemptError::NodeLost
            | AttemptError::Unresponsive { .. } => {}
            // A request that has lost a process already does not spend its last attempts on the
            // same node.
            _ if self.has_lost_another(target) => {}
            // The failure is not the node's fault, or does not concern its other shards.
            _ => return,
        }
        self.avoided_nodes.push(node.clone());
    }

    /// Returns whether another process of the same node was lost while it had the request.
    pub(crate) fn has_lost_another(&self, target: &Target) -> bool {
        self.lost_node.as_ref() == Some(&target.link.shard().node)
    }

    /// Returns the next target, or `None` if none is left. Each target is returned at most once,
    /// except for one as the last resort, and for lanes whose processes ended while they had the
    /// request.
    pub(crate) fn next(&mut self, preference: Preference) -> Option<Target> {
        self.next_sound(preference).or_else(|| {
            // The only node may have lost a shard but no lane. Overload alone is no reason to use
            // its lanes.
            let lane = if self.is_any_unavailable { self.any_lane() } else { None };
            lane.map(|lane| Target { stays: true, ..lane }).or_else(|| self.last_resort.take())
        })
    }

    /// Returns the next target that takes requests, or `None` if none is left.
    pub(crate) fn next_sound(&mut self, preference: Preference) -> Option<Target> {
        let preference = match preference {
            Preference::Placement if self.asks_lane_first() => Preference::Lane,
            preference => preference,
        };
        if let Some(width) = self.width.take()
            && let Some(target) = self.least_loaded(width, preference)
        {
            return Some(target);
        }
        // Another lane of the node that the request was sent to is preferred to any other node.
        let near =
            self.last_slot.filter(|slot| preference == Preference::Lane && !self.avoids(*slot));
        if let Some(target) = near.and_then(|slot| self.lane(slot)) {
            return Some(target);
        }
        while self.candidates_left > 0 {
            self.candidates_left -= 1;
            let Some(slot) = self.candidates.next(&self.pool.ring) else { break };
            let is_spent = self.spread_to == Some(slot) && preference == Preference::Placement;
            if is_spent || self.avoids(slot) {
                continue;
            }
            let found = match preference {
                Preference::Lane if self.has_lanes(slot) => self.lane(slot),
                _ => self.pinned(slot),
            };
            let Some(mut target) = found else { continue };
            target.rank = MAX_CANDIDATES - 1 - self.candidates_left;
            // Each request counts once.
            self.spill_reason
                .filter(|_| !self.spilled)
                .inspect(|why| self.upstream.metrics.spills.inc(*why));
            self.spilled = self.spill_reason.is_some();
            self.last_slot = Some(slot);
            return Some(target);
        }
        self.candidates_left = 0;
        None
    }

    /// Returns the target for a request that a process has redirected: a process of the same node,
    /// or otherwise the next target. Returns `None` if none is left.
    pub(crate) fn redirected(&mut self, from: &Target, to: Move) -> Option<Target> {
        let there = match to {
            Move::Lane => self.lane(from.slot),
            Move::Shard => self.pinned(from.slot),
            // The lane that sent the redirect may be the only one.
            Move::Stay => self.lane(from.slot).or_else(|| from.is_lane().then(|| from.clone())),
        };
        let there = there.map(|target| Target { rank: from.rank, ..target });
        there.or_else(|| {
            self.next(if to == Move::Shard { Preference::Placement } else { Preference::Lane })
        })
    }

    /// Returns the target with the fewest requests of this thread among the first candidates, or
    /// among the lanes of their nodes.
    fn least_loaded(&mut self, width: Width, preference: Preference) -> Option<Target> {
        let (mut candidates, mut nodes) = (Candidates::new(self.key), Vec::new());
        let mut best: Option<(usize, Target)> = None;
        let mut rank = 0;
        while rank < width.candidates {
            let Some(slot) = candidates.next(&self.pool.ring) else { break };
            let links = match preference {
                Preference::Lane if self.has_lanes(slot) => {
                    let node = &self.pool.shards[slot.get()].node;
                    // The shards of a node share its lanes.
                    if nodes.contains(&node) {
                        continue;
                    }
                    nodes.push(node);
                    self.lanes(slot).collect()
                }
                _ => vec![&self.pool.shards[slot.get()]],
            };
            for shard in links.into_iter().take(width.candidates - rank) {
                let link = self.upstream.links.to(shard);
                let turns_are_short = !link.shard().id.is_lane() && self.has_lanes(slot);
                let load = link.in_flight();
                let target = Target { link, slot, rank, turns_are_short, stays: false };
                let may_have_more = rank < width.warm || load == 0;
                rank += 1;
                let is_best = may_have_more && best.as_ref().is_none_or(|(least, _)| load < *least);
                if is_best && let Some(target) = self.sound(target) {
                    best = Some((load, target));
                }
            }
        }
        let (_, target) = best?;
        if target.rank > 0 {
            self.upstream.metrics.spills.inc(Spill::Hot);
            self.spilled = true;
        }
        self.spread_to = Some(target.slot);
        self.last_slot = Some(target.slot);
        Some(target)
    }

    /// Returns the shard of a candidate, if it takes requests.
    fn pinned(&mut self, slot: SlotIndex) -> Option<Target> {
        let link = self.upstream.links.to(&self.pool.shards[slot.get()]);
        let turns_are_short = self.has_lanes(slot);
        let target = Target { link, slot, rank: 0, turns_are_short, stays: false };
        self.sound(target)
    }

    /// Returns a lane of a candidate's node: the Worker's own, or the first after it that takes
    /// requests. If there is none, returns the successor of a lane whose process ended while it had
    /// the request: this node's supervisor refuses the code that ended the process, and no other
    /// supervisor knows of it.
    fn lane(&mut self, slot: SlotIndex) -> Option<Target> {
        for has_ended in [false, true] {
            for lane in self.lanes(slot) {
                let link = self.upstream.links.to(lane);
                let is_among =
                    |links: &[Rc<Link>]| links.iter().any(|other| Rc::ptr_eq(other, &link));
                if is_among(&self.failed_lanes) || is_among(&self.ended_lanes) != has_ended {
                    continue;
                }
                let target = Target { link, slot, rank: 0, turns_are_short: false, stays: false };
                let found = self.sound(target);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Returns the lanes of a candidate's node: the Worker's own, and then those after it.
    fn lanes(&self, slot: SlotIndex) -> impl Iterator<Item = &'a Arc<Shard>> + use<'a> {
        let lanes = &self.pool.lanes[slot.get()];
        let own = if lanes.is_empty() { 0 } else { self.key.choose(lanes.len()) };
        let (before, from) = lanes.split_at(own);
        from.iter().chain(before)
    }

    /// Returns a lane of any node, preferably of one that has not failed the request.
    fn any_lane(&mut self) -> Option<Target> {
        let mut slots: Vec<_> = self.pool.ring.candidates(self.key).take(MAX_CANDIDATES).collect();
        slots.sort_by_key(|slot| self.avoids(*slot));
        slots.into_iter().find_map(|slot| self.lane(slot))
    }

    /// Returns the target if it takes requests. Otherwise records the reason why it does not.
    fn sound(&mut self, target: Target) -> Option<Target> {
        let Some(why) = target.link.refuses(self.nodes_version) else { return Some(target) };
        self.is_any_unavailable |= why == Spill::Ejected;
        if !target.is_lane() {
            self.spill_reason.get_or_insert(why);
        }
        self.last_resort.get_or_insert(target);
        None
    }

    /// Returns whether the candidate's node has failed this request.
    fn avoids(&self, slot: SlotIndex) -> bool {
        self.avoided_nodes.contains(&self.pool.shards[slot.get()].node)
    }

    fn has_lanes(&self, slot: SlotIndex) -> bool {
        !self.pool.lanes[slot.get()].is_empty()
    }

    /// Returns whether a lane is asked first: the Worker is believed to run in one, or its revision
    /// is new and this is the thread's first request for it, which this call records.
    fn asks_lane_first(&self) -> bool {
        let (Worker { digest, .. }, now) = (self.worker, Instant::now());
        let mut placements = self.upstream.placements.borrow_mut();
        placements.is_in_lane(digest, now)
            || self.worker.is_new(now) && placements.is_first_sight(digest, now)
    }
}
