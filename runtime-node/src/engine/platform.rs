//! V8's process-wide part: initialisation, and the tasks that V8 posts for an isolate's own thread.
//!
//! ```text
//!  any thread of V8's pool ──post──► Foreground of that isolate ──wakes──► its event loop ──► a turn
//! ```
//!
//! V8 posts such tasks from anywhere: pieces of garbage collection, compilations that have finished,
//! `FinalizationRegistry` callbacks. They wait here until the isolate's next turn ends, and a task without a delay
//! also asks for a turn. Delayed ones are V8's housekeeping and need none.

#![allow(unsafe_code)] // Reads the address of an isolate, which is how V8 names it when it posts.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use rustc_hash::FxHashMap;

use super::flags::FLAGS;
use super::wasm;

/// Initialises V8 for the process. Idempotent.
///
/// Call it on the main thread before any other thread is made: where the processor has memory protection keys, a
/// thread that is older than V8's initialisation dies the first time it runs JavaScript.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        v8::V8::set_flags_from_string(FLAGS);
        wasm::pages::watch();
        // V8 itself would open and read a file for each isolate's hash seed.
        v8::V8::set_entropy_source(|bytes| getrandom::fill(bytes).is_ok());
        let platform = v8::new_custom_platform(background_threads(), false, false, Router).make_shared();
        v8::V8::initialize_platform(platform);
        v8::V8::initialize();
    });
}

/// Threads for optimising compilation. They compete with the shards, which have a core each, so they are few.
fn background_threads() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 4) as u32
}

/// The tasks that wait for one isolate's thread.
pub(super) struct Foreground {
    key: usize,
    queue: Mutex<Queue>,
    /// Whether a task without a delay waits: one load on the path of every turn.
    urgent: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<(Option<Instant>, v8::Task)>,
    /// After this nothing is taken: a task must not outlive its isolate.
    closed: bool,
}

/// An isolate's own end of its queue. Drop it after the isolate: then the address may be another's.
pub(super) struct Tasks(Arc<Foreground>);

impl Tasks {
    pub(super) fn of(isolate: &v8::Isolate) -> Self {
        // SAFETY: `UnsafeRawIsolatePtr` is `repr(transparent)` over the isolate's address, which is only compared.
        let key: usize = unsafe { std::mem::transmute(isolate.as_raw_isolate_ptr()) };
        Self(Foreground::at(key))
    }

    pub(super) fn foreground(&self) -> Arc<Foreground> {
        Arc::clone(&self.0)
    }

    /// Whether a turn is wanted for a task.
    pub(super) fn are_urgent(&self) -> bool {
        self.0.urgent.load(Ordering::Acquire)
    }

    /// What is due now. The caller runs it inside the isolate.
    pub(super) fn take_due(&self) -> Vec<v8::Task> {
        let mut queue = lock(&self.0.queue);
        self.0.urgent.store(false, Ordering::Release);
        let now = Instant::now();
        let due = queue.tasks.extract_if(.., |(due, _)| due.is_none_or(|due| due <= now));
        due.map(|(_, task)| task).collect()
    }

    /// Drops what waits and takes nothing more. Call before the isolate is disposed of.
    pub(super) fn close(&self) {
        let tasks = {
            let mut queue = lock(&self.0.queue);
            queue.closed = true;
            std::mem::take(&mut queue.tasks)
        };
        drop(tasks);
    }

    /// Call when the isolate has been disposed of: from now on the address may be another's.
    pub(super) fn leave(&self) {
        let mut isolates = lock(&ISOLATES);
        if isolates.get(&self.0.key).is_some_and(|queue| Arc::ptr_eq(queue, &self.0)) {
            isolates.remove(&self.0.key);
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.leave();
    }
}

/// By the isolate's address. V8 knows isolates by nothing else, and posts for one before its constructor returns.
static ISOLATES: LazyLock<Mutex<FxHashMap<usize, Arc<Foreground>>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks, and the data would be whole if it did.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Foreground {
    fn at(key: usize) -> Arc<Self> {
        let make = || {
            Arc::new(Self { key, queue: Mutex::default(), urgent: AtomicBool::new(false), waker: AtomicWaker::new() })
        };
        lock(&ISOLATES).entry(key).or_insert_with(make).clone()
    }

    /// Ready when a turn is wanted for a task.
    pub(super) fn poll_urgent(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.urgent.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn post(&self, task: v8::Task, delay: Option<Duration>) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            return;
        }
        queue.tasks.push((delay.map(|delay| Instant::now() + delay), task));
        drop(queue);
        if delay.is_none() {
            self.urgent.store(true, Ordering::Release);
            self.waker.wake();
        }
    }
}

/// Takes each task to its isolate's queue.
struct Router;

impl v8::PlatformImpl for Router {
    fn post_task(&self, isolate: *mut c_void, task: v8::Task) {
        Foreground::at(isolate.addr()).post(task, None);
    }

    fn post_non_nestable_task(&self, isolate: *mut c_void, task: v8::Task) {
        self.post_task(isolate, task);
    }

    fn post_delayed_task(&self, isolate: *mut c_void, task: v8::Task, delay_in_seconds: f64) {
        let delay = Duration::try_from_secs_f64(delay_in_seconds).unwrap_or(Duration::MAX / 4);
        Foreground::at(isolate.addr()).post(task, Some(delay));
    }

    fn post_non_nestable_delayed_task(&self, isolate: *mut c_void, task: v8::Task, delay_in_seconds: f64) {
        self.post_delayed_task(isolate, task, delay_in_seconds);
    }

    fn post_idle_task(&self, _isolate: *mut c_void, _task: v8::IdleTask) {
        // The platform says that it has no idle tasks, so none are posted.
    }
}
