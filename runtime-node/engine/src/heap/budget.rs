//! The budget of an isolate's array buffers, and of memory that native code holds on a Worker's
//! behalf: V8's allocator, and charges for memory that does not come from this allocator.

#![allow(unsafe_code)] // V8 calls the allocator with pointers to this module's state.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

/// Number of a stream's pieces that fit into the remaining memory.
const PIECES: usize = 256;

/// Minimum size of a piece, in bytes. The overhead of a smaller piece would exceed its content.
const SMALLEST_PIECE: usize = 4 * 1024;

/// Maximum size of a piece, in bytes: the number of bytes in one message to the router.
const LARGEST_PIECE: usize = 64 * 1024;

/// The allocator of an isolate's array buffers. V8 may free memory from other threads.
pub struct BufferBudget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Whether the latest allocation was refused.
    refused: AtomicBool,
    /// Whether the next allocation must be refused, regardless of its size.
    refuse_next: AtomicBool,
}

impl BufferBudget {
    /// Creates a budget of `limit` bytes, none of which are in use.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            refuse_next: AtomicBool::new(false),
        })
    }

    /// Returns the allocator in the form that V8 takes.
    pub fn allocator(self: &Arc<Self>) -> v8::UniqueRef<v8::Allocator> {
        static VTABLE: v8::RustAllocatorVtable<BufferBudget> =
            v8::RustAllocatorVtable { allocate, allocate_uninitialized, free, drop: release };
        // SAFETY: the handle is a counted reference, which `release` drops; the table is for
        // the handle's type.
        unsafe { v8::new_rust_allocator(Arc::into_raw(Arc::clone(self)), &VTABLE) }
    }

    /// Counts existing memory. Returns `None` if it exceeds the budget.
    pub fn count(self: &Arc<Self>, bytes: Vec<u8>) -> Option<CountedBytes> {
        let charge = self.charge(bytes.len())?;
        Some(CountedBytes { bytes, charge })
    }

    /// Returns empty memory to which pieces can be added as they arrive.
    pub fn count_pieces(self: &Arc<Self>) -> CountedBytes {
        CountedBytes { bytes: Vec::new(), charge: Charge { budget: Arc::clone(self), bytes: 0 } }
    }

    /// Makes bytes that a Worker sends, and counts them until they have been sent, because the
    /// receiver may be slow. Returns `None` if they exceed the budget.
    ///
    /// # Arguments
    /// * `size` - number of bytes to count, for the result of `make` and the data sent with it.
    pub fn lend(self: &Arc<Self>, size: usize, make: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        let charge = self.charge(size)?;
        Some(Bytes::from_owner(CountedBytes { bytes: make(), charge }))
    }

    /// Counts `bytes` until the returned value is dropped. Returns `None` if they exceed the
    /// budget.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// Counts `bytes` that the Worker did not cause, until the returned value is dropped. Returns
    /// `None` if they exceed the budget, but this does not mark the budget as exhausted.
    pub fn charge_quietly(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.reserve_quietly(bytes).then(|| Charge { budget: Arc::clone(self), bytes })
    }

    /// Returns whether the budget has room for `len` more bytes. The result counts as that of the
    /// latest allocation, granted or refused.
    pub fn has_room(&self, len: usize) -> bool {
        let has_room = self.used().checked_add(len).is_some_and(|used| used <= self.limit());
        self.refused.store(!has_room, Ordering::Relaxed);
        has_room
    }

    /// Makes V8 collect garbage as it does when memory for an array buffer runs out. Unlike a
    /// collection under memory pressure, this keeps the caches that make code fast, so it suits
    /// isolates that continue.
    ///
    /// The first request for one byte is refused; the budget must have room for V8's second
    /// request.
    pub fn force_collection(&self, isolate: &mut v8::Isolate) {
        self.refuse_next.store(true, Ordering::Relaxed);
        drop(v8::ArrayBuffer::new_backing_store(isolate, 1));
    }

    /// Returns the size of a stream's pieces, in bytes. The size shrinks with the remaining memory,
    /// so that any number of concurrent streams can share this memory.
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

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether the latest allocation was refused. If it was, lack of memory is the cause of
    /// a failure that follows.
    pub fn is_exhausted(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Reserves `len` bytes for V8. Returns whether the request is granted.
    fn reserve_for_v8(&self, len: usize) -> bool {
        if self.refuse_next.load(Ordering::Relaxed) {
            self.refuse_next.store(false, Ordering::Relaxed);
            return false;
        }
        self.reserve(len)
    }

    fn reserve(&self, len: usize) -> bool {
        let reserved = self.reserve_quietly(len);
        self.refused.store(!reserved, Ordering::Relaxed);
        reserved
    }

    /// Reserves `len` bytes. A refusal is not recorded, because it makes no running code fail.
    fn reserve_quietly(&self, len: usize) -> bool {
        let more = |used: usize| used.checked_add(len).filter(|used| *used <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A number of bytes that count against a budget until the charge is dropped.
pub struct Charge {
    budget: Arc<BufferBudget>,
    bytes: usize,
}

impl Charge {
    /// Counts `more` bytes if the budget has room for them. Returns whether it has.
    pub fn grow(&mut self, more: usize) -> bool {
        let granted = self.budget.reserve_quietly(more);
        self.bytes += if granted { more } else { 0 };
        granted
    }

    /// Returns the number of bytes that count.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts only `bytes` from now on, if that is less than before.
    pub fn shrink_to(&mut self, bytes: usize) {
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

/// Memory that did not come from the allocator, and that counts until it is dropped.
pub struct CountedBytes {
    bytes: Vec<u8>,
    charge: Charge,
}

impl CountedBytes {
    /// Appends a piece if the budget has room for it.
    ///
    /// # Arguments
    /// * `max` - the size up to which the capacity doubles, in bytes. It does not bound the size.
    ///
    /// # Errors
    /// Returns how many bytes the budget would need to have left.
    pub fn push(&mut self, piece: &[u8], max: usize) -> Result<(), usize> {
        let (len, room) = (self.bytes.len() + piece.len(), self.bytes.capacity());
        if len > room {
            // The capacity doubles, so that appending a piece does not move all earlier ones every
            // time.
            let wanted = (2 * room).min(max).max(len);
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

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Converts the memory into the backing store of an array buffer.
    pub fn into_backing_store(mut self) -> v8::UniqueRef<v8::BackingStore> {
        self.bytes.shrink_to_fit();
        self.charge.shrink_to(self.bytes.len());
        v8::ArrayBuffer::new_backing_store_from_bytes(Box::new(self))
    }
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for CountedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

unsafe extern "C" fn allocate(budget: &BufferBudget, len: usize) -> *mut c_void {
    if !budget.reserve_for_v8(len) {
        return std::ptr::null_mut();
    }
    // SAFETY: the call requests at least one byte; V8 gets a null result and handles it.
    let data = unsafe { libc::calloc(len.max(1), 1) };
    if data.is_null() {
        budget.used.fetch_sub(len, Ordering::Relaxed);
    }
    data
}

unsafe extern "C" fn allocate_uninitialized(budget: &BufferBudget, len: usize) -> *mut c_void {
    if !budget.reserve_for_v8(len) {
        return std::ptr::null_mut();
    }
    // SAFETY: as in `allocate`.
    let data = unsafe { libc::malloc(len.max(1)) };
    if data.is_null() {
        budget.used.fetch_sub(len, Ordering::Relaxed);
    }
    data
}

unsafe extern "C" fn free(budget: &BufferBudget, data: *mut c_void, len: usize) {
    budget.used.fetch_sub(len, Ordering::Relaxed);
    // SAFETY: V8 frees only memory that it got from one of the functions above, and only once.
    unsafe { libc::free(data) };
}

unsafe extern "C" fn release(budget: *const BufferBudget) {
    // SAFETY: this is the reference that `allocator` handed to V8, which calls this function once,
    // when it drops its allocator.
    drop(unsafe { Arc::from_raw(budget) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_smaller_when_less_memory_is_left() {
        let budget = BufferBudget::new(32 << 20);
        assert_eq!(budget.piece(), LARGEST_PIECE);
        let mut held = Vec::new();
        // Each stream in turn holds a piece, until pieces have their minimum size.
        while budget.piece() > SMALLEST_PIECE {
            held.push(budget.charge(budget.piece()).unwrap());
        }
        assert!(held.len() > 900, "{} pieces", held.len());
        assert!(budget.has_room(LARGEST_PIECE));
    }
}
