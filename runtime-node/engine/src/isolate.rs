//! One loaded revision: a V8 isolate with its realms, and the event loop that gives the isolate
//! turns.
//!
//! ```text
//!  fetch() ── first turn, inline ──┐
//!                                  ▼
//!          ┌──────────────────► a turn ── begins operations (timers, bodies) ──┐
//!          │                                                                   ▼
//!   event loop, a local task ◄── an operation completed, or V8 posted a task ── pending operations
//! ```
//!
//! - [`start`]: from a spare to evaluated modules; [`deliver`]: an event and its outcome; [`turn`]:
//!   the only entry into an isolate; [`event_loop`]: further turns; [`memory`]: collects the
//!   garbage of idle isolates; [`debug`]: turns for the clients of an inspector; [`profile`]: CPU
//!   profiles and heap snapshots.

mod debug;
mod deliver;
mod event_loop;
mod memory;
mod profile;
mod start;
mod turn;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tenon_proto::failure::FailureCode;
use tenon_proto::id::RevisionDigest;

use super::blocking_time::{LongestBlockingTime, Pause};
use super::engine::Engine;
use super::fair_scheduler::CpuAccount;
use super::inspector::agent::Agent;
use super::inspector::cpu_profiler::CpuProfiler;
use super::state::State;
use super::vm::Vm;

pub use deliver::{FetchRequest, ScheduledEvent};

/// One revision in its own V8 isolate. An isolate belongs to the thread that started it, on which a
/// [`tokio::task::LocalSet`] must be running.
pub struct Isolate {
    engine: Rc<Engine>,
    vm: RefCell<Vm>,
    pub(crate) state: Rc<State>,
    account: Rc<CpuAccount>,
    /// CPU time of the isolate's turns.
    cpu: Cell<Duration>,
    /// The part of this CPU time that [`Isolate::take_cpu`] has returned.
    taken: Cell<Duration>,
    longest_blocking_time: LongestBlockingTime,
    /// CPU time of the isolate's turns since its heap was last inspected.
    uninspected: Cell<Duration>,
    /// Whether a realm is being made in advance.
    is_renewing: Cell<bool>,
    agent: Option<Rc<Agent>>,
    /// The CPU profile that is being recorded.
    profiler: RefCell<Option<CpuProfiler>>,
}

impl Isolate {
    /// Returns the number of invocations that have begun and not ended, including those that
    /// `waitUntil` keeps.
    pub fn in_flight(&self) -> usize {
        self.state.invocations.borrow().len()
    }

    /// Returns the limit or failure because of which this isolate must get no new invocations, if
    /// there is one. Invocations in flight continue, unless the isolate has been sealed.
    pub fn condemned(&self) -> Option<FailureCode> {
        self.state.condemned()
    }

    /// Returns whether this isolate should be replaced when possible, because an invocation
    /// exceeded its CPU limit but ended by itself. The cause may be a heap that has become slow, so
    /// this is neither a failure nor a crash.
    pub fn is_retired(&self) -> bool {
        self.state.retired.get()
    }

    /// Returns whether a client of the inspector is attached to the isolate.
    pub fn is_debugged(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.is_attached())
    }

    /// Returns the CPU time of the isolate's turns.
    pub fn cpu(&self) -> Duration {
        self.cpu.get()
    }

    /// Returns the CPU time of the isolate's turns since the previous call.
    pub fn take_cpu(&self) -> Duration {
        let cpu = self.cpu.get();
        cpu.saturating_sub(self.taken.replace(cpu))
    }

    /// Returns the digest of the revision that the isolate runs.
    pub fn digest(&self) -> RevisionDigest {
        self.state.digest
    }

    /// Returns the CPU time that an invocation may use.
    pub fn cpu_limit(&self) -> Duration {
        Duration::from_millis(self.state.revision.limits.cpu_ms.into())
    }

    /// Waits until no invocation is in flight.
    pub async fn idle(&self) {
        loop {
            let idle = self.state.idle.notified();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Returns the longest uninterrupted CPU time for which this isolate has blocked its thread
    /// since the previous call: the time of a turn of the start or of an invocation, of the start's
    /// work before its first turn, or of a garbage collection.
    pub fn longest_blocking_time(&self) -> Duration {
        self.longest_blocking_time.take()
    }

    /// Returns the duration of the garbage collection that took the most CPU time since the
    /// previous call, or zero if there was none.
    pub fn longest_collection(&self) -> Pause {
        self.vm.borrow().pauses.take()
    }

    /// Ends everything that the isolate has begun, because its revision must no longer run. The
    /// caller calls this between turns.
    pub fn forbid(&self) {
        self.state.seal(FailureCode::WorkerQuarantined);
        self.state.reap();
    }

    /// Ends the work that continues after callers have the whole response: WebSockets, `waitUntil`
    /// and timers. Invocations whose callers still wait continue within their limits. The caller
    /// calls this between turns.
    pub fn end_lingering(&self) {
        self.state.end_lingering();
    }

    /// Frees a heap that has outgrown its limit, even if other references to the isolate remain.
    /// The caller calls this between turns.
    fn free_heap(&self) {
        self.state.clear();
        let mut vm = self.vm.borrow_mut();
        self.close_inspectors(&mut vm);
        vm.end();
    }

    /// Ends the uses of V8's inspector, before the isolate is disposed of.
    fn close_inspectors(&self, vm: &mut Vm) {
        let (agent, profiler) = (self.agent.as_ref(), self.profiler.take());
        if vm.isolate.exists() && (agent.is_some() || profiler.is_some()) {
            vm.enter(|_| {
                agent.into_iter().for_each(|agent| agent.close());
                drop(profiler);
            });
        }
    }

    fn is_sealed(&self) -> bool {
        self.state.is_sealed()
    }
}

impl Drop for Isolate {
    fn drop(&mut self) {
        self.state.clear();
        self.close_inspectors(&mut self.vm.borrow_mut());
        // The event loop ends when it finds that the isolate no longer exists.
        self.state.operations.wake();
    }
}
