//! Metrics of each Worker, counted by the shard that runs it.
//!
//! ```text
//!  shard thread: a start ─► open ──► Counts ◄── invocations, CPU time, memory: plain stores
//!                                      │                       no isolate for LINGER: dropped
//!  another thread: a scrape ─► WorkerFamilies reads
//! ```
//!
//! A node serves thousands of Workers in a day, and keeping more than twenty series for each
//! forever is not feasible. A revision therefore has counts while it has an isolate, and for a few
//! minutes afterwards: otherwise the counts of a revision whose isolates are stopped at every
//! request would be dropped before a scrape reads them. The number of a shard's revisions with
//! counts is bounded; the other revisions count only in the shard's metrics.
//!
//! Counting is a store to memory that no other thread writes. The lock guards the list of counts,
//! which changes when a revision gets or loses its counts.

mod counts;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily, MetricType};
use rustc_hash::FxHashMap;
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::revision::Revision;

use counts::Counts;
pub use counts::{End, Phases, StartPhase};

/// Maximum number of a shard's revisions that have counts: more than the default number of
/// isolates. Each of these revisions takes a KiB here and more than twenty series in Prometheus.
const MAX_REVISIONS: usize = 500;

/// Time for which a revision's counts outlive its last isolate: several scrapes.
const LINGER: Duration = Duration::from_secs(300);

/// The counts of all shards, as a collector.
#[derive(Clone)]
pub struct WorkerFamilies {
    counts: Arc<Mutex<Vec<Arc<Counts>>>>,
    descriptions: Arc<[Desc; 6]>,
}

impl WorkerFamilies {
    /// Registers the families, which have no Worker yet.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        registry.add(Self::new()?)
    }

    fn new() -> prometheus::Result<Self> {
        let describe = |name: &str, help: &str| {
            let labels = ["namespace", "worker", "revision", "shard"].map(str::to_owned).to_vec();
            Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())
        };
        let descriptions = [
            describe("tenon_worker_invocations_total", "A Worker's invocations by result code.")?,
            describe(
                "tenon_worker_invocation_duration_seconds",
                "Time from a request to the head of its response.",
            )?,
            describe("tenon_worker_cpu_seconds_total", "CPU time of a Worker's turns.")?,
            describe("tenon_worker_memory_bytes", "Heap and buffers of a Worker's warm isolate.")?,
            describe("tenon_worker_cold_starts_total", "Starts of a Worker's isolates.")?,
            describe("tenon_worker_cold_start_seconds", "Duration of the latest start, by phase.")?,
        ];
        Ok(Self { counts: Arc::default(), descriptions: Arc::new(descriptions) })
    }

    /// Returns the counts of one shard.
    pub fn shard(&self, shard: ShardId) -> WorkerMetrics {
        WorkerMetrics { shard, entries: RefCell::default(), families: self.clone() }
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        // Each change of the list is a single call, so a panic leaves no partial change.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for WorkerFamilies {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The list is copied so that a shard that starts an isolate does not wait for the scrape.
        let counts = self.counts().clone();
        let all = || counts.iter();
        let warm = || all().filter(|counts| counts.is_warm());
        let metrics: [(MetricType, Vec<Metric>); 6] = [
            (MetricType::COUNTER, all().flat_map(|counts| counts.invocations()).collect()),
            (MetricType::HISTOGRAM, all().map(|counts| counts.duration()).collect()),
            (MetricType::COUNTER, all().map(|counts| counts.cpu()).collect()),
            (MetricType::GAUGE, warm().map(|counts| counts.memory()).collect()),
            (MetricType::COUNTER, all().map(|counts| counts.starts()).collect()),
            (MetricType::GAUGE, warm().flat_map(|counts| counts.phases()).collect()),
        ];
        let family = |(description, (kind, metrics)): (&Desc, (MetricType, Vec<Metric>))| {
            let mut family = MetricFamily::default();
            family.set_name(description.fq_name.clone());
            family.set_help(description.help.clone());
            family.set_field_type(kind);
            family.set_metric(metrics);
            family
        };
        self.descriptions.iter().zip(metrics).map(family).collect()
    }
}

/// The counts of one shard, which belong to its thread.
pub struct WorkerMetrics {
    shard: ShardId,
    entries: RefCell<FxHashMap<RevisionDigest, Entry>>,
    families: WorkerFamilies,
}

struct Entry {
    counts: Arc<Counts>,
    /// Time at which the revision was first found to have no isolate.
    no_isolate_since: Option<Instant>,
}

impl WorkerMetrics {
    /// Records that an isolate of the revision is being started: the revision has counts from now
    /// on, unless [`MAX_REVISIONS`] revisions with isolates have counts already.
    pub fn open(&self, digest: RevisionDigest, revision: &Revision) {
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.get_mut(&digest) {
            entry.no_isolate_since = None;
            return;
        }
        if entries.len() >= MAX_REVISIONS {
            let idle = entries
                .iter()
                .filter_map(|(digest, entry)| Some((entry.no_isolate_since?, *digest)));
            let Some((_, first)) = idle.min_by_key(|(since, _)| *since) else { return };
            entries.remove(&first).into_iter().for_each(|entry| self.close(&entry));
        }
        let counts = Arc::new(Counts::new(revision, self.shard));
        self.families.counts().push(Arc::clone(&counts));
        entries.insert(digest, Entry { counts, no_isolate_since: None });
    }

    /// Records a successful start.
    pub fn record_start(&self, digest: &RevisionDigest, phases: &Phases) {
        self.with(digest, |counts| counts.record_start(phases));
    }

    /// Records the end of an invocation.
    pub fn record_end(&self, digest: &RevisionDigest, end: End, took: Duration) {
        self.with(digest, |counts| counts.record_end(end, took));
    }

    /// Adds CPU time that the revision's isolate has used.
    pub fn add_cpu(&self, digest: &RevisionDigest, cpu: Duration) {
        self.with(digest, |counts| counts.add_cpu(cpu));
    }

    /// Sets the memory of the revision's isolate, in bytes.
    pub fn set_memory(&self, digest: &RevisionDigest, bytes: usize) {
        self.with(digest, |counts| counts.set_memory(bytes));
    }

    /// Drops the counts of revisions that have had no isolate for [`LINGER`].
    ///
    /// # Arguments
    /// * `has_isolate` - returns whether a revision has an isolate, warm or starting.
    pub fn review(&self, has_isolate: impl Fn(&RevisionDigest) -> bool, now: Instant) {
        let mut entries = self.entries.borrow_mut();
        for (digest, entry) in entries.iter_mut() {
            if has_isolate(digest) {
                entry.no_isolate_since = None;
            } else {
                entry.no_isolate_since.get_or_insert(now);
                entry.counts.record_no_isolate();
            }
        }
        let is_over = |entry: &Entry| {
            entry
                .no_isolate_since
                .is_some_and(|since| now.saturating_duration_since(since) >= LINGER)
        };
        for (_, entry) in entries.extract_if(|_, entry| is_over(entry)) {
            self.close(&entry);
        }
    }

    fn with(&self, digest: &RevisionDigest, count: impl FnOnce(&Counts)) {
        if let Some(entry) = self.entries.borrow().get(digest) {
            count(&entry.counts);
        }
    }

    fn close(&self, entry: &Entry) {
        self.families.counts().retain(|counts| !Arc::ptr_eq(counts, &entry.counts));
    }
}

#[cfg(test)]
mod tests;
