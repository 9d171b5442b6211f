//! Metrics of each Worker, counted by the shard that runs it.
//!
//! ```text
//!  shard thread: a start ─► open ──► Counts ◄── invocations, CPU time, memory: plain stores
//!                                      │                             gone for LINGER: dropped
//!  admin thread: a scrape ─► WorkerFamilies reads
//! ```
//!
//! A node serves thousands of Workers in a day, and keeping some twenty series for each forever is
//! not feasible. A revision therefore has counts while it has an isolate, and for some minutes
//! after: otherwise the counts of a revision whose isolates are stopped at every request would be
//! gone before they are ever scraped. The number of a shard's revisions with counts is bounded;
//! others count in the shard's metrics only.
//!
//! Counting is a store to memory that no other thread writes. The lock guards the list, which
//! changes with starts.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use rustc_hash::FxHashMap;
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::{LabelValue, Register as _};
use tenon_proto::failure::FailureCode;
use tenon_proto::id::{RevisionDigest, ShardId};
use tenon_proto::revision::Revision;

/// Revisions of a shard that have counts: more than it has isolates, unless it is configured with
/// very many. Each takes a KiB here and some twenty-five series in Prometheus.
const MOST: usize = 500;

/// Time for which a revision's counts outlive its last isolate: several scrapes.
const LINGER: Duration = Duration::from_secs(300);

/// Bucket bounds in seconds. Fewer than a shard's, as each is a series of every Worker.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];

/// The end of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    /// Its caller disconnected.
    Cancelled,
    Failed(FailureCode),
}

impl End {
    const COUNT: usize = 2 + FailureCode::ALL.len();

    const EVERY: [Self; Self::COUNT] = {
        let mut ends = [Self::Answered; Self::COUNT];
        ends[1] = Self::Cancelled;
        let mut at = 2;
        while at < Self::COUNT {
            ends[at] = Self::Failed(FailureCode::ALL[at - 2]);
            at += 1;
        }
        ends
    };

    /// Ends exported even at zero: the first time a limit is hit is then an increase.
    const ALWAYS: [Self; 4] = [
        Self::Answered,
        Self::Failed(FailureCode::CpuLimitExceeded),
        Self::Failed(FailureCode::WallLimitExceeded),
        Self::Failed(FailureCode::MemoryLimitExceeded),
    ];
}

impl LabelValue for End {
    const ALL: &'static [Self] = &Self::EVERY;

    fn index(self) -> usize {
        match self {
            Self::Answered => 0,
            Self::Cancelled => 1,
            Self::Failed(code) => 2 + code as usize,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "ok",
            Self::Cancelled => "cancelled",
            Self::Failed(code) => code.as_str(),
        }
    }
}

label_values! {
    /// The phases of a cold start.
    pub enum StartPhase {
        /// The code is fetched from the catalog or from memory. Excludes the time in which an
        /// isolate is made meanwhile.
        Fetch = "fetch",
        /// An isolate is made, if none was spare.
        Isolate = "isolate",
        /// The modules are compiled and evaluated, including waits for other isolates' turns.
        Evaluate = "evaluate",
    }
}

/// Duration of each [`StartPhase`] of a start, in their order.
pub type Phases = [Duration; StartPhase::ALL.len()];

/// A number that one thread writes and others read.
#[derive(Default)]
struct Count(AtomicU64);

impl Count {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    fn add_time(&self, more: Duration) {
        self.add(more.as_nanos() as u64);
    }

    fn seconds(&self) -> f64 {
        self.get() as f64 / 1e9
    }
}

/// Counts of one revision on one shard. Aligned to cache lines of its own: another thread may write
/// the memory beside it.
#[repr(align(64))]
struct Counts {
    labels: [(&'static str, String); 4],
    /// Indexed by [`End::index`]. An array and not a box: counting touches these lines only.
    ended: [Count; End::COUNT],
    /// Invocations by the first of [`BUCKETS`] that holds them; the last counts those in none.
    took: [Count; BUCKETS.len() + 1],
    took_in_all: Count,
    cpu: Count,
    memory: Count,
    starts: Count,
    /// Phases of the latest start.
    phases: [Count; StartPhase::ALL.len()],
    is_warm: AtomicBool,
}

impl Counts {
    fn new(revision: &Revision, shard: ShardId) -> Self {
        let worker = &revision.worker;
        let labels = [
            ("namespace", worker.namespace().to_owned()),
            ("revision", revision.name.clone()),
            ("shard", shard.to_string()),
            ("worker", worker.name().to_owned()),
        ];
        Self {
            labels,
            ended: [const { Count(AtomicU64::new(0)) }; End::COUNT],
            took: Default::default(),
            took_in_all: Count::default(),
            cpu: Count::default(),
            memory: Count::default(),
            starts: Count::default(),
            phases: Default::default(),
            is_warm: AtomicBool::new(false),
        }
    }

    fn labels(&self, more: Option<(&str, &str)>) -> Vec<LabelPair> {
        let own = self.labels.iter().map(|(name, value)| (*name, value.as_str()));
        let pair = |(name, value): (&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        };
        more.into_iter().chain(own).map(pair).collect()
    }

    fn counter(&self, more: Option<(&str, &str)>, value: f64) -> Metric {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = Metric::from_label(self.labels(more));
        metric.set_counter(counter);
        metric
    }

    fn gauge(&self, more: Option<(&str, &str)>, value: f64) -> Metric {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = Metric::from_label(self.labels(more));
        metric.set_gauge(gauge);
        metric
    }

    fn invocations(&self) -> impl Iterator<Item = Metric> {
        End::ALL.iter().filter_map(|end| {
            let count = self.ended[end.index()].get();
            let is_told = count > 0 || End::ALWAYS.contains(end);
            is_told.then(|| self.counter(Some(("code", end.as_str())), count as f64))
        })
    }

    fn duration(&self) -> Metric {
        let mut count = 0;
        let buckets = BUCKETS.iter().zip(&self.took).map(|(bound, took)| {
            count += took.get();
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(count + self.took[BUCKETS.len()].get());
        histogram.set_sample_sum(self.took_in_all.seconds());
        let mut metric = Metric::from_label(self.labels(None));
        metric.set_histogram(histogram);
        metric
    }

    fn phases(&self) -> impl Iterator<Item = Metric> {
        let phases = StartPhase::ALL.into_iter().zip(&self.phases);
        phases.map(|(phase, took)| self.gauge(Some(("phase", phase.as_str())), took.seconds()))
    }
}

/// The counts of all shards, as a collector.
#[derive(Clone)]
pub struct WorkerFamilies {
    counts: Arc<Mutex<Vec<Arc<Counts>>>>,
    descriptions: Arc<[Desc; 6]>,
}

impl WorkerFamilies {
    /// Registers the families, of no Worker yet.
    ///
    /// # Errors
    /// Fails if the registry has them already.
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
        // Copied, so that shards that start an isolate do not wait for the scrape.
        let counts = self.counts().clone();
        let all = || counts.iter();
        let warm = || all().filter(|counts| counts.is_warm.load(Ordering::Relaxed));
        let metrics: [(MetricType, Vec<Metric>); 6] = [
            (MetricType::COUNTER, all().flat_map(|counts| counts.invocations()).collect()),
            (MetricType::HISTOGRAM, all().map(|counts| counts.duration()).collect()),
            (
                MetricType::COUNTER,
                all().map(|counts| counts.counter(None, counts.cpu.seconds())).collect(),
            ),
            (
                MetricType::GAUGE,
                warm().map(|counts| counts.gauge(None, counts.memory.get() as f64)).collect(),
            ),
            (
                MetricType::COUNTER,
                all().map(|counts| counts.counter(None, counts.starts.get() as f64)).collect(),
            ),
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

/// The counts of one shard. Belongs to its thread.
pub struct WorkerMetrics {
    shard: ShardId,
    entries: RefCell<FxHashMap<RevisionDigest, Entry>>,
    families: WorkerFamilies,
}

struct Entry {
    counts: Arc<Counts>,
    /// Time since which it has had no isolate.
    gone: Option<Instant>,
}

impl WorkerMetrics {
    /// Records that an isolate of the revision is being started: it has counts from now on, if
    /// there is room for them.
    pub fn open(&self, digest: RevisionDigest, revision: &Revision) {
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.get_mut(&digest) {
            entry.gone = None;
            return;
        }
        if entries.len() >= MOST {
            let gone = entries.iter().filter_map(|(digest, entry)| Some((entry.gone?, *digest)));
            let Some((_, longest)) = gone.min_by_key(|(since, _)| *since) else { return };
            entries.remove(&longest).into_iter().for_each(|entry| self.close(&entry));
        }
        let counts = Arc::new(Counts::new(revision, self.shard));
        self.families.counts().push(Arc::clone(&counts));
        entries.insert(digest, Entry { counts, gone: None });
    }

    /// Records a successful start.
    pub fn started(&self, digest: &RevisionDigest, phases: &Phases) {
        self.with(digest, |counts| {
            counts.starts.add(1);
            for (phase, took) in counts.phases.iter().zip(phases) {
                phase.set(took.as_nanos() as u64);
            }
            counts.is_warm.store(true, Ordering::Relaxed);
        });
    }

    /// Records the end of an invocation.
    pub fn ended(&self, digest: &RevisionDigest, end: End, took: Duration) {
        self.with(digest, |counts| {
            counts.ended[end.index()].add(1);
            let seconds = took.as_secs_f64();
            let bucket =
                BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
            counts.took[bucket].add(1);
            counts.took_in_all.add_time(took);
        });
    }

    /// Adds CPU time that its isolate has used.
    pub fn used(&self, digest: &RevisionDigest, cpu: Duration) {
        self.with(digest, |counts| counts.cpu.add_time(cpu));
    }

    /// Sets the memory of its isolate, in bytes.
    pub fn weighs(&self, digest: &RevisionDigest, bytes: usize) {
        self.with(digest, |counts| counts.memory.set(bytes as u64));
    }

    /// Drops the counts of revisions that have had no isolate for long.
    ///
    /// # Arguments
    /// * `has_isolate` - whether the revision has an isolate, warm or starting.
    pub fn review(&self, has_isolate: impl Fn(&RevisionDigest) -> bool, now: Instant) {
        let mut entries = self.entries.borrow_mut();
        for (digest, entry) in entries.iter_mut() {
            if has_isolate(digest) {
                entry.gone = None;
            } else {
                entry.gone.get_or_insert(now);
                entry.counts.is_warm.store(false, Ordering::Relaxed);
            }
        }
        let is_over = |entry: &Entry| {
            entry.gone.is_some_and(|since| now.saturating_duration_since(since) >= LINGER)
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
