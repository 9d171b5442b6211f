//! A priority queue of keys by time. This module is pure.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use jiff::Timestamp;

/// A queue of keys by the times at which they are due. It contains each key at most once.
#[derive(Debug)]
pub struct TimerQueue<K> {
    by_time: BTreeSet<(Timestamp, K)>,
    by_key: HashMap<K, Timestamp>,
}

impl<K> Default for TimerQueue<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_key: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> TimerQueue<K> {
    /// Sets the time of a key in place of its previous time, or removes the key.
    pub fn set(&mut self, key: &K, time: Option<Timestamp>) {
        if let Some(before) = self.by_key.remove(key) {
            self.by_time.remove(&(before, key.clone()));
        }
        if let Some(time) = time {
            self.by_key.insert(key.clone(), time);
            self.by_time.insert((time, key.clone()));
        }
    }

    /// Returns the earliest time.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Removes and returns the key with the earliest time, if that time is not after `now`.
    pub fn take(&mut self, now: Timestamp) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Timestamp> {
        Some(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn keys_are_taken_in_the_order_of_their_times_and_only_once() {
        let mut timers = TimerQueue::default();
        timers.set(&"b", at(20));
        timers.set(&"a", at(30));
        timers.set(&"c", at(40));
        timers.set(&"a", at(10));
        assert_eq!(timers.next(), at(10));
        let now = at(20).unwrap();
        assert_eq!(
            [timers.take(now), timers.take(now), timers.take(now)],
            [Some("a"), Some("b"), None]
        );
        timers.set(&"c", None);
        assert_eq!(timers.next(), None);
    }
}
