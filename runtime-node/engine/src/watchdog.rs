//! The thread that terminates turns which use more CPU time than their invocation has left.
//!
//! ```text
//!  shard 0 ── arm ─► Post ┐                   when the first may be over, while any turn runs:
//!  shard 1 ── arm ─► Post ┼─► watchdog thread   for each armed post:
//!  shard n ── arm ─► Post ┘                       CPU clock past the deadline? terminate, mark
//! ```
//!
//! A shard arms its post when a turn begins and disarms it when the turn ends. Both, and the
//! watchdog's inspection, happen under the post's lock, so a turn that has been disarmed cannot be
//! terminated, and [`Watch::end`] tells with certainty whether this one was. V8's own flag is not
//! used: it clears while frames unwind, and some of V8's functions mistake a termination for an
//! exception and continue. So a turn that is over is terminated again at each inspection.
//!
//! CPU time runs no faster than wall-clock time, so no turn has to be inspected before its
//! remaining budget could have elapsed. Between two inspections the watchdog rests; it is woken by
//! a turn that may be over before the next one, and by any turn if none has begun for a while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use crate::cpu_clock::{Begun, CpuClock, TurnClock};
use crate::page::Page;

/// The shortest rest, and so how far a turn can overrun its limit.
const TICK: Duration = Duration::from_millis(1);

/// The longest rest while turns come. Most turns may use more CPU time than this, so few have to
/// wake the watchdog, which costs them some microseconds; each inspection costs the machine a
/// little more than that.
const NAP: Duration = Duration::from_millis(5);

/// The number of naps without a new turn after which the watchdog sleeps until one begins.
const IDLE_NAPS: u32 = 20;

/// The process-wide watchdog. Its thread ends when every clone and every [`Post`] is dropped.
#[derive(Clone)]
pub struct Watchdog(Arc<Tower>);

struct Tower {
    posts: Mutex<Vec<Weak<Post>>>,
    /// The time for which the watchdog sleeps unless it is woken, in milliseconds.
    rests: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Watchdog {
    /// Starts the thread. Call it after [`super::init`].
    ///
    /// # Panics
    /// Panics if the operating system cannot start the thread, without which no limit would be
    /// enforced.
    pub fn spawn() -> Self {
        let tower = Arc::new(Tower {
            posts: Mutex::default(),
            rests: AtomicU64::new(0),
            thread: OnceLock::new(),
        });
        let weak = Arc::downgrade(&tower);
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || keep_watch(&weak));
        let thread = thread.expect("a process that cannot start its first threads cannot run");
        tower.thread.get_or_init(|| thread.thread().clone());
        Self(tower)
    }

    /// Creates a post for the calling thread's turns. A turn that continues after its termination
    /// is recorded in the page.
    pub(crate) fn post(&self, page: Option<Arc<Page>>) -> Arc<Post> {
        let clock = CpuClock::of_this_thread();
        let (turn, turns) = (Mutex::new(Turn::new(clock)), AtomicU64::new(0));
        let post = Arc::new(Post { clock, page, turn, turns, tower: Arc::clone(&self.0) });
        let mut posts = lock(&self.0.posts);
        posts.retain(|post| post.strong_count() > 0);
        posts.push(Arc::downgrade(&post));
        post
    }
}

impl Tower {
    fn wake(&self) {
        if self.rests.swap(0, Ordering::AcqRel) != 0
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

impl Drop for Tower {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The record of one shard's running turn.
pub(crate) struct Post {
    clock: CpuClock,
    page: Option<Arc<Page>>,
    turn: Mutex<Turn>,
    /// The number of turns begun.
    turns: AtomicU64,
    tower: Arc<Tower>,
}

/// The state that the lock of a post protects.
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
    begun: Begun,
    /// The deadline, by the shard thread's CPU clock.
    deadline: Duration,
    isolate: v8::IsolateHandle,
    expired: bool,
    /// Set when its heap is full, which also ends the turn.
    exhausted: Arc<AtomicBool>,
    /// The time of its first termination, by the same clock as the deadline.
    told: Option<Duration>,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// Set if the watchdog has terminated the turn. The caller must cancel the termination before
    /// the next one.
    pub(crate) expired: bool,
}

/// A turn that is being watched. Dropping it ends the turn as well.
#[must_use = "the turn ends when it is dropped"]
pub(crate) struct Watch<'a>(&'a Post);

impl Watch<'_> {
    /// Ends the turn.
    pub(crate) fn end(self) -> Spent {
        let post = self.0;
        std::mem::forget(self);
        post.disarm()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

impl Post {
    /// Begins a turn of `isolate` that may use `budget` of CPU time and ends when its heap is
    /// `exhausted`. Must be called on the thread that made the post.
    pub(crate) fn arm(
        &self,
        isolate: v8::IsolateHandle,
        budget: Duration,
        exhausted: Arc<AtomicBool>,
    ) -> Watch<'_> {
        let mut turn = lock(&self.turn);
        let begun = turn.clock.begin();
        let deadline = begun.latest_cpu().saturating_add(budget);
        turn.armed =
            Some(Armed { begun, deadline, isolate, expired: false, exhausted, told: None });
        drop(turn);
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // The watchdog stores how long it will rest before it inspects the posts, under their
        // locks: either it saw this turn there, or its store is visible here.
        if budget < Duration::from_millis(self.tower.rests.load(Ordering::Acquire)) {
            self.tower.wake();
        }
        Watch(self)
    }

    fn disarm(&self) -> Spent {
        let mut turn = lock(&self.turn);
        let armed = turn.armed.take().expect("a turn is armed before it is disarmed");
        let cpu = turn.clock.end(armed.begun);
        drop(turn);
        if armed.told.is_some() {
            self.page.iter().for_each(|page| page.overruns(Duration::ZERO));
        }
        Spent { cpu, expired: armed.expired }
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
            let told = *armed.told.get_or_insert(now);
            self.page.iter().for_each(|page| page.overruns(now.saturating_sub(told)));
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

fn keep_watch(tower: &Weak<Tower>) {
    let (mut seen, mut idle) = (0, 0);
    while let Some(tower) = tower.upgrade() {
        let longest = if idle < IDLE_NAPS { NAP } else { Duration::MAX };
        tower.rests.store(longest.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Release);
        let Look { turns, least } = look(&tower);
        drop(tower);
        idle = if turns == seen && least.is_none() { idle + 1 } else { 0 };
        seen = turns;
        match least {
            Some(left) => std::thread::park_timeout(left.clamp(TICK, NAP)),
            None if longest == NAP => std::thread::park_timeout(NAP),
            None => std::thread::park(),
        }
    }
}

/// The result of one inspection of all posts.
struct Look {
    /// The number of turns begun so far.
    turns: u64,
    /// The smallest remaining budget of the running turns.
    least: Option<Duration>,
}

/// Inspects every post.
fn look(tower: &Tower) -> Look {
    let posts: Vec<_> = lock(&tower.posts).iter().filter_map(Weak::upgrade).collect();
    let mut look = Look { turns: 0, least: None };
    for post in posts {
        look.least = look.least.into_iter().chain(post.inspect()).min();
        look.turns += post.turns.load(Ordering::Relaxed);
    }
    look
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds one of these locks, and the data would be consistent if it did.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
