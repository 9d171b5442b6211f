//! Bounds the number of a thread's requests that one shard may have, because a silent or slow shard
//! must not exhaust the permits for all other shards.
//!
//! A request counts from before it is sent until the last byte of its response has arrived. A
//! tunnel does not count once it is open: tunnels have bounds of their own.
//!
//! A bulkhead belongs to one thread.

use tenon_clients::quota::{Hold, Peer, Quota};

/// The number of equal parts into which a thread's maximum of requests in flight is divided; a
/// shard may have one part. A responsive shard has a hundred times fewer requests than one part; if
/// eight shards are unresponsive, the cause is not a single shard.
const PARTS: usize = 8;

/// The permits of one shard. Addresses share them, so that no single address takes them all.
pub(crate) struct Bulkhead(Quota);

/// The permit of one request.
pub(crate) struct BulkheadPermit {
    _hold: Hold,
}

impl Bulkhead {
    /// Creates the bulkhead of one shard.
    ///
    /// # Arguments
    /// * `in_flight` - the number of requests that the thread may have in flight.
    pub(crate) fn new(in_flight: usize) -> Self {
        Self(Quota::new((in_flight / PARTS).max(1)))
    }

    /// Returns the number of requests that have a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.0.used()
    }

    /// Takes a permit for one more request of this address, if there is one.
    pub(crate) fn acquire(&self, peer: Peer) -> Option<BulkheadPermit> {
        self.0.account(peer).take(1).map(|hold| BulkheadPermit { _hold: hold })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(last: u8) -> Peer {
        IpAddr::from([10, 0, 0, last]).into()
    }

    fn all(bulkhead: &Bulkhead, peer: Peer) -> Vec<BulkheadPermit> {
        std::iter::from_fn(|| bulkhead.acquire(peer)).collect()
    }

    #[test]
    fn a_shard_gets_at_most_its_part_of_the_permits() {
        let bulkhead = Bulkhead::new(800);
        let permits: Vec<_> = (0..200).flat_map(|last| all(&bulkhead, peer(last))).collect();
        assert_eq!(permits.len(), 100);
        drop(permits);
        assert!(bulkhead.acquire(peer(1)).is_some());
    }

    #[test]
    fn several_greedy_addresses_leave_room_for_the_next() {
        let bulkhead = Bulkhead::new(16_384);
        let mut crowd = Vec::new();
        loop {
            let before = crowd.len();
            crowd.extend((0..8).filter_map(|last| bulkhead.acquire(peer(last))));
            if crowd.len() == before {
                break;
            }
        }
        let next = all(&bulkhead, peer(100)).len();
        assert!(next > 50, "the crowd got {} permits, and the next address {next}", crowd.len());
    }

    #[test]
    fn a_released_permit_can_be_taken_again() {
        let bulkhead = Bulkhead::new(PARTS);
        let permit = bulkhead.acquire(peer(1));
        assert!(bulkhead.acquire(peer(2)).is_none());
        drop(permit);
        assert!(bulkhead.acquire(peer(2)).is_some());
    }
}
