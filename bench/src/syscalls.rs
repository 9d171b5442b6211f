//! Counts the system calls of processes with strace.
//!
//! strace makes a process slower, but a load with a fixed number of connections saturates it all
//! the same. The number of calls per request therefore hardly changes, except with one connection,
//! where a slower process waits less often.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::Process;

/// Time limit for strace to attach itself.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two checks of whether strace has attached itself.
const PAUSE: Duration = Duration::from_millis(1);

/// Counts the system calls of `processes` and their descendants while `load` runs. Returns the
/// count and the result of `load`.
///
/// # Arguments
/// * `scratch` - a directory for the output of strace.
///
/// # Errors
/// Fails if strace cannot trace the processes, or if `load` fails.
pub fn count<T>(
    processes: &[Process],
    scratch: &Path,
    load: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(u64, T)> {
    let pids: Vec<u32> = processes.iter().flat_map(Process::pids).collect();
    let summary = scratch.join("syscalls.txt");
    let mut tracer = Tracer::start(&pids, &summary)?;
    tracer.await_attached(&pids)?;
    let loaded = load();
    tracer.stop()?;
    let calls = total(&fs::read_to_string(summary)?).context("strace printed no total")?;
    Ok((calls, loaded?))
}

/// A running strace, which is stopped when this value is dropped.
struct Tracer(Child);

impl Tracer {
    fn start(pids: &[u32], summary: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("strace");
        command.args(["--follow-forks", "--summary-only", "--summary-columns=calls,name"]);
        command.arg("--output").arg(summary);
        command.args(pids.iter().map(|pid| format!("--attach={pid}")));
        let tracer = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        tracer.map(Self).context("cannot start strace; run bench/setup first")
    }

    fn await_attached(&mut self, pids: &[u32]) -> anyhow::Result<()> {
        let started = Instant::now();
        while !pids.iter().all(|pid| is_traced(*pid)) {
            if let Some(status) = self.0.try_wait()? {
                bail!(
                    "strace ended with {status}; it needs root or the sysctl \
                     kernel.yama.ptrace_scope=0"
                );
            }
            ensure!(started.elapsed() < ATTACH_TIMEOUT, "strace does not attach itself");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Makes strace detach itself and write its summary.
    fn stop(&mut self) -> anyhow::Result<()> {
        Command::new("kill").arg("-INT").arg(self.0.id().to_string()).status()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The errors mean that strace has exited. After SIGKILL, the kernel detaches strace from
        // the processes.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether all threads of a process are traced.
fn is_traced(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut statuses =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    statuses.all(|status| {
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    })
}

/// Returns the number of calls in the last row of a summary, or `None` if the summary has no total.
fn total(summary: &str) -> Option<u64> {
    let last = summary.lines().rfind(|line| line.split_whitespace().last() == Some("total"))?;
    last.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_a_summary_has_the_total() {
        let summary = "    calls syscall\n--------- ------------\n       12 read\n        3 \
                       write\n--------- ------------\n       15 total\n";
        assert_eq!(total(summary), Some(15));
        assert_eq!(total("strace: no process\n"), None);
    }
}
