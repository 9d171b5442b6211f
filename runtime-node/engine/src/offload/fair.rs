//! A queue that serves its owners in turn: each owner gets one job before any owner gets a second.
//! This module is pure.

use std::collections::{BTreeMap, VecDeque};

/// Maximum number of waiting jobs of one owner.
const MAX_JOBS_OF_ONE: usize = 256;

/// Maximum number of waiting jobs in total.
const MAX_JOBS: usize = 16_384;

/// A queue of jobs `J` of owners `K`.
pub(super) struct FairQueue<K, J> {
    /// The owners with waiting jobs, each of them once. The first owner is served next.
    ring: VecDeque<K>,
    /// The waiting jobs of each owner in the ring.
    waiting: BTreeMap<K, VecDeque<J>>,
    len: usize,
}

impl<K, J> Default for FairQueue<K, J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, J> FairQueue<K, J> {
    pub(super) const fn new() -> Self {
        Self { ring: VecDeque::new(), waiting: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Clone, J> FairQueue<K, J> {
    /// Returns whether another job of `owner` would be refused.
    pub(super) fn is_full(&self, owner: &K) -> bool {
        self.len >= MAX_JOBS
            || self.waiting.get(owner).is_some_and(|jobs| jobs.len() >= MAX_JOBS_OF_ONE)
    }

    /// Appends `job` to the jobs of `owner`.
    ///
    /// # Errors
    /// Returns the job if too many jobs are waiting.
    pub(super) fn push(&mut self, owner: K, job: J) -> Result<(), J> {
        if self.is_full(&owner) {
            return Err(job);
        }
        self.put(owner, |jobs| jobs.push_back(job));
        Ok(())
    }

    /// Puts back a job that has begun, in front of the other jobs of `owner`. Owners that
    /// were already waiting when the job was taken are served first. Such a job is never refused.
    pub(super) fn put_back(&mut self, owner: K, job: J) {
        self.put(owner, |jobs| jobs.push_front(job));
    }

    fn put(&mut self, owner: K, put: impl FnOnce(&mut VecDeque<J>)) {
        let jobs = self.waiting.entry(owner.clone()).or_default();
        if jobs.is_empty() {
            self.ring.push_back(owner);
        }
        put(jobs);
        self.len += 1;
    }

    /// Removes and returns the next job and its owner.
    pub(super) fn pop(&mut self) -> Option<(K, J)> {
        let owner = self.ring.pop_front()?;
        let jobs = self.waiting.get_mut(&owner)?;
        let job = jobs.pop_front()?;
        self.len -= 1;
        if jobs.is_empty() {
            self.waiting.remove(&owner);
        } else {
            self.ring.push_back(owner.clone());
        }
        Some((owner, job))
    }

    /// Removes and returns the jobs of `owner` for which `predicate` returns true.
    pub(super) fn remove(&mut self, owner: &K, predicate: impl Fn(&J) -> bool) -> VecDeque<J> {
        let Some(jobs) = self.waiting.get_mut(owner) else { return VecDeque::new() };
        let (removed, kept) = std::mem::take(jobs).into_iter().partition(predicate);
        *jobs = kept;
        if jobs.is_empty() {
            self.waiting.remove(owner);
            self.ring.retain(|other| other != owner);
        }
        self.len -= removed.len();
        removed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_owner_gets_a_turn_before_any_owner_gets_a_second() {
        let mut queue = FairQueue::new();
        for job in ["a1", "a2", "a3", "b1", "c1"] {
            queue.push(job.chars().next().unwrap(), job).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, job)| job).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "a3"]);
    }

    #[test]
    fn a_job_that_has_begun_continues_before_its_owners_other_jobs() {
        let mut queue = FairQueue::new();
        for job in ["a1", "a2", "b1"] {
            queue.push(job.chars().next().unwrap(), job).unwrap();
        }
        let (owner, job) = queue.pop().unwrap();
        queue.put_back(owner, job);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, job)| job).collect();
        assert_eq!(order, ["b1", "a1", "a2"]);
    }

    #[test]
    fn a_full_queue_of_one_owner_leaves_room_for_another() {
        let mut queue = FairQueue::new();
        for job in 0..MAX_JOBS_OF_ONE {
            queue.push("a", job).unwrap();
        }
        assert_eq!(queue.push("a", 7), Err(7));
        queue.push("b", MAX_JOBS_OF_ONE).unwrap();
        let removed = queue.remove(&"a", |job| *job < 100);
        assert_eq!(removed.len(), 100);
        queue.push("a", MAX_JOBS_OF_ONE + 1).unwrap();
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), MAX_JOBS_OF_ONE - 100 + 2);
    }

    proptest! {
        #[test]
        fn no_job_is_lost_and_no_owner_is_starved(
            pushes in prop::collection::vec((0_u8..5, 0_u8..3), 0..200),
        ) {
            let mut queue = FairQueue::new();
            let (mut pushed, mut popped) = (0, 0);
            let mut passed: BTreeMap<u8, usize> = BTreeMap::new();
            for (number, (owner, pops)) in pushes.into_iter().enumerate() {
                queue.push(owner, number).unwrap();
                pushed += 1;
                passed.entry(owner).or_default();
                for _ in 0..pops {
                    let Some((next, _)) = queue.pop() else { break };
                    popped += 1;
                    passed.values_mut().for_each(|times| *times += 1);
                    passed.remove(&next);
                    if queue.waiting.contains_key(&next) {
                        passed.insert(next, 0);
                    }
                    prop_assert!(passed.values().all(|times| *times <= 5), "{passed:?}");
                }
            }
            prop_assert_eq!(std::iter::from_fn(|| queue.pop()).count(), pushed - popped);
        }
    }
}
