//! The CPU time and the memory of this process, as reported by the kernel.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Duration of a tick in milliseconds, the unit of `/proc/stat` and `/proc/self/stat`. Linux uses
/// this unit in its interfaces regardless of the rate of its clock.
const TICK: u64 = 10;
/// Index of the first time among the fields of `/proc/self/stat` that follow the name, which begin
/// with field 3. User and system time are fields 14 and 15. The next two fields are the times of
/// children that have ended.
const TIMES: usize = 14 - 3;

/// Returns the CPU time of all threads, in user mode and in the kernel.
pub fn cpu() -> anyhow::Result<Duration> {
    Ok(times()?[..2].iter().sum())
}

/// Returns user and system time of this process, and then those of its children.
fn times() -> anyhow::Result<[Duration; 4]> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name is in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no program name")?;
    let times = ticks(fields.split_whitespace().skip(TIMES).take(4))?;
    times.try_into().ok().context("/proc/self/stat has fewer than four times")
}

fn ticks<'a>(fields: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<Duration>> {
    let ticks = fields.map(|field| Ok(Duration::from_millis(TICK * field.parse::<u64>()?)));
    ticks
        .collect::<Result<_, std::num::ParseIntError>>()
        .context("a CPU time is not a number of ticks")
}

/// The CPU times so far of the machine, and of this process with its ended children.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    all: Duration,
    busy: Duration,
    own: Duration,
}

impl Machine {
    pub fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat has no line for all CPUs")?;
        // The fields are user nice system idle iowait irq softirq steal; the following ones are
        // part of the first two.
        let times = ticks(line.split_whitespace().skip(1).take(8))?;
        let all: Duration = times.iter().sum();
        let idle: Duration = times[3..5].iter().sum();
        Ok(Self { all, busy: all - idle, own: self::times()?.iter().sum() })
    }

    /// Returns the share of all CPU time since `then` that other processes have used.
    pub fn others_since(self, then: Self) -> f64 {
        let others = (self.busy - then.busy).saturating_sub(self.own - then.own);
        others.as_secs_f64() / (self.all - then.all).max(Duration::from_millis(TICK)).as_secs_f64()
    }
}

/// Returns the resident memory, in bytes.
pub fn resident() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("/proc/self/status has no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is not in kB")?;
    Ok(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_others_is_neither_idle_nor_own_time() {
        let at = |all, busy, own| {
            let [all, busy, own] = [all, busy, own].map(Duration::from_secs);
            Machine { all, busy, own }
        };
        assert_eq!(at(110, 60, 16).others_since(at(100, 50, 10)), 0.4);
        assert_eq!(at(110, 55, 16).others_since(at(100, 50, 10)), 0.0);
    }

    #[test]
    fn usage_is_read_from_the_kernel() {
        assert!(resident().unwrap() > 0);
        cpu().unwrap();
        let machine = Machine::now().unwrap();
        assert!(machine.all >= machine.busy && machine.busy >= machine.own);
    }
}
