//! What a node counts. Each shard holds its own children of every family, so that counting is an add on memory
//! that no other thread writes.

use std::time::Instant;

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use tenon_proto::failure::FailureCode;
use tenon_proto::id::ShardId;

use crate::admission::Refusal;
use crate::buffers::BufferMetrics;
use crate::egress::error::Stage;
use crate::engine::BytecodeLookup;
use crate::pool::Eviction;

/// Seconds: from a warm hello, some microseconds, to the longest wall limits.
const DURATION_BUCKETS: &[f64] = &[
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    5.0, 30.0,
];

/// The families, for all shards.
pub struct Metrics {
    invocations: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGaugeVec,
    waiting: IntGaugeVec,
    tunnels: IntGaugeVec,
    shed: IntCounterVec,
    isolates: IntGaugeVec,
    cold_starts: IntCounterVec,
    cold_start_duration: HistogramVec,
    evictions: IntCounterVec,
    collections: IntCounterVec,
    spares: IntGaugeVec,
    spare_lookups: IntCounterVec,
    buffers: IntGaugeVec,
    buffer_fallbacks: IntCounterVec,
    bytecode_lookups: IntCounterVec,
    egress_requests: IntCounterVec,
    egress_connections: IntGaugeVec,
    egress_bytes: IntCounterVec,
    /// Of the whole node: revisions that are left alone for a while, because their code failed several times in a row.
    pub crash_loops: IntGauge,
    /// Bytes, of the whole node.
    pub memory_used: IntGauge,
    pub memory_budget: IntGauge,
}

/// One shard's.
pub struct ShardMetrics {
    ok: IntCounter,
    cancelled: IntCounter,
    failed: Vec<IntCounter>,
    duration: Histogram,
    /// Invocations that hold a permit of the shard.
    pub in_flight: IntGauge,
    /// Those that wait for one, or for one of their tenant or Worker, which may have to be started first.
    pub waiting: IntGauge,
    /// WebSockets of clients, which hold none any more.
    pub tunnels: IntGauge,
    shed: Vec<IntCounter>,
    pub isolates: Isolates,
    started: IntCounter,
    not_started: IntCounter,
    cold_start_duration: Histogram,
    evictions: Vec<IntCounter>,
    /// Idle isolates whose garbage was collected because memory was short.
    pub collections: IntCounter,
    /// Isolates made ahead that are nobody's yet.
    pub spares: IntGauge,
    /// Its buffers.
    pub buffers: BufferMetrics,
    spare_hits: IntCounter,
    spare_misses: IntCounter,
    bytecode: Vec<IntCounter>,
    /// Of what its Workers fetch.
    pub egress: EgressMetrics,
}

/// What a shard's Workers fetch.
#[derive(Clone)]
pub struct EgressMetrics {
    ok: IntCounter,
    failed: Vec<IntCounter>,
    /// Connections to origins.
    pub open: IntGauge,
    /// Those that nobody uses just now.
    pub idle: IntGauge,
    /// Bytes of bodies.
    pub sent: IntCounter,
    pub received: IntCounter,
}

/// Isolates by what becomes of them.
pub struct Isolates {
    pub starting: IntGauge,
    /// Ready for an invocation, or busy with some.
    pub warm: IntGauge,
    /// Let go by the pool, and still finishing what they began.
    pub retiring: IntGauge,
}

impl Metrics {
    /// # Errors
    /// When the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter =
            |name, help, labels: &[&str]| register(registry, IntCounterVec::new(Opts::new(name, help), labels));
        let gauge = |name, help, labels: &[&str]| register(registry, IntGaugeVec::new(Opts::new(name, help), labels));
        let histogram = |name, help| {
            let opts = HistogramOpts::new(name, help).buckets(DURATION_BUCKETS.to_vec());
            register(registry, HistogramVec::new(opts, &["shard"]))
        };
        Ok(Self {
            invocations: counter("tenon_invocations_total", "Invocations by how they ended.", &["shard", "code"])?,
            duration: histogram("tenon_invocation_duration_seconds", "Time from a request to its response's head.")?,
            in_flight: gauge("tenon_shard_inflight", "Invocations in flight.", &["shard"])?,
            waiting: gauge("tenon_shard_waiting", "Invocations that wait for room or a start.", &["shard"])?,
            tunnels: gauge("tenon_shard_tunnels", "WebSockets of clients that are open.", &["shard"])?,
            shed: counter("tenon_shed_total", "Invocations refused for want of room.", &["shard", "reason"])?,
            isolates: gauge("tenon_isolates", "Isolates by state.", &["shard", "state"])?,
            cold_starts: counter("tenon_cold_starts_total", "Revisions loaded.", &["shard", "outcome"])?,
            cold_start_duration: histogram(
                "tenon_cold_start_duration_seconds",
                "Time to load a revision, the fetch of its code included.",
            )?,
            evictions: counter("tenon_evictions_total", "Isolates that were let go.", &["shard", "reason"])?,
            collections: counter(
                "tenon_forced_collections_total",
                "Idle isolates whose garbage was collected for want of memory.",
                &["shard"],
            )?,
            spares: gauge("tenon_spare_isolates", "Isolates made ahead.", &["shard"])?,
            spare_lookups: counter(
                "tenon_spare_lookups_total",
                "Starts that looked for a spare.",
                &["shard", "outcome"],
            )?,
            bytecode_lookups: counter(
                "tenon_bytecode_lookups_total",
                "Starts of Workers large enough that bytecode pays.",
                &["shard", "outcome"],
            )?,
            buffers: gauge("tenon_buffer_pool_blocks_in_use", "Buffers that hold answers on their way.", &["shard"])?,
            buffer_fallbacks: counter(
                "tenon_buffer_pool_fallbacks_total",
                "Answers whose buffer came from the global allocator.",
                &["shard", "reason"],
            )?,
            egress_requests: counter(
                "tenon_egress_requests_total",
                "Fetches by Workers, by how they ended or at which stage they failed.",
                &["shard", "outcome"],
            )?,
            egress_connections: gauge("tenon_egress_connections", "Connections to origins.", &["shard", "state"])?,
            egress_bytes: counter(
                "tenon_egress_bytes_total",
                "Bytes of bodies that Workers fetched or sent.",
                &["shard", "direction"],
            )?,
            crash_loops: register(
                registry,
                IntGauge::new("tenon_worker_crash_loops", "Revisions whose code fails again and again."),
            )?,
            memory_used: register(registry, IntGauge::new("tenon_memory_used_bytes", "Memory in use."))?,
            memory_budget: register(registry, IntGauge::new("tenon_memory_budget_bytes", "Memory there is."))?,
        })
    }

    pub fn shard(&self, shard: ShardId) -> ShardMetrics {
        let shard = shard.to_string();
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
            shed: Refusal::ALL.iter().map(|refusal| of(&self.shed, refusal.as_str())).collect(),
            isolates: Isolates {
                starting: isolates("starting"),
                warm: isolates("warm"),
                retiring: isolates("retiring"),
            },
            started: of(&self.cold_starts, "ok"),
            not_started: of(&self.cold_starts, "failed"),
            cold_start_duration: self.cold_start_duration.with_label_values(&[shard.as_str()]),
            evictions: Eviction::ALL.iter().map(|why| of(&self.evictions, why.as_str())).collect(),
            collections: self.collections.with_label_values(&[shard.as_str()]),
            spares: self.spares.with_label_values(&[shard.as_str()]),
            buffers: BufferMetrics {
                in_use: self.buffers.with_label_values(&[shard.as_str()]),
                none_free: of(&self.buffer_fallbacks, "none_free"),
                too_large: of(&self.buffer_fallbacks, "too_large"),
            },
            spare_hits: of(&self.spare_lookups, "hit"),
            spare_misses: of(&self.spare_lookups, "miss"),
            bytecode: BytecodeLookup::ALL.iter().map(|lookup| of(&self.bytecode_lookups, lookup.as_str())).collect(),
            egress: EgressMetrics {
                ok: of(&self.egress_requests, "ok"),
                failed: Stage::ALL.iter().map(|stage| of(&self.egress_requests, stage.as_str())).collect(),
                open: self.egress_connections.with_label_values(&[shard.as_str(), "open"]),
                idle: self.egress_connections.with_label_values(&[shard.as_str(), "idle"]),
                sent: of(&self.egress_bytes, "sent"),
                received: of(&self.egress_bytes, "received"),
            },
        }
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let family = family?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

// The vectors have the order of the enums they count by, which is that of their declaration.
impl ShardMetrics {
    /// An invocation begins. One that is dropped before it ends was cancelled by its caller.
    pub fn begin(&self) -> Observation<'_> {
        Observation { metrics: self, began: Instant::now(), ended: &self.cancelled }
    }

    pub fn shed(&self, refusal: Refusal) {
        self.shed[refusal as usize].inc();
    }

    pub fn evicted(&self, why: Eviction) {
        self.evictions[why as usize].inc();
    }

    /// A start finds a spare isolate, or has to make its own.
    pub fn spare(&self, found: bool) {
        if found { &self.spare_hits } else { &self.spare_misses }.inc();
    }

    /// A start finds bytecode, or does not.
    pub fn bytecode(&self, lookup: BytecodeLookup) {
        self.bytecode[lookup as usize].inc();
    }

    /// A start that began then has come to its end.
    pub fn cold_start(&self, began: Instant, succeeded: bool) {
        if succeeded { &self.started } else { &self.not_started }.inc();
        self.cold_start_duration.observe(began.elapsed().as_secs_f64());
    }
}

impl EgressMetrics {
    /// A request has ended, with a response or at that stage.
    pub fn ended(&self, failure: Option<Stage>) {
        failure.map_or(&self.ok, |stage| &self.failed[stage as usize]).inc();
    }
}

impl Default for EgressMetrics {
    /// Counts for nobody.
    fn default() -> Self {
        let counter = || IntCounter::new("uncounted", "Counted for nobody.").expect("the name is one");
        let gauge = || IntGauge::new("uncounted", "Counted for nobody.").expect("the name is one");
        Self {
            ok: counter(),
            failed: Stage::ALL.iter().map(|_| counter()).collect(),
            open: gauge(),
            idle: gauge(),
            sent: counter(),
            received: counter(),
        }
    }
}

/// One invocation's time, which is observed when this is dropped.
pub struct Observation<'a> {
    metrics: &'a ShardMetrics,
    began: Instant,
    ended: &'a IntCounter,
}

impl Observation<'_> {
    /// It has ended, with a response or with a failure.
    pub fn end(mut self, failure: Option<FailureCode>) {
        self.ended = failure.map_or(&self.metrics.ok, |code| &self.metrics.failed[code as usize]);
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        self.ended.inc();
        self.metrics.duration.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_under_its_own_name() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let shard = metrics.shard(ShardId(0));
        for code in FailureCode::ALL {
            shard.begin().end(Some(*code));
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
        for stage in Stage::ALL {
            shard.egress.ended(Some(stage));
            assert_eq!(
                metrics.egress_requests.with_label_values(&["0", stage.as_str()]).get(),
                1,
                "{}",
                stage.as_str()
            );
        }
    }

    #[test]
    fn an_invocation_that_nobody_waits_for_was_cancelled() {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let shard = metrics.shard(ShardId(0));
        drop(shard.begin());
        shard.begin().end(None);
        assert_eq!((shard.cancelled.get(), shard.ok.get()), (1, 1));
        assert_eq!(shard.duration.get_sample_count(), 2);
    }
}
