//! States where this run differs from the published tables, and why.
//!
//! The published tables are those of OpenWorkers (`openworkers-runtime-v8`,
//! `docs/thread-pinned-vs-shared-pool.md`): a pool serves about 40 % more requests than legacy;
//! pinned serves 34 % more than shared when warm, and 18 times as many in extreme contention; with
//! I/O, there is no difference. The published benchmarks (`tests/three_arch_bench.rs`) show how
//! these figures were measured: one thread sends thirty requests to ten Workers, or fifty warm
//! requests, in a test build, and sleeps for the I/O while no isolate is held. The contention was
//! measured by another program, in which the shared pool has one isolate and each pinned thread has
//! its own.
//!
//! Each of these figures is a ratio of two throughputs. If requests only compute, the conclusions
//! compare CPU times, which are also valid on a machine with other load. Otherwise the conclusions
//! compare throughputs. The report omits each conclusion that lacks one of its figures.

use std::collections::BTreeMap;

use crate::architecture::Architecture::{
    self, Handed, Legacy, Pinned, SharedHeld, SharedReleased, Tenon,
};
use crate::scenario::Scenario::{
    self, Compute, ComputeInNewContext, Fetch, IsolateEach, OneIsolate, Wait, Warm, WarmAtOnce,
};

pub type Figures = BTreeMap<Contest, Figure>;

type Contest = (Scenario, Architecture);

/// The figures of one architecture in one scenario.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Requests per second.
    pub throughput: f64,
    /// CPU time per request, in seconds.
    pub cpu: f64,
}

/// Share of the first requests of Workers among the published CPU-bound requests: thirty requests
/// went to ten Workers.
const STARTS: f64 = 10.0 / 30.0;

/// Returns a paragraph for each published figure that can be compared, and one about the harness.
pub fn of(figures: &Figures) -> Vec<String> {
    let run = Run(figures);
    let all = [
        run.pool_over_legacy(),
        run.warm(),
        run.locker(),
        run.contention(),
        run.waiting(),
        run.harness(),
    ];
    all.into_iter().flatten().collect()
}

struct Run<'a>(&'a Figures);

impl Run<'_> {
    /// Returns the ratio of the throughput of `of` to that of `to`, or `None` if one of them was
    /// not measured.
    fn served(&self, of: Contest, to: Contest) -> Option<f64> {
        Some(self.0.get(&of)?.throughput / self.0.get(&to)?.throughput)
    }

    /// Returns the ratio of the requests that `of` serves to those that `to` serves, with the same
    /// CPU time, or `None` if one of them was not measured.
    fn for_cpu(&self, of: Contest, to: Contest) -> Option<f64> {
        Some(self.0.get(&to)?.cpu / self.0.get(&of)?.cpu)
    }

    fn pool_over_legacy(&self) -> Option<String> {
        let legacy = (Compute, Legacy);
        let shared = self.for_cpu((Compute, SharedHeld), legacy)?;
        let pinned = self.for_cpu((Compute, Pinned), legacy)?;
        let new_context = self.for_cpu((ComputeInNewContext, SharedHeld), legacy)?;
        let new_context_pinned = self.for_cpu((ComputeInNewContext, Pinned), legacy)?;
        let with_starts = 1.0 / (STARTS + (1.0 - STARTS) / new_context);
        Some(format!(
            "CPU-bound, for the same CPU time, a shared pool serves {shared:.1} times as many requests as legacy, and a \
             pinned pool {pinned:.1} times as many; the published figure is 1.4. The published pools keep isolates, but \
             create a context and compile the Worker for every request. Pools that do the same serve {new_context:.1} \
             times (shared) and {new_context_pinned:.1} times (pinned) as many. A third of the published requests were also \
             the first request of a Worker, for which no pool helps. If a third of the requests cost as much as with \
             legacy, the ratio would be {with_starts:.1}. The gain of a pool depends on the part of a request that it \
             saves, and on how much of the rest is computation."
        ))
    }

    fn warm(&self) -> Option<String> {
        let held = self.for_cpu((Warm, Pinned), (Warm, SharedHeld))?;
        let released = self.for_cpu((Warm, Pinned), (Warm, SharedReleased))?;
        let handed = self.for_cpu((Warm, Handed), (Warm, SharedReleased))?;
        Some(format!(
            "Warm, for the same CPU time, pinned serves {held:.2} times as many requests as shared if shared holds the \
             isolate for a request, and {released:.2} times as many if shared holds the isolate for a turn; the published \
             figure is 1.34. That figure was measured with one thread and fifty requests in a test build: no other thread \
             wanted the lock, no isolate changed its thread, and most of the half millisecond of a request was the same in \
             both architectures. Here, all cores send requests, isolates change threads, and a request is little more than \
             entering and leaving the isolate. Pinning pays if a request arrives at its thread: if another thread hands \
             over the requests, pinned serves {handed:.2} times as many as shared for a turn."
        ))
    }

    fn locker(&self) -> Option<String> {
        let released = self.for_cpu((Warm, Pinned), (Warm, SharedReleased))?;
        let at_once = self.for_cpu((WarmAtOnce, Pinned), (WarmAtOnce, SharedReleased))?;
        let evidence =
            if released > at_once { ":" } else { ", although this run does not show it:" };
        Some(format!(
            "The lock is not the only cost of sharing for a short turn. V8 optimizes on another thread and requests an \
             interrupt of the isolate to install the code, but V8's Locker clears the interrupts of an isolate each time \
             the Locker is acquired. With short turns the code is hardly ever installed, and JavaScript continues as \
             bytecode{evidence} pinned serves {released:.2} times as many requests as shared for a turn. If the running \
             thread optimizes, no interrupt can be lost, and pinned serves {at_once:.2} times as many: this is the cost of \
             the lock, and of isolates that change cores."
        ))
    }

    fn contention(&self) -> Option<String> {
        let theirs = self.served((IsolateEach, Pinned), (OneIsolate, SharedHeld))?;
        let held = self.served((OneIsolate, Handed), (OneIsolate, SharedHeld))?;
        let released = self.served((OneIsolate, Handed), (OneIsolate, SharedReleased))?;
        let each = self.served((IsolateEach, Pinned), (IsolateEach, SharedHeld))?;
        Some(format!(
            "Extreme contention: the published figure of 18 times compares one isolate, shared by 8 threads, with 8 \
             isolates, one on each thread; with the same setup, pinned serves {theirs:.1} times as many requests here. With \
             one isolate for both architectures, other threads hand their requests to the pinned thread, and pinned serves \
             {held:.2} times as many as shared for a request, but {released:.2} times as many as shared for a turn: V8's \
             lock goes to the thread that has just released it, which keeps caches warm and the other threads waiting, as \
             p999 shows. With 8 isolates for both architectures, pinned serves {each:.2} times as many. A single isolate \
             cannot run on two cores, in any architecture."
        ))
    }

    fn waiting(&self) -> Option<String> {
        let wait = self.served((Wait, Pinned), (Wait, SharedHeld))?;
        let wait_turn = self.served((Wait, Pinned), (Wait, SharedReleased))?;
        let fetch = self.served((Fetch, Pinned), (Fetch, SharedHeld))?;
        let fetch_turn = self.served((Fetch, Pinned), (Fetch, SharedReleased))?;
        Some(format!(
            "I/O: the published figures are equal for all architectures, but were measured with sleeps while no isolate \
             was held. A Worker waits inside its invocation: pinned serves {wait:.1} times as many requests as shared for \
             a request with 5 ms of I/O, and {fetch:.1} times as many with a fetch, because shared for a request has no \
             more requests in flight than isolates, regardless of the number of cores. If the isolate is released at each \
             await, as in shared for a turn, the number of isolates is not a limit: pinned serves {wait_turn:.2} times (I/O) \
             and {fetch_turn:.2} times (fetch) as many as shared for a turn, and all architectures are equal except legacy, \
             which starts an isolate only to wait in it."
        ))
    }

    fn harness(&self) -> Option<String> {
        let warm = self.for_cpu((Warm, Tenon), (Warm, Pinned))?;
        let compute = self.for_cpu((Compute, Tenon), (Compute, Pinned))?;
        Some(format!(
            "Tenon's own engine, with limits, attribution and its whole Web API, serves {warm:.2} times the requests \
             of the bare harness for the same CPU time when warm, and {compute:.2} times when CPU-bound: the harness \
             is a fair baseline."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(micros: f64) -> Figure {
        Figure { throughput: 1e6 / micros, cpu: micros / 1e6 }
    }

    #[test]
    fn unmeasured_scenarios_have_no_verdict() {
        let figures =
            Figures::from([((Warm, Pinned), taking(3.0)), ((Warm, SharedHeld), taking(6.0))]);
        assert_eq!(of(&figures), Vec::<String>::new());
    }

    #[test]
    fn first_requests_reduce_the_gain_of_a_pool() {
        let figures = Figures::from([
            ((Compute, Legacy), taking(4_000.0)),
            ((Compute, SharedHeld), taking(1_000.0)),
            ((Compute, Pinned), taking(800.0)),
            ((ComputeInNewContext, SharedHeld), taking(2_000.0)),
            ((ComputeInNewContext, Pinned), taking(1_600.0)),
        ]);
        let [paragraph] = &of(&figures)[..] else { panic!("expected one paragraph") };
        assert!(paragraph.contains("4.0 times as many requests as legacy"), "{paragraph}");
        assert!(paragraph.contains("pinned pool 5.0 times as many"), "{paragraph}");
        assert!(paragraph.contains("2.0 times (shared) and 2.5 times (pinned)"), "{paragraph}");
        assert!(paragraph.contains("the ratio would be 1.5"), "{paragraph}");
    }

    #[test]
    fn a_verdict_says_when_the_run_does_not_show_the_lost_interrupts() {
        let paragraph_for = |shared| {
            let figures = Figures::from([
                ((Warm, Pinned), taking(2.0)),
                ((Warm, SharedReleased), taking(shared)),
                ((WarmAtOnce, Pinned), taking(2.0)),
                ((WarmAtOnce, SharedReleased), taking(4.0)),
            ]);
            of(&figures).concat()
        };
        assert!(!paragraph_for(6.0).contains("does not show"));
        assert!(paragraph_for(3.0).contains("does not show"));
    }
}
