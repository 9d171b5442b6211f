//! The process-wide part of V8: its initialization, and the tasks that it posts for an isolate's
//! own thread.
//!
//! ```text
//!  any V8 pool thread ──post──► Foreground of the isolate ──wakes──► its event loop ──► a turn
//! ```
//!
//! V8 posts tasks from any thread: parts of garbage collections, finished compilations,
//! `FinalizationRegistry` callbacks, and delayed tasks that shrink an idle heap. The event loop
//! gives the tasks separate turns, after the response of a turn that has posted them has been
//! written.

#![allow(unsafe_code)] // Reads the addresses by which V8 names isolates when it posts tasks.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Once};
use std::time::Duration;

use super::background;
use super::flags::FLAGS;
use super::foreground::{self, Addresses};
use super::wasm;

/// Whether the linked V8 is Tenon's own build, with pointer compression and the patches of
/// `runtime-node/v8/patches`. That build exists only for x86-64 Linux. On other platforms, the
/// linked V8 is the library that the crate `v8` publishes.
pub const IS_PATCHED: bool = cfg!(patched_v8);

/// Initializes V8 for the process. Further calls do nothing.
///
/// The first call must be on the main thread, before any other thread is started: if the processor
/// has memory protection keys, a thread that is older than V8's initialization crashes when it
/// first runs JavaScript.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        v8::V8::set_flags_from_string(FLAGS);
        wasm::memory::watch();
        // Without this, V8 would open and read a file for each isolate's hash seed.
        v8::V8::set_entropy_source(|bytes| getrandom::fill(bytes).is_ok());
        let before = background::threads();
        let platform =
            v8::new_custom_platform(background_threads(), false, false, TaskRouter).make_shared();
        background::yield_to_others(&before);
        v8::V8::initialize_platform(platform);
        v8::V8::initialize();
    });
}

/// Returns the number of threads for optimizing compilation. They are few, because they compete
/// with the shards, which have a core each.
fn background_threads() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 4) as u32
}

/// The task queue of one isolate.
pub(crate) type Foreground = foreground::Foreground<v8::Task>;

/// The isolate's own handle to its queue, which must be dropped after the isolate.
pub(crate) struct Tasks {
    queue: Arc<Foreground>,
    address: usize,
}

thread_local! {
    /// The queue of the isolate that this thread is making.
    static MAKING: RefCell<Option<Arc<Foreground>>> = const { RefCell::new(None) };
}

static ADDRESSES: LazyLock<Addresses<v8::Task>> = LazyLock::new(Addresses::default);

impl Tasks {
    /// Makes an isolate with `make`, and a queue for the tasks that V8 posts for the isolate, even
    /// from the isolate's constructor.
    pub(crate) fn while_making(
        make: impl FnOnce() -> v8::OwnedIsolate,
    ) -> (v8::OwnedIsolate, Self) {
        let queue = Arc::<Foreground>::default();
        let making = Making::begin(&queue);
        let isolate = make();
        drop(making);
        // SAFETY: `UnsafeRawIsolatePtr` is `repr(transparent)` over the isolate's address, which is
        // only compared.
        let address: usize = unsafe { std::mem::transmute(isolate.as_raw_isolate_ptr()) };
        ADDRESSES.register(address, Arc::clone(&queue));
        (isolate, Self { queue, address })
    }

    pub(crate) fn foreground(&self) -> Arc<Foreground> {
        Arc::clone(&self.queue)
    }

    /// Returns whether a task without a delay needs a turn.
    pub(crate) fn are_urgent(&self) -> bool {
        self.queue.is_urgent()
    }

    /// Wakes the event loop, which gives urgent tasks a turn.
    pub(crate) fn wake(&self) {
        self.queue.wake();
    }

    /// Removes and returns the tasks that need a turn now. The caller runs them inside the isolate.
    pub(crate) fn take_due(&self) -> Vec<v8::Task> {
        self.queue.take_due()
    }

    /// Drops the waiting tasks and refuses new ones. The caller calls this before the isolate is
    /// disposed of.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Unregisters the queue. The caller calls this after the isolate has been disposed of, when
    /// the isolate's address may be reused.
    pub(crate) fn leave(&self) {
        ADDRESSES.unregister(self.address, &self.queue);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A guard that marks this thread as making an isolate.
struct Making;

impl Making {
    fn begin(queue: &Arc<Foreground>) -> Self {
        MAKING.set(Some(Arc::clone(queue)));
        Self
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        drop(MAKING.take());
    }
}

/// Maximum delay of a task. Longer delays are shortened to this one.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// V8's platform, which delivers each task to its isolate's queue.
struct TaskRouter;

impl TaskRouter {
    fn post(isolate: *mut c_void, task: v8::Task, delay: Option<Duration>) {
        let making = MAKING.try_with(|making| making.borrow().clone()).ok().flatten();
        ADDRESSES.post(isolate.addr(), making.as_ref(), task, delay);
    }
}

impl v8::PlatformImpl for TaskRouter {
    fn post_task(&self, isolate: *mut c_void, task: v8::Task) {
        Self::post(isolate, task, None);
    }

    fn post_non_nestable_task(&self, isolate: *mut c_void, task: v8::Task) {
        Self::post(isolate, task, None);
    }

    fn post_delayed_task(&self, isolate: *mut c_void, task: v8::Task, delay_in_seconds: f64) {
        let delay = Duration::try_from_secs_f64(delay_in_seconds)
            .map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY));
        Self::post(isolate, task, Some(delay));
    }

    fn post_non_nestable_delayed_task(
        &self,
        isolate: *mut c_void,
        task: v8::Task,
        delay_in_seconds: f64,
    ) {
        self.post_delayed_task(isolate, task, delay_in_seconds);
    }

    fn post_idle_task(&self, _isolate: *mut c_void, _task: v8::IdleTask) {
        // The platform reports that it has no idle tasks, so V8 posts none.
    }
}
