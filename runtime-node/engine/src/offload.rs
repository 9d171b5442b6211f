//! Runs long computations on separate threads, because they would otherwise block a shard's thread
//! and its other Workers.
//!
//! ```text
//!   shard ── submit ─► parts │ Worker a: ▪▪▪   ─► thread 0: a part for each Worker in turn
//!                            │ Worker b: ▪
//!                      whole │ Worker a: ▪▪    ─► threads 1…n: whole work, or else a part
//!   shard ◄── a future of the result and of its CPU time
//! ```
//!
//! Workers take turns, however much work each submits. Work that is divisible into parts yields
//! after each part; indivisible work never occupies all threads. Work whose result is no longer
//! wanted is not begun, or is dropped between two parts. The threads are started on first use, and
//! have a lower priority than the shards' threads.
//!
//! The CPU time of the work counts against the invocation's CPU limit: one [`Meter`] covers all of
//! the invocation's work in progress.
//!
//! This module does not depend on V8.

#![allow(unsafe_code)] // Sets the scheduling priority of a thread.

mod fair;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tenon_proto::id::WorkerId;
use tokio::sync::oneshot;

use super::cpu_clock::CpuClock;
use fair::FairQueue;

/// CPU time that a part may take before it yields.
const PART: Duration = Duration::from_millis(5);

/// Niceness of these threads: on a contended processor, the kernel gives each of them about a third
/// of the time that it gives to the busy thread of a shard.
const NICE: libc::c_int = 5;

/// The kind of queue in which work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Work that yields when its slice is over, or finishes within a few milliseconds.
    Parts,
    /// Work that runs until it is finished.
    Whole,
}

/// The error of work that is refused because too much work of its Worker, or too much work in
/// total, is waiting already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many operations are queued; await some of them before starting more")]
pub struct QueueFull;

/// The CPU time that an invocation may still use, which all of its work in progress shares.
pub struct Meter(AtomicU64);

impl Meter {
    /// Creates a meter with this much CPU time left.
    pub fn new(left: Duration) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(left.as_nanos().try_into().unwrap_or(u64::MAX))))
    }

    fn left(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn take(&self, cpu: Duration) {
        let cpu = cpu.as_nanos().try_into().unwrap_or(u64::MAX);
        let less = |left: u64| Some(left.saturating_sub(cpu));
        // The closure always returns `Some`, so the update cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// The time for which a piece of work may use a thread.
pub struct Slice<'a> {
    clock: CpuClock,
    began: Duration,
    left: Duration,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Slice<'_> {
    fn used(&self) -> Duration {
        self.clock.now().saturating_sub(self.began)
    }

    /// Returns whether the work must yield to other work.
    pub fn is_over(&self) -> bool {
        self.used() >= PART.min(self.left)
    }

    /// Returns whether the result is still wanted and CPU time is left to compute it.
    pub fn is_worth_it(&self) -> bool {
        self.used() < self.left && (self.is_wanted)()
    }
}

/// The result of a piece of work.
#[derive(Debug)]
pub struct Done<T> {
    /// `None` if the work ended early because the invocation had no CPU time left.
    pub value: Option<T>,
    /// CPU time that the work used.
    pub cpu: Duration,
}

/// Runs `work` on another thread. Returns a future of the result, which is `None` if the work
/// panicked. Dropping the future discards the result, and removes work that has not begun.
///
/// # Arguments
/// * `worker` - the Worker whose queue the work joins.
/// * `work` - a function that is called until it returns a result; `None` means that there is more
///   to do. In the queue of whole work, the function is called once, and `None` means that it gave
///   up, which it should do once [`Slice::is_worth_it`] is false.
///
/// # Errors
/// Fails if too much work is waiting.
pub fn submit<T: Send + 'static>(
    worker: WorkerId,
    meter: Arc<Meter>,
    kind: QueueKind,
    work: impl FnMut(&Slice<'_>) -> Option<T> + Send + 'static,
) -> Result<impl Future<Output = Option<Done<T>>> + 'static, QueueFull> {
    let (done_tx, done_rx) = oneshot::channel();
    let waiting = Waiting { done_rx, worker: worker.clone(), kind };
    let task = Task { work, done_tx: Some(done_tx), spent: Duration::ZERO, meter, kind };
    pool().put(worker, kind, Box::new(task))?;
    Ok(waiting)
}

/// A future of the result of a piece of work: `None` if the work panicked.
struct Waiting<T> {
    done_rx: oneshot::Receiver<Done<T>>,
    worker: WorkerId,
    kind: QueueKind,
}

impl<T> Future for Waiting<T> {
    type Output = Option<Done<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done_rx).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Waiting<T> {
    /// Immediately removes work that is no longer wanted and has not begun, because it may hold a
    /// lot of memory.
    fn drop(&mut self) {
        if !self.done_rx.is_terminated() {
            self.done_rx.close();
            pool().remove_unwanted(&self.worker, self.kind);
        }
    }
}

/// A piece of work of any result type.
trait Job: Send {
    /// Runs one slice of the work. Returns whether the work is finished.
    fn run_slice(&mut self, clock: CpuClock) -> bool;
    fn is_wanted(&self) -> bool;
}

struct Task<T, W> {
    work: W,
    done_tx: Option<oneshot::Sender<Done<T>>>,
    spent: Duration,
    meter: Arc<Meter>,
    kind: QueueKind,
}

impl<T: Send, W: FnMut(&Slice<'_>) -> Option<T> + Send> Job for Task<T, W> {
    fn run_slice(&mut self, clock: CpuClock) -> bool {
        let Some(done_tx) = self.done_tx.as_ref() else { return true };
        let is_wanted = || !done_tx.is_closed();
        let slice =
            Slice { clock, began: clock.now(), left: self.meter.left(), is_wanted: &is_wanted };
        let value = if slice.left.is_zero() { None } else { (self.work)(&slice) };
        let used = slice.used();
        self.meter.take(used);
        self.spent += used;
        if value.is_none() && self.kind == QueueKind::Parts && !self.meter.left().is_zero() {
            return false;
        }
        if let Some(done_tx) = self.done_tx.take() {
            // If the result is no longer wanted, the receiver has closed the channel.
            let _ = done_tx.send(Done { value, cpu: self.spent });
        }
        true
    }

    fn is_wanted(&self) -> bool {
        self.done_tx.as_ref().is_some_and(|done_tx| !done_tx.is_closed())
    }
}

type Queue = FairQueue<WorkerId, Box<dyn Job>>;

struct ThreadPool {
    queues: Mutex<Queues>,
    has_work: Condvar,
}

#[derive(Default)]
struct Queues {
    parts: Queue,
    whole: Queue,
}

impl Queues {
    fn of(&mut self, kind: QueueKind) -> &mut Queue {
        match kind {
            QueueKind::Parts => &mut self.parts,
            QueueKind::Whole => &mut self.whole,
        }
    }

    /// Removes the next piece of work, trying the queues in `order`.
    fn next(&mut self, order: &[QueueKind]) -> Option<(WorkerId, QueueKind, Box<dyn Job>)> {
        order.iter().find_map(|kind| self.of(*kind).pop().map(|(worker, job)| (worker, *kind, job)))
    }
}

/// Returns the pool, which all shards of the process share.
fn pool() -> &'static ThreadPool {
    static POOL: ThreadPool = ThreadPool {
        queues: Mutex::new(Queues { parts: FairQueue::new(), whole: FairQueue::new() }),
        has_work: Condvar::new(),
    };
    static THREADS: OnceLock<()> = OnceLock::new();
    THREADS.get_or_init(|| {
        // There is one thread for parts, and for whole work one for every four processors, but at
        // least one.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..=(processors / 4).max(1) {
            let kinds: &[QueueKind] = if number == 0 {
                &[QueueKind::Parts]
            } else {
                &[QueueKind::Whole, QueueKind::Parts]
            };
            let thread = std::thread::Builder::new().name(format!("offload-{number}"));
            let thread = thread.spawn(move || POOL.work(kinds));
            thread.expect("cannot start a thread for offloaded work");
        }
    });
    &POOL
}

impl ThreadPool {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // No code panics while it holds the lock, and a panic would leave consistent queues.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, worker: WorkerId, kind: QueueKind, job: Box<dyn Job>) -> Result<(), QueueFull> {
        let mut queues = self.lock();
        let put = queues.of(kind).push(worker, job);
        drop(queues);
        self.wake(kind);
        put.map_err(|_job| QueueFull)
    }

    /// Wakes threads that can take work of this queue.
    fn wake(&self, kind: QueueKind) {
        match kind {
            QueueKind::Parts => self.has_work.notify_one(),
            QueueKind::Whole => self.has_work.notify_all(),
        }
    }

    fn remove_unwanted(&self, worker: &WorkerId, kind: QueueKind) {
        let unwanted = self.lock().of(kind).remove(worker, |job| !job.is_wanted());
        // The work is dropped after the lock has been released.
        drop(unwanted);
    }

    fn work(&self, kinds: &[QueueKind]) {
        // SAFETY: the arguments are only numbers, and 0 is the calling thread, which may always
        // lower its priority.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        let clock = CpuClock::of_this_thread();
        let mut queues = self.lock();
        loop {
            let Some((worker, kind, mut job)) = queues.next(kinds) else {
                queues = self.has_work.wait(queues).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queues);
            let is_done = !job.is_wanted()
                || catch_unwind(AssertUnwindSafe(|| job.run_slice(clock))).unwrap_or(true);
            let job = (!is_done).then_some(job);
            queues = self.lock();
            if let Some(job) = job {
                queues.of(kind).put_back(worker, job);
                self.wake(kind);
            }
        }
    }
}

#[cfg(test)]
mod tests;
