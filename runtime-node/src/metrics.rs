//! Metrics of a node. Each shard holds its own children of every family, so that counting is an add
//! on memory that no other thread writes. Metrics of each Worker are in [`crate::tallies`].

use std::time::{Duration, Instant};

use prometheus::core::Collector;
use prometheus::{
    Counter, CounterVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry,
};
use tenon_egress::metrics::{EgressFamilies, EgressMetrics};
use tenon_engine::BytecodeLookup;
use tenon_engine::buffers::BufferMetrics;
use tenon_lifecycle::event_loop;
use tenon_proto::failure::FailureCode;
use tenon_proto::id::{RevisionDigest, ShardId};

use crate::admission::Refusal;
use crate::pool::Eviction;
use crate::tallies::{Book, End, Phases, StartPhase, Tallies};

/// Bucket bounds in seconds: from a warm hello-world, some microseconds, to the longest wall
/// limits.
const DURATION_BUCKETS: &[f64] = &[
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    5.0, 30.0,
];

/// Metric names of the shards' event loops.
pub const LOOPS: event_loop::Names = event_loop::Names {
    busy: "tenon_shard_busy_seconds_total",
    lag: "tenon_shard_event_loop_lag_seconds",
    label: "shard",
};

/// The metric families, for all shards.
pub struct Metrics {
    invocations: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGaugeVec,
    waiting: IntGaugeVec,
    tunnels: IntGaugeVec,
    turns: IntCounterVec,
    turn_cpu: CounterVec,
    shed: IntCounterVec,
    isolates: IntGaugeVec,
    cold_starts: IntCounterVec,
    cold_start_duration: HistogramVec,
    cold_start_phases: HistogramVec,
    evictions: IntCounterVec,
    collections: IntCounterVec,
    spares: IntGaugeVec,
    spare_lookups: IntCounterVec,
    buffers: IntGaugeVec,
    buffers_in_use: IntGaugeVec,
    buffer_fallbacks: IntCounterVec,
    bytecode_lookups: IntCounterVec,
    egress: EgressFamilies,
    workers: Book,
}

/// Metrics of the whole node.
pub struct NodeMetrics {
    /// Revisions in back-off because their code failed several times in a row.
    pub crash_loops: IntGauge,
    /// Memory in use, in bytes.
    pub memory_used: IntGauge,
    pub memory_budget: IntGauge,
}

impl NodeMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| register(registry, IntGauge::new(name, help));
        Ok(Self {
            crash_loops: gauge(
                "tenon_worker_crash_loops",
                "Revisions in back-off because their code fails repeatedly.",
            )?,
            memory_used: gauge("tenon_memory_used_bytes", "Memory in use.")?,
            memory_budget: gauge("tenon_memory_budget_bytes", "Memory budget.")?,
        })
    }
}

/// The metrics of one shard.
pub struct ShardMetrics {
    ok: IntCounter,
    cancelled: IntCounter,
    failed: Vec<IntCounter>,
    duration: Histogram,
    /// Invocations that hold a permit of the shard.
    pub in_flight: IntGauge,
    /// Requests that wait for a permit of the shard, of their tenant or of their Worker, which may
    /// have to be started first.
    pub waiting: IntGauge,
    /// Clients' open WebSockets, which hold no permit of the shard.
    pub tunnels: IntGauge,
    turns: IntCounter,
    turn_cpu: Counter,
    shed: Vec<IntCounter>,
    pub isolates: Isolates,
    started: IntCounter,
    not_started: IntCounter,
    cold_start_duration: Histogram,
    /// Durations of the phases, in the order of [`StartPhase::ALL`].
    cold_start_phases: Vec<Histogram>,
    evictions: Vec<IntCounter>,
    /// Idle isolates whose garbage was collected because memory was short.
    pub collections: IntCounter,
    /// Isolates made ahead that belong to no Worker yet.
    pub spares: IntGauge,
    /// Metrics of its buffer pool.
    pub buffers: BufferMetrics,
    spare_hits: IntCounter,
    spare_misses: IntCounter,
    bytecode: Vec<IntCounter>,
    /// Metrics of outbound requests.
    pub egress: EgressMetrics,
    /// Metrics of each Worker that it runs.
    pub workers: Tallies,
}

/// Isolates by state.
pub struct Isolates {
    pub starting: IntGauge,
    /// Ready for an invocation, or busy.
    pub warm: IntGauge,
    /// Evicted from the pool, and still finishing invocations.
    pub retiring: IntGauge,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter =
            |name, help, labels: &[&str]| register(registry, IntCounterVec::new(Opts::new(name, help), labels));
        let gauge = |name, help, labels: &[&str]| register(registry, IntGaugeVec::new(Opts::new(name, help), labels));
        let histogram = |name, help, labels: &[&str]| {
            let opts = HistogramOpts::new(name, help).buckets(DURATION_BUCKETS.to_vec());
            register(registry, HistogramVec::new(opts, labels))
        };
        let workers = Book::new()?;
        registry.register(Box::new(workers.clone()))?;
        Ok(Self {
            invocations: counter("tenon_invocations_total", "Invocations by result code.", &["shard", "code"])?,
            duration: histogram(
                "tenon_invocation_duration_seconds",
                "Time from a request to the head of its response.",
                &["shard"],
            )?,
            in_flight: gauge("tenon_shard_inflight", "Invocations in flight.", &["shard"])?,
            waiting: gauge("tenon_shard_waiting", "Invocations that are queued for a permit or a start.", &["shard"])?,
            tunnels: gauge("tenon_shard_tunnels", "Open WebSockets of clients.", &["shard"])?,
            turns: counter("tenon_shard_turns_total", "Turns: uninterrupted stretches of JavaScript.", &["shard"])?,
            turn_cpu: register(
                registry,
                CounterVec::new(Opts::new("tenon_shard_turn_cpu_seconds_total", "CPU time of turns."), &["shard"]),
            )?,
            shed: counter("tenon_shed_total", "Invocations that were shed, by reason.", &["shard", "reason"])?,
            isolates: gauge("tenon_isolates", "Isolates by state.", &["shard", "state"])?,
            cold_starts: counter(
                "tenon_cold_starts_total",
                "Cold starts of revisions, by outcome.",
                &["shard", "outcome"],
            )?,
            cold_start_duration: histogram(
                "tenon_cold_start_duration_seconds",
                "Duration of a cold start, including the fetch of the code.",
                &["shard"],
            )?,
            cold_start_phases: histogram(
                "tenon_cold_start_phase_duration_seconds",
                "Duration of each phase of successful cold starts.",
                &["shard", "phase"],
            )?,
            evictions: counter("tenon_evictions_total", "Evicted isolates, by reason.", &["shard", "reason"])?,
            collections: counter(
                "tenon_forced_collections_total",
                "Garbage collections of idle isolates because memory was short.",
                &["shard"],
            )?,
            spares: gauge("tenon_spare_isolates", "Spare isolates, made ahead of demand.", &["shard"])?,
            spare_lookups: counter(
                "tenon_spare_lookups_total",
                "Starts that looked for a spare isolate, by outcome.",
                &["shard", "outcome"],
            )?,
            bytecode_lookups: counter(
                "tenon_bytecode_lookups_total",
                "Starts of Workers that are large enough for bytecode, by outcome.",
                &["shard", "outcome"],
            )?,
            buffers: gauge("tenon_buffer_pool_blocks", "Buffers for responses.", &["shard"])?,
            buffers_in_use: gauge(
                "tenon_buffer_pool_blocks_in_use",
                "Buffers that hold responses in transit.",
                &["shard"],
            )?,
            buffer_fallbacks: counter(
                "tenon_buffer_pool_fallbacks_total",
                "Responses whose buffer came from the global allocator, by reason.",
                &["shard", "reason"],
            )?,
            egress: EgressFamilies::register(registry)?,
            workers,
        })
    }

    pub fn shard(&self, id: ShardId) -> ShardMetrics {
        let shard = id.to_string();
        let of = |family: &IntCounterVec, label: &str| family.with_label_values(&[shard.as_str(), label]);
        let isolates = |state| self.isolates.with_label_values(&[shard.as_str(), state]);
        ShardMetrics {
            ok: of(&self.invocations, "ok"),
            cancelled: of(&self.invocations, "cancelled"),
            failed: FailureCode::ALL.iter().map(|code| of(&self.invocations, code.as_str())).collect(),
            duration: self.duration.with_label_values(&[shard.as_str()]),
            in_flight: self.in_flight.with_label_values(&[shard.as_str()]),
            waiting: self.waiting.with_label_values(&[shard.as_str()]),
            tunnels: self.tunnels.with_label_values(&[shard.as_str()]),
            turns: self.turns.with_label_values(&[shard.as_str()]),
            turn_cpu: self.turn_cpu.with_label_values(&[shard.as_str()]),
            shed: Refusal::ALL.iter().map(|refusal| of(&self.shed, refusal.as_str())).collect(),
            isolates: Isolates {
                starting: isolates("starting"),
                warm: isolates("warm"),
                retiring: isolates("retiring"),
            },
            started: of(&self.cold_starts, "ok"),
            not_started: of(&self.cold_starts, "failed"),
            cold_start_duration: self.cold_start_duration.with_label_values(&[shard.as_str()]),
            cold_start_phases: StartPhase::ALL
                .iter()
                .map(|phase| self.cold_start_phases.with_label_values(&[shard.as_str(), phase.as_str()]))
                .collect(),
            evictions: Eviction::ALL.iter().map(|why| of(&self.evictions, why.as_str())).collect(),
            collections: self.collections.with_label_values(&[shard.as_str()]),
            spares: self.spares.with_label_values(&[shard.as_str()]),
            buffers: BufferMetrics {
                blocks: self.buffers.with_label_values(&[shard.as_str()]),
                in_use: self.buffers_in_use.with_label_values(&[shard.as_str()]),
                none_free: of(&self.buffer_fallbacks, "none_free"),
                too_large: of(&self.buffer_fallbacks, "too_large"),
            },
            spare_hits: of(&self.spare_lookups, "hit"),
            spare_misses: of(&self.spare_lookups, "miss"),
            bytecode: BytecodeLookup::ALL.iter().map(|lookup| of(&self.bytecode_lookups, lookup.as_str())).collect(),
            egress: self.egress.shard(id),
            workers: self.workers.shard(id),
        }
    }
}

pub(crate) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let family = family?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

// Vectors are indexed by the enums they count by, in order of declaration.
impl ShardMetrics {
    /// Begins an invocation of that revision. An observation that is dropped before it ends counts
    /// as cancelled by the caller.
    pub fn begin(&self, digest: RevisionDigest) -> Observation<'_> {
        Observation { metrics: self, digest, began: Instant::now(), end: End::Cancelled }
    }

    fn ended(&self, end: End) -> &IntCounter {
        match end {
            End::Answered => &self.ok,
            End::Cancelled => &self.cancelled,
            End::Failed(code) => &self.failed[code as usize],
        }
    }

    /// Sets the totals of turns and of their CPU time.
    pub fn turned(&self, turns: u64, cpu: Duration) {
        self.turns.inc_by(turns.saturating_sub(self.turns.get()));
        self.turn_cpu.inc_by((cpu.as_secs_f64() - self.turn_cpu.get()).max(0.0));
    }

    pub fn shed(&self, refusal: Refusal) {
        self.shed[refusal as usize].inc();
    }

    pub fn evicted(&self, why: Eviction) {
        self.evictions[why as usize].inc();
    }

    /// Counts a start that found a spare isolate, or had to make its own.
    pub fn spare(&self, found: bool) {
        if found { &self.spare_hits } else { &self.spare_misses }.inc();
    }

    /// Counts a start by whether it found bytecode.
    pub fn bytecode(&self, lookup: BytecodeLookup) {
        self.bytecode[lookup as usize].inc();
    }

    /// Counts a start that began then and has ended now.
    pub fn cold_start(&self, began: Instant, succeeded: bool) {
        if succeeded { &self.started } else { &self.not_started }.inc();
        self.cold_start_duration.observe(began.elapsed().as_secs_f64());
    }

    /// Observes the phases of a successful start.
    pub fn cold_start_phases(&self, digest: &RevisionDigest, phases: &Phases) {
        for (histogram, took) in self.cold_start_phases.iter().zip(phases) {
            histogram.observe(took.as_secs_f64());
        }
        self.workers.started(digest, phases);
    }
}

/// Measures one invocation; observed on drop.
pub struct Observation<'a> {
    metrics: &'a ShardMetrics,
    digest: RevisionDigest,
    began: Instant,
    end: End,
}

impl Observation<'_> {
    /// Ends the invocation, with a response or with a failure.
    pub fn end(mut self, failure: Option<FailureCode>) {
        self.end = failure.map_or(End::Answered, End::Failed);
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.metrics.ended(self.end).inc();
        self.metrics.duration.observe(took.as_secs_f64());
        self.metrics.workers.ended(&self.digest, self.end, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: RevisionDigest = RevisionDigest::new([0; 32]);

    #[test]
    fn everything_is_counted_under_its_own_name() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let shard = metrics.shard(ShardId(0));
        for code in FailureCode::ALL {
            shard.begin(DIGEST).end(Some(*code));
            assert_eq!(metrics.invocations.with_label_values(&["0", code.as_str()]).get(), 1, "{code}");
        }
        for refusal in Refusal::ALL {
            shard.shed(refusal);
            assert_eq!(metrics.shed.with_label_values(&["0", refusal.as_str()]).get(), 1, "{}", refusal.as_str());
        }
        for why in Eviction::ALL {
            shard.evicted(why);
            assert_eq!(metrics.evictions.with_label_values(&["0", why.as_str()]).get(), 1, "{}", why.as_str());
        }
    }

    #[test]
    fn an_invocation_that_nobody_waits_for_was_cancelled() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let shard = metrics.shard(ShardId(0));
        drop(shard.begin(DIGEST));
        shard.begin(DIGEST).end(None);
        assert_eq!((shard.cancelled.get(), shard.ok.get()), (1, 1));
        assert_eq!(shard.duration.get_sample_count(), 2);
    }
}
