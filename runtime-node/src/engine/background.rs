//! V8's own threads, which compile what has run often enough to be worth it.
//!
//! V8 does not say for which isolate one of them works, so that what they use cannot be charged to a Worker. They are few,
//! and run after the shards: at ten degrees nicer, the kernel gives a thread about a tenth of a core that others want as
//! well, and all of one that is idle. What a flood of functions costs the neighbours is that their own are optimised later.

#![allow(unsafe_code)] // Sets the priority of threads, which the standard library does not offer.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

/// By how much these threads are nicer than the process.
const NICER: i32 = 10;

/// The ids of V8's threads.
static THREADS: OnceLock<BTreeSet<libc::pid_t>> = OnceLock::new();

/// The ids of the process's threads. None where the system does not show them.
pub(super) fn threads() -> BTreeSet<libc::pid_t> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Has the threads that were not there before run after the others.
pub(super) fn yield_to_others(before: &BTreeSet<libc::pid_t>) {
    let new: BTreeSet<_> = threads().difference(before).copied().collect();
    for thread in &new {
        // SAFETY: changes nothing but how a thread of this process is scheduled. To be nicer is always allowed.
        unsafe {
            let nice = libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned());
            libc::setpriority(libc::PRIO_PROCESS, thread.cast_unsigned(), nice + NICER);
        }
    }
    THREADS.get_or_init(|| new);
}

/// CPU time of V8's threads so far.
pub(super) fn cpu() -> Duration {
    THREADS.get().into_iter().flatten().map(|thread| cpu_of(*thread)).sum()
}

/// Nothing where the system does not say.
fn cpu_of(thread: libc::pid_t) -> Duration {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v8s_threads_are_nicer_than_the_process() {
        crate::engine::init();
        // SAFETY: reads the priority of a thread.
        let nice = |thread: libc::pid_t| unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.cast_unsigned()) };
        let threads = THREADS.get().unwrap();
        assert!(!threads.is_empty());
        // A thread that a test has had meanwhile may have ended.
        let process = nice(std::process::id().cast_signed());
        assert!(threads.iter().any(|thread| nice(*thread) == (process + NICER).min(19)), "{threads:?}");
    }
}
