//! Enforces the memory limits of an isolate.
//!
//! There are two budgets of the same size, because V8 counts only its own heap against its limit:
//! - the **heap**: when the heap is near its limit, V8 calls [`HeapGuard`], which raises the limit
//!   once, by its [`Headroom`], so that the running code can unwind, terminates that code and sets
//!   a flag. The isolate is never entered again, and its heap is freed as soon as the isolate has
//!   been left;
//! - **array buffers**: [`BufferBudget`] is their allocator. When it refuses an allocation, V8
//!   collects garbage and tries again. If the allocator refuses again, V8 calls the guard as it
//!   does for the heap, with the same result. Memory that native code holds on a Worker's behalf
//!   counts against this budget as well: responses until they have been sent, request bodies as
//!   they arrive, operations, the memories of WebAssembly, and compiled WebAssembly code (see
//!   `wasm.rs`).

#![allow(unsafe_code)] // V8 calls back with pointers to this module's state.

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
/// V8 calls the guard when an allocation does not fit, does not tell the guard the size of that
/// allocation, and ends the process if the allocation still does not fit afterwards. The largest
/// allocation is an array of 512 MiB, or of 1 GiB if V8 is not patched. A native function that
/// ignores termination continues with its next allocation. The limit is therefore raised only once:
/// by the size of the largest block and room for unwinding, or by half of the memory budget if that
/// is less. If the code allocates more, V8 ends this process, instead of the kernel ending every
/// process that shares its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom(usize);

impl Headroom {
    const LARGEST_BLOCK: usize = if V8_IS_PATCHED { 1 << 29 } else { 1 << 30 };

    /// Room for other allocations until the code reaches a point where it can be terminated, in
    /// bytes.
    const UNWINDING: usize = 64 << 20;

    /// Returns half of the budget, but no more than the largest block and the room for unwinding.
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
    /// * `limit` - the new limit of the old generation, in bytes.
    pub(crate) fn lower(&self, isolate: &mut v8::Isolate, limit: usize) {
        // V8 sets a limit only when it removes a callback.
        isolate.remove_near_heap_limit_callback(near_heap_limit, limit);
        self.lowered.set(Some(limit));
        self.listen(isolate);
    }

    /// Makes V8 call this guard again after another callback has been added, because V8 calls only
    /// the callback that was added last.
    pub(crate) fn take_over(&self, isolate: &mut v8::Isolate) {
        isolate.remove_near_heap_limit_callback(near_heap_limit, 0);
        self.listen(isolate);
    }

    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Returns the shared flag behind [`HeapGuard::is_exhausted`].
    pub fn exhausted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.exhausted)
    }

    /// Inspects the heap of the guard's isolate after turns that may have filled it. V8 allows the
    /// first large block of a young generation regardless of the limit, and counts this block only
    /// at a collection; and machine code takes addresses that all isolates share.
    ///
    /// # Arguments
    /// * `limit` - the Worker's memory limit, in bytes.
    /// * `namespace` - the Worker's namespace.
    pub(crate) fn inspect(&self, isolate: &mut v8::Isolate, limit: usize, namespace: &Arc<str>) {
        let heap = isolate.get_heap_statistics();
        let is_within = heap.total_physical_size() <= 2 * limit.max(MIN_LIMIT);
        if !self.code.set(namespace, heap.total_heap_size_executable()) || !is_within {
            self.exhausted.store(true, Ordering::Relaxed);
        }
    }
}

/// Lower bound, in bytes, on the limit that [`HeapGuard::inspect`] applies: a heap may take twice
/// its limit, or twice this size if that is larger. V8's own memory, which consists of young
/// generations and of pages that are kept for reuse, may be larger than a smaller limit.
const MIN_LIMIT: usize = 32 << 20;

/// Raises the limit of a heap, and terminates the running code. V8 calls this near the limit,
/// perhaps repeatedly before the running code has unwound, and ends the process if the limit is
/// unchanged.
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
    fn heap_statistics_count_machine_code() {
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
        assert!(after > before + (4 << 20), "grew only from {before} to {after} bytes");
    }

    #[test]
    fn a_heap_limit_is_raised_once() {
        crate::init();
        let isolate = &mut v8::Isolate::new(testing::builtins().params());
        let guard = HeapGuard::install(isolate, Headroom(100));
        let data: *mut c_void = (&raw const *guard).cast_mut().cast();
        // SAFETY: the guard lives until the end of the test.
        let limits =
            [1_000, 1_100, 1_200].map(|current| unsafe { near_heap_limit(data, current, 1_000) });
        assert_eq!(limits, [1_100, 1_100, 1_200]);
        assert!(guard.is_exhausted());
    }
}
