//! The scenarios: the handlers, the number of clients, and the Workers.

use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use crate::architecture::Architecture;

/// A Worker's id.
pub type WorkerId = Arc<str>;

/// Number of Workers per thread, small enough that all stay warm.
const WORKERS: usize = 4;
/// Number of clients per thread if requests do not wait. A thread that has handed a request to
/// another thread can serve another client's request in the meantime.
const BUSY_CLIENTS: usize = 4;
/// Number of clients per thread if requests mostly wait.
const WAITING_CLIENTS: usize = 32;
/// Warm-up of scenarios that mostly compute, as CPU time of each core. V8 takes longer to optimize
/// their code.
const COMPUTING_WARM_UP: Duration = Duration::from_millis(800);
const WARM_UP: Duration = Duration::from_millis(300);
/// Warm-up of scenarios that mostly wait. They use little CPU time, but this warm-up is long enough
/// to open every connection.
const WAITING_WARM_UP: Duration = Duration::from_millis(100);
/// Number of threads in the contention scenarios. It is that of OpenWorkers' published benchmark
/// (`verdict.rs`), regardless of the machine.
const CONTENTION_THREADS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// Arithmetic.
    Compute,
    /// Arithmetic, with a new context for each request in a long-lived isolate.
    ComputeInNewContext,
    /// A timer.
    Wait,
    /// A constant response, from the same few Workers.
    Warm,
    /// A constant response, with JavaScript that is optimized by the thread that runs it.
    WarmAtOnce,
    /// A fetch from a slow origin.
    Fetch,
    /// A constant response, from one isolate that many threads use.
    OneIsolate,
    /// A constant response, from one isolate for each thread.
    IsolateEach,
}

impl Scenario {
    /// Returns the architectures that the scenario is measured for.
    pub fn contenders(self) -> &'static [Architecture] {
        use Architecture::{Handed, Legacy, Pinned, SharedHeld, SharedReleased, Tenon};
        match self {
            Self::Compute | Self::Warm => {
                &[Legacy, SharedHeld, SharedReleased, Pinned, Handed, Tenon]
            }
            Self::ComputeInNewContext => &[SharedHeld, Pinned],
            Self::WarmAtOnce => &[SharedHeld, SharedReleased, Pinned],
            Self::Wait | Self::Fetch => &[Legacy, SharedHeld, SharedReleased, Pinned, Handed],
            // One isolate belongs to one thread, so all other threads have to hand over their
            // requests.
            Self::OneIsolate => &[Legacy, SharedHeld, SharedReleased, Handed],
            Self::IsolateEach => &[SharedHeld, SharedReleased, Pinned],
        }
    }

    /// Returns the shape of the scenario on this machine.
    pub fn shape(self) -> Shape {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (threads, clients, workers) = match self {
            Self::Compute | Self::ComputeInNewContext | Self::Warm | Self::WarmAtOnce => {
                (cores, BUSY_CLIENTS, WORKERS * cores)
            }
            Self::Wait | Self::Fetch => (cores, WAITING_CLIENTS, WORKERS * cores),
            Self::OneIsolate => (CONTENTION_THREADS, 1, 1),
            Self::IsolateEach => (CONTENTION_THREADS, 1, CONTENTION_THREADS),
        };
        let (source, warm_up) = match self {
            Self::Compute | Self::ComputeInNewContext => {
                (include_str!("js/compute.js"), COMPUTING_WARM_UP)
            }
            Self::Wait => (include_str!("js/wait.js"), WAITING_WARM_UP),
            Self::Fetch => (include_str!("js/fetch.js"), WAITING_WARM_UP),
            Self::Warm | Self::WarmAtOnce | Self::OneIsolate | Self::IsolateEach => {
                (include_str!("js/hello.js"), WARM_UP)
            }
        };
        let flags = match self {
            Self::WarmAtOnce => "--no-concurrent-recompilation",
            _ => "",
        };
        let workers = Arc::new(Workers::new(workers, threads));
        Shape {
            threads,
            clients,
            source,
            new_context: self == Self::ComputeInNewContext,
            flags,
            warm_up,
            workers,
        }
    }
}

/// Formats the title for the table.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape();
        let clients = shape.threads * shape.clients;
        match self {
            Self::Compute => write!(f, "CPU-bound, {clients} clients"),
            Self::ComputeInNewContext => write!(f, "CPU-bound, a new context for each request"),
            Self::Wait => write!(f, "5 ms of I/O, {clients} clients"),
            Self::Warm => {
                write!(f, "warm, {} Workers, {clients} clients", shape.workers.all().len())
            }
            Self::WarmAtOnce => write!(f, "warm, optimized by the running thread"),
            Self::Fetch => write!(f, "fetch that takes 20 ms, {clients} clients"),
            Self::OneIsolate => write!(f, "contention: {clients} threads, 1 isolate"),
            Self::IsolateEach => write!(f, "no contention: {clients} threads, {clients} isolates"),
        }
    }
}

/// The settings of a scenario.
pub struct Shape {
    /// Number of threads at which requests arrive.
    pub threads: usize,
    /// Number of clients per thread. Each client has one request in flight.
    pub clients: usize,
    /// The source of every Worker.
    pub source: &'static str,
    /// Whether each request has a context of its own.
    pub new_context: bool,
    /// V8 flags in addition to Tenon's.
    pub flags: &'static str,
    /// CPU time of each core before the measurement.
    pub warm_up: Duration,
    pub workers: Arc<Workers>,
}

/// The Workers by thread. The hash of a Worker's id selects the thread that owns the Worker.
pub struct Workers {
    by_thread: Vec<Vec<WorkerId>>,
}

impl Workers {
    /// Selects `count` Workers for `threads`, with the first ids that spread evenly over the
    /// threads, because this comparison is not about how evenly ids hash. If there are fewer
    /// Workers than threads, arbitrary threads own them.
    fn new(count: usize, threads: usize) -> Self {
        let most = count.div_ceil(threads);
        let mut by_thread = vec![Vec::new(); threads];
        let ids = (0..).map(|n| WorkerId::from(format!("bench/worker-{n}")));
        let mut missing = count;
        for id in ids {
            if missing == 0 {
                break;
            }
            let of_thread: &mut Vec<_> = &mut by_thread[hash(&id) % threads];
            if of_thread.len() < most {
                of_thread.push(id);
                missing -= 1;
            }
        }
        Self { by_thread }
    }

    /// Returns the Workers that this thread owns.
    pub fn of(&self, thread: usize) -> &[WorkerId] {
        &self.by_thread[thread]
    }

    pub fn all(&self) -> Vec<WorkerId> {
        self.by_thread.concat()
    }

    /// Returns the thread that owns a Worker.
    pub fn owner(&self, id: &WorkerId) -> usize {
        hash(id) % self.by_thread.len()
    }
}

fn hash(id: &WorkerId) -> usize {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(id.as_bytes());
    hasher.finish() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_the_same_number_of_workers() {
        let workers = Workers::new(12, 3);
        assert!((0..3).all(|thread| workers.of(thread).len() == 4));
        assert!(
            (0..3).all(|thread| workers.of(thread).iter().all(|id| workers.owner(id) == thread))
        );
    }

    #[test]
    fn one_of_many_threads_owns_a_single_worker() {
        let workers = Workers::new(1, 8);
        let [only] = &workers.all()[..] else { panic!("expected one Worker") };
        assert_eq!(workers.of(workers.owner(only)), std::slice::from_ref(only));
    }
}
