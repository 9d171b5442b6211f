//! The node's memory: its budget, its use, and the pressure that results for its shards.
//!
//! ```text
//!  cgroup ─────────────────────────────► Meter, ten times a second ──► Pressure ──watch──► shards:
//!  resource limit, by the supervisor ──► room of this process ─────────────┘  evict, refuse starts
//! ```
//!
//! If the container has a memory limit, that limit is the default budget. A process with a
//! supervisor also has its own limit, at which an allocation fails and ends the process; the
//! process evicts idle isolates before it reaches that limit. Pressure is a pure function of use,
//! budget and the previous pressure, so that it does not oscillate at a threshold. The meter has
//! its own thread, which JavaScript cannot hold up.

mod meter;

use std::io;
use std::time::Duration;

use prometheus::{IntGauge, Registry};
use tenon_lifecycle::metrics::Register as _;
use tenon_lifecycle::vital;
use tokio::sync::watch;

pub use meter::{Meter, MeterError};

/// Interval at which memory use is measured: a shard that allocates as fast as memory can be
/// written takes a few hundred MiB in that time.
const INTERVAL: Duration = Duration::from_millis(100);

/// The degree to which memory is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Memory is plentiful.
    #[default]
    Eased,
    /// Idle isolates are evicted.
    Tight,
    /// Idle isolates are evicted, and no isolates are started.
    Critical,
}

impl Pressure {
    /// Thresholds in percent of the budget: each state begins at the first threshold and ends below
    /// the second.
    const TIGHT: (u64, u64) = (80, 75);
    const CRITICAL: (u64, u64) = (95, 90);

    /// Thresholds in bytes that the process may still take: each state begins below the first
    /// threshold and ends at the second. A cold start takes a few MiB.
    const ROOM_TIGHT: (u64, u64) = (48 << 20, 64 << 20);
    const ROOM_CRITICAL: (u64, u64) = (12 << 20, 20 << 20);

    /// Returns the pressure that follows this one, according to the node's budget.
    ///
    /// # Arguments
    /// * `used` - memory in use, in bytes.
    /// * `budget` - memory budget, in bytes.
    #[must_use]
    pub fn next(self, used: u64, budget: u64) -> Self {
        let percent = used.saturating_mul(100) / budget.max(1);
        let holds = |state, (begin, end)| percent >= begin || (self >= state && percent >= end);
        Self::worst(holds(Self::Tight, Self::TIGHT), holds(Self::Critical, Self::CRITICAL))
    }

    /// Returns the pressure that follows this one, according to the process's own limit.
    ///
    /// # Arguments
    /// * `room` - memory that the process may still take, in bytes.
    #[must_use]
    pub fn next_by_room(self, room: u64) -> Self {
        let holds = |state, (begin, end)| room < begin || (self >= state && room < end);
        Self::worst(
            holds(Self::Tight, Self::ROOM_TIGHT),
            holds(Self::Critical, Self::ROOM_CRITICAL),
        )
    }

    fn worst(is_tight: bool, is_critical: bool) -> Self {
        match (is_critical, is_tight) {
            (true, _) => Self::Critical,
            (false, true) => Self::Tight,
            (false, false) => Self::Eased,
        }
    }
}

/// Measures the pressure on this process alone. Cold starts call this, because many of them may
/// begin between two measurements of the thread of [`watch`].
pub fn on_this_process() -> Pressure {
    Pressure::Eased.next_by_room(room())
}

/// Returns how many bytes this process may still take, or [`u64::MAX`] if there is no limit or the
/// number is unknown.
pub fn room() -> u64 {
    // The measuring thread logs why the room is unknown.
    meter::room().ok().flatten().unwrap_or(u64::MAX)
}

/// Returns how many bytes of private writable memory this process has mapped, or 0 if that is
/// unknown.
pub fn mapped() -> u64 {
    meter::mapped().unwrap_or_default()
}

/// Registers the metrics of the node's memory. Returns the gauge of the memory in use, in bytes.
///
/// # Arguments
/// * `budget` - memory budget, in bytes.
///
/// # Errors
/// Fails if the registry has the metrics already.
pub fn register(registry: &Registry, budget: u64) -> prometheus::Result<IntGauge> {
    let budget_gauge = registry.gauge("tenon_memory_budget_bytes", "Memory budget.")?;
    budget_gauge.set(i64::try_from(budget).unwrap_or(i64::MAX));
    registry.gauge("tenon_memory_used_bytes", "Memory in use.")
}

/// Starts a thread that measures memory use until every receiver is dropped.
///
/// # Errors
/// Fails if the system cannot create the thread.
pub fn watch(meter: Meter, used: IntGauge) -> io::Result<watch::Receiver<Pressure>> {
    let (pressure_tx, pressure_rx) = watch::channel(Pressure::default());
    let budget = meter.budget();
    let (mut on_node, mut on_process) = (Pressure::default(), Pressure::default());
    let measure = move || {
        while !pressure_tx.is_closed() {
            match meter.used().and_then(|bytes| Ok((bytes, meter::room()?))) {
                Ok((bytes, room)) => {
                    used.set(i64::try_from(bytes).unwrap_or(i64::MAX));
                    on_node = on_node.next(bytes, budget);
                    on_process = on_process.next_by_room(room.unwrap_or(u64::MAX));
                    let pressure = on_node.max(on_process);
                    if pressure != *pressure_tx.borrow() {
                        let (used_mib, room_mib) = (bytes >> 20, room.map(|room| room >> 20));
                        tracing::info!(
                            ?pressure,
                            used_mib,
                            budget_mib = budget >> 20,
                            room_mib,
                            "memory pressure changed"
                        );
                        pressure_tx.send_replace(pressure);
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot read the memory usage"),
            }
            std::thread::sleep(INTERVAL);
        }
    };
    vital::spawn("memory".to_owned(), measure)?;
    Ok(pressure_rx)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_state_begins_and_ends_at_its_threshold() {
        let states = |uses: &[u64]| -> Vec<Pressure> {
            let next = |pressure: &mut Pressure, used: &u64| {
                *pressure = pressure.next(*used, 1000);
                Some(*pressure)
            };
            uses.iter().scan(Pressure::Eased, next).collect()
        };
        use Pressure::{Critical, Eased, Tight};
        assert_eq!(states(&[0, 799, 800, 750, 749]), [Eased, Eased, Tight, Tight, Eased]);
        assert_eq!(states(&[2000, 900, 899, 749]), [Critical, Critical, Tight, Eased]);
    }

    #[test]
    fn a_process_with_little_room_to_grow_is_under_pressure() {
        let mut pressure = Pressure::Eased;
        let rooms =
            [u64::MAX, 64, 47, 63, 11, 19, 20, 64].map(|mib: u64| mib.saturating_mul(1 << 20));
        let states = rooms.map(|room| {
            pressure = pressure.next_by_room(room);
            pressure
        });
        use Pressure::{Critical, Eased, Tight};
        assert_eq!(states, [Eased, Eased, Tight, Tight, Critical, Critical, Tight, Eased]);
    }

    proptest! {
        #[test]
        fn steady_use_changes_the_pressure_at_most_once(
            before in 0..3_usize,
            used: u64,
            budget: u64,
        ) {
            let before = [Pressure::Eased, Pressure::Tight, Pressure::Critical][before];
            let once = before.next(used, budget);
            prop_assert_eq!(once.next(used, budget), once);
        }

        #[test]
        fn more_use_never_means_less_pressure(
            before in 0..3_usize,
            used: u32,
            more: u32,
            budget in 1..u64::MAX,
        ) {
            let before = [Pressure::Eased, Pressure::Tight, Pressure::Critical][before];
            let used = u64::from(used);
            prop_assert!(before.next(used + u64::from(more), budget) >= before.next(used, budget));
        }
    }
}
