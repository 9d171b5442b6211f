//! Counts of one revision on one shard, and the series that a scrape makes of them.
//!
//! The shard's thread writes the counts with plain stores; another thread reads them for a scrape.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric};
use tenon_lifecycle::label_values;
use tenon_lifecycle::metrics::LabelValue;
use tenon_proto::failure::FailureCode;
use tenon_proto::id::ShardId;
use tenon_proto::revision::Revision;

/// Bucket bounds in seconds. There are fewer bounds than in a shard's histograms, because each
/// bound adds a series for every Worker.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0];

/// The end of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    /// The caller disconnected.
    Cancelled,
    Failed(FailureCode),
}

impl End {
    pub(super) const COUNT: usize = 2 + FailureCode::ALL.len();

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

    /// Ends that are exported even at zero, so that the first failure at a limit is an increase.
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
        /// The code is fetched from the catalog or from memory. The duration excludes the time in
        /// which an isolate is made concurrently.
        Fetch = "fetch",
        /// An isolate is made, unless a spare one was available.
        Isolate = "isolate",
        /// The modules are compiled and evaluated, including waits for other isolates' turns.
        Evaluate = "evaluate",
    }
}

/// Durations of the phases of a start, in the order of [`StartPhase`].
pub type Phases = [Duration; StartPhase::ALL.len()];

/// A number that one thread writes and others read. Durations are in nanoseconds.
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

/// Counts of one revision on one shard. The alignment gives them cache lines of their own: another
/// thread may write the adjacent memory.
#[repr(align(64))]
pub(super) struct Counts {
    labels: [(&'static str, String); 4],
    /// Number of invocations with each end, indexed by [`End::index`]. The array is not boxed, so
    /// that counting touches only the cache lines of this struct.
    ended: [Count; End::COUNT],
    /// Number of invocations in each of [`BUCKETS`]; the last element counts the invocations that
    /// took longer than every bound.
    took: [Count; BUCKETS.len() + 1],
    total_duration: Count,
    cpu: Count,
    memory: Count,
    starts: Count,
    /// Durations of the phases of the latest start.
    phases: [Count; StartPhase::ALL.len()],
    is_warm: AtomicBool,
}

impl Counts {
    pub(super) fn new(revision: &Revision, shard: ShardId) -> Self {
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
            total_duration: Count::default(),
            cpu: Count::default(),
            memory: Count::default(),
            starts: Count::default(),
            phases: Default::default(),
            is_warm: AtomicBool::new(false),
        }
    }

    /// Counts a start and stores the durations of its phases.
    pub(super) fn record_start(&self, phases: &Phases) {
        self.starts.add(1);
        for (phase, took) in self.phases.iter().zip(phases) {
            phase.set(took.as_nanos() as u64);
        }
        self.is_warm.store(true, Ordering::Relaxed);
    }

    /// Records that the revision no longer has an isolate.
    pub(super) fn record_no_isolate(&self) {
        self.is_warm.store(false, Ordering::Relaxed);
    }

    /// Counts the end of an invocation.
    pub(super) fn record_end(&self, end: End, took: Duration) {
        self.ended[end.index()].add(1);
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        self.took[bucket].add(1);
        self.total_duration.add_time(took);
    }

    /// Adds CPU time of the isolate.
    pub(super) fn add_cpu(&self, time: Duration) {
        self.cpu.add_time(time);
    }

    /// Sets the memory of the isolate, in bytes.
    pub(super) fn set_memory(&self, bytes: usize) {
        self.memory.set(bytes as u64);
    }

    /// Returns whether the revision has started and has not lost its isolate since.
    pub(super) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed)
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

    /// Returns the number of invocations with each end: each that has occurred, and those of
    /// [`End::ALWAYS`].
    pub(super) fn invocations(&self) -> impl Iterator<Item = Metric> {
        End::ALL.iter().filter_map(|end| {
            let count = self.ended[end.index()].get();
            let is_exported = count > 0 || End::ALWAYS.contains(end);
            is_exported.then(|| self.counter(Some(("code", end.as_str())), count as f64))
        })
    }

    /// Returns the histogram of invocations' durations.
    pub(super) fn duration(&self) -> Metric {
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
        histogram.set_sample_sum(self.total_duration.seconds());
        let mut metric = Metric::from_label(self.labels(None));
        metric.set_histogram(histogram);
        metric
    }

    /// Returns the CPU time of turns in seconds.
    pub(super) fn cpu(&self) -> Metric {
        self.counter(None, self.cpu.seconds())
    }

    /// Returns the memory of the isolate in bytes.
    pub(super) fn memory(&self) -> Metric {
        self.gauge(None, self.memory.get() as f64)
    }

    /// Returns the number of starts.
    pub(super) fn starts(&self) -> Metric {
        self.counter(None, self.starts.get() as f64)
    }

    /// Returns the duration of each phase of the latest start, in seconds.
    pub(super) fn phases(&self) -> impl Iterator<Item = Metric> {
        let phases = StartPhase::ALL.into_iter().zip(&self.phases);
        phases.map(|(phase, took)| self.gauge(Some(("phase", phase.as_str())), took.seconds()))
    }
}
