//! What the kernel says that this process has had: CPU time and memory.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The unit of `/proc/self/stat`, which Linux fixes for its interfaces whatever its own clock's rate.
const TICK: Duration = Duration::from_millis(10);
/// User and system time are the 14th and 15th field of `/proc/self/stat`; the 3rd is the first after the name.
const TIMES: usize = 14 - 3;

/// Of all threads, in user mode and in the kernel.
pub fn cpu() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name is in parentheses and may contain anything.
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat names the program")?;
    let times = fields.split_whitespace().skip(TIMES).take(2).map(str::parse::<u32>);
    let ticks = times.sum::<Result<u32, _>>().context("/proc/self/stat has times")?;
    Ok(TICK * ticks)
}

/// Resident memory, bytes.
pub fn resident() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("/proc/self/status has VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is in kB")?;
    Ok(kib << 10)
}
