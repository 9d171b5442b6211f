//! The memory of the process, as the kernel reports it.

use std::time::{Duration, Instant};

/// The number of bytes by which resident memory may have grown after every script has ended: stacks
/// and arenas of threads, V8's page pools, and the log that the tests collect.
const GROWTH: usize = 256 << 20;

/// [`GROWTH`] under AddressSanitizer, which quarantines 256 MiB of freed memory and keeps
/// bookkeeping for all memory.
const SANITIZED_GROWTH: usize = 5 * GROWTH;

/// The timeout for V8, which releases pages on a thread of its own.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or_default()
        << 10
}

/// Returns to the system the freed memory that the C library would otherwise keep for later.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)] // There is no safe interface for this.
fn trim() {
    // SAFETY: the function may be called at any time, by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

/// Checks that resident memory returns to little more than `before` bytes.
pub(crate) fn expect_returned(before: usize) -> Result<(), String> {
    let growth = if std::env::var_os("ASAN_OPTIONS").is_some() { SANITIZED_GROWTH } else { GROWTH };
    let deadline = Instant::now() + TIMEOUT;
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
