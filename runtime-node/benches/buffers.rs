//! What a buffer costs: from a shard's pool, and from the global allocator in the same pattern.
//!
//! - **pool size**: all blocks of a pool are in use, and for each that is taken the oldest goes: the most that a pool of
//!   this size asks of the caches. What is written into each and read from it is a small answer. *Touched* is a pool
//!   that was made with all its memory; *untouched* is the first use of blocks that get theirs then.
//! - **answers on their way**: the same in a pool of the size that was chosen, with fewer in use. Blocks that came home
//!   last are taken first, so that only these are in the caches.
//! - **length**: what becomes of an answer. *Pooled* is written once, its head before it; *allocated* is written into
//!   memory of its own, shared, and copied into a message.
//!
//! First uses are timed one by one, less what the clock takes, and all else by the batch. What is compared takes turns, so
//! that a busy machine is the same for all.

#![allow(unsafe_code)] // A call of `malloc_trim`.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use tenon_runtime_node::buffers::{Block, BufferMetrics, BufferPool, HEADROOM, POOL, ROOM};

/// Of a pool: from the first-level cache to more than any cache.
const SIZES: [usize; 12] = [
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    8 << 20,
    32 << 20,
    128 << 20,
    512 << 20,
    1 << 30,
];

/// Bytes of a buffer that are used, and how many of those are its message's head.
const USED: usize = 512;
const HEAD: usize = 64;

/// Operations between two looks at the clock, which takes about as long as one of them.
const BATCH: usize = 20;

/// Turns that those which are compared take, and batches of one in a turn, at least.
const TURNS: usize = 20;
const BATCHES: usize = 500;

/// First uses of blocks.
const FIRST_USES: usize = 2_000;

fn main() {
    let clock = Clock::calibrated();
    by_pool_size(&clock);
    by_answers_on_their_way(&clock);
    by_length(&clock);
}

/// Where buffers come from.
trait Source {
    type Buffer;

    fn take(&self) -> Self::Buffer;

    /// Uses the buffer as an answer would.
    fn use_up(buffer: Self::Buffer, socket: &mut [u8; USED]) -> Self::Buffer;
}

impl Source for BufferPool {
    type Buffer = Block;

    #[inline]
    fn take(&self) -> Self::Buffer {
        self.take(USED).expect("as many blocks are in use as there are")
    }

    #[inline]
    fn use_up(block: Self::Buffer, socket: &mut [u8; USED]) -> Self::Buffer {
        let body = USED - HEAD;
        let fill = |room: &mut [u8]| {
            room[..body].fill(b'b');
            Some(body)
        };
        let mut block = block.fill(fill).expect("it fits");
        block.prepend(HEAD).expect("there is room for a head").fill(b'h');
        socket.copy_from_slice(black_box(&block));
        block
    }
}

/// The global allocator, for buffers of just the length that is needed.
struct Allocator;

impl Source for Allocator {
    type Buffer = Vec<u8>;

    #[inline]
    fn take(&self) -> Vec<u8> {
        Vec::with_capacity(USED)
    }

    #[inline]
    fn use_up(mut buffer: Vec<u8>, socket: &mut [u8; USED]) -> Vec<u8> {
        buffer.resize(HEAD, b'h');
        buffer.resize(USED, b'b');
        socket.copy_from_slice(black_box(&buffer));
        buffer
    }
}

/// The same, for buffers as large as blocks.
struct AllocatedBlocks;

impl Source for AllocatedBlocks {
    type Buffer = Vec<u8>;

    #[inline]
    fn take(&self) -> Vec<u8> {
        Vec::with_capacity(HEADROOM + ROOM)
    }

    #[inline]
    fn use_up(buffer: Vec<u8>, socket: &mut [u8; USED]) -> Vec<u8> {
        Allocator::use_up(buffer, socket)
    }
}

fn by_pool_size(clock: &Clock) {
    heading(["all in use", "touched", "untouched", "malloc", "malloc of blocks"], "block ×");
    for bytes in SIZES {
        let first = first_uses(bytes, clock);
        let pool = pool(bytes).touch();
        let in_use = pool.blocks();
        let mut touched = InTurn::new(&pool, in_use);
        let mut allocated = InTurn::new(&Allocator, in_use);
        let mut blocks = InTurn::new(&AllocatedBlocks, in_use);
        // As often as each block comes twice.
        let batches = BATCHES.max(2 * in_use / (BATCH * TURNS));
        let [touched, allocated, blocks] =
            compare(clock, batches, [&mut || touched.step(), &mut || allocated.step(), &mut || blocks.step()]);
        let mark = if bytes == POOL { "  ◄ the node's" } else { "" };
        let ratio = blocks.p50 / touched.p50;
        println!("{:>10}  {touched}  {first}  {allocated}  {blocks}  {ratio:>9.2}{mark}", size(bytes));
    }
}

fn by_answers_on_their_way(clock: &Clock) {
    heading(["in use", "pool", "malloc", "malloc of blocks"], "block ×");
    let pool = pool(POOL).touch();
    for in_use in [1, 2, 4, 8, 16, pool.blocks()] {
        let mut pooled = InTurn::new(&pool, in_use);
        let mut allocated = InTurn::new(&Allocator, in_use);
        let mut blocks = InTurn::new(&AllocatedBlocks, in_use);
        let [pooled, allocated, blocks] =
            compare(clock, BATCHES, [&mut || pooled.step(), &mut || allocated.step(), &mut || blocks.step()]);
        println!("{in_use:>10}  {pooled}  {allocated}  {blocks}  {:>9.2}", blocks.p50 / pooled.p50);
    }
}

fn by_length(clock: &Clock) {
    heading(["length", "pooled", "allocated"], "alloc. ×");
    let pool = pool(POOL).touch();
    for length in [16, 256, 1 << 10, 4 << 10, ROOM] {
        let source = vec![b's'; length];
        let (mut one, mut other) = (vec![0; HEAD + length], vec![0; HEAD + length]);
        let [pooled, allocated] =
            compare(clock, BATCHES, [&mut || pooled(&pool, &source, &mut one), &mut || allocated(&source, &mut other)]);
        println!("{:>10}  {pooled}  {allocated}  {:>9.2}", size(length), allocated.p50 / pooled.p50);
    }
}

fn pool(bytes: usize) -> BufferPool {
    BufferPool::new(bytes, BufferMetrics::default())
}

/// What it takes to use each block of such a pool for the first time.
fn first_uses(bytes: usize, clock: &Clock) -> Times {
    let mut socket = [0; USED];
    let mut taken = Vec::new();
    while taken.len() < FIRST_USES {
        let pool = pool(bytes);
        let mut in_use = Vec::with_capacity(pool.blocks());
        // SAFETY: it gives unused memory back to the system, which nobody has a reference to.
        unsafe { libc::malloc_trim(0) };
        for _ in 0..pool.blocks().min(FIRST_USES) {
            taken.push(clock.time(|| in_use.push(BufferPool::use_up(Source::take(&pool), &mut socket))));
        }
    }
    Times::of(taken, 1)
}

/// Buffers in use, of which the oldest goes for each that is taken.
struct InTurn<'a, S: Source> {
    source: &'a S,
    queue: VecDeque<S::Buffer>,
    socket: [u8; USED],
}

impl<'a, S: Source> InTurn<'a, S> {
    fn new(source: &'a S, in_use: usize) -> Self {
        let mut socket = [0; USED];
        let queue = (0..in_use).map(|_| S::use_up(source.take(), &mut socket)).collect();
        Self { source, queue, socket }
    }

    #[inline]
    fn step(&mut self) {
        drop(self.queue.pop_front());
        self.queue.push_back(S::use_up(self.source.take(), &mut self.socket));
    }
}

/// What each takes, while they take turns.
fn compare<const N: usize>(clock: &Clock, batches: usize, mut all: [&mut dyn FnMut(); N]) -> [Times; N] {
    let mut taken = [const { Vec::new() }; N];
    for _ in 0..TURNS {
        for (run, taken) in all.iter_mut().zip(&mut taken) {
            run();
            taken.extend((0..batches).map(|_| clock.time(|| (0..BATCH).for_each(|_| run()))));
        }
    }
    taken.map(|taken| Times::of(taken, BATCH))
}

fn pooled(pool: &BufferPool, source: &[u8], socket: &mut [u8]) {
    let write = |room: &mut [u8]| {
        room[..source.len()].copy_from_slice(source);
        Some(source.len())
    };
    let mut block = pool.take(source.len()).and_then(|block| block.fill(write)).expect("it fits");
    block.prepend(HEAD).expect("there is room for a head").fill(b'h');
    socket.copy_from_slice(black_box(&block));
}

fn allocated(source: &[u8], socket: &mut [u8]) {
    let body = Bytes::from_owner(source.to_vec());
    let mut message = BytesMut::with_capacity(HEAD + body.len());
    message.put_bytes(b'h', HEAD);
    message.put_slice(&body);
    drop(body);
    let message = message.freeze();
    socket.copy_from_slice(black_box(&message));
}

/// The clock, and what looking at it takes.
struct Clock {
    cost: Duration,
}

impl Clock {
    fn calibrated() -> Self {
        let silent = Self { cost: Duration::ZERO };
        let mut taken: Vec<_> = (0..FIRST_USES).map(|_| silent.time(|| {})).collect();
        taken.sort_unstable();
        Self { cost: taken[taken.len() / 2] }
    }

    fn time(&self, run: impl FnOnce()) -> Duration {
        let began = Instant::now();
        run();
        began.elapsed().saturating_sub(self.cost)
    }
}

/// Nanoseconds.
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    /// Of so many operations each.
    fn of(mut taken: Vec<Duration>, operations: usize) -> Self {
        taken.sort_unstable();
        let at = |part: usize| taken[taken.len() * part / 100].as_nanos() as f64 / operations as f64;
        Self { p50: at(50), p99: at(99) }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>5.0} / {:>6.0} ns", self.p50, self.p99)
    }
}

fn heading<const N: usize>(columns: [&str; N], ratio: &str) {
    println!();
    for (column, heading) in columns.iter().enumerate() {
        let width = if column == 0 { 10 } else { 17 };
        print!("{heading:>width$}  ");
    }
    println!("{ratio:>9}");
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
