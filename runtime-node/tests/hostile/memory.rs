//! What the process holds in memory, by the kernel's account.

use std::time::{Duration, Instant};

/// How much more than at first the process may hold when every script has ended: threads' stacks and arenas, V8's
/// pools of pages, the log that the tests collect.
const GROWTH: usize = 256 << 20;

/// The same under AddressSanitizer, which puts 256 MiB of what is freed aside, and keeps its own account of all memory.
const SANITIZED_GROWTH: usize = 5 * GROWTH;

/// V8 gives pages back from a thread of its own.
const PATIENCE: Duration = Duration::from_secs(10);

/// Resident memory in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default() << 10
}

/// The C library keeps what is freed for later, unless it is asked.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)] // There is no other way to ask.
fn trim() {
    // SAFETY: may be called at any time, by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// That the process comes back to little more than `before`.
pub(crate) fn expect_back(before: usize) -> Result<(), String> {
    let growth = if std::env::var_os("ASAN_OPTIONS").is_some() { SANITIZED_GROWTH } else { GROWTH };
    let deadline = Instant::now() + PATIENCE;
    loop {
        trim();
        let now = resident();
        if now <= before + growth {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{} MiB before, {} MiB after", before >> 20, now >> 20));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
