//! Resource usage of a process and CPU time of its threads, read from the kernel when metrics are
//! gathered.
//!
//! The `process_` names are the conventional names of Prometheus client libraries, so that existing
//! dashboards work. Threads are identified by name; the CPU time of threads that share a name is
//! summed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, CounterVec, Gauge, Opts, Registry};

/// The kernel reports times in ticks. This is the number of ticks per second (`USER_HZ`), which is
/// the same on every supported architecture.
const TICKS: f64 = 100.0;

/// Registers the metrics of the calling process.
///
/// # Arguments
/// * `name` - the process's name in `tenon_build_info`.
///
/// # Errors
/// Fails if the registry already has these metrics.
pub fn register(registry: &Registry, name: &str) -> prometheus::Result<()> {
    let build = Opts::new("tenon_build_info", "1, labeled with the process and its version.");
    let build = Gauge::with_opts(
        build.const_label("process", name).const_label("version", env!("CARGO_PKG_VERSION")),
    )?;
    build.set(1.0);
    registry.register(Box::new(build))?;
    registry.register(Box::new(Process::new()?))
}

struct Process {
    cpu: Counter,
    resident: Gauge,
    virtual_: Gauge,
    started: Gauge,
    threads: Gauge,
    open: Gauge,
    max_open: Gauge,
    by_thread: CounterVec,
    /// CPU time of each thread at the last collection, in ticks.
    cpu_by_thread: Mutex<HashMap<Thread, u64>>,
}

/// Identifies a thread. The kernel reuses a thread's number after the thread has ended, but not
/// together with its start time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    number: u64,
    started: u64,
}

impl Process {
    fn new() -> prometheus::Result<Self> {
        Ok(Self {
            cpu: Counter::new(
                "process_cpu_seconds_total",
                "User and system CPU time, in seconds.",
            )?,
            resident: Gauge::new("process_resident_memory_bytes", "Resident memory, in bytes.")?,
            virtual_: Gauge::new("process_virtual_memory_bytes", "Virtual memory, in bytes.")?,
            started: Gauge::new(
                "process_start_time_seconds",
                "Start time of the process, in Unix time.",
            )?,
            threads: Gauge::new("process_threads", "Number of threads.")?,
            open: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            max_open: Gauge::new("process_max_fds", "Maximum number of open file descriptors.")?,
            by_thread: CounterVec::new(
                Opts::new("tenon_thread_cpu_seconds_total", "CPU time of threads, by their name."),
                &["thread"],
            )?,
            cpu_by_thread: Mutex::default(),
        })
    }

    fn families(&self) -> [&dyn Collector; 8] {
        let Self { cpu, resident, virtual_, started, threads, open, max_open, by_thread, .. } =
            self;
        [cpu, resident, virtual_, started, threads, open, max_open, by_thread]
    }

    /// Updates the metrics. A metric whose value cannot be read keeps its previous value.
    fn update(&self) {
        if let Some(stat) = Stat::read("/proc/self/stat") {
            advance(&self.cpu, stat.cpu as f64 / TICKS);
            self.threads.set(stat.threads as f64);
            if let Some(boot_time) = boot_time() {
                self.started.set(boot_time + stat.started as f64 / TICKS);
            }
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        field::<u64>(&status, "VmRSS:")
            .into_iter()
            .for_each(|kib| self.resident.set((kib * 1024) as f64));
        field::<u64>(&status, "VmSize:")
            .into_iter()
            .for_each(|kib| self.virtual_.set((kib * 1024) as f64));
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            self.open.set(open.count() as f64);
        }
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        field::<f64>(&limits, "Max open files")
            .into_iter()
            .for_each(|max_open| self.max_open.set(max_open));
        self.update_threads();
    }

    fn update_threads(&self) {
        // Each change of the map is one call, so a panic cannot leave the map half changed.
        let mut cpu_by_thread = self.cpu_by_thread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listed = HashSet::new();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            // The thread may have ended since it was listed.
            let Some(stat) = Stat::read(&format!("{}/stat", task.path().display())) else {
                continue;
            };
            let thread = Thread { number: stat.number, started: stat.started };
            let before = cpu_by_thread.insert(thread, stat.cpu).unwrap_or(0);
            let increase = stat.cpu.saturating_sub(before);
            self.by_thread.with_label_values(&[stat.name.as_str()]).inc_by(increase as f64 / TICKS);
            listed.insert(thread);
        }
        cpu_by_thread.retain(|thread, _| listed.contains(thread));
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.families().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.update();
        self.families().into_iter().flat_map(Collector::collect).collect()
    }
}

/// Advances a counter to a total that is counted elsewhere.
pub(crate) fn advance(counter: &Counter, to: f64) {
    let increase = to - counter.get();
    if increase > 0.0 {
        counter.inc_by(increase);
    }
}

/// The fields of `/proc/…/stat` that are used here; see proc_pid_stat(5).
#[derive(Debug, PartialEq)]
struct Stat {
    number: u64,
    name: String,
    /// CPU time, in ticks.
    cpu: u64,
    threads: u64,
    /// Start time, in ticks since boot.
    started: u64,
}

impl Stat {
    fn read(path: &str) -> Option<Self> {
        fs::read_to_string(path).ok()?.parse().ok()
    }
}

/// The error for content that does not have the format described in the manual.
#[derive(Debug)]
struct Unreadable;

impl FromStr for Stat {
    type Err = Unreadable;

    fn from_str(line: &str) -> Result<Self, Unreadable> {
        let parse = || {
            // The name may contain parentheses and spaces.
            let (number, after_number) = line.split_once(" (")?;
            let (name, after_name) = after_number.rsplit_once(") ")?;
            let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
            // The manual numbers fields from 1; the state, first here, is field 3.
            let field = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
            Some(Self {
                number: number.parse().ok()?,
                name: name.to_owned(),
                cpu: field(14)? + field(15)?,
                threads: field(20)?,
                started: field(22)?,
            })
        };
        parse().ok_or(Unreadable)
    }
}

/// Returns the Unix time at which the machine booted, in seconds, or `None` if the kernel's file
/// cannot be read.
fn boot_time() -> Option<f64> {
    field(&fs::read_to_string("/proc/stat").ok()?, "btime")
}

/// Returns the first word after `name` in the first line that begins with `name`, or `None` if
/// there is no such word or it does not parse.
fn field<T: FromStr>(lines: &str, name: &str) -> Option<T> {
    let line = lines.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    fn value(registry: &Registry, family: &str, label: Option<&str>) -> f64 {
        let families = registry.gather();
        let family = families.iter().find(|found| found.name() == family);
        let family = family.expect("the family is not registered");
        let has_label = |metric: &&prometheus::proto::Metric| {
            label.is_none_or(|label| metric.get_label().iter().any(|pair| pair.value() == label))
        };
        let metric = family.get_metric().iter().find(has_label).expect("no metric has the label");
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }

    #[test]
    fn a_thread_with_parentheses_in_its_name_is_parsed() {
        let line = "42 (a) b (c) S 1 1 1 0 -1 4 0 0 0 0 7 5 0 0 20 0 3 0 1234 0 0";
        let stat =
            Stat { number: 42, name: "a) b (c".to_owned(), cpu: 12, threads: 3, started: 1234 };
        assert_eq!(line.parse::<Stat>().unwrap(), stat);
        assert!("42 (short) S 1".parse::<Stat>().is_err());
    }

    #[test]
    fn a_process_exports_its_resource_usage() {
        let registry = Registry::new();
        register(&registry, "tenon-test").unwrap();
        let value = |family| value(&registry, family, None);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(
            value("process_open_fds") >= 3.0
                && value("process_max_fds") >= value("process_open_fds")
        );
        assert!(value("process_threads") >= 1.0);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        // Start times in a container may differ slightly from the machine's clock.
        assert!((value("process_start_time_seconds") - now).abs() < 3600.0);
        assert_eq!(value("tenon_build_info"), 1.0);
    }

    #[test]
    fn a_busy_thread_is_reported_by_its_name() {
        let registry = Registry::new();
        register(&registry, "tenon-test").unwrap();
        let (burned_tx, burned_rx) = mpsc::channel();
        let (end_tx, end_rx) = mpsc::channel::<()>();
        let burner = std::thread::Builder::new().name("burner".to_owned()).spawn(move || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(200) {
                std::hint::spin_loop();
            }
            burned_tx.send(()).unwrap();
            let _ = end_rx.recv();
        });
        burned_rx.recv().unwrap();
        let burned = value(&registry, "tenon_thread_cpu_seconds_total", Some("burner"));
        assert!((0.01..1.0).contains(&burned), "the thread used {burned} s");
        drop(end_tx);
        burner.unwrap().join().unwrap();
        assert!(value(&registry, "tenon_thread_cpu_seconds_total", Some("burner")) >= burned);
    }
}
