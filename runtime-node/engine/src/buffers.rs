//! A shard's pool of buffers, into which Workers' responses are written and from which they are
//! sent.
//!
//! ```text
//!   free (last in, first out) ──take──► Block ──fill──► body ──prepend──► head, body ──► socket
//!        ▲                                                                                 │
//!        └────────────────────────────────── dropped ◄─────────────────────────────────────┘
//! ```
//!
//! All blocks have the same size, and the block that was returned last is taken first. Only as many
//! blocks are used as there are concurrent responses, and these blocks stay in the CPU cache
//! however many more exist. There are no atomics: a [`Block`] is `!Send`, so it cannot be returned
//! on another thread. There is no unsafe code either: a block owns its memory, so two holders
//! cannot share it.
//!
//! One size is enough. The part of a block that a response leaves unused is never touched and takes
//! no space in the cache; for longer responses, the copying costs so much that larger blocks would
//! save nothing measurable. Responses that are larger than a block, and those that are made while
//! every block is in use, get their memory from the global allocator and are counted.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use bytes::Buf;
use prometheus::{IntCounter, IntGauge};

/// Capacity of a block, in bytes: HTTP/2's default maximum frame size.
pub const BLOCK_CAPACITY: usize = 16 * 1024;

/// Space in front of the body, in bytes: enough for the head of a response without unusually long
/// headers.
pub const HEADROOM: usize = 1024;

/// Offset in a block at which the body begins.
const BEGIN: u32 = HEADROOM as u32;

/// Size of a block, in bytes. It is not a power of two: otherwise all blocks would begin in the
/// same few sets of a CPU cache, which could then hold only a few blocks.
const SIZE: usize = HEADROOM + BLOCK_CAPACITY;

type Memory = Box<[u8; SIZE]>;

/// Memory of all blocks of a shard, in bytes: half of the per-core L2 cache of most processors. V8
/// uses the other half. `benches/buffers.rs` measures what a larger pool would cost.
pub const POOL: usize = 512 * 1024;

/// Metrics of a pool. Only the pool's thread writes the gauges, without a read-modify-write.
#[derive(Clone, Debug)]
pub struct BufferMetrics {
    /// Number of blocks in the pool.
    pub blocks: IntGauge,
    /// Number of blocks in use.
    pub in_use: IntGauge,
    /// Number of times that no block was free, so that the global allocator was used.
    pub none_free: IntCounter,
    /// Number of times that a block was too small, so that the global allocator was used.
    pub too_large: IntCounter,
}

impl Default for BufferMetrics {
    /// Creates metrics that are not registered anywhere.
    fn default() -> Self {
        let counter = || IntCounter::new("unused", "Not registered.").expect("invalid metric name");
        let gauge = || IntGauge::new("unused", "Not registered.").expect("invalid metric name");
        Self { blocks: gauge(), in_use: gauge(), none_free: counter(), too_large: counter() }
    }
}

/// The blocks of one thread.
#[derive(Clone)]
pub struct BufferPool(Rc<Shared>);

struct Shared {
    free: RefCell<Vec<Memory>>,
    /// Number of blocks that have no memory yet.
    unallocated: Cell<usize>,
    blocks: usize,
    metrics: BufferMetrics,
}

impl BufferPool {
    /// Creates a pool whose blocks get their memory on first use; see [`Self::touch`].
    ///
    /// # Arguments
    /// * `bytes` - memory of all blocks together, in bytes.
    pub fn new(bytes: usize, metrics: BufferMetrics) -> Self {
        let blocks = bytes / SIZE;
        metrics.blocks.set(blocks as i64);
        let free = RefCell::new(Vec::with_capacity(blocks));
        Self(Rc::new(Shared { free, unallocated: Cell::new(blocks), blocks, metrics }))
    }

    /// Allocates the memory of every block now, near the processor on which this thread runs,
    /// instead of page by page while requests wait.
    #[must_use]
    pub fn touch(self) -> Self {
        let unallocated = self.0.unallocated.take();
        self.0.free.borrow_mut().extend((0..unallocated).map(|_| allocate()));
        self
    }

    /// Takes a block for at least `len` bytes. If a block is too small or none is free, counts this
    /// and returns `None`.
    #[inline]
    pub fn take(&self, len: usize) -> Option<Block> {
        let pool = &self.0;
        if len > BLOCK_CAPACITY {
            pool.metrics.too_large.inc();
            return None;
        }
        // This is a statement of its own, so that the borrow ends before `allocate` is called.
        let free = pool.free.borrow_mut().pop();
        let Some(memory) = free.or_else(|| pool.allocate()) else {
            pool.metrics.none_free.inc();
            return None;
        };
        pool.update_gauge();
        Some(Block { memory: Some(memory), start: BEGIN, end: BEGIN, pool: Rc::clone(pool) })
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.0.blocks
    }

    /// Returns the number of blocks in use.
    pub fn in_use(&self) -> usize {
        self.0.in_use()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("blocks", &self.blocks())
            .field("in_use", &self.in_use())
            .finish()
    }
}

impl Shared {
    #[cold]
    fn allocate(&self) -> Option<Memory> {
        self.unallocated.set(self.unallocated.get().checked_sub(1)?);
        Some(allocate())
    }

    #[inline]
    fn in_use(&self) -> usize {
        self.blocks - self.unallocated.get() - self.free.borrow().len()
    }

    #[inline]
    fn update_gauge(&self) {
        self.metrics.in_use.set(self.in_use() as i64);
    }
}

/// Allocates a block's memory and fills it with a value other than zero, because the system could
/// supply zeros without physical memory.
fn allocate() -> Memory {
    let memory = vec![u8::MAX; SIZE].into_boxed_slice();
    memory.try_into().expect("the memory does not have the size of a block")
}

/// A buffer in use: bytes, with space in front of them. It returns to its pool when it is dropped.
///
/// The implementation of [`Buf`] reads the bytes from the beginning. A block stays on its thread:
///
/// ```compile_fail
/// fn leaves(block: tenon_engine::buffers::Block) {
///     std::thread::spawn(move || drop(block));
/// }
/// ```
pub struct Block {
    /// `None` once the block is being returned.
    memory: Option<Memory>,
    start: u32,
    end: u32,
    pool: Rc<Shared>,
}

impl Block {
    /// Lets `write` put bytes into the empty block and return their number.
    ///
    /// The slice still holds bytes of earlier responses, perhaps of other Workers: `write` must
    /// have written every byte that it counts. If `write` returns `None` because the space is too
    /// small, the block returns to its pool, the event is counted as `too_large`, and the result is
    /// `None`.
    #[inline]
    pub fn fill(mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        debug_assert!(self.is_empty() && self.start == BEGIN, "a block is filled twice");
        let room = &mut self.memory_mut()[HEADROOM..];
        match write(room) {
            Some(len) => {
                assert!(
                    len <= BLOCK_CAPACITY,
                    "the writer counts {len} bytes, but a block holds {BLOCK_CAPACITY}"
                );
                self.end = BEGIN + len as u32;
                Some(self)
            }
            None => {
                self.pool.metrics.too_large.inc();
                None
            }
        }
    }

    /// Extends the content by `len` bytes in front of it. Returns these bytes, which the caller
    /// must write, or `None` if there is not enough space.
    #[inline]
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.start as usize;
        let start = end.checked_sub(len)?;
        self.start = start as u32;
        Some(&mut self.memory_mut()[start..end])
    }

    fn memory(&self) -> &[u8; SIZE] {
        self.memory.as_ref().expect("the block was dropped")
    }

    fn memory_mut(&mut self) -> &mut [u8; SIZE] {
        self.memory.as_mut().expect("the block was dropped")
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory()[self.start as usize..self.end as usize]
    }
}

impl Buf for Block {
    fn remaining(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn chunk(&self) -> &[u8] {
        self
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "the read exceeds the block");
        self.start += count as u32;
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a block with {} bytes", self.len())
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        self.pool.free.borrow_mut().extend(self.memory.take());
        self.pool.update_gauge();
    }
}
