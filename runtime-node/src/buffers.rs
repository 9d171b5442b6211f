//! A shard's buffers: what its Workers answer is written into one of them, and sent from there.
//!
//! ```text
//!   free (last in, first out) ──take──► Block ──fill──► body ──prepend──► head, body ──► socket
//!        ▲                                                                                 │
//!        └────────────────────────────────── dropped ◄─────────────────────────────────────┘
//! ```
//!
//! The blocks are equal, and the one that came home last is taken first: only as many are ever used as there are answers
//! on their way at once, and those stay in the cache however many more there are. There are no atomics: a [`Block`]
//! cannot leave its thread, which its type says, and so it cannot come home on another. Nor is there anything unsafe:
//! a block owns its memory, and what has one owner is never in two hands.
//!
//! There is one size. What an answer leaves unused of a block is never touched, and costs no cache; a block for longer
//! answers would save them nothing that shows beside the copying of them. What does not fit, and what comes when every
//! block is in use, goes to the global allocator, and is counted.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use bytes::Buf;
use prometheus::{IntCounter, IntGauge};

/// What a block has room for, in bytes: as much as one frame of HTTP/2 carries unless it is told otherwise.
pub const ROOM: usize = 16 * 1024;

/// What may be put before that: the head of an answer, unless it has uncommonly long headers.
pub const HEADROOM: usize = 1024;

/// Where in a block its bytes begin, before something is put before them.
const BEGIN: u32 = HEADROOM as u32;

/// Not a power of two: where all blocks begin in the same few sets of a cache, a few of them are all that it holds.
const SIZE: usize = HEADROOM + ROOM;

type Memory = Box<[u8; SIZE]>;

/// What a shard's blocks take, in bytes. Half of what most processors have as second-level cache for each core, and
/// V8 has the other half; `benches/buffers.rs` measures what more of it would cost.
pub const POOL: usize = 512 * 1024;

/// What is counted of a pool. Its gauges are written by one thread only, without a read-modify-write.
#[derive(Clone, Debug)]
pub struct BufferMetrics {
    /// How many there are.
    pub blocks: IntGauge,
    pub in_use: IntGauge,
    /// Buffers that came from the global allocator, for want of a free block.
    pub none_free: IntCounter,
    /// Those for what fits in no block.
    pub too_large: IntCounter,
}

/// Counts that nobody reads.
impl Default for BufferMetrics {
    fn default() -> Self {
        let counter = || IntCounter::new("uncounted", "Nobody's.").expect("the name is one");
        let gauge = || IntGauge::new("uncounted", "Nobody's.").expect("the name is one");
        Self { blocks: gauge(), in_use: gauge(), none_free: counter(), too_large: counter() }
    }
}

/// The blocks of one thread.
#[derive(Clone)]
pub struct BufferPool(Rc<Home>);

struct Home {
    free: RefCell<Vec<Memory>>,
    /// Blocks that have no memory yet.
    unmade: Cell<usize>,
    blocks: usize,
    metrics: BufferMetrics,
}

impl BufferPool {
    /// A pool whose blocks get their memory when they are first used; see [`Self::touch`].
    ///
    /// # Arguments
    /// * `bytes` - for all blocks together.
    pub fn new(bytes: usize, metrics: BufferMetrics) -> Self {
        let blocks = bytes / SIZE;
        metrics.blocks.set(blocks as i64);
        let free = RefCell::new(Vec::with_capacity(blocks));
        Self(Rc::new(Home { free, unmade: Cell::new(blocks), blocks, metrics }))
    }

    /// Gets the memory of every block now, near the processor that this thread runs on, and not page by page while
    /// requests wait.
    #[must_use]
    pub fn touch(self) -> Self {
        let unmade = self.0.unmade.take();
        self.0.free.borrow_mut().extend((0..unmade).map(|_| make()));
        self
    }

    /// A block for `len` bytes at least. `None`, which is counted, when no block has room for them or none is free.
    #[inline]
    pub fn take(&self, len: usize) -> Option<Block> {
        let home = &self.0;
        if len > ROOM {
            home.metrics.too_large.inc();
            return None;
        }
        // Not in the condition: the borrow would last until its end.
        let free = home.free.borrow_mut().pop();
        let Some(memory) = free.or_else(|| home.make()) else {
            home.metrics.none_free.inc();
            return None;
        };
        home.count();
        Some(Block { memory: Some(memory), start: BEGIN, end: BEGIN, home: Rc::clone(home) })
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.0.blocks
    }

    /// How many of them are in use.
    pub fn in_use(&self) -> usize {
        self.0.in_use()
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("blocks", &self.blocks()).field("in_use", &self.in_use()).finish()
    }
}

impl Home {
    #[cold]
    fn make(&self) -> Option<Memory> {
        self.unmade.set(self.unmade.get().checked_sub(1)?);
        Some(make())
    }

    #[inline]
    fn in_use(&self) -> usize {
        self.blocks - self.unmade.get() - self.free.borrow().len()
    }

    #[inline]
    fn count(&self) {
        self.metrics.in_use.set(self.in_use() as i64);
    }
}

/// Written to, and not with zeros: those the system has without memory behind them.
fn make() -> Memory {
    vec![u8::MAX; SIZE].into_boxed_slice().try_into().expect("it has the length")
}

/// A buffer in use: bytes, and room before them. It goes home when it is dropped.
///
/// As a [`Buf`] it is read from its beginning. It stays on its thread:
///
/// ```compile_fail
/// fn leaves(block: tenon_runtime_node::buffers::Block) {
///     std::thread::spawn(move || drop(block));
/// }
/// ```
pub struct Block {
    /// `None` once it is on its way home.
    memory: Option<Memory>,
    start: u32,
    end: u32,
    home: Rc<Home>,
}

impl Block {
    /// Has `write` put bytes into the block, which has none yet, and say how many.
    ///
    /// What it is given still holds what others have written, for other Workers: those that it counts must be its own.
    /// `None`, when it says that there is too little room, sends the block home, and is counted.
    #[inline]
    pub fn fill(mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Self> {
        debug_assert!(self.is_empty() && self.start == BEGIN, "a block is filled once");
        let room = &mut self.memory_mut()[HEADROOM..];
        match write(room) {
            Some(len) => {
                assert!(len <= ROOM, "what was written is within the room there is");
                self.end = BEGIN + len as u32;
                Some(self)
            }
            None => {
                self.home.metrics.too_large.inc();
                None
            }
        }
    }

    /// Puts `len` bytes before those that are there, for the caller to write. `None` when there is no such room.
    #[inline]
    pub fn prepend(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.start as usize;
        let start = end.checked_sub(len)?;
        self.start = start as u32;
        Some(&mut self.memory_mut()[start..end])
    }

    fn memory(&self) -> &[u8; SIZE] {
        self.memory.as_ref().expect("a block has its memory until it is dropped")
    }

    fn memory_mut(&mut self) -> &mut [u8; SIZE] {
        self.memory.as_mut().expect("a block has its memory until it is dropped")
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
        assert!(count <= self.remaining(), "no more is read than there is");
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
        self.home.free.borrow_mut().extend(self.memory.take());
        self.home.count();
    }
}
