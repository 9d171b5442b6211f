//! The budget of an isolate's array buffers, and of memory that native code holds on a Worker's
//! behalf: the allocator that V8 uses, and charges for memory from elsewhere.

#![allow(unsafe_code)] // An allocator, called by V8 with pointers to our own state.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;

/// The number of a stream's pieces that fit into the memory that is left.
const PIECES: usize = 256;

/// The smallest size of a piece, in bytes; the overhead of a smaller one would exceed its content.
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
    pub fn count(self: &Arc<Self>, bytes: Vec<u8>) -> Option<CountedBytes> {
        let charge = self.charge(bytes.len())?;
        Some(CountedBytes { bytes, charge })
    }

    /// Returns empty memory to which pieces can be added as they arrive.
    pub fn count_pieces(self: &Arc<Self>) -> CountedBytes {
        CountedBytes { bytes: Vec::new(), charge: Charge { budget: Arc::clone(self), bytes: 0 } }
    }

    /// Makes memory that a Worker sends, counted until it has been sent, since its receiver may be
    /// slow. Returns `None` if it exceeds the budget.
    ///
    /// # Arguments
    /// * `size` - number of bytes to count, for the result of `make` and what is sent with it.
    pub fn lend(self: &Arc<Self>, size: usize, make: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        let charge = self.charge(size)?;
        Some(Bytes::from_owner(CountedBytes { bytes: make(), charge }))
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

    /// Makes V8 collect garbage as it does when memory for an array buffer runs out. Unlike a
    /// collection under memory pressure, this keeps the caches that make code fast, so it suits
    /// isolates that continue.
    ///
    /// It requests one byte, which is refused; there must be room for it when V8 asks again.
    pub fn have_collected(&self, isolate: &mut v8::Isolate) {
        self.refuses.store(true, Ordering::Relaxed);
        drop(v8::ArrayBuffer::new_backing_store(isolate, 1));
    }

    /// Returns the size of a stream's pieces, in bytes. The size shrinks with the memory that is
    /// left, so that any number of concurrent streams share it.
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
pub struct CountedBytes {
    bytes: Vec<u8>,
    charge: Charge,
}

impl CountedBytes {
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

    #[test]
    fn pieces_are_smaller_when_less_memory_is_left() {
        let budget = BufferBudget::new(32 << 20);
        assert_eq!(budget.piece(), LARGEST_PIECE);
        let mut held = Vec::new();
        // Every stream finds room for a piece, however many streams there are.
        while budget.piece() > SMALLEST_PIECE {
            held.push(budget.charge(budget.piece()).unwrap());
        }
        assert!(held.len() > 900, "{} pieces", held.len());
        assert!(budget.has_room(LARGEST_PIECE));
    }
}
