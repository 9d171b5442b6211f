//! scrypt (RFC 7914), in steps: on another thread, or on the shard's thread, where a Worker can be
//! terminated between two steps. Libraries compute scrypt in one call, which takes seconds for the
//! costs that a Worker may choose.
//!
//! ```text
//!  password, salt ─ PBKDF2 ─► p chunks ─┬─ fill: N copies ─► mix: N reads ─┬─ PBKDF2 ─► key
//!                                       └─ one chunk after another ────────┘
//! ```

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tenon_crypto::hash::Hash;
use tenon_crypto::lc::Mac;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::offload::{QueueKind, Slice};
use tenon_engine::slot::slot;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::arguments::Data;
use crate::crypto::derive::Pbkdf2;
use crate::crypto::operation::{Cost, Output, buffer, failed, perform};
use crate::ops::MaybePromise;

/// The length of a block of Salsa20, in words of four bytes.
const BLOCK: usize = 16;

/// The maximum of r. A step computes at least one block of 128 r bytes.
pub(crate) const MAX_R: usize = 1 << 10;

/// The maximum length of all chunks together, in bytes. PBKDF2 hashes them again for every 32 bytes
/// of the key.
const MAX_CHUNKS: usize = 1 << 20;

/// The number of bytes mixed between two checks of the clock: about ten microseconds of work.
const STRIDE: usize = 16 << 10;

/// The time of one step on the shard's thread.
const STEP: Duration = Duration::from_millis(2);

/// The costs of a derivation: N, the block size r, and the parallelization p (RFC 7914 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Costs {
    n: usize,
    r: usize,
    p: usize,
}

impl Costs {
    /// Returns the costs if they are valid (RFC 7914 §6) and within the bounds.
    fn new(n: usize, r: usize, p: usize) -> Option<Self> {
        let chunks = 128_usize.checked_mul(r)?.checked_mul(p)?;
        let is_valid = n.is_power_of_two()
            && n > 1
            && u32::try_from(n).is_ok()
            && (1..=MAX_R).contains(&r)
            && (1..=MAX_CHUNKS).contains(&chunks);
        is_valid.then_some(Self { n, r, p })
    }

    /// Returns the length of a chunk, in words.
    fn words(self) -> usize {
        2 * self.r * BLOCK
    }

    /// Returns the memory of a derivation, in bytes; `None` if it exceeds the address space.
    fn memory(self, len: usize) -> Option<usize> {
        let table = self.words().checked_mul(4)?.checked_mul(self.n)?;
        table.checked_add(2 * self.words() * 4 * self.p)?.checked_add(len)
    }

    /// Returns a lower bound on the CPU time on any processor.
    fn at_least(self) -> Duration {
        const NANOSECONDS_PER_BLOCK: u64 = 16;
        let blocks = (2 * self.r * self.p) as u64 * self.n as u64;
        Duration::from_nanos(blocks.saturating_mul(NANOSECONDS_PER_BLOCK))
    }
}

/// A derivation in progress.
struct Scrypt {
    costs: Costs,
    /// The HMAC whose key is the password, until it compresses the chunks.
    mac: Option<Mac>,
    len: usize,
    phase: Phase,
}

enum Phase {
    /// PBKDF2 expands the password into the chunks.
    Expand(Pbkdf2),
    Mix(Chunks),
    /// PBKDF2 compresses the chunks into the key.
    Compress(Pbkdf2),
    Failed,
}

impl Scrypt {
    fn new(costs: Costs, password: &[u8], salt: &[u8], len: usize) -> Option<Self> {
        let mac = || Mac::new(Hash::Sha256, password);
        let expand = Pbkdf2::new(mac()?, salt.to_vec(), 1, 4 * costs.words() * costs.p);
        Some(Self { costs, mac: Some(mac()?), len, phase: Phase::Expand(expand) })
    }

    /// Continues until `is_over` returns true. Returns the key once it is complete; an error if a
    /// call of AWS-LC failed.
    fn run_slice(&mut self, is_over: &dyn Fn() -> bool) -> Option<Result<Vec<u8>, Thrown>> {
        loop {
            self.phase = match std::mem::replace(&mut self.phase, Phase::Failed) {
                Phase::Expand(mut work) => match work.run_slice(is_over) {
                    Some(true) => Phase::Mix(Chunks::new(self.costs, &Zeroizing::new(work.take()))),
                    Some(false) => Phase::Expand(work),
                    None => return Some(Err(failed())),
                },
                Phase::Mix(mut chunks) => {
                    let is_mixed = chunks.run_slice(is_over);
                    match self.mac.take_if(|_| is_mixed) {
                        Some(mac) => {
                            Phase::Compress(Pbkdf2::new(mac, chunks.to_bytes(), 1, self.len))
                        }
                        None => Phase::Mix(chunks),
                    }
                }
                Phase::Compress(mut work) => match work.run_slice(is_over) {
                    Some(true) => return Some(Ok(work.take())),
                    Some(false) => Phase::Compress(work),
                    None => return Some(Err(failed())),
                },
                Phase::Failed => return Some(Err(failed())),
            };
            if is_over() {
                return None;
            }
        }
    }
}

/// The chunks, each of 128 r bytes, and the table of the chunk that is being mixed.
struct Chunks {
    costs: Costs,
    chunks: Vec<u32>,
    /// N copies of the chunk, one from the beginning of each step of filling.
    table: Vec<u32>,
    /// Space for the output of a step.
    mixed: Vec<u32>,
    /// The index of the chunk that is being mixed.
    chunk: usize,
    /// The number of steps that this chunk has taken, out of 2 N.
    step: usize,
}

impl Chunks {
    fn new(costs: Costs, bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        Self {
            costs,
            chunks: words.collect(),
            table: vec![0; costs.n * costs.words()],
            mixed: vec![0; costs.words()],
            chunk: 0,
            step: 0,
        }
    }

    /// Continues until `is_over` returns true. Returns whether all chunks have been mixed.
    fn run_slice(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        let words = self.costs.words();
        let stride = (STRIDE / (4 * words)).max(1);
        while self.chunk < self.costs.p {
            let chunk = &mut self.chunks[self.chunk * words..][..words];
            let until = (2 * self.costs.n).min(self.step + stride);
            while self.step < until {
                if self.step < self.costs.n {
                    self.table[self.step * words..][..words].copy_from_slice(chunk);
                } else {
                    // N is a power of two, of at most 32 bits.
                    let index = chunk[words - BLOCK] as usize & (self.costs.n - 1);
                    let other = &self.table[index * words..][..words];
                    chunk.iter_mut().zip(other).for_each(|(word, other)| *word ^= other);
                }
                mix(chunk, &mut self.mixed);
                chunk.copy_from_slice(&self.mixed);
                self.step += 1;
            }
            if self.step == 2 * self.costs.n {
                self.chunk += 1;
                self.step = 0;
            }
            if self.chunk < self.costs.p && is_over() {
                return false;
            }
        }
        true
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // The table, which follows from the chunks, is not overwritten: that would take as long as
        // filling it.
        self.chunks.zeroize();
        self.mixed.zeroize();
    }
}

/// Mixes the blocks of a chunk (RFC 7914 §4).
fn mix(chunk: &[u32], mixed: &mut [u32]) {
    let (blocks, _) = chunk.as_chunks::<BLOCK>();
    let mut sum = *blocks.last().expect("a chunk has at least two blocks");
    let half = blocks.len() / 2;
    let (out, _) = mixed.as_chunks_mut::<BLOCK>();
    for (index, block) in blocks.iter().enumerate() {
        sum.iter_mut().zip(block).for_each(|(word, other)| *word ^= other);
        salsa(&mut sum);
        // Blocks with an even index come before those with an odd index.
        out[index / 2 + index % 2 * half] = sum;
    }
}

/// Applies Salsa20 with eight rounds to a block (RFC 7914 §3).
fn salsa(block: &mut [u32; BLOCK]) {
    let mut state = *block;
    for _ in 0..4 {
        for [a, b, c, d] in [[0, 4, 8, 12], [5, 9, 13, 1], [10, 14, 2, 6], [15, 3, 7, 11]] {
            quarter(&mut state, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]] {
            quarter(&mut state, a, b, c, d);
        }
    }
    block.iter_mut().zip(state).for_each(|(word, mixed)| *word = word.wrapping_add(mixed));
}

#[inline(always)]
fn quarter(state: &mut [u32; BLOCK], a: usize, b: usize, c: usize, d: usize) {
    state[b] ^= state[a].wrapping_add(state[d]).rotate_left(7);
    state[c] ^= state[b].wrapping_add(state[a]).rotate_left(9);
    state[d] ^= state[c].wrapping_add(state[b]).rotate_left(13);
    state[a] ^= state[d].wrapping_add(state[c]).rotate_left(18);
}

/// Begins a derivation, and charges its memory to the Worker.
fn begin(
    scope: &mut v8::PinScope<'_, '_>,
    (password, salt): (&[u8], &[u8]),
    costs: Costs,
    len: usize,
) -> Result<(Scrypt, Charge), Thrown> {
    let memory = costs.memory(len).ok_or_else(out_of_memory)?;
    let charge = make_room(scope, memory).and_then(|buffers| buffers.charge(memory));
    let charge = charge.ok_or_else(out_of_memory)?;
    Ok((Scrypt::new(costs, password, salt, len).ok_or_else(failed)?, charge))
}

fn costs(n: usize, r: usize, p: usize) -> Result<Costs, Thrown> {
    Costs::new(n, r, p).ok_or_else(failed)
}

/// Returns whether the costs are valid and within the bounds.
#[op]
pub(crate) fn scrypt_allows(n: usize, r: usize, p: usize) -> bool {
    Costs::new(n, r, p).is_some()
}

/// Derives a key of `len` bytes on another thread. Returns a promise of the key.
#[op]
pub(crate) fn scrypt_derive<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    password: Data,
    salt: Data,
    n: usize,
    r: usize,
    p: usize,
    len: usize,
) -> Result<MaybePromise<'s, v8::ArrayBuffer>, Thrown> {
    let costs = costs(n, r, p)?;
    let (mut work, charge) = begin(scope, (&password, &salt), costs, len)?;
    let cost = Cost::Large { queue: QueueKind::Parts, at_least: costs.at_least() };
    perform(scope, cost, move |slice| {
        let _charged = &charge;
        let key = work.run_slice(&|| slice.is_some_and(Slice::is_over))?;
        Some(key.map(Output::Bytes))
    })
}

/// An isolate's derivations on the shard's thread, by number. Numbers are not reused.
#[derive(Default)]
struct Derivations {
    last: u32,
    open: FxHashMap<u32, (Scrypt, Charge)>,
}

/// Begins to derive a key of `len` bytes on this thread. Returns the number of the derivation.
#[op]
pub(crate) fn scrypt_open(
    scope: &mut v8::PinScope<'_, '_>,
    password: Data,
    salt: Data,
    n: usize,
    r: usize,
    p: usize,
    len: usize,
) -> Result<u32, Thrown> {
    let work = begin(scope, (&password, &salt), costs(n, r, p)?, len)?;
    let derivations = slot::<Derivations>(scope);
    derivations.last += 1;
    derivations.open.insert(derivations.last, work);
    Ok(derivations.last)
}

/// Continues a derivation for about two milliseconds. Returns the key once it is complete.
#[op]
pub(crate) fn scrypt_step<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    derivation: u32,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    let began = Instant::now();
    let (work, _) = slot::<Derivations>(scope).open.get_mut(&derivation)?;
    let key = work.run_slice(&|| began.elapsed() >= STEP)?;
    Some(key.and_then(|key| buffer(scope, key)))
}

/// Drops a derivation.
#[op]
pub(crate) fn scrypt_close(scope: &mut v8::PinScope<'_, '_>, derivation: u32) {
    slot::<Derivations>(scope).open.remove(&derivation);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derive(
        password: &[u8],
        salt: &[u8],
        (n, r, p): (usize, usize, usize),
        len: usize,
    ) -> String {
        let mut work = Scrypt::new(Costs::new(n, r, p).unwrap(), password, salt, len).unwrap();
        let key =
            std::iter::repeat_with(|| work.run_slice(&|| true)).find_map(|done| done).unwrap();
        key.ok().unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn keys_are_those_of_rfc_7914() {
        assert_eq!(
            derive(b"", b"", (16, 1, 1), 64),
            "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
             fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"
        );
        assert_eq!(
            derive(b"password", b"NaCl", (1024, 8, 16), 64),
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
             2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"
        );
    }

    #[test]
    fn costs_beyond_the_bounds_are_refused() {
        assert!(Costs::new(1 << 14, 8, 1).is_some());
        assert!(Costs::new(2, MAX_R, 8).is_some());
        for (n, r, p) in [
            (0, 8, 1),
            (1, 8, 1),
            (3, 8, 1),
            (1 << 32, 8, 1),
            (16, 0, 1),
            (16, 8, 0),
            (16, MAX_R + 1, 1),
            (16, MAX_R, 9),
            (16, usize::MAX, usize::MAX),
        ] {
            assert!(Costs::new(n, r, p).is_none(), "{n} {r} {p}");
        }
        assert!(Costs::new(1 << 31, MAX_R, 1).unwrap().memory(usize::MAX).is_none());
    }
}
