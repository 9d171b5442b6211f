//! Metrics of a node's shards. Each shard holds its own children of every family, so that counting
//! is an addition to memory that no other thread writes.
//!
//! ```text
//!  Metrics: the families, registered once ──shard(id)──► ShardMetrics: the children of one shard
//! ```
//!
//! - [`invocations`], [`starts`] and [`engine`]: what a shard does; [`workers`]: what each Worker
//!   does.
//! - The metrics of admission, of the pool and of outbound requests are beside the code that they
//!   measure ([`AdmissionFamilies`], [`PoolFamilies`], [`EgressFamilies`]), and so are those of a
//!   whole process: of its memory ([`crate::memory`]), its reports ([`crate::reports`]) and the
//!   supervisor.

pub mod engine;
pub mod invocations;
pub mod starts;
pub mod workers;

use prometheus::Registry;
use tenon_egress::metrics::{EgressFamilies, EgressMetrics};
use tenon_lifecycle::event_loop;
use tenon_proto::id::{RevisionDigest, ShardId};

use crate::admission::{AdmissionFamilies, AdmissionMetrics};
use crate::pool::{PoolFamilies, PoolMetrics};
use engine::{EngineFamilies, EngineMetrics};
use invocations::{InvocationFamilies, InvocationMetrics, Observation};
use starts::{StartFamilies, StartMetrics};
use workers::{WorkerFamilies, WorkerMetrics};

/// Bucket bounds in seconds: from the duration of a warm hello-world, which takes microseconds, to
/// the default wall-clock limit.
const DURATION_BUCKETS: &[f64] = &[
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 5.0, 30.0,
];

/// Metric names of the shards' event loops.
pub const LOOPS: event_loop::Names = event_loop::Names {
    busy: "tenon_shard_busy_seconds_total",
    lag: "tenon_shard_event_loop_lag_seconds",
    label: "shard",
};

/// The metric families, for all shards.
pub struct Metrics {
    invocations: InvocationFamilies,
    admission: AdmissionFamilies,
    pool: PoolFamilies,
    starts: StartFamilies,
    engine: EngineFamilies,
    egress: EgressFamilies,
    workers: WorkerFamilies,
}

/// The metrics of one shard.
pub struct ShardMetrics {
    invocations: InvocationMetrics,
    pub admission: AdmissionMetrics,
    pub pool: PoolMetrics,
    pub starts: StartMetrics,
    pub engine: EngineMetrics,
    /// Metrics of outbound requests.
    pub egress: EgressMetrics,
    /// Metrics of each Worker that the shard runs.
    pub workers: WorkerMetrics,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            invocations: InvocationFamilies::register(registry)?,
            admission: AdmissionFamilies::register(registry)?,
            pool: PoolFamilies::register(registry)?,
            starts: StartFamilies::register(registry)?,
            engine: EngineFamilies::register(registry)?,
            egress: EgressFamilies::register(registry)?,
            workers: WorkerFamilies::register(registry)?,
        })
    }

    /// Returns the metrics of one shard, and creates their series.
    pub fn shard(&self, id: ShardId) -> ShardMetrics {
        let shard = id.to_string();
        ShardMetrics {
            invocations: self.invocations.shard(&shard),
            admission: self.admission.shard(&shard),
            pool: self.pool.shard(&shard),
            starts: self.starts.shard(&shard),
            engine: self.engine.shard(&shard),
            egress: self.egress.shard(id),
            workers: self.workers.shard(id),
        }
    }
}

impl ShardMetrics {
    /// Begins to observe an invocation of the revision.
    pub fn begin(&self, digest: RevisionDigest) -> Observation<'_> {
        Observation::begin(&self.invocations, &self.workers, digest)
    }
}
