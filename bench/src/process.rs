//! Starts a process on a given CPU, measures what it uses, and stops it on drop.
//!
//! CPU time is the time that the kernel charged to the process and its running descendants, with
//! all their threads, in user mode and in the kernel. CPU time per request is the cost of a
//! request. It is also valid on a busy machine, unlike the number of requests per second.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use core_affinity::CoreId;

/// The unit of the times in `/proc/PID/stat`. Linux uses this unit in its interfaces regardless of
/// the rate of its clock.
const TICK: Duration = Duration::from_millis(10);

/// Time that a process has to exit after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// One CPU for the contenders and one for the load, if there are two. Requests per second are then
/// the number that one CPU can serve.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    cpus: Option<(usize, usize)>,
}

impl Placement {
    /// Selects the first two CPUs that this process may use.
    pub fn of_this_machine() -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let mut allowed =
            list.map(cpus_of).context("/proc/self/status has no Cpus_allowed_list")?.into_iter();
        Ok(Self { cpus: allowed.next().zip(allowed.next()) })
    }

    /// Returns a command that runs on the contenders' CPU.
    pub fn contender(self, program: &Path) -> Command {
        command_on(program, self.cpus.map(|(contender, _)| contender))
    }

    /// Returns a command that runs on the load's CPU.
    pub fn load(self, program: &Path) -> Command {
        command_on(program, self.cpus.map(|(_, load)| load))
    }

    /// Returns a command that runs on any CPU.
    pub fn anywhere(program: &Path) -> Command {
        command_on(program, None)
    }

    /// Runs `generate_load`, which generates load in this process, on the load's CPU.
    ///
    /// # Errors
    /// Fails if `generate_load` fails.
    pub fn loading<T: Send>(
        self,
        generate_load: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        // `generate_load` gets a thread of its own, so that threads and processes started later do
        // not inherit its affinity.
        let thread = || {
            if let Some((_, id)) = self.cpus {
                core_affinity::set_for_current(CoreId { id });
            }
            generate_load()
        };
        std::thread::scope(|scope| {
            scope.spawn(thread).join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

fn command_on(program: &Path, cpu: Option<usize>) -> Command {
    match cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            // `taskset` replaces itself with the program, so the process id is that of the program.
            command.arg("--cpu-list").arg(cpu.to_string()).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Parses a list of CPUs, such as `0-2,5` for 0, 1, 2 and 5.
fn cpus_of(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// A running process, which is stopped when this value is dropped.
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with its output in `DIR/NAME.log`.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub fn start(name: &'static str, mut command: Command, dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(name).with_extension("log");
        let log = File::create(&path)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| {
                format!("cannot start {name} with {command:?}; run bench/setup first")
            })?;
        Ok(Self { name, child, log: path })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the ids of this process and its descendants.
    pub fn pids(&self) -> Vec<u32> {
        tree(self.child.id())
    }

    /// Checks that the process is still running.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn ensure_running(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => {
                let printed = self.printed()?;
                let last = printed.lines().last().unwrap_or("no output");
                bail!("{} ended with {status}: {last}", self.name)
            }
            None => Ok(()),
        }
    }

    /// Returns everything that the process has printed so far.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub fn printed(&self) -> io::Result<String> {
        fs::read_to_string(&self.log)
    }

    /// Returns the number of open file descriptors of this process and its descendants.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn descriptors(&self) -> anyhow::Result<u64> {
        self.sum(|pid| Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64))
    }

    /// Returns the CPU time of this process and its running descendants so far.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.sum(process_cpu)
    }

    /// Returns the resident memory of this process and its descendants, in bytes. A page that
    /// several processes share is divided evenly among them, so it counts once in total if they all
    /// belong to this process.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn resident(&self) -> anyhow::Result<u64> {
        self.kib("smaps_rollup", "Pss:")
    }

    /// Returns the peak of resident memory in bytes, as the sum of each process's own peak. Pages
    /// that several processes share are counted for each of them.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn peak(&self) -> anyhow::Result<u64> {
        self.kib("status", "VmHWM:")
    }

    /// Resets the peak that [`Self::peak`] returns.
    ///
    /// # Errors
    /// Fails if the process has exited.
    pub fn reset_peak(&self) -> anyhow::Result<()> {
        // Writing 5 resets the peak, see proc(5).
        self.each(|pid| fs::write(format!("/proc/{pid}/clear_refs"), "5")).map(drop)
    }

    /// Returns the sum, in bytes, of a field in KiB over this process and its descendants.
    fn kib(&self, file: &str, field: &str) -> anyhow::Result<u64> {
        self.sum(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
            let kib = text
                .lines()
                .find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok());
            // A process that is ending no longer has memory, and therefore has no such line.
            Ok(kib.unwrap_or(0_u64) * 1024)
        })
    }

    /// Returns the sum of amounts of this process and its descendants.
    fn sum<T: iter::Sum>(&self, amount: impl Fn(u32) -> io::Result<T>) -> anyhow::Result<T> {
        Ok(self.each(amount)?.into_iter().sum())
    }

    /// Returns the results of `call` for this process and its descendants. A descendant that has
    /// exited is left out.
    fn each<T>(&self, call: impl Fn(u32) -> io::Result<T>) -> anyhow::Result<Vec<T>> {
        let own = call(self.child.id()).with_context(|| format!("{} has exited", self.name))?;
        let descendants = tree(self.child.id()).into_iter().skip(1);
        Ok(iter::once(own).chain(descendants.filter_map(|pid| call(pid).ok())).collect())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM comes first, so that a process with children can stop them.
        let pid = self.child.id().to_string();
        let signaled = Command::new("kill").args([OsStr::new("-TERM"), OsStr::new(&pid)]).status();
        let began = std::time::Instant::now();
        while signaled.is_ok() && began.elapsed() < GRACE {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        // The grace period is over. An error means that the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time of a process, without its descendants.
fn process_cpu(pid: u32) -> io::Result<Duration> {
    own_cpu(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or(io::Error::from(io::ErrorKind::InvalidData))
}

/// Returns a process and its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.flat_map(|thread| {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    iter::once(pid).chain(children.flat_map(tree)).collect()
}

/// Returns the sum of user and system time in a line of `/proc/PID/stat`. These are fields 14 and
/// 15; they are counted from the end of the name, which may contain spaces and parentheses. Returns
/// `None` if the line is malformed.
fn own_cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (next()? + next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_parentheses_and_spaces() {
        let stat = "7 (a) R (b) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 9 9 20 0 1 0";
        assert_eq!(own_cpu(stat), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_list_of_cpus_has_ranges_and_single_numbers() {
        assert_eq!(cpus_of("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpus_of("3"), [3]);
    }

    #[test]
    fn used_cpu_time_is_counted() {
        let began = process_cpu(std::process::id()).unwrap();
        while process_cpu(std::process::id()).unwrap() < began + TICK {}
    }
}
