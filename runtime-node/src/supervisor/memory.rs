//! How much memory each process of a node may still take. Pure, but for reading what they use.
//!
//! ```text
//!  budget ── reserve ── what is used ──► free ─┬─ up to its guarantee ──► each process that is below it
//!                                              ├─ but for a tenth of all, an equal part ──► each lane
//!                                              └─ the rest, in equal parts ──► each shard
//! ```
//!
//! The parts never come to more than what is free, so the container's limit is not reached however fast one process
//! allocates: its own resource limit (`RLIMIT_DATA`, private writable memory) is reached first, an allocation fails, and V8
//! ends that process. The kernel would pick a victim among all of them, or take the whole container.

use std::fs;

use rustix::process::Pid;

/// Kept free for the supervisor and for what the kernel charges besides: one part in so many.
const RESERVE: u64 = 20;

/// What lanes leave to shards of what is free, of the budget: one part in so many. A hostile Worker fills a lane first.
const FOR_SHARDS: u64 = 10;

/// A process that may grow by less, in bytes, may end in the turn of a Worker that keeps its own limit.
pub(super) const CRAMPED: u64 = 64 << 20;

/// What a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Bytes in memory.
    pub(super) resident: u64,
    /// Bytes of private writable mappings, touched or not: what the resource limit counts.
    pub(super) data: u64,
}

impl Use {
    /// `None` when the process has ended.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        Some(Self { resident: field("VmRSS:")?, data: field("VmData:")? })
    }
}

/// How many bytes each process may grow by.
///
/// # Arguments
/// * `budget` - of the container, in bytes; `used` - of it, by whatever.
/// * `resident` - what each process uses, and whether it is a lane.
pub(super) fn allot(budget: u64, used: u64, resident: &[(u64, bool)]) -> Vec<u64> {
    let processes = (resident.len() as u64).max(1);
    let lanes = resident.iter().filter(|(_, is_lane)| *is_lane).count() as u64;
    let free = budget.saturating_sub(budget / RESERVE).saturating_sub(used);
    // Half of an equal share: a process that uses less gets up to there before any other grows.
    let guarantee = budget / processes / 2;
    let owed = |resident: u64| guarantee.saturating_sub(resident);
    let sum: u64 = resident.iter().map(|(resident, _)| owed(*resident)).sum();
    let paid = |owed: u64| if sum <= free { owed } else { scale(owed, free, sum) };
    let rest = free.saturating_sub(sum);
    let of_lane = rest.saturating_sub(budget / FOR_SHARDS) / processes;
    let of_shard = rest.saturating_sub(of_lane * lanes) / (processes - lanes).max(1);
    let part = |(resident, is_lane): &(u64, bool)| paid(owed(*resident)) + if *is_lane { of_lane } else { of_shard };
    resident.iter().map(part).collect()
}

/// `part` of `whole`, as a part of `of`.
fn scale(part: u64, of: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(of) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_process_that_took_all_leaves_the_others_their_guarantee() {
        // The hog cannot grow any more; the others share what is left.
        let parts = allot(1024 * MIB, 800 * MIB, &[(700 * MIB, true), (40 * MIB, true), (40 * MIB, false)]);
        assert!(parts[0] < 2 * MIB && parts[1] > 80 * MIB && parts[1] <= parts[2], "{parts:?}");
    }

    #[test]
    fn a_shard_still_grows_where_a_lane_may_not_any_more() {
        let parts = allot(1024 * MIB, 900 * MIB, &[(500 * MIB, true), (360 * MIB, false)]);
        assert!(parts[0] == 0 && parts[1] > 50 * MIB, "{parts:?}");
    }

    #[test]
    fn a_node_at_rest_lets_each_process_take_its_share_of_all() {
        let parts = allot(1024 * MIB, 90 * MIB, &[(30 * MIB, false), (30 * MIB, false), (30 * MIB, true)]);
        assert!(parts.iter().all(|part| *part > 250 * MIB), "{parts:?}");
    }

    #[test]
    fn this_process_uses_memory() {
        let used = Use::of(rustix::process::getpid()).unwrap();
        assert!(used.resident > MIB && used.data > 0, "{used:?}");
    }

    proptest! {
        #[test]
        fn all_together_never_get_more_than_is_free(
            budget in MIB..(1 << 44),
            used in 0..(1_u64 << 44),
            resident in prop::collection::vec((0..(1_u64 << 44), any::<bool>()), 1..40),
        ) {
            let parts = allot(budget, used, &resident);
            prop_assert_eq!(parts.len(), resident.len());
            prop_assert!(parts.iter().sum::<u64>() <= budget.saturating_sub(used));
        }
    }
}
