//! Measures the longest time for which an isolate has blocked its thread.
//!
//! A shard compares this time with the time that a Worker may take beside neighbors, and a Worker
//! that takes longer moves to a lane. Three kinds of work cannot be divided: a start's work before
//! its first turn, a turn, and work outside turns, such as a garbage collection that a shard
//! requests. A collection within a turn is part of that turn's time. Each collection is also
//! measured separately, between the two callbacks with which V8 surrounds it, so that metrics
//! can distinguish a Worker that computes from one whose heap is slow to collect.
//!
//! Measuring a turn costs one comparison. Measuring a collection costs at most four clock
//! reads, about 2 µs; the shortest collection takes 100 µs.

#![allow(unsafe_code)] // V8 calls back with pointers to this module's state.

use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use super::cpu_clock::CpuClock;

/// The longest CPU time of an isolate's work that no other isolate could interrupt. The value
/// belongs to the isolate's thread.
#[derive(Debug, Default)]
pub(crate) struct LongestBlockingTime(Cell<Duration>);

impl LongestBlockingTime {
    /// Returns the longest blocking time since the previous call.
    pub(crate) fn take(&self) -> Duration {
        self.0.take()
    }

    /// Records that work has blocked the thread for this much CPU time.
    pub(crate) fn record(&self, cpu: Duration) {
        if cpu > self.0.get() {
            self.0.set(cpu);
        }
    }

    /// Runs work outside turns, and records its CPU time.
    pub(crate) fn measure<R>(&self, work: impl FnOnce() -> R) -> R {
        let clock = CpuClock::of_this_thread();
        let begun = clock.now();
        let result = work();
        self.record(clock.now().saturating_sub(begun));
        result
    }
}

/// The duration of one garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of the isolate's thread.
    pub cpu: Duration,
}

/// A measurement of an isolate's garbage collections. V8 holds a pointer to it.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// The start of the running collection: wall-clock time and the thread's CPU time.
    begun: Cell<Option<(Instant, Duration)>>,
    longest: Cell<Pause>,
}

impl Pauses {
    /// Begins to measure the collections of `isolate`, which must not outlive the returned value.
    pub(crate) fn install(isolate: &mut v8::Isolate) -> Box<Self> {
        let pauses = Box::<Self>::default();
        let data: *mut c_void = (&raw const *pauses).cast_mut().cast();
        isolate.add_gc_prologue_callback(begin, data, v8::GCType::kGCTypeAll);
        isolate.add_gc_epilogue_callback(end, data, v8::GCType::kGCTypeAll);
        pauses
    }

    /// Returns the duration of the collection that took the most CPU time since the previous call.
    pub(crate) fn take(&self) -> Pause {
        self.longest.take()
    }

    fn begin(&self) {
        self.begun.set(Some((Instant::now(), CpuClock::of_this_thread().now())));
    }

    fn end(&self) {
        let Some((began, before)) = self.begun.take() else { return };
        let cpu = CpuClock::of_this_thread().now().saturating_sub(before);
        if cpu > self.longest.get().cpu {
            self.longest.set(Pause { wall: began.elapsed(), cpu });
        }
    }
}

unsafe extern "C" fn begin(
    _: v8::UnsafeRawIsolatePtr,
    _: v8::GCType,
    _: v8::GCCallbackFlags,
    data: *mut c_void,
) {
    // SAFETY: `data` is the value that `install` boxed, which outlives the isolate and is only ever
    // shared, on one thread.
    unsafe { &*data.cast::<Pauses>() }.begin();
}

unsafe extern "C" fn end(
    _: v8::UnsafeRawIsolatePtr,
    _: v8::GCType,
    _: v8::GCCallbackFlags,
    data: *mut c_void,
) {
    // SAFETY: as in `begin`.
    unsafe { &*data.cast::<Pauses>() }.end();
}
