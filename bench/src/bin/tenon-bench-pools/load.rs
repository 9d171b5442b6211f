//! Runs the clients, which are identical for every architecture. Each client has one request in
//! flight at all times.
//!
//! ```text
//!  coordinator ─┬─ thread 0: event loop ─┬─ server of the architecture on this thread
//!               │                        └─ clients, tasks
//!               └─ thread n …
//!
//!  all built ──► warm-up ──► measured ──► stop: requests in flight still count
//! ```
//!
//! A client runs on a thread that serves, as a connection does. The measurement therefore covers
//! only what happens between the arrival of a request and its response: the cost of the
//! architecture.

use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};

use crate::histogram::Histogram;
use crate::measurement::Measurement;
use crate::scenario::{Shape, WorkerId};
use crate::turn::{Request, Response};
use crate::usage;

/// The interval at which the coordinator checks the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A warm-up takes at most this many times as long as it would on an otherwise idle machine.
const MAX_STRETCH: u32 = 4;
/// The time after which a client yields to the other clients of its thread, even if the server
/// answers each request immediately.
const SLICE: Duration = Duration::from_micros(50);

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const STOP: u8 = 2;

/// The length of a measurement.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Window {
    /// Minimum duration of a measurement, in milliseconds.
    #[arg(long, global = true, default_value_t = 400)]
    measured: u64,

    /// Minimum number of requests of a measurement.
    #[arg(long, global = true, default_value_t = 700)]
    requests: u64,
}

impl Window {
    /// Returns the window as command-line options for another process.
    pub fn to_args(self) -> [String; 4] {
        let Self { measured, requests } = self;
        let pairs = [("--measured", measured), ("--requests", requests)];
        pairs
            .map(|(name, value)| [name.to_owned(), value.to_string()])
            .concat()
            .try_into()
            .expect("two pairs are four arguments")
    }
}

/// The server of an architecture on one thread.
pub trait Server {
    /// Returns the Workers that clients on this thread send requests to.
    fn workers(&self) -> &[WorkerId];

    async fn serve(&self, worker: &WorkerId, request: Request) -> Response;
}

/// The state that the threads of a load share.
struct SharedState {
    phase: AtomicU8,
    built: Barrier,
    answered: Vec<Counter>,
    latencies: Mutex<Histogram>,
}

/// A counter on a cache line of its own, which avoids false sharing between threads.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// A scenario that is ready to be run with an architecture.
pub struct Load {
    shape: Shape,
    window: Window,
    /// Resident memory before the first isolate, in bytes.
    before: u64,
}

impl Load {
    /// Prepares a scenario. This function must be called after V8 is initialized and before the
    /// first isolate is created.
    ///
    /// # Errors
    /// Fails if the memory of the process cannot be read.
    pub fn new(shape: Shape, window: Window) -> anyhow::Result<Self> {
        Ok(Self { shape, window, before: usage::resident()? })
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Runs the load against an architecture. `build` creates its server on each thread.
    ///
    /// # Errors
    /// Fails if the CPU time or the memory of the process cannot be read.
    pub fn run<S: Server + 'static>(
        &self,
        build: impl AsyncFn(usize) -> S + Sync,
    ) -> anyhow::Result<Measurement> {
        let Shape { threads, clients, .. } = self.shape;
        let state = Arc::new(SharedState {
            phase: AtomicU8::new(WARM_UP),
            built: Barrier::new(threads + 1),
            answered: (0..threads).map(|_| Counter::default()).collect(),
            latencies: Mutex::default(),
        });
        let (common, build) = (&state, &build);
        let measured = thread::scope(|scope| {
            for index in 0..threads {
                scope.spawn(move || serve(common, index, clients, build));
            }
            state.built.wait();
            let measured = self.coordinate(&state);
            state.phase.store(STOP, Ordering::Relaxed);
            measured
        })?;
        Ok(Measurement {
            latencies: lock(&state.latencies).clone(),
            throughput: measured.requests as f64 / measured.lasted.as_secs_f64(),
            cpu: measured.cpu.div_f64(measured.requests.max(1) as f64),
            memory: measured.memory.saturating_sub(self.before),
        })
    }

    /// Starts the measurement, and ends it after enough time and requests.
    fn coordinate(&self, state: &SharedState) -> anyhow::Result<Measured> {
        let answered = || {
            state.answered.iter().map(|Counter(count)| count.load(Ordering::Relaxed)).sum::<u64>()
        };
        self.warm_up()?;
        let (began, count, cpu) = (Instant::now(), answered(), usage::cpu()?);
        state.phase.store(MEASURED, Ordering::Relaxed);
        let mut memory = 0;
        loop {
            thread::sleep(POLL_INTERVAL);
            memory = memory.max(usage::resident()?);
            let (lasted, requests) = (began.elapsed(), answered() - count);
            if lasted >= Duration::from_millis(self.window.measured)
                && requests >= self.window.requests
            {
                return Ok(Measured { requests, lasted, cpu: usage::cpu()? - cpu, memory });
            }
        }
    }

    /// Waits until the threads have used the CPU for the length of the warm-up, so that V8 has
    /// optimized the code even on a machine with other load. Threads that mostly wait never use
    /// that much CPU time, so this function also has a time limit.
    fn warm_up(&self) -> anyhow::Result<()> {
        let cores =
            thread::available_parallelism().map_or(1, usize::from).min(self.shape.threads) as u32;
        let (began, cpu) = (Instant::now(), usage::cpu()?);
        while usage::cpu()? - cpu < self.shape.warm_up * cores
            && began.elapsed() < self.shape.warm_up * MAX_STRETCH
        {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

struct Measured {
    requests: u64,
    lasted: Duration,
    cpu: Duration,
    memory: u64,
}

/// Builds the server of a thread, and runs the clients of the thread.
fn serve<S: Server + 'static>(
    state: &Arc<SharedState>,
    index: usize,
    clients: usize,
    build: &impl AsyncFn(usize) -> S,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("cannot create the runtime of a thread");
    let local = LocalSet::new();
    let latencies = local.block_on(&runtime, async {
        let server = Rc::new(build(index).await);
        state.built.wait();
        let mut running = JoinSet::new();
        for client in 0..clients {
            running.spawn_local(run_client(Arc::clone(state), index, client, Rc::clone(&server)));
        }
        let mut all = Histogram::default();
        while let Some(histogram) = running.join_next().await {
            all.add(&histogram.expect("a client panicked"));
        }
        all
    });
    // The server is dropped, so its background tasks end.
    runtime.block_on(local);
    lock(&state.latencies).add(&latencies);
}

/// Sends requests until the load stops, and returns the latencies of the measured ones.
async fn run_client<S: Server>(
    state: Arc<SharedState>,
    index: usize,
    client: usize,
    server: Rc<S>,
) -> Histogram {
    let mut latencies = Histogram::default();
    // With this seed, a client makes the same choices in every run.
    let mut random = fastrand::Rng::with_seed((index << 16 | client) as u64);
    let workers = server.workers();
    let mut since = Instant::now();
    loop {
        let phase = state.phase.load(Ordering::Relaxed);
        if phase == STOP {
            return latencies;
        }
        let worker = &workers[random.usize(..workers.len())];
        let began = Instant::now();
        let response = server.serve(worker, Request::to(worker)).await;
        let answered = Instant::now();
        assert_eq!(response.status, 200, "{worker} responded with an error");
        state.answered[index].0.fetch_add(1, Ordering::Relaxed);
        if phase == MEASURED {
            latencies.record(answered - began);
        }
        if answered - since >= SLICE {
            tokio::task::yield_now().await;
            since = Instant::now();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
