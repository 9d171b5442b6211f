//! Metrics of a supervisor. Each family is registered beside the code that updates it.

use prometheus::Registry;

use super::governor::MemoryMetrics;
use super::placement::PlacementMetrics;
use super::process::ProcessMetrics;
use super::quarantine::QuarantineMetrics;

/// The metrics of a node's supervisor.
#[derive(Clone)]
pub(super) struct Metrics {
    pub(super) processes: ProcessMetrics,
    pub(super) memory: MemoryMetrics,
    pub(super) quarantines: QuarantineMetrics,
    pub(super) placements: PlacementMetrics,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    /// Fails if the registry has the families already.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            processes: ProcessMetrics::register(registry)?,
            memory: MemoryMetrics::register(registry)?,
            quarantines: QuarantineMetrics::register(registry)?,
            placements: PlacementMetrics::register(registry)?,
        })
    }
}
