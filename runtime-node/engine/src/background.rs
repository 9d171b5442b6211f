//! Lowers the priority of V8's own threads, which optimize functions that run often.
//!
//! V8 does not report for which isolate such a thread works, so the thread's CPU time cannot be
//! charged to a Worker. The threads are few and have a lower priority than the shards: a thread
//! with ten more nice levels gets about a tenth of a contended core, and all of an idle one. The
//! only cost of a flood of functions to neighbors is therefore that their own functions are
//! optimized later.

#![allow(unsafe_code)] // Calls the C library to set the priority of threads.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

/// Increment of the threads' niceness.
const NICENESS: i32 = 10;

/// The ids of V8's threads.
static THREADS: OnceLock<BTreeSet<libc::pid_t>> = OnceLock::new();

/// Returns the ids of the process's threads, or an empty set if the system does not list them.
pub(crate) fn threads() -> BTreeSet<libc::pid_t> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Lowers the priority of the threads that are not in `before`. The threads of the first call are
/// taken to be V8's.
pub(crate) fn yield_to_others(before: &BTreeSet<libc::pid_t>) {
    let new: BTreeSet<_> = threads().difference(before).copied().collect();
    for thread in &new {
        // SAFETY: the calls change only the scheduling of a thread of this process. Lowering a
        // thread's priority is always allowed.
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
