//! Decides how much memory each process of a node may still take. This module is pure, except for
//! [`MemoryUse::of`].
//!
//! ```text
//!  budget ── reserve ── used ──► free ─┬─ up to its guarantee ──► each process that is below it
//!                                      ├─ (the rest − budget / 10) / processes ──► each lane
//!                                      └─ what then remains, in equal parts ──► each shard
//! ```
//!
//! Memory that a process has mapped and not touched counts as used: the process may touch all of it
//! between two checks, and no limit would prevent that. The allotments never exceed the free
//! memory. However fast one process allocates, it therefore reaches its own resource limit
//! (`RLIMIT_DATA`, private writable memory) before the container's limit is reached: an allocation
//! fails, and V8 ends that process. Otherwise the kernel would pick a victim among all processes,
//! or end the whole container.

use std::fs;

use rustix::process::Pid;

/// Divisor of the budget for the reserve: memory for the supervisor, and for what the kernel
/// allocates on behalf of the container.
const RESERVE_DIVISOR: u64 = 20;

/// Divisor of the budget for the part of free memory that lanes leave to shards. Unknown Workers
/// run in lanes, so a hostile Worker fills a lane first.
const SHARDS_DIVISOR: u64 = 10;

/// Memory that an idle process has mapped and not touched, in bytes: mostly thread stacks, which no
/// Worker can fill. The measured value is 17 MiB.
const IDLE_MAPPED: u64 = 20 << 20;

/// Lower bound on the limit of a process, in bytes: enough for the process to start. Most of it is
/// mapped by an idle process already; the rest, summed over all processes, fits in the reserve.
pub(super) const MIN_LIMIT: u64 = 32 << 20;

/// Room to grow, in bytes, below which a process may end in the turn of a Worker that keeps to its
/// own limit.
pub(super) const CRAMPED: u64 = 64 << 20;

/// The memory use of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// Private writable mappings, touched or not, in bytes. The resource limit counts these.
    pub(super) data: u64,
    /// Part of `data` that has not been touched, in bytes, less [`IDLE_MAPPED`].
    pub(super) untouched: u64,
}

impl MemoryUse {
    /// Reads the memory use of a process. Returns `None` if the process has ended.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        let (resident, data) = (field("VmRSS:")?, field("VmData:")?);
        let untouched = data.saturating_sub(field("RssAnon:")?).saturating_sub(IDLE_MAPPED);
        Some(Self { resident, data, untouched })
    }

    /// Returns the number of bytes that may be resident at the next check even if the process is
    /// allotted no further memory.
    pub(super) fn claim(&self) -> u64 {
        self.resident.saturating_add(self.untouched)
    }
}

/// Returns by how many bytes each process may grow.
///
/// # Arguments
/// * `budget` - the container's memory, in bytes.
/// * `used` - memory in use in the container, in bytes, including memory that processes have mapped
///   and not touched.
/// * `claims` - the memory claimed by each process, in bytes, and whether the process is a lane.
pub(super) fn allot(budget: u64, used: u64, claims: &[(u64, bool)]) -> Vec<u64> {
    let processes = (claims.len() as u64).max(1);
    let lanes = claims.iter().filter(|(_, is_lane)| *is_lane).count() as u64;
    let free = budget.saturating_sub(budget / RESERVE_DIVISOR).saturating_sub(used);
    // The guarantee is half of an equal share: a process below its guarantee may grow up to the
    // guarantee before any other process may grow.
    let guarantee = budget / processes / 2;
    let owed = |claim: u64| guarantee.saturating_sub(claim);
    let sum: u64 = claims.iter().map(|(claim, _)| owed(*claim)).sum();
    let paid = |owed: u64| if sum <= free { owed } else { scale(owed, free, sum) };
    let remaining = free.saturating_sub(sum);
    let of_lane = remaining.saturating_sub(budget / SHARDS_DIVISOR) / processes;
    let of_shard = remaining.saturating_sub(of_lane * lanes) / (processes - lanes).max(1);
    let part = |(claim, is_lane): &(u64, bool)| {
        paid(owed(*claim)) + if *is_lane { of_lane } else { of_shard }
    };
    claims.iter().map(part).collect()
}

/// Returns by how many bytes each limit may rise, if `taken` bytes of the intended rises are no
/// longer free.
pub(super) fn reduce(rises: &[u64], taken: u64) -> Vec<u64> {
    let sum = rises.iter().fold(0, |sum: u64, rise| sum.saturating_add(*rise));
    rises.iter().map(|rise| scale(*rise, sum.saturating_sub(taken), sum)).collect()
}

/// Scales `part` by `of / whole`.
fn scale(part: u64, of: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(of) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_process_that_uses_most_of_the_memory_leaves_the_others_their_guarantees() {
        // The largest process can no longer grow; the others share the rest.
        let parts =
            allot(1024 * MIB, 800 * MIB, &[(700 * MIB, true), (40 * MIB, true), (40 * MIB, false)]);
        assert!(parts[0] < 2 * MIB && parts[1] > 80 * MIB && parts[1] <= parts[2], "{parts:?}");
    }

    #[test]
    fn a_shard_may_still_grow_when_a_lane_may_not_grow() {
        let parts = allot(1024 * MIB, 900 * MIB, &[(500 * MIB, true), (360 * MIB, false)]);
        assert!(parts[0] == 0 && parts[1] > 50 * MIB, "{parts:?}");
    }

    #[test]
    fn an_idle_node_grants_each_process_its_share() {
        let parts =
            allot(1024 * MIB, 90 * MIB, &[(30 * MIB, false), (30 * MIB, false), (30 * MIB, true)]);
        assert!(parts.iter().all(|part| *part > 250 * MIB), "{parts:?}");
    }

    #[test]
    fn memory_taken_after_the_check_is_deducted_from_the_rises_of_the_other_limits() {
        assert_eq!(reduce(&[0, 100, 300], 0), [0, 100, 300]);
        assert_eq!(reduce(&[0, 100, 300], 200), [0, 50, 150]);
        assert_eq!(reduce(&[0, 100, 300], 500), [0, 0, 0]);
        assert_eq!(reduce(&[0, 0], 500), [0, 0]);
    }

    #[test]
    fn the_memory_of_this_process_is_measured() {
        let used = MemoryUse::of(rustix::process::getpid()).unwrap();
        assert!(used.resident > MIB && used.data > 0, "{used:?}");
    }

    #[test]
    fn mapped_untouched_memory_is_counted() {
        let untouched = || MemoryUse::of(rustix::process::getpid()).unwrap().untouched;
        // The allocation is larger than the memory of an idle process and of the other tests.
        let large = vec![0_u8; 1 << 30];
        assert!(untouched() >= 512 * MIB, "{} of {}", untouched(), large.len());
    }

    proptest! {
        #[test]
        fn the_allotments_never_exceed_the_free_memory(
            budget in MIB..(1 << 44),
            used in 0..(1_u64 << 44),
            claims in prop::collection::vec((0..(1_u64 << 44), any::<bool>()), 1..40),
        ) {
            let parts = allot(budget, used, &claims);
            prop_assert_eq!(parts.len(), claims.len());
            prop_assert!(parts.iter().sum::<u64>() <= budget.saturating_sub(used));
        }
    }
}
