//! Connection ids that state, to their issuer alone, which thread owns the connection. This module
//! is pure, except that the key and the ids are drawn at random.
//!
//! ```text
//!  ├── random, 4 bytes ──┼── keyed hash of the random bytes, XOR the thread's number, 4 bytes ──┤
//! ```
//!
//! An observer without the key can neither read the number nor link two ids of a connection (RFC
//! 9000, section 5.1). An id that the router has not issued names a thread by chance only: with 16
//! threads, one in 268 million does.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionId, ConnectionIdGenerator};

/// The length of an id, in bytes.
pub(crate) const LENGTH: usize = 8;

const HALF: usize = LENGTH / 2;

/// The ids of all threads of a process.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionIds {
    key: Arc<RandomState>,
    threads: u32,
}

impl ConnectionIds {
    /// Creates the ids for a number of threads, with a random key.
    pub(crate) fn new(threads: usize) -> Self {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        Self { key: Arc::new(RandomState::new()), threads }
    }

    fn encode(&self, random: [u8; HALF], thread: u32) -> [u8; LENGTH] {
        let mut id = [0; LENGTH];
        let (nonce, hidden) = id.split_at_mut(HALF);
        nonce.copy_from_slice(&random);
        hidden.copy_from_slice(&(self.mask(random) ^ thread).to_be_bytes());
        id
    }

    /// Returns the thread that owns the connection with this id, or `None` if no thread has issued
    /// the id.
    pub(crate) fn owner(&self, id: &[u8]) -> Option<usize> {
        let (random, hidden) = id.split_first_chunk::<HALF>()?;
        let hidden = u32::from_be_bytes(hidden.try_into().ok()?);
        let thread = self.mask(*random) ^ hidden;
        (thread < self.threads).then_some(thread as usize)
    }

    fn mask(&self, random: [u8; HALF]) -> u32 {
        self.key.hash_one(random) as u32
    }

    /// Returns the generator of the ids of one thread.
    pub(crate) fn of_thread(&self, thread: usize) -> Generator {
        Generator { ids: self.clone(), thread }
    }
}

/// Generates the ids of the connections of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    ids: ConnectionIds,
    thread: usize,
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut random = [0; HALF];
        getrandom::fill(&mut random).expect("the system has no random numbers");
        ConnectionId::new(&self.ids.encode(random, self.thread as u32))
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_names_its_thread_only_with_the_key() {
        let (ids, other) = (ConnectionIds::new(16), ConnectionIds::new(16));
        let mut by_chance = 0;
        for thread in 0..16 {
            let mut generator = ids.of_thread(thread);
            for _ in 0..64 {
                let id = generator.generate_cid();
                assert_eq!(ids.owner(&id), Some(thread));
                by_chance += usize::from(other.owner(&id).is_some());
            }
        }
        assert!(by_chance <= 1, "{by_chance} ids were read without the key");
    }

    proptest! {
        #[test]
        fn no_bytes_name_a_thread_that_does_not_exist(
            bytes in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            let ids = ConnectionIds::new(3);
            prop_assert!(ids.owner(&bytes).is_none_or(|thread| thread < 3));
        }

        #[test]
        fn every_encoded_thread_is_decoded(random in any::<[u8; HALF]>(), thread in 0_u32..7) {
            let ids = ConnectionIds::new(7);
            prop_assert_eq!(ids.owner(&ids.encode(random, thread)), Some(thread as usize));
        }
    }
}
