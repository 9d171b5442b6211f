//! Scripts that V8 may end the process for: each plays in a process of its own, with a bound on its memory.
//!
//! No bound in JavaScript reaches what these do. They may end as their headers say, or with the process, by V8's hand
//! and within the bound: whatever supervises the process then knows which Worker it was. They must not go on past the
//! bound, where the kernel would choose what to end.

#![allow(unsafe_code)] // Sets a limit between fork and exec.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use libtest_mimic::{Failed, Trial};

/// The family of these scripts.
const FAMILY: &str = "ends/";

/// Set in the process that a script has for itself.
const ALONE: &str = "TENON_HOSTILE_ALONE";

/// What that process may have of memory of its own, in bytes: what the chart gives a node.
pub(crate) const MEMORY: u64 = 1 << 30;

/// How V8 ends a process, on one processor or another.
const SIGNALS: [i32; 3] = [libc::SIGABRT, libc::SIGILL, libc::SIGTRAP];

/// Whether the script that is so called is to play in a process of its own, and this is not it.
pub(crate) fn needs_a_process(name: &str) -> bool {
    name.starts_with(FAMILY) && std::env::var_os(ALONE).is_none()
}

/// The script's trial in another process.
pub(crate) fn trial(name: String) -> Trial {
    Trial::test(name.clone(), move || {
        let mut alone = Command::new(std::env::current_exe()?);
        alone.args(["--exact", &name]).env(ALONE, "1");
        // A sanitizer's own memory would count.
        if std::env::var_os("ASAN_OPTIONS").is_none() {
            // SAFETY: a system call that allocates nothing, between fork and exec.
            unsafe { alone.pre_exec(bound_memory) };
        }
        let output = alone.output()?;
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        judge(output.status, &printed).map_err(|why| Failed::from(format!("{why}\n{printed}")))
    })
}

fn judge(status: ExitStatus, printed: &str) -> Result<(), String> {
    match status.signal() {
        None if status.success() => Ok(()),
        Some(signal) if SIGNALS.contains(&signal) && printed.contains("out of memory") => Ok(()),
        _ => Err(format!("its process ended with {status}")),
    }
}

fn bound_memory() -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    // SAFETY: the argument lives through the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
