//! Decides which revisions a node refuses because their code ended a process, and for how long.
//! This module is pure.
//!
//! ```text
//!  ended a process ─► refused for 10 s ─► on probation for four times that ─► forgotten
//!          ▲                                        │
//!          └──── again: for twice as long ──────────┘
//! ```
//!
//! A process that can hardly grow any further ends in the turn of the revision that allocates next,
//! which need not be the revision that used up the memory. A revision's first such end within a
//! minute is therefore forgiven, if the turn began when the memory was already short. So is a crash
//! while a profile is taken, because a profile takes memory too. So is a crash
//! while a profile is taken, because a profile takes memory too.

use std::time::{Duration, Instant};

use prometheus::{IntCounter, IntGauge, Registry};
use rustc_hash::FxHashMap;
use tenon_lifecycle::metrics::{EnumCounters, Register as _};
use tenon_proto::id::RevisionDigest;

use super::process::Cause;

/// Length of a revision's first quarantine, and maximum length. Each quarantine is twice as long as
/// the one before.
const QUARANTINE: Duration = Duration::from_secs(10);
const LONGEST_QUARANTINE: Duration = Duration::from_secs(3600);

/// Time for which a quarantine is remembered after its end, in multiples of its length, so that the
/// next quarantine is longer.
const PROBATION: u32 = 4;

/// Time for which a forgiven end is remembered.
const FORGIVEN_TTL: Duration = Duration::from_secs(60);

/// Maximum number of remembered quarantined revisions, and of remembered forgiven ones.
const MAX_REVISIONS: usize = 4096;

/// Metrics of quarantines.
#[derive(Clone)]
pub(super) struct QuarantineMetrics {
    /// Number of quarantines by the cause of the process's end.
    pub(super) by_cause: EnumCounters<Cause>,
    /// Number of revisions that are refused now.
    pub(super) current: IntGauge,
    /// Number of ends of processes for which a revision was forgiven.
    pub(super) forgiven: IntCounter,
}

impl QuarantineMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            by_cause: registry.counters_by(
                "tenon_node_quarantines_total",
                "Quarantines of revisions whose code ended a process, by how the process ended.",
                "cause",
            )?,
            current: registry
                .gauge("tenon_node_quarantined_revisions", "Revisions in quarantine.")?,
            forgiven: registry.counter(
                "tenon_node_forgiven_exits_total",
                "Ends of processes with little memory left, for which no revision was quarantined.",
            )?,
        })
    }
}

/// The revisions that are refused, or were refused or forgiven recently.
#[derive(Default)]
pub(super) struct Quarantines {
    by_revision: FxHashMap<RevisionDigest, Quarantine>,
    forgiven: FxHashMap<RevisionDigest, Instant>,
}

/// The decision on a revision whose code was running when its process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashDecision {
    /// The revision is not refused this time.
    Forgiven,
    Quarantined(Quarantine),
}

/// A quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quarantine {
    until: Instant,
    /// Length of the quarantine.
    pub(super) duration: Duration,
    /// Number of times that the revision has been quarantined, including this time.
    pub(super) times: u32,
}

/// A quarantine announced by the operator.
pub(super) struct AnnouncedQuarantine {
    pub(super) digest: RevisionDigest,
    pub(super) remaining: Duration,
    pub(super) times: u32,
}

impl Quarantines {
    /// Judges a revision whose code was running when its process ended or was killed.
    ///
    /// # Arguments
    /// * `was_cramped` - whether the process crashed while it took a profile, or with hardly any
    ///   room to grow when the turn began.
    pub(super) fn judge(
        &mut self,
        digest: &RevisionDigest,
        was_cramped: bool,
        now: Instant,
    ) -> CrashDecision {
        self.forget(now);
        if was_cramped && self.try_forgive(digest, now) {
            return CrashDecision::Forgiven;
        }
        let times = self.by_revision.get(digest).map_or(0, |quarantine| quarantine.times) + 1;
        let duration = duration(times);
        let quarantine = Quarantine { until: now + duration, duration, times };
        if let Some((first, _)) = self.displaced_by(digest) {
            self.by_revision.remove(&first);
        }
        self.by_revision.insert(*digest, quarantine);
        CrashDecision::Quarantined(quarantine)
    }

    /// Forgives the revision, unless a quarantine or another forgiven end of this revision is
    /// remembered, or too many forgiven revisions are remembered. Returns whether the revision is
    /// forgiven.
    fn try_forgive(&mut self, digest: &RevisionDigest, now: Instant) -> bool {
        self.forgiven.retain(|_, forgiven| now.saturating_duration_since(*forgiven) < FORGIVEN_TTL);
        let is_first =
            !self.by_revision.contains_key(digest) && !self.forgiven.contains_key(digest);
        let forgives = is_first && self.forgiven.len() < MAX_REVISIONS;
        if forgives {
            self.forgiven.insert(*digest, now);
        }
        forgives
    }

    /// Merges the operator's list of the quarantines of all nodes of the pool. Returns the
    /// revisions that are newly refused.
    pub(super) fn merge(
        &mut self,
        announced: Vec<AnnouncedQuarantine>,
        now: Instant,
    ) -> Vec<RevisionDigest> {
        self.forget(now);
        let mut fresh = Vec::new();
        for AnnouncedQuarantine { digest, remaining, times } in announced {
            let until = now + remaining.min(LONGEST_QUARANTINE);
            match self.displaced_by(&digest) {
                Some((_, end)) if end >= until => continue,
                Some((first, _)) => drop(self.by_revision.remove(&first)),
                None => {}
            }
            let new = Quarantine { until, duration: duration(times), times };
            if self.remaining(&digest, now).is_none() {
                fresh.push(digest);
            }
            let known = self.by_revision.entry(digest).or_insert(new);
            known.until = known.until.max(until);
            known.times = known.times.max(times);
            known.duration = duration(known.times);
        }
        fresh
    }

    /// Returns how much longer the revision is refused, or `None` if it is not refused.
    pub(super) fn remaining(&self, digest: &RevisionDigest, now: Instant) -> Option<Duration> {
        let remaining = self.by_revision.get(digest)?.until.saturating_duration_since(now);
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Returns how many revisions are refused now.
    pub(super) fn count(&self, now: Instant) -> usize {
        self.by_revision.values().filter(|quarantine| quarantine.until > now).count()
    }

    /// Forgets the quarantines whose probation has ended.
    fn forget(&mut self, now: Instant) {
        self.by_revision
            .retain(|_, quarantine| quarantine.until + PROBATION * quarantine.duration > now);
    }

    /// Returns the quarantine that must be forgotten before the revision is remembered, with its end:
    /// the one that ends first. Returns `None` if there is room, or the revision is remembered.
    fn displaced_by(&self, digest: &RevisionDigest) -> Option<(RevisionDigest, Instant)> {
        if self.by_revision.len() < MAX_REVISIONS || self.by_revision.contains_key(digest) {
            return None;
        }
        let ends = self.by_revision.iter().map(|(digest, quarantine)| (*digest, quarantine.until));
        ends.min_by_key(|(_, end)| *end)
    }
}

/// Returns the length of a revision's quarantine.
///
/// # Arguments
/// * `times` - number of times that the revision has been quarantined, including this time.
fn duration(times: u32) -> Duration {
    QUARANTINE.saturating_mul(1 << times.saturating_sub(1).min(16)).min(LONGEST_QUARANTINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: RevisionDigest = RevisionDigest::new([7; 32]);

    fn digest(i: usize) -> RevisionDigest {
        RevisionDigest::new(std::array::from_fn(|at| (i >> (8 * (at % 8))) as u8))
    }

    fn times(decision: CrashDecision) -> Option<u32> {
        match decision {
            CrashDecision::Forgiven => None,
            CrashDecision::Quarantined(quarantine) => Some(quarantine.times),
        }
    }

    #[test]
    fn a_revision_in_a_cramped_process_is_forgiven_once_a_minute() {
        let (mut quarantines, now) = (Quarantines::default(), Instant::now());
        assert_eq!(quarantines.judge(&DIGEST, true, now), CrashDecision::Forgiven);
        assert_eq!(quarantines.remaining(&DIGEST, now), None);
        let later = now + FORGIVEN_TTL;
        assert_eq!(quarantines.judge(&DIGEST, true, later), CrashDecision::Forgiven);
        let soon = later + FORGIVEN_TTL / 2;
        assert_eq!(times(quarantines.judge(&DIGEST, true, soon)), Some(1));
        let on_probation = soon + QUARANTINE * (PROBATION + 1) - Duration::from_millis(1);
        assert_eq!(times(quarantines.judge(&DIGEST, true, on_probation)), Some(2));
    }

    #[test]
    fn the_number_of_forgiven_revisions_is_bounded() {
        let (mut quarantines, now) = (Quarantines::default(), Instant::now());
        let decisions: Vec<_> =
            (0..=MAX_REVISIONS).map(|i| quarantines.judge(&digest(i), true, now)).collect();
        assert!(
            decisions[..MAX_REVISIONS].iter().all(|decision| *decision == CrashDecision::Forgiven)
        );
        assert_eq!(times(decisions[MAX_REVISIONS]), Some(1));
    }

    #[test]
    fn a_revision_that_ends_processes_is_refused_for_longer_each_time() {
        let (mut quarantines, mut now) = (Quarantines::default(), Instant::now());
        for times in 1..=3 {
            let duration = QUARANTINE * (1 << (times - 1));
            let refused =
                CrashDecision::Quarantined(Quarantine { until: now + duration, duration, times });
            assert_eq!(quarantines.judge(&DIGEST, false, now), refused);
            assert_eq!(
                (quarantines.remaining(&DIGEST, now), quarantines.count(now)),
                (Some(duration), 1)
            );
            now += duration;
            assert_eq!((quarantines.remaining(&DIGEST, now), quarantines.count(now)), (None, 0));
        }
        now += QUARANTINE * 4 * (PROBATION + 1);
        assert_eq!(times(quarantines.judge(&DIGEST, false, now)), Some(1), "after the probation");
    }

    #[test]
    fn a_quarantine_sent_by_the_operator_applies() {
        let (mut quarantines, now) = (Quarantines::default(), Instant::now());
        let announced =
            |remaining| vec![AnnouncedQuarantine { digest: DIGEST, remaining, times: 2 }];
        assert_eq!(quarantines.merge(announced(Duration::from_secs(5)), now), [DIGEST]);
        assert_eq!(
            quarantines.merge(announced(Duration::from_secs(3)), now),
            [],
            "a known quarantine was reported as new"
        );
        assert_eq!(quarantines.remaining(&DIGEST, now), Some(Duration::from_secs(5)));
        let later = now + Duration::from_secs(5);
        assert_eq!(quarantines.remaining(&DIGEST, later), None);
        // The probation is that of the second quarantine, however late this node learned of it.
        let on_probation = later + 2 * QUARANTINE * PROBATION - Duration::from_millis(1);
        assert_eq!(times(quarantines.judge(&DIGEST, false, on_probation)), Some(3));
    }

    #[test]
    fn a_long_list_of_the_operator_evicts_the_quarantines_that_end_first() {
        let (mut quarantines, now) = (Quarantines::default(), Instant::now());
        let announced = (0..2 * MAX_REVISIONS).map(|i| AnnouncedQuarantine {
            digest: digest(i),
            remaining: Duration::from_millis(i as u64 + 1),
            times: 1,
        });
        quarantines.merge(announced.collect(), now);
        assert_eq!(quarantines.by_revision.len(), MAX_REVISIONS);
        assert!(quarantines.remaining(&digest(2 * MAX_REVISIONS - 1), now).is_some());
    }

    #[test]
    fn a_full_list_evicts_the_quarantine_that_ends_first() {
        let (mut quarantines, now) = (Quarantines::default(), Instant::now());
        for i in 0..2 * MAX_REVISIONS {
            quarantines.judge(&digest(i), false, now + Duration::from_millis(i as u64));
        }
        assert!(quarantines.by_revision.len() <= MAX_REVISIONS);
        assert!(quarantines.remaining(&digest(2 * MAX_REVISIONS - 1), now).is_some());
    }
}
