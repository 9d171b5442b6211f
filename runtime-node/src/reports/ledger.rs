//! Decides what to report about each revision, and when. This module is pure: the time is an
//! argument, and the caller sends the reports.
//!
//! ```text
//!            second failure in a row           every shard has recovered
//!  (nothing) ──────────────────────► CrashLoop ────────────────────────► Recovered
//!      ▲                              │  ▲  └── reported again after RENEWAL    │
//!      └── no failure for SILENCE ────┘  └──────────── fails again ─────────────┤
//!      └────────────────────────────────────────────────────────────── reported ┘
//! ```
//!
//! There is one entry for each revision, however many events arrive: only the latest state is
//! reported.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_proto::catalog::{self, CrashLoop, Recovered, WorkerReport, worker_report::State};
use tenon_proto::failure::{FailureCode, Place};
use tenon_proto::id::{RevisionDigest, ShardId, WorkerId};

/// Number of consecutive failures that make a crash loop; a single failure may have any cause.
const LOOP: u32 = 2;

/// Interval at which a persisting crash loop is reported again. The operator forgets a crash loop
/// that is not reported for five minutes.
pub(super) const RENEWAL: Duration = Duration::from_secs(60);

/// Time without a failure after which a revision is presumed to have no requests: the pool starts a
/// requested revision at least every half minute.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// Maximum number of revisions in the ledger. Further revisions are in back-off as well, and are
/// reported when there is room.
pub(super) const REVISIONS: usize = 4096;

/// Maximum number of reports in one message.
pub(super) const BATCH: usize = 100;

/// The revisions that fail repeatedly, and those whose recovery has not been reported yet.
#[derive(Default)]
pub(super) struct Ledger {
    entries: FxHashMap<RevisionDigest, Entry>,
    /// Quarantines, each to be reported once, in order of arrival.
    quarantines: VecDeque<(Instant, WorkerReport)>,
}

struct Entry {
    worker: WorkerId,
    code: FailureCode,
    failures: u32,
    place: Option<Place>,
    /// Shards on which the revision fails, with the time of the last failure on each. Empty once
    /// the revision has recovered.
    shards: FxHashMap<ShardId, Instant>,
    /// Time at which the revision last entered a crash loop or recovered.
    changed: Instant,
    /// Time at which the revision is to be reported.
    due: Instant,
    /// Whether the operator may know of the crash loop.
    was_reported: bool,
}

/// The reports that are due now, and the revisions that they concern.
pub(super) struct Batch {
    pub(super) workers: Vec<WorkerReport>,
    /// Whether each revision was in a crash loop when the batch was made.
    revisions: Vec<(RevisionDigest, bool)>,
    /// Number of quarantines in the batch.
    quarantines: usize,
}

/// A failure of a revision's code on a shard.
pub(super) struct Failing {
    pub(super) worker: WorkerId,
    pub(super) digest: RevisionDigest,
    pub(super) code: FailureCode,
    /// Number of consecutive failures, including this one.
    pub(super) failures: u32,
    pub(super) place: Option<Place>,
}

impl Ledger {
    pub(super) fn failing(&mut self, shard: ShardId, failing: Failing, now: Instant) {
        let Failing { worker, digest, code, failures, place } = failing;
        if !self.entries.contains_key(&digest)
            && (failures < LOOP || self.entries.len() >= REVISIONS)
        {
            return;
        }
        let entry = self.entries.entry(digest).or_insert_with(|| Entry {
            worker,
            code,
            failures,
            place: None,
            shards: FxHashMap::default(),
            changed: now,
            due: now,
            was_reported: false,
        });
        if entry.shards.is_empty() {
            (entry.changed, entry.due) = (now, now);
        }
        (entry.code, entry.failures, entry.place) = (code, failures, place);
        entry.shards.insert(shard, now);
    }

    pub(super) fn recovered(&mut self, shard: ShardId, digest: RevisionDigest, now: Instant) {
        let Some(entry) = self.entries.get_mut(&digest) else { return };
        if entry.shards.remove(&shard).is_none() || !entry.shards.is_empty() {
            return;
        }
        (entry.changed, entry.due) = (now, now);
        if !entry.was_reported {
            self.entries.remove(&digest);
        }
    }

    /// Records that a shard's process has ended: its revisions start over, as if they had
    /// recovered.
    pub(super) fn shard_ended(&mut self, shard: ShardId, now: Instant) {
        let failing = self.entries.iter().filter(|(_, entry)| entry.shards.contains_key(&shard));
        for digest in failing.map(|(digest, _)| *digest).collect::<Vec<_>>() {
            self.recovered(shard, digest, now);
        }
    }

    /// Records that a revision has ended a process.
    pub(super) fn quarantined(&mut self, report: WorkerReport, now: Instant) {
        if self.quarantines.len() < REVISIONS {
            self.quarantines.push_back((now, report));
        }
    }

    /// Returns how many revisions are in a crash loop.
    pub(super) fn crash_loops(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_looping()).count()
    }

    /// Returns the time at which the next report is due, or `None` if there is nothing to report.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let quarantine = self.quarantines.front().map(|(due, _)| *due);
        self.entries.values().map(|entry| entry.due).chain(quarantine).min()
    }

    /// Returns up to [`BATCH`] of the reports that are due: quarantines first, then revisions in
    /// the order in which they became due. The reports stay due until
    /// [`delivered`](Self::delivered) is called. Forgets revisions without recent failures.
    pub(super) fn next_batch(&mut self, now: Instant) -> Batch {
        let recent = |at: &Instant| now.saturating_duration_since(*at) < SILENCE;
        self.entries.retain(|_, entry| {
            let looped = entry.is_looping();
            entry.shards.retain(|_, failed_at| recent(failed_at));
            entry.is_looping() || (!looped && recent(&entry.changed))
        });
        let mut due: Vec<_> =
            self.entries.iter_mut().filter(|(_, entry)| entry.due <= now).collect();
        due.sort_by_key(|(digest, entry)| (entry.due, **digest));
        self.quarantines
            .retain(|(since, report)| with_remaining_time(report, *since, now).is_some());
        let quarantines = self.quarantines.len().min(BATCH);
        due.truncate(BATCH - quarantines);
        let states = due.iter_mut().map(|(digest, entry)| {
            entry.was_reported = true;
            entry.report(digest, now)
        });
        let quarantined = self.quarantines.iter().take(quarantines);
        let quarantined =
            quarantined.filter_map(|(since, report)| with_remaining_time(report, *since, now));
        let workers = quarantined.chain(states).collect();
        let revisions = due.iter().map(|(digest, entry)| (**digest, entry.is_looping())).collect();
        Batch { workers, revisions, quarantines }
    }

    /// Marks the batch as delivered to the operator.
    pub(super) fn delivered(&mut self, batch: &Batch, now: Instant) {
        self.quarantines.drain(..batch.quarantines);
        for (digest, looped) in &batch.revisions {
            match self.entries.get_mut(digest) {
                // The revision's state has changed since the batch was made, so it stays due.
                Some(entry) if entry.is_looping() != *looped => {}
                Some(entry) if *looped => entry.due = now + RENEWAL,
                _ => drop(self.entries.remove(digest)),
            }
        }
    }
}

/// Returns the quarantine's report with the remaining time of the quarantine, or `None` if the
/// quarantine is over.
fn with_remaining_time(
    report: &WorkerReport,
    since: Instant,
    now: Instant,
) -> Option<WorkerReport> {
    let mut report = report.clone();
    if let Some(State::Quarantined(quarantined)) = &mut report.state {
        let age =
            u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
        quarantined.duration_ms = quarantined.duration_ms.saturating_sub(age);
        if quarantined.duration_ms == 0 {
            return None;
        }
    }
    Some(report)
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
}

impl Entry {
    fn is_looping(&self) -> bool {
        !self.shards.is_empty()
    }

    fn report(&self, digest: &RevisionDigest, now: Instant) -> WorkerReport {
        let state = if self.is_looping() {
            let for_seconds = now.saturating_duration_since(self.changed).as_secs();
            let place = self.place.clone().map(|Place { file, line, column }| catalog::Place {
                file,
                line,
                column,
            });
            State::CrashLoop(CrashLoop {
                code: self.code.to_string(),
                failures: self.failures,
                for_seconds,
                place,
            })
        } else {
            State::Recovered(Recovered {})
        };
        WorkerReport {
            worker: self.worker.to_string(),
            digest: digest.as_bytes().to_vec(),
            state: Some(state),
        }
    }
}

#[cfg(test)]
mod tests;
