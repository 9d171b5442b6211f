//! Decides where a revision may start: on its shard, in a lane, or nowhere. This module is pure.
//!
//! ```text
//!              8 light requests               warm there
//!  (unknown) ──────────────────► promoting ──────────────► known: runs on its shard
//!      ▲  lanes                   both                        │ a turn or collection above 5 ms
//!      │                                                      ▼
//!      └──────── the hold is over: counts again ───────── heavy: runs in lanes
//!
//!  any of them ── its code ended a process ──► quarantined: refused for 10 s, 20 s, …
//! ```
//!
//! While a Worker is profiled, its revisions run in lanes, and nothing that they do changes their
//! class.
//!
//! A revision on a shard never waits for the first start of a neighbor, and waits for at most one
//! heavy turn of each neighbor. Each demotion from a shard to the lanes doubles, for the whole
//! namespace, the duration of the hold and the number of light requests for the next promotion.

use std::time::{Duration, Instant};

use prometheus::{IntGauge, Registry};
use rustc_hash::FxHashMap;
use tenon_lifecycle::cache::Cache;
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};

use super::quarantine::{CrashDecision, Quarantines};

/// Number of light requests after which a revision moves to its shard.
const PROMOTION: u32 = 8;

/// First and longest time for which a heavy revision stays in the lanes before its light requests
/// count again.
const HOLD: Duration = Duration::from_secs(30);
const LONGEST_HOLD: Duration = Duration::from_secs(3600);

/// Time without a demotion after which a namespace's demotions are forgotten.
const DEMOTION_TTL: Duration = Duration::from_secs(3600);

/// Capacity of the cache of classes, in bytes; the cache counts one KiB for each entry.
const CLASSES: usize = 64 << 20;

/// Number of namespaces with demotions at which old demotions are removed.
const CLEANUP_THRESHOLD: usize = 4096;

/// Metrics of the placement.
#[derive(Clone)]
pub(super) struct PlacementMetrics {
    in_lanes: IntGauge,
    on_shards: IntGauge,
}

impl PlacementMetrics {
    /// Registers the family.
    ///
    /// # Errors
    /// Fails if the registry has the family already.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let family = registry.gauges(
            "tenon_node_placements",
            "Revisions by placement: on a shard or in a lane.",
            &["place"],
        )?;
        let at = |place| family.with_label_values(&[place]);
        Ok(Self { in_lanes: at("lane"), on_shards: at("shard") })
    }

    /// Sets the numbers of revisions that run in lanes and on shards.
    pub(super) fn set(&self, (in_lanes, on_shards): (usize, usize)) {
        self.in_lanes.set(in_lanes as i64);
        self.on_shards.set(on_shards as i64);
    }
}

/// Decides where revisions start.
pub(super) struct Placement {
    has_lanes: bool,
    classes: Cache<RevisionDigest, Entry>,
    demotions: FxHashMap<Box<str>, Demotions>,
    pub(super) quarantines: Quarantines,
    /// The Worker that is being profiled.
    pub(super) profiled: Option<WorkerId>,
}

struct Entry {
    worker: WorkerId,
    class: Class,
    /// The shard that last asked to start the revision.
    home: Option<ShardId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// The revision has answered `light` light requests so far.
    Unknown {
        light: u32,
    },
    /// The revision is starting on its shard, while lanes still run it.
    Promoting,
    Known,
    Heavy {
        until: Instant,
    },
}

/// Demotions of a namespace's Workers from shards to lanes.
struct Demotions {
    times: u32,
    last: Instant,
}

/// The decision on whether a shard or lane may start a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlacementDecision {
    Here,
    /// The revision runs in lanes if a shard asks, and on its shard if a lane asks.
    Elsewhere,
    /// The revision is refused for this long.
    Quarantined(Duration),
}

/// A revision that is to start on its shard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Promotion {
    pub(super) worker: WorkerId,
    pub(super) home: ShardId,
}

/// The decision on a revision whose code was running when its process ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CrashReport {
    pub(super) worker: WorkerId,
    pub(super) decision: CrashDecision,
}

impl Placement {
    /// Creates an empty placement.
    ///
    /// # Arguments
    /// * `has_lanes` - whether the node has lanes; without lanes every revision runs on its shard.
    pub(super) fn new(has_lanes: bool) -> Self {
        Self {
            has_lanes,
            classes: Cache::new(CLASSES),
            demotions: FxHashMap::default(),
            quarantines: Quarantines::default(),
            profiled: None,
        }
    }

    /// Returns whether a shard or lane has asked for the revision before and the cache still has
    /// it.
    pub(super) fn knows(&mut self, digest: &RevisionDigest) -> bool {
        self.classes.get(digest).is_some()
    }

    /// Decides whether the shard or lane `by` may start a revision.
    ///
    /// # Arguments
    /// * `stay` - whether the request can no longer be sent elsewhere.
    pub(super) fn place(
        &mut self,
        by: ShardId,
        worker: &WorkerId,
        digest: &RevisionDigest,
        stay: bool,
        now: Instant,
    ) -> PlacementDecision {
        if let Some(remaining) = self.quarantines.remaining(digest, now) {
            return PlacementDecision::Quarantined(remaining);
        }
        if self.classes.get(digest).is_none() {
            let entry =
                Entry { worker: worker.clone(), class: Class::Unknown { light: 0 }, home: None };
            self.classes.insert(*digest, entry, 0);
        }
        let Some(entry) = self.classes.get_mut(digest) else { return PlacementDecision::Here };
        if !by.is_lane() {
            entry.home = Some(by);
        }
        let runs_here = match entry.class {
            _ if stay || !self.has_lanes => true,
            _ if self.profiled.as_ref() == Some(worker) => by.is_lane(),
            Class::Promoting => true,
            Class::Known => !by.is_lane(),
            Class::Unknown { .. } | Class::Heavy { .. } => by.is_lane(),
        };
        if runs_here { PlacementDecision::Here } else { PlacementDecision::Elsewhere }
    }

    /// Counts light requests that a lane has answered. Returns the resulting promotion, if there is
    /// one.
    pub(super) fn record_light(
        &mut self,
        digest: &RevisionDigest,
        requests: u32,
        now: Instant,
    ) -> Option<Promotion> {
        let profiled = self.profiled.as_ref();
        let entry = self.classes.get_mut(digest).filter(|entry| profiled != Some(&entry.worker))?;
        // The number doubles with each recent demotion of the namespace, at most seven times.
        let wanted =
            PROMOTION << demotions(&mut self.demotions, entry.worker.namespace(), now).min(7);
        let light = match entry.class {
            Class::Unknown { light } => light.saturating_add(requests),
            Class::Heavy { until } if until <= now => requests,
            Class::Heavy { .. } | Class::Promoting | Class::Known => return None,
        };
        // The home shard is unknown until it has asked for the revision: routers send first
        // requests to a lane directly.
        match entry.home {
            Some(home) if light >= wanted => {
                entry.class = Class::Promoting;
                Some(Promotion { worker: entry.worker.clone(), home })
            }
            _ => {
                entry.class = Class::Unknown { light };
                None
            }
        }
    }

    /// Ends a promotion after the start on the shard has succeeded or failed: from now on, the
    /// revision runs on its shard only.
    pub(super) fn end_promotion(&mut self, digest: &RevisionDigest) {
        if let Some(entry) = self.classes.get_mut(digest)
            && entry.class == Class::Promoting
        {
            entry.class = Class::Known;
        }
    }

    /// Handles the end of a shard's process. Returns the revisions that were being prestarted in
    /// that process: they now belong to the shard and start with their next request.
    pub(super) fn home_ended(&mut self, home: ShardId) -> Vec<RevisionDigest> {
        let promoting = self
            .classes
            .entries_mut()
            .filter(|(_, entry)| entry.class == Class::Promoting && entry.home == Some(home));
        let ended = promoting.map(|(digest, entry)| {
            entry.class = Class::Known;
            digest
        });
        ended.collect()
    }

    /// Records a long turn or garbage collection of the revision. Returns whether the revision's
    /// shard must evict it.
    pub(super) fn record_heavy(&mut self, digest: &RevisionDigest, now: Instant) -> bool {
        if !self.has_lanes {
            return false;
        }
        let profiled = self.profiled.as_ref();
        let entry = self.classes.get_mut(digest).filter(|entry| profiled != Some(&entry.worker));
        let Some(entry) = entry else { return false };
        let was_demoted = matches!(entry.class, Class::Promoting | Class::Known);
        let namespace = entry.worker.namespace();
        let times = demotions(&mut self.demotions, namespace, now);
        entry.class =
            Class::Heavy { until: now + HOLD.saturating_mul(1 << times.min(16)).min(LONGEST_HOLD) };
        if was_demoted {
            if self.demotions.len() >= CLEANUP_THRESHOLD {
                self.demotions.retain(|_, demotions| {
                    now.saturating_duration_since(demotions.last) < DEMOTION_TTL
                });
            }
            self.demotions.insert(namespace.into(), Demotions { times: times + 1, last: now });
        }
        was_demoted
    }

    /// Judges, with [`Quarantines::judge`], a revision whose code was running when its process
    /// ended or was killed. Returns `None` for a revision for which no shard or lane has asked, or
    /// that the cache has dropped.
    pub(super) fn judge(
        &mut self,
        digest: &RevisionDigest,
        was_cramped: bool,
        now: Instant,
    ) -> Option<CrashReport> {
        let entry = self.classes.get_mut(digest)?;
        // The class of the revision starts over.
        entry.class = Class::Unknown { light: 0 };
        let worker = entry.worker.clone();
        Some(CrashReport { worker, decision: self.quarantines.judge(digest, was_cramped, now) })
    }

    /// Returns how many of the remembered revisions run in lanes, and how many on their shards.
    pub(super) fn counts(&self) -> (usize, usize) {
        let profiled = self.profiled.as_ref();
        let on_shards = self.classes.values().filter(|entry| {
            !self.has_lanes || entry.class == Class::Known && profiled != Some(&entry.worker)
        });
        let on_shards = on_shards.count();
        (self.classes.values().count() - on_shards, on_shards)
    }
}

/// Returns how often the namespace's Workers were demoted recently.
fn demotions(demotions: &mut FxHashMap<Box<str>, Demotions>, namespace: &str, now: Instant) -> u32 {
    match demotions.get(namespace) {
        Some(Demotions { times, last }) if now.saturating_duration_since(*last) < DEMOTION_TTL => {
            *times
        }
        Some(_) => {
            demotions.remove(namespace);
            0
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests;
