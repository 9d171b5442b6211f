//! The ring maps a worker id to an ordered list of slots, identically in every router that knows
//! the same slots. A slot of the ring is a shard of a node, and not a place for an isolate.
//!
//! The ring uses multi-probe consistent hashing (Appleton and O'Reilly, "Multi-probe consistent
//! hashing", 2015, <https://arxiv.org/abs/1505.00062>). A plain ring evens out its arcs with a
//! thousand points per slot; here the *key* is hashed `PROBES` times and goes to the point nearest
//! after any of its probes, so that the length of one arc hardly matters. A slot's share is then at
//! most `k/(k-1)` of the mean for `k` probes in a large ring; `POINTS` points per slot do the same
//! for a ring of few slots, in which chance averages out less.
//!
//! ```text
//!            p1        p0            p2          probes of one key
//!  ──●────────┴─●───────┴────●────────┴────●──   points of slots
//!    a          b  ◄ nearest c             a     candidates: b, c, a
//! ```
//!
//! The candidates after the first are those that would be first if the ones before them were gone.
//! So a lost slot gives each of its keys to that key's next candidate, and no other key moves.
//!
//! This module is pure. The hashes are SHA-256 and splitmix64's finalizer and never change, so that
//! routers of different versions and platforms agree, even after a restart.

use sha2::{Digest as _, Sha256};
use tenon_proto::id::{ShardId, WorkerId};

/// The number of probes per key. 16 probes bound a slot's share of a large ring to 1.07 of the
/// mean.
const PROBES: usize = 16;

/// The number of points per slot. 16,000 slots then take 1.5 MB, which still fits into a core's
/// second-level cache.
const POINTS: u64 = 8;

/// 2^64 divided by the golden ratio: splitmix64's increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The position of a Worker in every ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Returns the key of a Worker.
    pub fn of(worker: &WorkerId) -> Self {
        Self(hash(&[worker.as_str().as_bytes()]))
    }

    /// Returns the key of a Worker's session, which selects the session's revision.
    pub fn of_session(worker: &WorkerId, session: &[u8]) -> Self {
        Self(hash(&[worker.as_str().as_bytes(), &[0], session]))
    }

    /// Returns the hash itself.
    #[inline]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns an index below `count`, for a choice without a ring.
    ///
    /// # Panics
    /// Panics if `count` is 0.
    pub fn choose(self, count: usize) -> usize {
        (self.0 % count as u64) as usize
    }

    /// Returns the places that are probed: an arithmetic progression, as good as independent hashes
    /// (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006). The step is odd, so that
    /// all probes differ.
    fn probes(self) -> impl Iterator<Item = u32> {
        let step = high(mix(self.0)) | 1;
        std::iter::successors(Some(high(self.0)), move |place| Some(place.wrapping_add(step)))
            .take(PROBES)
    }
}

/// The seed of a slot's points: the same for the same shard of the same node, wherever it is
/// listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Derives the seed of a shard.
    ///
    /// # Arguments
    /// * `node` - the node's name, unique among all nodes.
    pub fn of(node: &str, shard: ShardId) -> Self {
        Self(hash(&[node.as_bytes(), &[0], &shard.0.to_le_bytes()]))
    }

    fn points(self) -> impl Iterator<Item = u32> {
        (0..POINTS).map(move |i| high(mix(self.0.wrapping_add(GOLDEN.wrapping_mul(i)))))
    }
}

/// A slot's position in the list that the ring was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex(u32);

impl SlotIndex {
    /// Returns the position.
    #[inline]
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// An immutable ring.
#[derive(Debug, Default)]
pub struct Ring {
    slots: usize,
    /// The places of the points in ascending order, and an end mark.
    places: Vec<u32>,
    /// The slot of each point.
    owners: Vec<SlotIndex>,
    /// The first point at or after the beginning of a stretch, by the highest bits of a place.
    index: Vec<u32>,
    /// The number of bits of a place that are not part of the index.
    shift: u32,
}

impl Ring {
    /// Builds a ring of the slots with these seeds. Their order affects only the [`SlotIndex`]es
    /// that are returned, and ties, so it must be the same in every process.
    pub fn new(seeds: impl IntoIterator<Item = Seed>) -> Self {
        let mut points = Vec::new();
        let mut slots = 0;
        for seed in seeds {
            // The place is in the high half and the slot in the low half, so one integer sorts by
            // both.
            points.extend(seed.points().map(|place| u64::from(place) << 32 | slots as u64));
            slots += 1;
        }
        if slots == 0 {
            return Self::default();
        }
        points.sort_unstable();
        let mut places: Vec<u32> = points.iter().map(|point| high(*point)).collect();
        // A stretch has about one point. There are at least POINTS points, so the shift is below
        // 32.
        let bits = points.len().next_power_of_two().trailing_zeros();
        let shift = u32::BITS - bits;
        let mut next = 0;
        let index = (0..1u32 << bits)
            .map(|stretch| {
                while places.get(next).is_some_and(|place| place >> shift < stretch) {
                    next += 1;
                }
                next as u32
            })
            .collect();
        // The end mark ends a scan without a comparison of indices.
        places.push(u32::MAX);
        let owners = points.iter().map(|point| SlotIndex(*point as u32)).collect();
        Self { slots, places, owners, index, shift }
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.slots
    }

    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// Returns the first candidate of a key, or `None` if there are no slots.
    pub fn first(&self, key: Key) -> Option<SlotIndex> {
        if self.is_empty() {
            return None;
        }
        let (mut nearest, mut best) = (u32::MAX, 0);
        for place in key.probes() {
            let point = self.successor(place);
            let distance = self.places[point].wrapping_sub(place);
            // These lines compile to two conditional moves, because the outcome is unpredictable.
            let nearer = distance < nearest;
            nearest = if nearer { distance } else { nearest };
            best = if nearer { point } else { best };
        }
        Some(self.owners[best])
    }

    /// Returns all slots in a key's order of preference, each once.
    pub fn candidates(&self, key: Key) -> impl Iterator<Item = SlotIndex> + '_ {
        let mut walk = Candidates::new(key);
        std::iter::from_fn(move || walk.next(self))
    }

    /// Returns, for each slot, the share of all keys of which it is the first candidate.
    ///
    /// A key goes to the point that is nearest after one of its probes. The probability that a
    /// probe is at least `d` before the next point depends on the arcs between points, and so does
    /// the probability that the nearest of all probes is in a given arc, at a given distance. The
    /// share of a point is the integral of that probability over its arc.
    pub fn shares(&self) -> Vec<f64> {
        let circle = 2f64.powi(32);
        let mut before = self.places[..self.owners.len()].last().copied().unwrap_or_default();
        let arcs = self.places.iter().zip(&self.owners).map(|(&place, &owner)| {
            let arc = place.wrapping_sub(std::mem::replace(&mut before, place));
            // A single point has the whole circle.
            (if self.owners.len() == 1 { circle } else { f64::from(arc) }, owner)
        });
        let mut arcs: Vec<_> = arcs.collect();
        arcs.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut shares = vec![0.0; self.slots];
        // The arcs are integrated in stretches that end at the length of the next arc. `share` is
        // the share of every longer arc within `length`, and `farther` is the probability that a
        // probe is farther than `length` from the next point.
        let (mut length, mut share, mut farther) = (0.0, 0.0, 1.0f64);
        for (rank, &(arc, owner)) in arcs.iter().enumerate() {
            let longer = (arcs.len() - rank) as f64;
            let rest = (farther - longer * (arc - length) / circle).max(0.0);
            share += (farther.powi(PROBES as i32) - rest.powi(PROBES as i32)) / longer;
            (length, farther) = (arc, rest);
            shares[owner.get()] += share;
        }
        shares
    }

    /// Returns the first point at or after a place, and wraps around at the end.
    fn successor(&self, place: u32) -> usize {
        let mut point = self.index[(place >> self.shift) as usize] as usize;
        // Two branchless steps come before the loop, whose branch is then nearly always the same.
        // The end mark is no less than any place, so no step goes beyond it.
        point += usize::from(self.places[point] < place);
        point += usize::from(self.places[point] < place);
        while self.places[point] < place {
            point += 1;
        }
        if point == self.owners.len() { 0 } else { point }
    }
}

/// A walk through a key's candidates that does not borrow the ring, so that it can be held across
/// an await. The first step costs as much as [`Ring::first`]; only a second step sets up the walk.
#[derive(Debug)]
pub struct Candidates {
    key: Key,
    taken: Vec<SlotIndex>,
    cursors: Vec<Cursor>,
}

/// The state of one probe in the walk.
#[derive(Debug)]
struct Cursor {
    /// The index of the next point.
    point: usize,
    /// The distance from the probe to the next point.
    distance: u32,
    /// The number of points that the walk has not passed, including the next point.
    left: usize,
}

impl Candidates {
    /// Begins a walk at a key's first candidate.
    pub fn new(key: Key) -> Self {
        Self { key, taken: Vec::new(), cursors: Vec::new() }
    }

    /// Returns the next candidate, or `None` after the last. Every call must pass the same ring.
    pub fn next(&mut self, ring: &Ring) -> Option<SlotIndex> {
        if self.taken.len() >= ring.slots {
            return None;
        }
        let slot =
            if self.taken.is_empty() { ring.first(self.key)? } else { self.nearest_untaken(ring)? };
        self.taken.push(slot);
        Some(slot)
    }

    /// Merges the walks of all probes by distance, as if the taken slots had no points.
    fn nearest_untaken(&mut self, ring: &Ring) -> Option<SlotIndex> {
        if self.cursors.is_empty() {
            self.cursors.extend(self.key.probes().map(|place| {
                let point = ring.successor(place);
                Cursor {
                    point,
                    distance: ring.places[point].wrapping_sub(place),
                    left: ring.owners.len(),
                }
            }));
        }
        loop {
            let cursor = self
                .cursors
                .iter_mut()
                .filter(|cursor| cursor.left > 0)
                .min_by_key(|cursor| cursor.distance)?;
            let slot = ring.owners[cursor.point];
            if !self.taken.contains(&slot) {
                return Some(slot);
            }
            let next = if cursor.point + 1 == ring.owners.len() { 0 } else { cursor.point + 1 };
            cursor.distance = cursor
                .distance
                .wrapping_add(ring.places[next].wrapping_sub(ring.places[cursor.point]));
            cursor.point = next;
            cursor.left -= 1;
        }
    }
}

/// Returns the first eight bytes of SHA-256.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    let digest = hasher.finalize();
    u64::from_le_bytes(digest[..8].try_into().expect("a SHA-256 digest has 32 bytes"))
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn high(z: u64) -> u32 {
    (z >> 32) as u32
}

#[cfg(test)]
mod tests;
