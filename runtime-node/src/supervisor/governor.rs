//! Sets the memory limit of each process of a node, repeatedly.
//!
//! ```text
//!  check all ─► allot ─► lower limits ─► check them again: any growth? ─► raise others by less
//! ```
//!
//! A lowered limit applies immediately. The limits of the other processes are raised afterwards, by
//! the difference less the memory that the process with the lowered limit took between its check
//! and its new limit. The limits therefore never exceed the available memory, however long this
//! task waits for a CPU. A process is checked as soon as it begins, before it can run a Worker's
//! code.

use std::sync::Arc;

use prometheus::{IntGauge, IntGaugeVec, Registry};
use rustix::process::Pid;
use tenon_engine::HEAPS_LIMIT;
use tenon_lifecycle::metrics::Register as _;
use tenon_proto::id::ShardId;
use tokio::time::MissedTickBehavior;

use super::memory::{self, MemoryUse};
use super::process::{Process, process_name};
use super::{CHECK_INTERVAL, Shared, lock};
use crate::memory::Meter;

/// Metrics of the memory of each process.
#[derive(Clone)]
pub(super) struct MemoryMetrics {
    used: IntGaugeVec,
    limit: IntGaugeVec,
}

impl MemoryMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            used: registry.gauges(
                "tenon_node_process_memory_bytes",
                "Resident memory of a shard's or lane's process.",
                &["process"],
            )?,
            limit: registry.gauges(
                "tenon_node_process_memory_limit_bytes",
                "Current limit on the private writable memory of a shard's or lane's process.",
                &["process"],
            )?,
        })
    }

    /// Sets a process's memory use and its limit, in bytes.
    fn set_memory(&self, id: ShardId, used: u64, limit: u64) {
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.used.with_label_values(&[&process_name(id)]).set(bytes(used));
        self.limit.with_label_values(&[&process_name(id)]).set(bytes(limit));
    }
}

/// A process and its new limit.
struct ProcessLimit {
    id: ShardId,
    pid: Pid,
    used: MemoryUse,
    /// The current limit, in bytes.
    before: u64,
    /// The new limit, in bytes.
    after: u64,
}

/// Sets the limits of all processes at each interval, and whenever a process begins, forever.
pub(super) async fn govern(shared: Arc<Shared>, meter: Meter, used_gauge: IntGauge) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.process_began.notified() => {}
        }
        let mut processes = measure(&shared, &meter, &used_gauge);
        let excess =
            processes.iter().filter(|process| process.after < process.before).map(lower).sum();
        let rise = |process: &ProcessLimit| process.after.saturating_sub(process.before);
        let rises: Vec<_> = processes.iter().map(rise).collect();
        for (process, rise) in processes.iter_mut().zip(memory::reduce(&rises, excess)) {
            if rise > 0 {
                process.after = process.before + rise;
                Process::limit_data(process.pid, process.after);
            }
            shared.metrics.memory.set_memory(process.id, process.used.resident, process.after);
            let mut state = lock(&shared.child(process.id).state);
            // Another process may have begun since the check.
            if state.pid == Some(process.pid) {
                let limit = process.after.min(HEAPS_LIMIT);
                (state.limit, state.room) =
                    (process.after, limit.saturating_sub(process.used.data));
            }
        }
    }
}

/// Reads the memory use of every process, and computes each process's new limit.
fn measure(shared: &Shared, meter: &Meter, used_gauge: &IntGauge) -> Vec<ProcessLimit> {
    let running = shared.children.iter().filter_map(|child| {
        let (pid, before) = {
            let state = lock(&child.state);
            (state.pid?, state.limit)
        };
        Some(ProcessLimit { id: child.id, pid, used: MemoryUse::of(pid)?, before, after: before })
    });
    let mut processes: Vec<_> = running.collect();
    let all: u64 = processes.iter().map(|process| process.used.resident).sum();
    let in_cgroup = meter.used_in_cgroup().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the memory usage");
        None
    });
    let used = in_cgroup.unwrap_or_default().max(all);
    used_gauge.set(i64::try_from(used).unwrap_or(i64::MAX));
    let used = used.saturating_add(processes.iter().map(|process| process.used.untouched).sum());
    let claims: Vec<_> =
        processes.iter().map(|process| (process.used.claim(), process.id.is_lane())).collect();
    for (process, more) in processes.iter_mut().zip(memory::allot(meter.budget(), used, &claims)) {
        process.after = process.used.data.saturating_add(more).max(memory::MIN_LIMIT);
    }
    processes
}

/// Lowers a limit. Returns the number of bytes above the new limit that the process has already
/// taken.
fn lower(process: &ProcessLimit) -> u64 {
    Process::limit_data(process.pid, process.after);
    MemoryUse::of(process.pid).map_or(0, |used| used.data.saturating_sub(process.after))
}
