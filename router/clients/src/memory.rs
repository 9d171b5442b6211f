//! Determines how much memory the clients of a router may take.

use std::fs;
use std::path::Path;

/// The memory that is assumed for a machine that reports none, in bytes: the chart's limit.
const ASSUMED: u64 = 512 << 20;

/// Returns half of the process's memory limit, or of the machine's memory if that is less, in
/// bytes. The other half is for the program, the table and the kernel's needs.
///
/// # Arguments
/// * `root` - the root of the file system, which tests replace.
pub fn for_clients(root: &Path) -> u64 {
    let number = |file: &str| fs::read_to_string(root.join(file)).ok()?.trim().parse::<u64>().ok();
    // Inside a container, the container's own cgroup is the root. Version 1 of cgroups expresses
    // "no limit" as a number that exceeds any memory.
    let limits = ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .filter_map(number);
    limits.chain(machine_memory(root)).min().unwrap_or(ASSUMED) / 2
}

/// Returns the memory of the machine, in bytes, or `None` if the machine reports none.
fn machine_memory(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> u64 {
        let root = std::env::temp_dir().join(format!("tenon-router-{:032x}", fastrand::u128(..)));
        for (file, content) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let memory = for_clients(&root);
        let _ = fs::remove_dir_all(root);
        memory
    }

    #[test]
    fn clients_get_half_of_the_lowest_memory_limit() {
        let machine = ("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\n");
        assert_eq!(with(&[]), ASSUMED / 2);
        assert_eq!(with(&[machine]), 8_000_000 * 1024);
        assert_eq!(with(&[machine, ("sys/fs/cgroup/memory.max", "max\n")]), 8_000_000 * 1024);
        assert_eq!(with(&[machine, ("sys/fs/cgroup/memory.max", "536870912\n")]), 256 << 20);
        assert_eq!(
            with(&[machine, ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n")]),
            512 << 10
        );
        assert_eq!(
            with(&[
                machine,
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
            ]),
            8_000_000 * 1024
        );
    }
}
