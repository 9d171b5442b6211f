//! V8's own threads, which optimise functions that run often.
//!
//! V8 does not report which isolate such a thread works for, so its CPU time cannot be charged to a
//! Worker. The threads are few and have lower priority than the shards: at ten nice levels lower,
//! the kernel gives a thread about a tenth of a contended core, and all of an idle one. A flood of
//! functions therefore costs the neighbours only that their own are optimised later.

#![allow(unsafe_code)] // Sets the priority of threads, for which the standard library has no function.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

/// The niceness of these threads, relative to the process.
const NICENESS: i32 = 10;

/// The ids of V8's threads.
static THREADS: OnceLock<BTreeSet<libc::pid_t>> = OnceLock::new();

/// Returns the ids of the process's threads; empty if the system does not show them.
pub(crate) fn threads() -> BTreeSet<libc::pid_t> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Lowers the priority of the threads that are not in `before`.
pub(crate) fn yield_to_others(before: &BTreeSet<libc::pid_t>) {
    let new: BTreeSet<_> = threads().difference(before).copied().collect();
    for thread in &new {
        // SAFETY: changes only the scheduling of a thread of this process. Lowering its priority is
        // always allowed.
        unsafe {
            let nice = libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned());
            libc::setpriority(libc::PRIO_PROCESS, thread.cast_unsigned(), nice + NICENESS);
        }
    }
    THREADS.get_or_init(|| new);
}

/// Returns the CPU time that V8's threads have used so far.
pub(crate) fn cpu() -> Duration {
    THREADS.get().into_iter().flatten().map(|thread| cpu_of(*thread)).sum()
}

/// Returns the CPU time of a thread, or zero if the system does not report it.
fn cpu_of(thread: libc::pid_t) -> Duration {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}
