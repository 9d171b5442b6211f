//! Reads the memory budget and the memory in use from the kernel's files.
//!
//! | limit of the process | budget | use |
//! | --- | --- | --- |
//! | `--memory-budget` | its value | the process's resident memory |
//! | cgroup, v2 or v1 | the lowest limit | the cgroup's memory, less droppable pages |
//! | none | the machine's memory | the process's resident memory |
//!
//! The lowest limit is that of the process's own cgroup or of one of its ancestors; the use is that
//! of the cgroup with this limit. Droppable pages are file pages on the kernel's inactive list. The
//! budget of a supervisor without such a cgroup is for the processes that it supervises, so their
//! resident memory is the use.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use tenon_engine::{HEAPS_LIMIT, code_room};

/// A meter of the memory in use, with the budget for it.
#[derive(Debug)]
pub struct Meter {
    budget: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Process,
    Cgroup { directory: PathBuf, version: &'static Version },
}

/// Names of files and fields in one version of cgroups.
#[derive(Debug)]
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The field of `memory.stat` for file pages without recent use.
    droppable: &'static str,
}

const V2: Version =
    Version { limit: "memory.max", used: "memory.current", droppable: "inactive_file" };
const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: "total_inactive_file",
};

/// A kernel file that is missing or not in its documented format.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}; set --memory-budget", file.display())]
pub struct MeterError {
    file: PathBuf,
    problem: String,
}

impl Meter {
    /// Creates a meter for the limit that applies to the process.
    ///
    /// # Arguments
    /// * `budget` - the configured budget in bytes, if there is one.
    /// * `root` - root of the file system; tests pass their own.
    ///
    /// # Errors
    /// Fails if no budget is configured and the size of the machine's memory cannot be read.
    pub fn new(budget: Option<u64>, root: &Path) -> Result<Self, MeterError> {
        if let Some(budget) = budget {
            return Ok(Self { budget, source: Source::Process });
        }
        let total = machine(&root.join("proc/meminfo"))?;
        let limits = cgroups(root).filter_map(|(directory, version)| {
            let limit = number(&directory.join(version.limit)).ok()?;
            Some((limit, directory, version))
        });
        // Version 1 expresses "no limit" as a number beyond any memory.
        let lowest = limits.filter(|(limit, ..)| *limit < total).min_by_key(|(limit, ..)| *limit);
        Ok(match lowest {
            Some((budget, directory, version)) => {
                Self { budget, source: Source::Cgroup { directory, version } }
            }
            None => Self { budget: total, source: Source::Process },
        })
    }

    /// Returns the budget, in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Returns the bytes in use now.
    ///
    /// # Errors
    /// Fails if the kernel's files cannot be read.
    pub fn used(&self) -> Result<u64, MeterError> {
        match self.used_in_cgroup()? {
            Some(used) => Ok(used),
            None => field(Path::new("/proc/self/status"), "VmRSS:").map(|kib| kib * 1024),
        }
    }

    /// Returns the bytes in use now in the cgroup whose limit is the budget, or `None` if the
    /// budget is not the limit of a cgroup.
    ///
    /// # Errors
    /// Fails if the kernel's files cannot be read.
    pub fn used_in_cgroup(&self) -> Result<Option<u64>, MeterError> {
        let Source::Cgroup { directory, version } = &self.source else { return Ok(None) };
        let used = number(&directory.join(version.used))?;
        let droppable = field(&directory.join("memory.stat"), version.droppable)?;
        Ok(Some(used.saturating_sub(droppable)))
    }
}

/// Returns how many more bytes of private writable memory this process may map, or `None` if there
/// is no limit. The heaps and the machine code of all isolates of a process have limits of their
/// own. V8 does not report how much its heaps take, so all private writable memory counts toward
/// the limit of the heaps.
///
/// # Errors
/// Fails if the kernel's files cannot be read.
pub(super) fn room() -> Result<Option<u64>, MeterError> {
    let limit = getrlimit(Resource::Data).current.unwrap_or(u64::MAX).min(HEAPS_LIMIT);
    if limit == u64::MAX {
        return Ok(None);
    }
    Ok(Some(limit.saturating_sub(mapped()?).min(code_room())))
}

/// Returns how many bytes of private writable memory this process has mapped, touched or not.
///
/// # Errors
/// Fails if the kernel's files cannot be read.
pub(super) fn mapped() -> Result<u64, MeterError> {
    let file = Path::new("/proc/self/statm");
    // The sixth number includes the stack, which the limit does not count.
    let pages =
        read(file)?.split_ascii_whitespace().nth(5).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| MeterError {
        file: file.to_owned(),
        problem: "the file has no sixth number".to_owned(),
    })?;
    Ok(pages.saturating_mul(page_size() as u64))
}

/// Returns the cgroups of the process, from its own up to the root, at the customary mount points
/// of either version. Inside a container, the process's own cgroup is the root.
fn cgroups(root: &Path) -> impl Iterator<Item = (PathBuf, &'static Version)> {
    let listed = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, version) = match controllers {
            "" => ("sys/fs/cgroup", &V2),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("sys/fs/cgroup/memory", &V1)
            }
            _ => return None,
        };
        Some((root.join(mount), path.trim_start_matches('/').to_owned(), version))
    };
    let found: Vec<_> = listed.lines().filter_map(own).collect();
    found.into_iter().flat_map(|(mount, path, version)| {
        let up: Vec<_> = Path::new(&path).ancestors().map(|path| mount.join(path)).collect();
        up.into_iter().map(move |directory| (directory, version))
    })
}

fn machine(meminfo: &Path) -> Result<u64, MeterError> {
    field(meminfo, "MemTotal:").map(|kib| kib * 1024)
}

/// Returns the number after `name` at the beginning of a line.
fn field(file: &Path, name: &str) -> Result<u64, MeterError> {
    let text = read(file)?;
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    });
    value.ok_or_else(|| MeterError {
        file: file.to_owned(),
        problem: format!("the file has no number for {name:?}"),
    })
}

fn number(file: &Path) -> Result<u64, MeterError> {
    let text = read(file)?;
    text.trim().parse().map_err(|_| MeterError {
        file: file.to_owned(),
        problem: format!("{text:?} is not a number"),
    })
}

fn read(file: &Path) -> Result<String, MeterError> {
    fs::read_to_string(file).map_err(|error: io::Error| MeterError {
        file: file.to_owned(),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a file system with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in
            [("proc/meminfo", "MemTotal:       16000000 kB\n")].iter().chain(files)
        {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn the_limit_of_a_cgroup_v2_is_read() {
        let root = root(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/memory.current", "900\n"),
            ("sys/fs/cgroup/memory.stat", "anon 500\ninactive_file 400\nactive_file 7\n"),
        ]);
        let meter = Meter::new(None, root.path()).unwrap();
        assert_eq!((meter.budget(), meter.used().unwrap()), (1 << 30, 500));
    }

    #[test]
    fn the_lowest_limit_of_all_ancestor_cgroups_applies() {
        let root = root(&[
            ("proc/self/cgroup", "0::/pods/one\n"),
            ("sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("sys/fs/cgroup/pods/memory.max", "2000000\n"),
            ("sys/fs/cgroup/pods/memory.current", "9\n"),
            ("sys/fs/cgroup/pods/memory.stat", "inactive_file 0\n"),
        ]);
        let meter = Meter::new(None, root.path()).unwrap();
        assert_eq!((meter.budget(), meter.used().unwrap()), (2_000_000, 9));
    }

    #[test]
    fn the_limit_of_a_cgroup_v1_is_read() {
        let root = root(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/pod\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "4096\n"),
            ("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "2048\n"),
            ("sys/fs/cgroup/memory/pod/memory.stat", "inactive_file 1\ntotal_inactive_file 48\n"),
        ]);
        let meter = Meter::new(None, root.path()).unwrap();
        assert_eq!((meter.budget(), meter.used().unwrap()), (4096, 2000));
    }

    #[test]
    fn the_budget_is_the_argument_or_else_the_machines_memory() {
        let root = root(&[("proc/self/cgroup", "0::/\n")]);
        let meter = Meter::new(None, root.path()).unwrap();
        assert_eq!(meter.budget(), 16_000_000 * 1024);
        assert!(meter.used().unwrap() > 0, "the process seems to use no memory");
        assert_eq!(Meter::new(Some(77), root.path()).unwrap().budget(), 77);
    }

    #[test]
    fn an_unknown_budget_is_an_error_that_names_the_argument() {
        let empty = tempfile::tempdir().unwrap();
        let error = Meter::new(None, empty.path()).unwrap_err().to_string();
        assert!(error.contains("proc/meminfo") && error.contains("--memory-budget"), "{error}");
    }
}
