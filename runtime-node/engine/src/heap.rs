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

#![allow(unsafe_code)] // Callbacks from V8 with pointers to our own state, and an allocator.

use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

use crate::V8_IS_PATCHED;
use crate::cage::CodePart;

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
    /// The limit of the old generation in bytes, if it is not the one that the heap was made with.
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

    /// Has V8 call this guard, and not a callback that was added later: it calls only the last.
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

/// The number of a stream's pieces that fit into the memory that is left.
const PIECES: usize = 256;

/// The smallest size of a piece, in bytes, below which a piece costs more than its bytes.
const SMALLEST_PIECE: usize = 4 * 1024;

/// The largest size of a piece, in bytes: as many as one message to the router carries.
const LARGEST_PIECE: usize = 64 * 1024;

/// The allocator of an isolate's array buffers. V8 may free from other threads.
pub struct BufferBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Set when the latest allocation was refused.
    refused: AtomicBool,
    /// Set when the next allocation must be refused, regardless of its size.
    refuses: AtomicBool,
}

impl BufferBudget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
        })
    }

    /// Returns the allocator in the form that V8 takes.
    pub fn allocator(self: &Arc<Self>) -> v8::UniqueRef<v8::Allocator> {
        static VTABLE: v8::RustAllocatorVtable<BufferBudget> =
            v8::RustAllocatorVtable { allocate, allocate_uninitialized, free, drop: release };
        // SAFETY: the handle is a counted reference, given back in `release`; the table is for its
        // type.
        unsafe { v8::new_rust_allocator(Arc::into_raw(Arc::clone(self)), &VTABLE) }
    }

    /// Counts memory that already exists. Returns `None` if it exceeds the budget.
    pub fn count(self: &Arc<Self>, bytes: Vec<u8>) -> Option<Counted> {
        let charge = self.charge(bytes.len())?;
        Some(Counted { bytes, charge })
    }

    /// Returns empty memory to which pieces can be added as they arrive.
    pub fn count_pieces(self: &Arc<Self>) -> Counted {
        Counted { bytes: Vec::new(), charge: Charge { budget: Arc::clone(self), bytes: 0 } }
    }

    /// Makes memory that a Worker sends, counted until it has been sent, since its receiver may be
    /// slow. Returns `None` if it exceeds the budget.
    ///
    /// # Arguments
    /// * `size` - number of bytes to count, for the result of `make` and what is sent with it.
    pub fn lend(self: &Arc<Self>, size: usize, make: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        let charge = self.charge(size)?;
        Some(Bytes::from_owner(Counted { bytes: make(), charge }))
    }

    /// Counts `bytes` until the returned value is dropped. Returns `None` if they exceed the
    /// budget.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// Counts `bytes` that the Worker did not cause: a refusal does not mark the budget as
    /// exhausted.
    pub fn charge_quietly(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve_quietly(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// Returns whether `len` more bytes would be granted. If not, this counts as a refusal.
    pub fn has_room(&self, len: usize) -> bool {
        let has_room = self.used().checked_add(len).is_some_and(|used| used <= self.limit());
        self.refused.store(!has_room, Ordering::Relaxed);
        has_room
    }

    /// Makes V8 collect garbage, as it does when memory for an array buffer runs out. Unlike a
    /// collection under memory pressure, this keeps the caches that make code fast, so it suits
    /// isolates that continue.
    ///
    /// It requests one byte, which is refused; there must be room for it when V8 asks again.
    pub fn have_collected(&self, isolate: &mut v8::Isolate) {
        self.refuses.store(true, Ordering::Relaxed);
        drop(v8::ArrayBuffer::new_backing_store(isolate, 1));
    }

    /// Returns the size of a stream's pieces that suits the memory that is left, in bytes: the less
    /// there is, the smaller they are, so that any number of concurrent streams share it.
    pub fn piece(&self) -> usize {
        let left = self.limit().saturating_sub(self.used());
        (left / PIECES).clamp(SMALLEST_PIECE, LARGEST_PIECE)
    }

    /// Returns the limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Lowers the limit to `limit` bytes.
    pub(crate) fn lower(&self, limit: usize) {
        self.limit.fetch_min(limit, Ordering::Relaxed);
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether the latest allocation was refused, in which case a following failure is due
    /// to lack of memory.
    pub fn is_exhausted(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether V8's request for `len` bytes is granted.
    fn grants(&self, len: usize) -> bool {
        if self.refuses.load(Ordering::Relaxed) {
            self.refuses.store(false, Ordering::Relaxed);
            return false;
        }
        self.reserve(len)
    }

    fn reserve(&self, len: usize) -> bool {
        let reserved = self.reserve_quietly(len);
        self.refused.store(!reserved, Ordering::Relaxed);
        reserved
    }

    /// Reserves `len` bytes; a refusal is not recorded, because no running code will fail for it.
    fn reserve_quietly(&self, len: usize) -> bool {
        let more = |used: usize| used.checked_add(len).filter(|used| *used <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A number of bytes counted against a budget.
pub struct Charge {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl Charge {
    /// Counts `more` bytes if there is room for them, and returns whether there was.
    pub fn grow(&mut self, more: usize) -> bool {
        let granted = self.budget.reserve_quietly(more);
        self.bytes += if granted { more } else { 0 };
        granted
    }

    fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.saturating_sub(bytes);
        self.budget.used.fetch_sub(excess, Ordering::Relaxed);
        self.bytes -= excess;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Memory that did not come from the allocator, counted until it is dropped.
pub struct Counted {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Counted {
    /// Appends a piece if there is room for it.
    ///
    /// # Arguments
    /// * `most` - the maximum total size of all pieces, in bytes.
    ///
    /// # Errors
    /// Returns how many bytes would have to be free.
    pub fn push(&mut self, piece: &[u8], most: usize) -> Result<(), usize> {
        let (len, room) = (self.bytes.len() + piece.len(), self.bytes.capacity());
        if len > room {
            // Grows by doubling, so that not every piece moves all earlier ones.
            let wanted = (2 * room).min(most).max(len);
            if !self.charge.grow(wanted - room) {
                return Err(wanted - room);
            }
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Converts it into the backing store of an array buffer.
    pub fn into_backing_store(mut self) -> v8::UniqueRef<v8::BackingStore> {
        self.bytes.shrink_to_fit();
        self.charge.shrink_to(self.bytes.len());
        v8::ArrayBuffer::new_backing_store_from_bytes(Box::new(self))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Counted {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

unsafe extern "C" fn allocate(budget: &BufferBudget, len: usize) -> *mut c_void {
    if !budget.grants(len) {
        return std::ptr::null_mut();
    }
    // SAFETY: asks for at least one byte; a null result is passed on, which is how V8 learns of it.
    let data = unsafe { libc::calloc(len.max(1), 1) };
    if data.is_null() {
        budget.used.fetch_sub(len, Ordering::Relaxed);
    }
    data
}

unsafe extern "C" fn allocate_uninitialized(budget: &BufferBudget, len: usize) -> *mut c_void {
    if !budget.grants(len) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let data = unsafe { libc::malloc(len.max(1)) };
    if data.is_null() {
        budget.used.fetch_sub(len, Ordering::Relaxed);
    }
    data
}

unsafe extern "C" fn free(budget: &BufferBudget, data: *mut c_void, len: usize) {
    budget.used.fetch_sub(len, Ordering::Relaxed);
    // SAFETY: V8 gives back, once, memory that it got from one of the functions above.
    unsafe { libc::free(data) };
}

unsafe extern "C" fn release(budget: *const BufferBudget) {
    // SAFETY: the reference that `allocator` gave away, given back once, when V8 drops its
    // allocator.
    drop(unsafe { Arc::from_raw(budget) });
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
    fn pieces_are_smaller_when_less_memory_is_left() {
        let budget = BufferBudget::new(32 << 20);
        assert_eq!(budget.piece(), LARGEST_PIECE);
        let mut held = Vec::new();
        // Whatever the number of streams, each finds room for a piece.
        while budget.piece() > SMALLEST_PIECE {
            held.push(budget.charge(budget.piece()).unwrap());
        }
        assert!(held.len() > 900, "{} pieces", held.len());
        assert!(budget.has_room(LARGEST_PIECE));
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
