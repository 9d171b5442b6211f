//! The memory limits of an isolate.
//!
//! There are two budgets of the same size, because V8 counts only its own heap against its limit:
//! - the **heap**: near its limit V8 calls [`HeapGuard`], which raises the limit once, as far as
//!   its [`Headroom`] goes, so that the running code can unwind, then terminates that code and sets
//!   a flag. The isolate is never entered again, and its heap is freed as soon as the isolate has
//!   been left;
//! - **array buffers**: [`BufferBudget`] is their allocator. When it refuses, V8 collects garbage
//!   and tries again; if that was not enough, V8 calls the guard as it does for the heap, with the
//!   same result. Memory that native code holds on a Worker's behalf is counted here as well:
//!   responses until they have been sent, request bodies as they arrive, operations, the memories
//!   of WebAssembly, and compiled WebAssembly code (see `wasm.rs`).

#![allow(unsafe_code)] // Callbacks from V8 with pointers to our own state.

use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::V8_IS_PATCHED;
use crate::cage::CodePart;

mod budget;

pub use budget::{BufferBudget, Charge, CountedBytes};

/// The amount by which a heap may outgrow its limit while the code that filled it is terminated.
///
/// V8 calls the guard when the allocation at hand does not fit, does not say how large that is, and
/// ends the process if it still does not fit. The largest allocation is an array of 512 MiB, and of
/// 1 GiB if V8 is not patched; a native function that ignores termination goes on to the next one.
/// So the limit is raised once, by the largest block if there is memory for it. If code wants
/// more, V8 ends this process, rather than the kernel ending every process that shares its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom(usize);

impl Headroom {
    const LARGEST_BLOCK: usize = if V8_IS_PATCHED { 1 << 29 } else { 1 << 30 };

    /// Room for other allocations until the code reaches a point where it can be terminated.
    const UNWINDING: usize = 64 << 20;

    /// Returns half of the available memory, capped at the most that can be of use.
    ///
    /// # Arguments
    /// * `budget` - memory budget of the process, in bytes.
    pub fn within(budget: u64) -> Self {
        let half = usize::try_from(budget / 2).unwrap_or(usize::MAX);
        Self(half.min(Self::LARGEST_BLOCK + Self::UNWINDING))
    }
}

impl Default for Headroom {
    fn default() -> Self {
        Self::within(u64::MAX)
    }
}

/// Detects that an isolate's heap is full.
pub struct HeapGuard {
    isolate: v8::IsolateHandle,
    exhausted: Arc<AtomicBool>,
    /// The limit of the old generation, in bytes, if it has been lowered since the heap was made.
    lowered: Cell<Option<usize>>,
    headroom: Headroom,
    code: CodePart,
}

impl HeapGuard {
    /// Installs a guard on `isolate`, which must not outlive the guard.
    pub fn install(isolate: &mut v8::Isolate, headroom: Headroom) -> Rc<Self> {
        let guard = Rc::new(Self {
            isolate: isolate.thread_safe_handle(),
            exhausted: Arc::default(),
            lowered: Cell::default(),
            headroom,
            code: CodePart::default(),
        });
        guard.listen(isolate);
        guard
    }

    fn listen(&self, isolate: &mut v8::Isolate) {
        isolate.add_near_heap_limit_callback(near_heap_limit, (&raw const *self).cast_mut().cast());
    }

    /// Lowers the limit of the heap.
    ///
    /// # Arguments
    /// * `limit` - of the old generation, in bytes.
    pub(crate) fn lower(&self, isolate: &mut v8::Isolate, limit: usize) {
        // V8 sets a limit only when it removes a callback.
        isolate.remove_near_heap_limit_callback(near_heap_limit, limit);
        self.lowered.set(Some(limit));
        self.listen(isolate);
    }

    /// Makes V8 call this guard instead of a callback that was added later, because V8 calls only
    /// the last one.
    pub(crate) fn take_over(&self, isolate: &mut v8::Isolate) {
        isolate.remove_near_heap_limit_callback(near_heap_limit, 0);
        self.listen(isolate);
    }

    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Returns the shared flag behind [`HeapGuard::is_exhausted`], for the watchdog.
    pub fn exhausted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.exhausted)
    }

    /// Inspects the heap of its isolate after turns that may have filled it: V8 lets the first
    /// large block of a young generation pass regardless of the limit, and counts it only when it
    /// collects; and machine code takes addresses that all isolates share.
    ///
    /// # Arguments
    /// * `limit` - the Worker's memory limit, in bytes.
    /// * `namespace` - the Worker's namespace.
    pub(crate) fn inspect(&self, isolate: &mut v8::Isolate, limit: usize, namespace: &Arc<str>) {
        let heap = isolate.get_heap_statistics();
        let is_within = heap.total_physical_size() <= 2 * limit.max(LEAST_LIMIT);
        if !self.code.set(namespace, heap.total_heap_size_executable()) || !is_within {
            self.exhausted.store(true, Ordering::Relaxed);
        }
    }
}

/// The smallest limit for which the heap is judged by twice its size, in bytes. With a smaller one
/// V8's own memory may be as much again: young generations, and pages kept for reuse.
const LEAST_LIMIT: usize = 32 << 20;

/// Called by V8, which ends the process if this returns an unchanged limit. It may be called more
/// than once before the running code has unwound.
unsafe extern "C" fn near_heap_limit(data: *mut c_void, current: usize, initial: usize) -> usize {
    // SAFETY: `data` is the guard that `install` made, which outlives the isolate and is only ever
    // shared.
    let guard = unsafe { &*data.cast::<HeapGuard>() };
    guard.exhausted.store(true, Ordering::Relaxed);
    guard.isolate.terminate_execution();
    let limit = guard.lowered.get().unwrap_or(initial);
    limit.saturating_add(guard.headroom.0).max(current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_headroom_of_a_heap_is_half_of_the_memory_up_to_a_maximum() {
        assert_eq!(Headroom::within(1 << 30), Headroom(1 << 29));
        assert_eq!(
            Headroom::within(u64::MAX),
            Headroom(Headroom::LARGEST_BLOCK + Headroom::UNWINDING)
        );
        assert_eq!(Headroom::within(0), Headroom(0));
    }

    #[test]
    fn machine_code_is_counted() {
        crate::init();
        let isolate = &mut v8::Isolate::new(testing::builtins().params());
        let before = isolate.get_heap_statistics().total_heap_size_executable();
        {
            v8::scope!(let scope, &mut *isolate);
            let context = v8::Context::new(scope, Default::default());
            let scope = &mut v8::ContextScope::new(scope, context);
            // V8 compiles an expression to machine code when it is used again.
            let code = "for (let i = 0; i < 100; i++) {
                const expression = new RegExp(`${'[a-y]z?'.repeat(500)}${i}`);
                for (let used = 0; used < 3; used++) expression.test('ab'.repeat(1000));
            }";
            let code = v8::String::new(scope, code).unwrap();
            v8::Script::compile(scope, code, None).unwrap().run(scope).unwrap();
        }
        let after = isolate.get_heap_statistics().total_heap_size_executable();
        assert!(after > before + (4 << 20), "{before} bytes, then {after}");
    }

    #[test]
    fn a_heap_limit_is_raised_once() {
        crate::init();
        let isolate = &mut v8::Isolate::new(testing::builtins().params());
        let guard = HeapGuard::install(isolate, Headroom(100));
        let data: *mut c_void = (&raw const *guard).cast_mut().cast();
        // SAFETY: the guard is alive.
        let limits =
            [1_000, 1_100, 1_200].map(|current| unsafe { near_heap_limit(data, current, 1_000) });
        assert_eq!(limits, [1_100, 1_100, 1_200]);
        assert!(guard.is_exhausted());
    }
}
