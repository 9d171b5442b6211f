//! Rate limits with the generic cell rate algorithm (ITU-T Recommendation I.371): the state of a
//! limit is one point in time, up to which its requests are accounted for.
//!
//! ```text
//!      now          accounted time       now + (burst - 1) intervals
//!   ────┼──────────────────┼──────────────────────┼──────────► time
//! ```
//!
//! A request is admitted while the accounted time is at most `burst - 1` intervals ahead. It moves
//! the accounted time by one interval.
//!
//! All threads share the state without a lock: a limit of a Worker or of a namespace is an atomic
//! ([`Bucket`]), and the limits of all clients together are a table of fixed size
//! ([`ClientBuckets`]), in which clients can share places, as in a count-min sketch with
//! conservative update (Estan and Varghese, "New directions in traffic measurement and accounting",
//! 2002). The size of the table therefore depends neither on the number of clients nor on the
//! number of their limits.
//!
//! Only [`ClientBuckets::now`] reads the clock. Everywhere else, the time is an argument, in
//! nanoseconds after a common start.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::quota::Peer;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The number of places for clients; all places together take 4 MiB. With 10,000 clients that have
/// just sent a request, one in 30,000 shares all its places.
const PLACES: usize = 1 << 19;

/// The number of places of each client.
const HASHES: u64 = 4;

/// A rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub per_second: NonZeroU32,
    /// The number of requests that may arrive at the same time.
    pub burst: NonZeroU32,
}

impl Rate {
    /// Returns the rate, or `None` if either number is zero.
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        Some(Self { per_second: NonZeroU32::new(per_second)?, burst: NonZeroU32::new(burst)? })
    }

    /// Returns the accounted time after a request.
    ///
    /// # Arguments
    /// * `accounted` - the accounted time before.
    /// * `routers` - the number of routers that share the rate, each with the same part.
    ///
    /// # Errors
    /// If the request is not admitted, returns the time after which the next one is.
    fn admit(self, accounted: u64, now: u64, routers: NonZeroU32) -> Result<u64, Duration> {
        let routers = u64::from(routers.get());
        let interval = SECOND * routers / u64::from(self.per_second.get());
        let burst = (u64::from(self.burst.get()) / routers).max(1);
        let start = accounted.max(now);
        let over = (start - now).saturating_sub((burst - 1) * interval);
        if over > 0 { Err(Duration::from_nanos(over)) } else { Ok(start + interval) }
    }
}

/// The state of one limit: its accounted time, in nanoseconds.
#[derive(Debug, Default)]
pub struct Bucket(AtomicU64);

impl Bucket {
    /// Admits a request, if the rate allows it.
    ///
    /// # Arguments
    /// * `now` - the time, in nanoseconds, as [`ClientBuckets::now`] returns it.
    /// * `routers` - the number of routers that share the rate.
    ///
    /// # Errors
    /// If the request is not admitted, returns the time after which the next one is.
    pub fn admit(&self, rate: Rate, now: u64, routers: NonZeroU32) -> Result<(), Duration> {
        let mut accounted = self.0.load(Relaxed);
        loop {
            let next = rate.admit(accounted, now, routers)?;
            match self.0.compare_exchange_weak(accounted, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => accounted = other,
            }
        }
    }
}

/// The limits of all clients of all Workers.
pub struct ClientBuckets {
    started: Instant,
    /// The seed of the hashes. Clients do not know it, so that no client can choose the places of
    /// another.
    seed: RandomState,
    places: OnceLock<Box<[AtomicU64]>>,
}

impl Default for ClientBuckets {
    fn default() -> Self {
        Self { started: Instant::now(), seed: RandomState::new(), places: OnceLock::new() }
    }
}

impl ClientBuckets {
    /// Returns the time since the start, in nanoseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Admits a request of a client, if the rate allows it. If several threads examine requests of
    /// the client at the same moment, each of these threads may admit one request too many.
    ///
    /// # Arguments
    /// * `key` - identifies the Worker whose limit it is.
    /// * `now`, `routers` - as for [`Bucket::admit`].
    ///
    /// # Errors
    /// If the request is not admitted, returns the time after which the next one is.
    pub fn admit(
        &self,
        key: u64,
        peer: Peer,
        rate: Rate,
        now: u64,
        routers: NonZeroU32,
    ) -> Result<(), Duration> {
        let places = self
            .places
            .get_or_init(|| std::iter::repeat_with(AtomicU64::default).take(PLACES).collect());
        let hash = self.seed.hash_one((key, peer, rate));
        // Double hashing (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
        let step = (hash >> 32) | 1;
        let own = || {
            (0..HASHES)
                .map(|i| &places[(hash.wrapping_add(i.wrapping_mul(step))) as usize % PLACES])
        };
        // Each place accounts for at least this client's requests, so the earliest time is the most
        // accurate.
        let accounted = own().map(|place| place.load(Relaxed)).min().unwrap_or_default();
        let next = rate.admit(accounted, now, routers)?;
        own().for_each(|place| {
            place.fetch_max(next, Relaxed);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ONE: NonZeroU32 = NonZeroU32::MIN;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate::new(per_second, burst).unwrap()
    }

    fn peer(number: u32) -> Peer {
        Peer::from(std::net::IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    /// Returns the number of requests admitted at one time.
    fn admitted(mut admit: impl FnMut() -> Result<(), Duration>) -> usize {
        (0..1_000).take_while(|_| admit().is_ok()).count()
    }

    #[test]
    fn a_burst_is_admitted_immediately_and_then_the_rate() {
        let (bucket, rate) = (Bucket::default(), rate(10, 5));
        assert_eq!(admitted(|| bucket.admit(rate, SECOND, ONE)), 5);
        let wait = bucket.admit(rate, SECOND, ONE).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        let later = SECOND + SECOND / 10;
        assert_eq!(admitted(|| bucket.admit(rate, later, ONE)), 1);
        assert_eq!(admitted(|| bucket.admit(rate, 10 * SECOND, ONE)), 5);
    }

    #[test]
    fn routers_share_a_rate_and_its_burst() {
        let (bucket, rate, three) = (Bucket::default(), rate(30, 9), NonZeroU32::new(3).unwrap());
        assert_eq!(admitted(|| bucket.admit(rate, SECOND, three)), 3);
        let mut later = 0;
        for tenth in 1..=10 {
            later += admitted(|| bucket.admit(rate, SECOND + tenth * SECOND / 10, three));
        }
        assert_eq!(later, 10, "the router did not admit a third of 30 requests per second");
        let many = NonZeroU32::new(100).unwrap();
        let fresh = Bucket::default();
        assert_eq!(admitted(|| fresh.admit(rate, SECOND, many)), 1, "the burst is not one request");
    }

    #[test]
    fn threads_admit_no_more_than_the_burst_together() {
        let (bucket, rate) = (Bucket::default(), rate(1, 100));
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| admitted(|| bucket.admit(rate, SECOND, ONE))))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 100);
    }

    #[test]
    fn clients_and_workers_have_limits_of_their_own() {
        let (clients, rate) = (ClientBuckets::default(), rate(1, 3));
        for (worker, client) in [(1, 1), (1, 2), (2, 1)] {
            let admit = || clients.admit(worker, peer(client), rate, SECOND, ONE);
            assert_eq!(admitted(admit), 3, "worker {worker}, client {client}");
        }
        assert_eq!(admitted(|| clients.admit(1, peer(1), rate, 2 * SECOND, ONE)), 1);
    }

    #[test]
    fn few_of_many_clients_are_limited_because_of_others() {
        let (clients, rate) = (ClientBuckets::default(), rate(1, 1));
        let refused = (0..10_000)
            .filter(|client| clients.admit(1, peer(*client), rate, SECOND, ONE).is_err())
            .count();
        assert!(refused <= 10, "{refused} of 10,000 first requests were refused");
    }
}
