//! Runs the scripts during which V8 may end the process, each in a process of its own with a memory
//! limit.
//!
//! No bound in JavaScript covers the operations of these scripts. They may end as their headers
//! say, or V8 may end the process within the memory limit: the supervisor of the process then knows
//! which Worker was running. They must not exceed the limit, because the kernel would then choose
//! which process to end.

#![allow(unsafe_code)] // Sets a limit between fork and exec.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use libtest_mimic::{Failed, Trial};

/// The directory of these scripts.
const FAMILY: &str = "ends/";

/// The environment variable that is set in the process of a single script.
const ALONE: &str = "TENON_HOSTILE_ALONE";

/// The private memory that such a process may use, in bytes: the chart's memory limit of a node.
pub(crate) const MEMORY: u64 = 1 << 30;

/// The signals with which V8 ends a process, depending on the processor.
const SIGNALS: [i32; 3] = [libc::SIGABRT, libc::SIGILL, libc::SIGTRAP];

/// Returns whether the script `name` needs a process of its own and is not running in one.
pub(crate) fn needs_a_process(name: &str) -> bool {
    name.starts_with(FAMILY) && std::env::var_os(ALONE).is_none()
}

/// Returns a trial that runs the script in another process.
pub(crate) fn trial(name: String) -> Trial {
    Trial::test(name.clone(), move || {
        let mut alone = Command::new(std::env::current_exe()?);
        alone.args(["--exact", &name]).env(ALONE, "1");
        // The memory of a sanitizer would count toward the limit.
        if std::env::var_os("ASAN_OPTIONS").is_none() {
            // SAFETY: between fork and exec, the function only makes a system call and allocates
            // nothing.
            unsafe { alone.pre_exec(bound_memory) };
        }
        let output = alone.output()?;
        let printed =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        check(output.status, &printed).map_err(|why| Failed::from(format!("{why}\n{printed}")))
    })
}

fn check(status: ExitStatus, printed: &str) -> Result<(), String> {
    match status.signal() {
        None if status.success() => Ok(()),
        Some(signal) if SIGNALS.contains(&signal) && printed.contains("out of memory") => Ok(()),
        _ => Err(format!("the process ended with {status}")),
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
