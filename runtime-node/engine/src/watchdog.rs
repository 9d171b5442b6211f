//! The thread that terminates a turn when the turn has used more CPU time than its invocation had
//! left.
//!
//! ```text
//! shard 0 ── arm ─► TurnTimer ┐                   at each inspection,
//! shard 1 ── arm ─► TurnTimer ┼─► watchdog thread   for each armed timer:
//! shard n ── arm ─► TurnTimer ┘                       CPU clock past the deadline? terminate, mark
//! ```
//!
//! A shard arms its timer when a turn begins and disarms the timer when the turn ends. The shard
//! and the watchdog access the timer under the timer's lock. So the watchdog cannot terminate a
//! turn that has ended, and [`TurnGuard::end`] reports reliably whether the watchdog terminated the
//! turn. V8's own flag for a termination is not used, because V8 clears the flag while frames
//! unwind. Some functions of V8 mistake a termination for an exception, and the turn continues. So
//! the watchdog terminates a turn that is past its deadline again at each inspection.
//!
//! CPU time runs no faster than wall-clock time, so no turn has to be inspected before its
//! remaining budget could have elapsed. Between two inspections the watchdog sleeps. A turn that
//! may reach its deadline before the next inspection wakes the watchdog. If no turn has begun for a
//! while, every turn wakes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::cpu_clock::{CpuClock, TurnClock, TurnStart};
use crate::page::Page;

/// Minimum sleep between two inspections. A turn can exceed its limit by this duration.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// Maximum sleep while new turns continue to begin. The budget of most turns is longer than this
/// duration, so few turns have to wake the watchdog. A turn that wakes the watchdog spends a few
/// microseconds on it, and an inspection costs a little more.
const MAX_SLEEP: Duration = Duration::from_millis(5);

/// Number of consecutive sleeps without a turn after which the watchdog parks until a turn begins.
const IDLE_SLEEPS: u32 = 20;

/// The process-wide watchdog. Its thread ends when every clone and every [`TurnTimer`] is dropped.
#[derive(Clone)]
pub struct Watchdog(Arc<Registry>);

/// The timers of all shards, and the watchdog's thread.
struct Registry {
    timers: Mutex<Vec<Weak<TurnTimer>>>,
    /// Time for which the watchdog sleeps unless a turn wakes it, in milliseconds; 0 if it has been
    /// woken.
    sleep_ms: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Watchdog {
    /// Starts the thread. The caller calls this after [`super::init`].
    ///
    /// # Panics
    /// Panics if the operating system cannot start the thread, because no CPU limit would be
    /// enforced without the thread.
    pub fn spawn() -> Self {
        let registry = Arc::new(Registry {
            timers: Mutex::default(),
            sleep_ms: AtomicU64::new(0),
            thread: OnceLock::new(),
        });
        let weak = Arc::downgrade(&registry);
        let thread =
            std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || run(&weak));
        let thread = thread.expect("the operating system cannot start the watchdog's thread");
        registry.thread.get_or_init(|| thread.thread().clone());
        Self(registry)
    }

    /// Creates and registers a timer for the turns of the calling thread. The watchdog records in
    /// the page how long a turn has continued after its termination.
    pub(crate) fn register(&self, page: Option<Arc<Page>>) -> Arc<TurnTimer> {
        let clock = CpuClock::of_this_thread();
        let (turn, turns) = (Mutex::new(Turn::new(clock)), AtomicU64::new(0));
        let timer = Arc::new(TurnTimer { clock, page, turn, turns, registry: Arc::clone(&self.0) });
        let mut timers = lock(&self.0.timers);
        timers.retain(|timer| timer.strong_count() > 0);
        timers.push(Arc::downgrade(&timer));
        timer
    }
}

impl Registry {
    fn wake(&self) {
        if self.sleep_ms.swap(0, Ordering::AcqRel) != 0
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Measures the running turn of one shard against its CPU limit.
pub(crate) struct TurnTimer {
    clock: CpuClock,
    page: Option<Arc<Page>>,
    turn: Mutex<Turn>,
    /// Number of turns that have begun.
    turns: AtomicU64,
    registry: Arc<Registry>,
}

/// The state that the lock of a timer protects.
struct Turn {
    clock: TurnClock,
    armed: Option<Armed>,
}

impl Turn {
    fn new(clock: CpuClock) -> Self {
        Self { clock: TurnClock::new(clock), armed: None }
    }
}

struct Armed {
    begun: TurnStart,
    /// The deadline, by the shard thread's CPU clock.
    deadline: Duration,
    isolate: v8::IsolateHandle,
    /// Whether the watchdog has found the turn past its deadline.
    expired: bool,
    /// Whether the isolate has exceeded its memory limit, which also ends the turn.
    exhausted: Arc<AtomicBool>,
    /// The time at which the watchdog first terminated the turn, by the same clock as the deadline.
    terminated_at: Option<Duration>,
}

/// The CPU time of a turn, and whether the turn exceeded its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnCost {
    pub(crate) cpu: Duration,
    /// Whether the watchdog has terminated the turn because of its CPU time. The caller must then
    /// cancel the termination before the next turn.
    pub(crate) expired: bool,
}

/// A turn that the watchdog watches. The turn also ends when the guard is dropped.
#[must_use = "the turn ends when the guard is dropped"]
pub(crate) struct TurnGuard<'a>(&'a TurnTimer);

impl TurnGuard<'_> {
    pub(crate) fn end(self) -> TurnCost {
        let timer = self.0;
        std::mem::forget(self);
        timer.disarm()
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

impl TurnTimer {
    /// Begins a turn of `isolate`. The turn is over when it has used `budget` of CPU time, or when
    /// `exhausted` is set. The caller must call this on the thread that created the timer.
    pub(crate) fn arm(
        &self,
        isolate: v8::IsolateHandle,
        budget: Duration,
        exhausted: Arc<AtomicBool>,
    ) -> TurnGuard<'_> {
        let mut turn = lock(&self.turn);
        let begun = turn.clock.begin();
        let deadline = begun.latest_cpu().saturating_add(budget);
        turn.armed = Some(Armed {
            begun,
            deadline,
            isolate,
            expired: false,
            exhausted,
            terminated_at: None,
        });
        drop(turn);
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // The watchdog stores the duration of its next sleep, and then inspects the timers under
        // their locks. So either the inspection has seen this turn, or the load below sees the
        // stored duration.
        if budget < Duration::from_millis(self.registry.sleep_ms.load(Ordering::Acquire)) {
            self.registry.wake();
        }
        TurnGuard(self)
    }

    /// Replaces the remaining budget of the running turn. Does nothing if no turn runs.
    pub(crate) fn limit(&self, budget: Duration) {
        if let Some(armed) = lock(&self.turn).armed.as_mut() {
            armed.deadline = self.clock.now().saturating_add(budget);
        }
        self.registry.wake();
    }

    fn disarm(&self) -> TurnCost {
        let mut turn = lock(&self.turn);
        let armed = turn.armed.take().expect("no turn is armed");
        let cpu = turn.clock.end(armed.begun);
        drop(turn);
        if armed.terminated_at.is_some() {
            self.page.iter().for_each(|page| page.set_overrun(Duration::ZERO));
        }
        TurnCost { cpu, expired: armed.expired }
    }

    /// Returns whether the running turn has used up its CPU time or its isolate has exceeded the
    /// memory limit. No further work may begin in such a turn.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.turn).armed.as_ref().is_some_and(Armed::is_over)
    }

    /// Terminates the running turn if the turn is over. Returns the CPU time that the turn has
    /// left, or `None` if no turn runs.
    fn inspect(&self) -> Option<Duration> {
        let mut turn = lock(&self.turn);
        let armed = turn.armed.as_mut()?;
        let now = self.clock.now();
        let left = armed.deadline.saturating_sub(now);
        armed.expired |= left.is_zero();
        if armed.is_over() {
            armed.isolate.terminate_execution();
            let terminated_at = *armed.terminated_at.get_or_insert(now);
            self.page.iter().for_each(|page| page.set_overrun(now.saturating_sub(terminated_at)));
            return Some(Duration::ZERO);
        }
        Some(left)
    }
}

/// Returns whether the running turn of the isolate has used up its CPU time, or the isolate has
/// exceeded its memory limit. Native code that computes for a long time asks this from time to
/// time, and gives up, because a termination stops only JavaScript.
pub fn is_turn_over(isolate: &v8::Isolate) -> bool {
    isolate.get_slot::<Arc<TurnTimer>>().is_some_and(|timer| timer.is_over())
}

impl Armed {
    fn is_over(&self) -> bool {
        self.expired || self.exhausted.load(Ordering::Relaxed)
    }
}

/// Inspects the timers until the registry is dropped. This function runs on the watchdog's thread.
fn run(registry: &Weak<Registry>) {
    let (mut seen, mut idle) = (0, 0);
    while let Some(registry) = registry.upgrade() {
        let longest = if idle < IDLE_SLEEPS { MAX_SLEEP } else { Duration::MAX };
        registry
            .sleep_ms
            .store(longest.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Release);
        let Inspection { turns, min_budget } = inspect_all(&registry);
        drop(registry);
        idle = if turns == seen && min_budget.is_none() { idle + 1 } else { 0 };
        seen = turns;
        match min_budget {
            Some(left) => std::thread::park_timeout(left.clamp(MIN_SLEEP, MAX_SLEEP)),
            None if longest == MAX_SLEEP => std::thread::park_timeout(MAX_SLEEP),
            None => std::thread::park(),
        }
    }
}

/// The result of an inspection of all timers.
struct Inspection {
    /// Number of turns that have begun on the existing shards.
    turns: u64,
    /// The smallest remaining budget of the running turns, or `None` if no turn runs.
    min_budget: Option<Duration>,
}

/// Inspects the timers of all shards.
fn inspect_all(registry: &Registry) -> Inspection {
    let timers: Vec<_> = lock(&registry.timers).iter().filter_map(Weak::upgrade).collect();
    let mut inspection = Inspection { turns: 0, min_budget: None };
    for timer in timers {
        inspection.min_budget = inspection.min_budget.into_iter().chain(timer.inspect()).min();
        inspection.turns += timer.turns.load(Ordering::Relaxed);
    }
    inspection
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and a panic would leave consistent data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
