//! The thread that terminates turns which use more CPU time than their invocation has left.
//!
//! ```text
//! shard 0 ── arm ─► TurnTimer ┐                   when the first may be over, while turns run:
//! shard 1 ── arm ─► TurnTimer ┼─► watchdog thread   for each armed timer:
//! shard n ── arm ─► TurnTimer ┘                       CPU clock past the deadline? terminate, mark
//! ```
//!
//! A shard arms its timer when a turn begins and disarms it when the turn ends. Both, and the
//! watchdog's inspection, happen under the timer's lock, so a turn that has been disarmed cannot be
//! terminated, and [`TurnGuard::end`] knows for certain whether its turn was. V8's own flag is
//! not used: it clears while frames unwind, and some of V8's functions mistake a termination for an
//! exception and continue. So a turn that is over is terminated again at each inspection.
//!
//! CPU time runs no faster than wall-clock time, so no turn has to be inspected before its
//! remaining budget could have elapsed. Between two inspections the watchdog sleeps; it is woken by
//! a turn that may be over before the next one, and by any turn if none has begun for a while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::cpu_clock::{CpuClock, TurnClock, TurnStart};
use crate::page::Page;

/// The shortest sleep, and so the time by which a turn can overrun its limit.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// The longest sleep while new turns keep beginning. Most turns may use more CPU time than this, so
/// few have to wake the watchdog, which costs them a few microseconds; each inspection costs the
/// machine a little more than that.
const MAX_SLEEP: Duration = Duration::from_millis(5);

/// The number of sleeps without a new turn after which the watchdog parks until one begins.
const IDLE_SLEEPS: u32 = 20;

/// The process-wide watchdog. Its thread ends when every clone and every [`TurnTimer`] is dropped.
#[derive(Clone)]
pub struct Watchdog(Arc<Registry>);

/// The timers of all shards, and the watchdog's thread.
struct Registry {
    timers: Mutex<Vec<Weak<TurnTimer>>>,
    /// The time for which the watchdog sleeps unless it is woken, in milliseconds.
    sleep_ms: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Watchdog {
    /// Starts the thread. Call it after [`super::init`].
    ///
    /// # Panics
    /// Panics if the operating system cannot start the thread, without which no limit would be
    /// enforced.
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

    /// Creates and registers a timer for the calling thread's turns. The page records a turn that
    /// continues after its termination.
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
    /// The number of turns begun.
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
    expired: bool,
    /// Set when its heap is full, which also ends the turn.
    exhausted: Arc<AtomicBool>,
    /// The time of its first termination, by the same clock as the deadline.
    terminated_at: Option<Duration>,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnCost {
    pub(crate) cpu: Duration,
    /// Set if the watchdog has terminated the turn. The caller must cancel the termination before
    /// the next one.
    pub(crate) expired: bool,
}

/// A turn that is being watched. Dropping it ends the turn as well.
#[must_use = "the turn ends when it is dropped"]
pub(crate) struct TurnGuard<'a>(&'a TurnTimer);

impl TurnGuard<'_> {
    /// Ends the turn.
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
    /// Begins a turn of `isolate` that may use `budget` of CPU time and ends when its heap is
    /// `exhausted`. Must be called on the thread that made the timer.
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
        // The watchdog stores how long it will sleep before it inspects the timers, under their
        // locks: either it saw this turn there, or its store is visible here.
        if budget < Duration::from_millis(self.registry.sleep_ms.load(Ordering::Acquire)) {
            self.registry.wake();
        }
        TurnGuard(self)
    }

    /// Replaces what is left of the running turn's budget, if there is one.
    pub(crate) fn limit(&self, budget: Duration) {
        if let Some(armed) = lock(&self.turn).armed.as_mut() {
            armed.deadline = self.clock.now().saturating_add(budget);
        }
        self.registry.wake();
    }

    fn disarm(&self) -> TurnCost {
        let mut turn = lock(&self.turn);
        let armed = turn.armed.take().expect("a turn is armed before it is disarmed");
        let cpu = turn.clock.end(armed.begun);
        drop(turn);
        if armed.terminated_at.is_some() {
            self.page.iter().for_each(|page| page.set_overrun(Duration::ZERO));
        }
        TurnCost { cpu, expired: armed.expired }
    }

    /// Returns whether the turn has used up its time or filled the heap, in which case no further
    /// work may begin.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.turn).armed.as_ref().is_some_and(Armed::is_over)
    }

    /// Terminates the turn if it is past its deadline. Returns the CPU time that the running turn
    /// has left.
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

impl Armed {
    fn is_over(&self) -> bool {
        self.expired || self.exhausted.load(Ordering::Relaxed)
    }
}

/// The watchdog's thread.
fn run(registry: &Weak<Registry>) {
    let (mut seen, mut idle) = (0, 0);
    while let Some(registry) = registry.upgrade() {
        let longest = if idle < IDLE_SLEEPS { MAX_SLEEP } else { Duration::MAX };
        registry
            .sleep_ms
            .store(longest.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Release);
        let Inspection { turns, least } = inspect_all(&registry);
        drop(registry);
        idle = if turns == seen && least.is_none() { idle + 1 } else { 0 };
        seen = turns;
        match least {
            Some(left) => std::thread::park_timeout(left.clamp(MIN_SLEEP, MAX_SLEEP)),
            None if longest == MAX_SLEEP => std::thread::park_timeout(MAX_SLEEP),
            None => std::thread::park(),
        }
    }
}

/// The result of one inspection of all timers.
struct Inspection {
    /// The number of turns begun so far.
    turns: u64,
    /// The smallest remaining budget of the running turns.
    least: Option<Duration>,
}

/// Inspects every timer.
fn inspect_all(registry: &Registry) -> Inspection {
    let timers: Vec<_> = lock(&registry.timers).iter().filter_map(Weak::upgrade).collect();
    let mut inspection = Inspection { turns: 0, least: None };
    for timer in timers {
        inspection.least = inspection.least.into_iter().chain(timer.inspect()).min();
        inspection.turns += timer.turns.load(Ordering::Relaxed);
    }
    inspection
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and the data would be consistent if it did.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
