//! What an isolate may keep in memory.
//!
//! Two budgets of the same size, because V8 counts only its own heap against its limit:
//! - the **heap**: near its limit V8 asks [`HeapGuard`], which raises the limit once, as far as its [`Headroom`] goes, for
//!   the running code to unwind, terminates it and remembers; the isolate is never entered again, and its heap is given
//!   back as soon as it has been left;
//! - **array buffers**: [`BufferBudget`] is their allocator. When it refuses, V8 collects and tries again; if that was
//!   not enough, V8 asks the guard as it does for the heap, and with the same end. What native code holds on a Worker's
//!   behalf is counted here as well: responses until they have been sent, request bodies as they arrive, operations; and so are
//!   the memories of WebAssembly, and what has been compiled of it (see `wasm.rs`).

#![allow(unsafe_code)] // Callbacks from V8 with pointers to our own state, and an allocator.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

/// How far a heap may outgrow its limit, while what has filled it comes to its end.
///
/// V8 asks for more when the allocation at hand does not fit, does not say how large that is, and ends the process when it
/// still does not fit. The largest there is, an array or a string of two-byte characters, has 1 GiB; a native function that
/// does not heed that it is terminated goes on to the next. So the limit is raised once, by the largest block where there is
/// memory for that. Whatever wants more has V8 end the process, and not the kernel end all that share its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom(usize);

impl Headroom {
    const LARGEST_BLOCK: usize = 1 << 30;

    /// For what else is made until the code comes to a point where it can be terminated.
    const UNWINDING: usize = 64 << 20;

    /// Half of the memory that there is, and no more than can be of use.
    ///
    /// # Arguments
    /// * `budget` - of the process, in bytes.
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

/// Notices that an isolate's heap is full.
pub(super) struct HeapGuard {
    isolate: v8::IsolateHandle,
    exhausted: Arc<AtomicBool>,
    headroom: Headroom,
}

impl HeapGuard {
    /// Watches `isolate`, which must not outlive what is returned.
    pub(super) fn install(isolate: &mut v8::Isolate, headroom: Headroom) -> Box<Self> {
        let guard = Box::new(Self { isolate: isolate.thread_safe_handle(), exhausted: Arc::default(), headroom });
        isolate.add_near_heap_limit_callback(near_heap_limit, (&raw const *guard).cast_mut().cast());
        guard
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// The same, for the watchdog.
    pub(super) fn exhausted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.exhausted)
    }

    /// Looks at the heap of its isolate after a turn that may have filled it: V8 lets the first large block of a young
    /// generation pass whatever the limit is, and counts it when it collects.
    ///
    /// # Arguments
    /// * `limit` - the Worker's, in bytes.
    pub(super) fn inspect(&self, isolate: &mut v8::Isolate, limit: usize) {
        if isolate.get_heap_statistics().total_physical_size() > 2 * limit.max(LEAST_LIMIT) {
            self.exhausted.store(true, Ordering::Relaxed);
        }
    }
}

/// Of a smaller limit twice as much may be V8's own: young generations, and pages kept for the next.
const LEAST_LIMIT: usize = 32 << 20;

/// V8 ends the process when this leaves the limit as it is. It may come more than once before the running code has
/// unwound.
unsafe extern "C" fn near_heap_limit(data: *mut c_void, current: usize, initial: usize) -> usize {
    // SAFETY: `data` is the guard that `install` boxed, which outlives the isolate and is only ever shared.
    let guard = unsafe { &*data.cast::<HeapGuard>() };
    guard.exhausted.store(true, Ordering::Relaxed);
    guard.isolate.terminate_execution();
    initial.saturating_add(guard.headroom.0).max(current)
}

/// The allocator of an isolate's array buffers. V8 may free from other threads.
pub(super) struct BufferBudget {
    limit: usize,
    used: AtomicUsize,
    /// The latest allocation was refused.
    refused: AtomicBool,
    /// The next one will be, whatever it is.
    refuses: AtomicBool,
}

impl BufferBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
        })
    }

    /// As V8 wants it.
    pub(super) fn allocator(self: &Arc<Self>) -> v8::UniqueRef<v8::Allocator> {
        static VTABLE: v8::RustAllocatorVtable<BufferBudget> =
            v8::RustAllocatorVtable { allocate, allocate_uninitialized, free, drop: release };
        // SAFETY: the handle is a counted reference, given back in `release`; the table is of its type.
        unsafe { v8::new_rust_allocator(Arc::into_raw(Arc::clone(self)), &VTABLE) }
    }

    /// Counts memory that is there already like the rest. `None` when it is too much.
    pub(super) fn count(self: &Arc<Self>, bytes: Vec<u8>) -> Option<Counted> {
        let charge = self.charge(bytes.len())?;
        Some(Counted { bytes, charge })
    }

    /// Memory for what will come piece by piece.
    pub(super) fn count_pieces(self: &Arc<Self>) -> Counted {
        Counted { bytes: Vec::new(), charge: Charge { budget: Arc::clone(self), bytes: 0 } }
    }

    /// Memory for what a Worker sends, counted until it has been sent: its receiver may take its time. `None` when it is
    /// too much.
    ///
    /// # Arguments
    /// * `size` - how many bytes to count, for what `make` will make and what is sent with that.
    pub(super) fn lend(self: &Arc<Self>, size: usize, make: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        let charge = self.charge(size)?;
        Some(Bytes::from_owner(Counted { bytes: make(), charge }))
    }

    /// Counts so many bytes until what is returned is dropped. `None` when they are too many.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// The same for what is no Worker's doing: nothing of it fails for the want of them.
    pub(super) fn charge_quietly(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve_quietly(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// Whether so many bytes more would be granted. A no counts as a refusal.
    pub(super) fn has_room(&self, len: usize) -> bool {
        let has_room = self.used().checked_add(len).is_some_and(|used| used <= self.limit);
        self.refused.store(!has_room, Ordering::Relaxed);
        has_room
    }

    /// Has V8 collect, as it does where there is no memory for an array buffer. It keeps what makes code fast, which it would
    /// drop under pressure: so this is for what goes on.
    ///
    /// It asks for a byte, which is refused, and for which there must be room when it asks again.
    pub(super) fn have_collected(&self, isolate: &mut v8::Isolate) {
        self.refuses.store(true, Ordering::Relaxed);
        drop(v8::ArrayBuffer::new_backing_store(isolate, 1));
    }

    /// The most that there may be.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the latest allocation was refused: what then fails, fails for want of memory.
    pub(super) fn is_exhausted(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// What V8 hears that asks for so many bytes.
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

    /// The same, where a refusal is nothing that running code will fail for.
    fn reserve_quietly(&self, len: usize) -> bool {
        let more = |used: usize| used.checked_add(len).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Bytes that are counted against a budget.
pub(super) struct Charge {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl Charge {
    /// Counts so many more, if there is room for them, and says so.
    pub(super) fn grow(&mut self, more: usize) -> bool {
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

/// Memory that did not come from the allocator, counted until it is let go of.
pub(super) struct Counted {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Counted {
    /// Takes a piece more, if there is room for it.
    ///
    /// # Arguments
    /// * `most` - how many bytes all pieces may have.
    ///
    /// # Errors
    /// How many bytes would have to be free.
    pub(super) fn push(&mut self, piece: &[u8], most: usize) -> Result<(), usize> {
        let (len, room) = (self.bytes.len() + piece.len(), self.bytes.capacity());
        if len > room {
            // Twice as much as before, that not every piece moves all that came before it.
            let wanted = (2 * room).min(most).max(len);
            if !self.charge.grow(wanted - room) {
                return Err(wanted - room);
            }
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// As an array buffer has it.
    pub(super) fn into_backing_store(mut self) -> v8::UniqueRef<v8::BackingStore> {
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
    // SAFETY: asks for at least one byte; a null answer is passed on, which is how V8 is told.
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
    // SAFETY: V8 gives back, once, what it had from one of the functions above.
    unsafe { libc::free(data) };
}

unsafe extern "C" fn release(budget: *const BufferBudget) {
    // SAFETY: the reference that `allocator` gave away, given back once, when V8 drops its allocator.
    drop(unsafe { Arc::from_raw(budget) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_may_outgrow_its_limit_by_half_of_the_memory_and_no_more_than_can_be_of_use() {
        assert_eq!(Headroom::within(1 << 30), Headroom(1 << 29));
        assert_eq!(Headroom::within(u64::MAX), Headroom(Headroom::LARGEST_BLOCK + Headroom::UNWINDING));
        assert_eq!(Headroom::within(0), Headroom(0));
    }

    #[test]
    fn a_heap_limit_is_raised_once() {
        crate::engine::init();
        let isolate = &mut v8::Isolate::new(v8::CreateParams::default());
        let guard = HeapGuard::install(isolate, Headroom(100));
        let data: *mut c_void = (&raw const *guard).cast_mut().cast();
        // SAFETY: the guard is alive.
        let limits = [1_000, 1_100, 1_200].map(|current| unsafe { near_heap_limit(data, current, 1_000) });
        assert_eq!(limits, [1_100, 1_100, 1_200]);
        assert!(guard.is_exhausted());
    }
}
