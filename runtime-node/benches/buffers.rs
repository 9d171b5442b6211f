//! Compares the cost of a buffer from a shard's pool with that of a buffer from the global
//! allocator, for the same pattern of use.
//!
//! - **all in use**: all blocks of a pool of this size are in use, and each take releases the
//!   oldest block. This is the highest load that the pool puts on the CPU caches. A small response
//!   is written into each block and read from it. *Touched* is a pool whose memory was resident
//!   beforehand; *untouched* is the first use of blocks, which get their memory at that time.
//! - **in use**: only this number of blocks is in use, in a pool with the node's size. The pool
//!   hands out the most recently returned blocks first, so only these are in the caches.
//! - **length**: a whole response of this length is sent. *Pooled* writes the body once, and the
//!   head in front of it; *allocated* writes the body into memory of its own, shares that memory,
//!   and copies the body into a message.
//!
//! First uses are timed one by one, minus the cost of reading the clock; everything else is timed
//! in batches. Compared candidates alternate, so that load on the machine affects all of
//! them alike.

#![allow(unsafe_code)] // A call of `malloc_trim`.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use tenon_engine::buffers::{BLOCK_CAPACITY, Block, BufferMetrics, BufferPool, HEADROOM, POOL};

/// Pool sizes in bytes, from the first-level cache to beyond any cache.
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

/// Number of used bytes of a buffer, and the number of these that are the message's head.
const USED: usize = 512;
const HEAD: usize = 64;

/// Number of operations between two clock readings; one reading costs about as much as one
/// operation.
const BATCH: usize = 20;

/// Number of rounds in which the candidates alternate, and minimum number of each candidate's
/// batches in a round.
const ROUNDS: usize = 20;
const BATCHES: usize = 500;

/// Minimum number of first uses of blocks that are timed.
const FIRST_USES: usize = 2_000;

fn main() {
    let clock = Clock::calibrate();
    by_pool_size(&clock);
    by_buffers_in_use(&clock);
    by_length(&clock);
}

/// A source of buffers.
trait Source {
    type Buffer;

    fn take(&self) -> Self::Buffer;

    /// Uses the buffer as a response would.
    fn use_up(buffer: Self::Buffer, socket: &mut [u8; USED]) -> Self::Buffer;
}

impl Source for BufferPool {
    type Buffer = Block;

    #[inline]
    fn take(&self) -> Self::Buffer {
        self.take(USED).expect("no block of the pool is free")
    }

    #[inline]
    fn use_up(block: Self::Buffer, socket: &mut [u8; USED]) -> Self::Buffer {
        let body = USED - HEAD;
        let fill = |room: &mut [u8]| {
            room[..body].fill(b'b');
            Some(body)
        };
        let mut block = block.fill(fill).expect("the body does not fit in a block");
        block.prepend(HEAD).expect("the block has no room for a head").fill(b'h');
        socket.copy_from_slice(black_box(&block));
        block
    }
}

/// The global allocator, for buffers of exactly the required length.
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

/// The global allocator, for buffers as large as a pool's blocks.
struct AllocatedBlocks;

impl Source for AllocatedBlocks {
    type Buffer = Vec<u8>;

    #[inline]
    fn take(&self) -> Vec<u8> {
        Vec::with_capacity(HEADROOM + BLOCK_CAPACITY)
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
        let mut touched = BuffersInUse::new(&pool, in_use);
        let mut allocated = BuffersInUse::new(&Allocator, in_use);
        let mut blocks = BuffersInUse::new(&AllocatedBlocks, in_use);
        // Enough batches to use each block twice over all rounds.
        let batches = BATCHES.max(2 * in_use / (BATCH * ROUNDS));
        let [touched, allocated, blocks] = compare(
            clock,
            batches,
            [&mut || touched.step(), &mut || allocated.step(), &mut || blocks.step()],
        );
        let mark = if bytes == POOL { "  ◄ the node's" } else { "" };
        let ratio = blocks.p50 / touched.p50;
        println!(
            "{:>10}  {touched}  {first}  {allocated}  {blocks}  {ratio:>9.2}{mark}",
            size(bytes)
        );
    }
}

fn by_buffers_in_use(clock: &Clock) {
    heading(["in use", "pool", "malloc", "malloc of blocks"], "block ×");
    let pool = pool(POOL).touch();
    for in_use in [1, 2, 4, 8, 16, pool.blocks()] {
        let mut pooled = BuffersInUse::new(&pool, in_use);
        let mut allocated = BuffersInUse::new(&Allocator, in_use);
        let mut blocks = BuffersInUse::new(&AllocatedBlocks, in_use);
        let [pooled, allocated, blocks] = compare(
            clock,
            BATCHES,
            [&mut || pooled.step(), &mut || allocated.step(), &mut || blocks.step()],
        );
        println!("{in_use:>10}  {pooled}  {allocated}  {blocks}  {:>9.2}", blocks.p50 / pooled.p50);
    }
}

fn by_length(clock: &Clock) {
    heading(["length", "pooled", "allocated"], "alloc. ×");
    let pool = pool(POOL).touch();
    for length in [16, 256, 1 << 10, 4 << 10, BLOCK_CAPACITY] {
        let source = vec![b's'; length];
        let (mut one, mut other) = (vec![0; HEAD + length], vec![0; HEAD + length]);
        let [pooled, allocated] = compare(
            clock,
            BATCHES,
            [&mut || send_pooled(&pool, &source, &mut one), &mut || {
                send_allocated(&source, &mut other)
            }],
        );
        println!(
            "{:>10}  {pooled}  {allocated}  {:>9.2}",
            size(length),
            allocated.p50 / pooled.p50
        );
    }
}

fn pool(bytes: usize) -> BufferPool {
    BufferPool::new(bytes, BufferMetrics::default())
}

/// Times the first use of each block in pools of `bytes` bytes.
fn first_uses(bytes: usize, clock: &Clock) -> Times {
    let mut socket = [0; USED];
    let mut taken = Vec::new();
    while taken.len() < FIRST_USES {
        let pool = pool(bytes);
        let mut in_use = Vec::with_capacity(pool.blocks());
        // SAFETY: the call returns only unused memory to the system. Nothing refers to that memory.
        unsafe { libc::malloc_trim(0) };
        for _ in 0..pool.blocks().min(FIRST_USES) {
            taken.push(
                clock.time(|| in_use.push(BufferPool::use_up(Source::take(&pool), &mut socket))),
            );
        }
    }
    Times::of(taken, 1)
}

/// A fixed number of buffers in use. Each new buffer releases the oldest one.
struct BuffersInUse<'a, S: Source> {
    source: &'a S,
    queue: VecDeque<S::Buffer>,
    socket: [u8; USED],
}

impl<'a, S: Source> BuffersInUse<'a, S> {
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

/// Times the candidates, which alternate.
fn compare<const N: usize>(
    clock: &Clock,
    batches: usize,
    mut all: [&mut dyn FnMut(); N],
) -> [Times; N] {
    let mut taken = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (run, taken) in all.iter_mut().zip(&mut taken) {
            run();
            taken.extend((0..batches).map(|_| clock.time(|| (0..BATCH).for_each(|_| run()))));
        }
    }
    taken.map(|taken| Times::of(taken, BATCH))
}

fn send_pooled(pool: &BufferPool, source: &[u8], socket: &mut [u8]) {
    let write = |room: &mut [u8]| {
        room[..source.len()].copy_from_slice(source);
        Some(source.len())
    };
    let mut block = pool
        .take(source.len())
        .and_then(|block| block.fill(write))
        .expect("the body does not fit in a block");
    block.prepend(HEAD).expect("the block has no room for a head").fill(b'h');
    socket.copy_from_slice(black_box(&block));
}

fn send_allocated(source: &[u8], socket: &mut [u8]) {
    let body = Bytes::from_owner(source.to_vec());
    let mut message = BytesMut::with_capacity(HEAD + body.len());
    message.put_bytes(b'h', HEAD);
    message.put_slice(&body);
    drop(body);
    let message = message.freeze();
    socket.copy_from_slice(black_box(&message));
}

/// The clock and the cost of reading it.
struct Clock {
    cost: Duration,
}

impl Clock {
    fn calibrate() -> Self {
        let uncalibrated = Self { cost: Duration::ZERO };
        let mut taken: Vec<_> = (0..FIRST_USES).map(|_| uncalibrated.time(|| {})).collect();
        taken.sort_unstable();
        Self { cost: taken[taken.len() / 2] }
    }

    fn time(&self, run: impl FnOnce()) -> Duration {
        let began = Instant::now();
        run();
        began.elapsed().saturating_sub(self.cost)
    }
}

/// Percentiles of the time per operation, in nanoseconds.
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    /// Computes the percentiles from measurements of `operations` operations each.
    fn of(mut taken: Vec<Duration>, operations: usize) -> Self {
        taken.sort_unstable();
        let at =
            |part: usize| taken[taken.len() * part / 100].as_nanos() as f64 / operations as f64;
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
