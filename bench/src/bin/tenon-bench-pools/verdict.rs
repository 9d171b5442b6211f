//! Where this run differs from the published tables, and why.
//!
//! Published are those of OpenWorkers (`openworkers-runtime-v8`, `docs/thread-pinned-vs-shared-pool.md`): a pool over
//! legacy about +40 %, pinned over shared +34 % warm and 18 times in extreme contention, and all alike with I/O. How
//! they were measured is in the benchmarks beside them (`tests/three_arch_bench.rs`): one thread, which asks thirty
//! times over ten Workers, or fifty times warm, in a test build, and sleeps for the I/O while no isolate is held; the
//! contention is another program's, in which the shared pool has one isolate and each pinned thread has its own.
//!
//! Each of these is a ratio of two throughputs, and so is what is said here; where one was not measured, nothing is.

use std::collections::BTreeMap;

use crate::architecture::Architecture::{self, Handed, Legacy, Pinned, SharedHeld, SharedReleased, Tenon};
use crate::scenario::Scenario::{self, Compute, ComputeAnew, Fetch, IsolateEach, OneIsolate, Wait, Warm, WarmAtOnce};

/// Requests in a second.
pub type Throughputs = BTreeMap<(Scenario, Architecture), f64>;

/// Of the published CPU-bound requests, those that were a Worker's first: thirty requests went to ten Workers.
const STARTS: f64 = 10.0 / 30.0;

/// A paragraph for each published figure, and one for the harness.
pub fn of(throughputs: &Throughputs) -> Vec<String> {
    let run = Run(throughputs);
    let all = [run.pool_over_legacy(), run.warm(), run.locker(), run.contention(), run.waiting(), run.harness()];
    all.into_iter().flatten().collect()
}

struct Run<'a>(&'a Throughputs);

impl Run<'_> {
    fn ratio(&self, of: (Scenario, Architecture), to: (Scenario, Architecture)) -> Option<f64> {
        Some(self.0.get(&of)? / self.0.get(&to)?)
    }

    /// Of two architectures in one scenario.
    fn within(&self, scenario: Scenario, of: Architecture, to: Architecture) -> Option<f64> {
        self.ratio((scenario, of), (scenario, to))
    }

    fn pool_over_legacy(&self) -> Option<String> {
        let kept = self.within(Compute, SharedHeld, Legacy)?;
        let pinned = self.within(Compute, Pinned, Legacy)?;
        let anew = self.ratio((ComputeAnew, SharedHeld), (Compute, Legacy))?;
        let with_starts = 1.0 / (STARTS + (1.0 - STARTS) / anew);
        Some(format!(
            "A pool over legacy, CPU-bound: {kept:.1} times shared, {pinned:.1} times pinned; published are 1.4. The \
             published pools keep isolates, but make a context and compile the Worker for every request: so made, the \
             shared pool is {anew:.1} times legacy here. And a third of their requests were a Worker's first, which \
             no pool spares: with as many at legacy's price it would be {with_starts:.1}. How much a pool gains is \
             how much of a request it keeps, and how much of the rest is computing."
        ))
    }

    fn warm(&self) -> Option<String> {
        let held = self.within(Warm, Pinned, SharedHeld)?;
        let released = self.within(Warm, Pinned, SharedReleased)?;
        let handed = self.within(Warm, Handed, SharedReleased)?;
        Some(format!(
            "Pinned over shared, warm: {held:.2} times where shared holds the isolate for a request, {released:.2} \
             where it does for a turn; published is 1.34. There, one thread asked fifty times in a test build: \
             nobody else wanted the lock, no isolate ever changed its thread, and most of a request of half a \
             millisecond was the same in both. Here all cores ask, isolates change threads, and a request is little \
             else than the way in and out. Pinning pays where a request arrives at its thread: handed over by \
             another, it is {handed:.2} times shared for a turn."
        ))
    }

    fn locker(&self) -> Option<String> {
        let released = self.within(Warm, Pinned, SharedReleased)?;
        let at_once = self.within(WarmAtOnce, Pinned, SharedReleased)?;
        Some(format!(
            "Sharing costs a short turn more than waiting. V8 optimises on another thread and leaves an \
             interrupt for the isolate to take the code; its Locker clears the interrupts of an isolate each time it \
             is taken anew. Where turns are short the code is never taken and JavaScript goes on as bytecode. When \
             the thread that runs also optimises, nothing is left to be lost: pinned is then {at_once:.2} times \
             shared for a turn, and not {released:.2}."
        ))
    }

    fn contention(&self) -> Option<String> {
        let theirs = self.ratio((IsolateEach, Pinned), (OneIsolate, SharedHeld))?;
        let held = self.within(OneIsolate, Handed, SharedHeld)?;
        let released = self.within(OneIsolate, Handed, SharedReleased)?;
        let each = self.within(IsolateEach, Pinned, SharedHeld)?;
        Some(format!(
            "Extreme contention: the published 18 times sets one isolate, shared by 8 threads, against 8 isolates, one \
             on each thread; so set, it is {theirs:.1} times here. With one isolate for both, pinned has its requests \
             handed to its thread, and is {held:.2} times shared for a request, but {released:.2} times shared for a \
             turn: V8's lock goes to the thread that has just let go of it, which keeps caches warm and the others \
             waiting, as p999 shows. With 8 isolates for both it is {each:.2} times. A single isolate \
             cannot be on two cores, whoever owns it."
        ))
    }

    fn waiting(&self) -> Option<String> {
        let wait = self.within(Wait, Pinned, SharedHeld)?;
        let wait_turn = self.within(Wait, Pinned, SharedReleased)?;
        let fetch = self.within(Fetch, Pinned, SharedHeld)?;
        let fetch_turn = self.within(Fetch, Pinned, SharedReleased)?;
        Some(format!(
            "I/O: published as making all alike, but slept while no isolate was held. A Worker waits inside its \
             invocation: pinned is {wait:.1} times shared for a request with 5 ms of I/O, and {fetch:.1} times with a \
             fetch, because that has no more requests under way than isolates, whatever the cores do. Let go of at \
             each await, as in shared for a turn, the isolates are no bound: pinned is {wait_turn:.2} and \
             {fetch_turn:.2} times that, and all are indeed alike, legacy excepted, which starts an isolate to wait in."
        ))
    }

    fn harness(&self) -> Option<String> {
        let warm = self.within(Warm, Tenon, Pinned)?;
        let compute = self.within(Compute, Tenon, Pinned)?;
        Some(format!(
            "Tenon's own engine, with limits, attribution and its whole Web API, serves {warm:.2} times what the bare \
             harness does warm, {compute:.2} times CPU-bound: what the architectures are compared in is no straw man."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_spoken_of() {
        let throughputs = Throughputs::from([((Warm, Pinned), 300.0), ((Warm, SharedHeld), 100.0)]);
        assert_eq!(of(&throughputs), Vec::<String>::new());
    }

    #[test]
    fn starts_at_legacys_price_bound_what_a_pool_can_gain() {
        let throughputs = Throughputs::from([
            ((Compute, Legacy), 100.0),
            ((Compute, SharedHeld), 400.0),
            ((Compute, Pinned), 500.0),
            ((ComputeAnew, SharedHeld), 200.0),
        ]);
        let [paragraph] = &of(&throughputs)[..] else { panic!("only one can be told of") };
        assert!(paragraph.contains("4.0 times shared, 5.0 times pinned"), "{paragraph}");
        assert!(paragraph.contains("2.0 times legacy here"), "{paragraph}");
        assert!(paragraph.contains("it would be 1.5"), "{paragraph}");
    }
}
