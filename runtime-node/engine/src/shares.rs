//! Divides a process's limited resources among namespaces: addresses for memories, and room for
//! code.
//!
//! A namespace may have many Workers, and each Worker many isolates. All isolates of a namespace
//! together hold at most the share that a tenant has of a shard ([`Share`]): half, or all but an
//! eighth while no other namespace holds any of the resource. Only allocations that
//! cannot be refused may exceed the share ([`Shares::take_forced`]). An amount that is released is
//! immediately available to others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::share::Share;

/// A limited resource of the process, and the amounts of it that namespaces hold.
pub(crate) struct Shares {
    whole: usize,
    /// The total that all namespaces hold, which can be read without the lock.
    all: AtomicUsize,
    held: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// An amount that is taken from the whole, and released when the part is dropped.
pub(crate) struct Part {
    shares: &'static Shares,
    namespace: Arc<str>,
    amount: usize,
}

impl Shares {
    pub(crate) const fn new(whole: usize) -> Self {
        Self { whole, all: AtomicUsize::new(0), held: Mutex::new(BTreeMap::new()) }
    }

    /// Takes `amount` if the namespace then holds at most its share, and all namespaces together
    /// hold at most the whole. Otherwise returns `None`.
    pub(crate) fn take(&'static self, namespace: &Arc<str>, amount: usize) -> Option<Part> {
        let part = self.take_forced(namespace, amount);
        (!part.is_too_much()).then_some(part)
    }

    /// Takes `amount` even beyond the namespace's share, for allocations that cannot be refused.
    pub(crate) fn take_forced(&'static self, namespace: &Arc<str>, amount: usize) -> Part {
        *self.held().entry(Arc::clone(namespace)).or_default() += amount;
        self.all.fetch_add(amount, Ordering::Relaxed);
        Part { shares: self, namespace: Arc::clone(namespace), amount }
    }

    /// Returns the total that all namespaces hold.
    pub(crate) fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        // No code panics while it holds the lock, so the lock is never poisoned.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// Returns whether the namespace, including this part, holds more than its share, or all
    /// namespaces together hold more than the whole.
    pub(crate) fn is_too_much(&self) -> bool {
        self.is_beyond_share() || self.shares.all() > self.shares.whole
    }

    /// Returns whether the holder must release this part: whether the namespace holds more than its
    /// share, or more than an eighth of the whole while all namespaces together hold more than the
    /// whole.
    pub(crate) fn must_be_released(&self) -> bool {
        let (all, whole) = (self.shares.all(), self.shares.whole);
        self.is_beyond_share() || (all > whole && self.own() > whole / 8)
    }

    fn is_beyond_share(&self) -> bool {
        let own = self.own();
        let share = if self.shares.all() > own { Share::Half } else { Share::Most };
        own > share.of(self.shares.whole)
    }

    /// Returns the amount that the namespace holds.
    fn own(&self) -> usize {
        self.shares.held().get(&self.namespace).copied().unwrap_or_default()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let emptied = {
            let mut held = self.shares.held();
            let left =
                held.get(&self.namespace).copied().unwrap_or_default().saturating_sub(self.amount);
            match left {
                0 => held.remove_entry(&self.namespace),
                left => held
                    .insert(Arc::clone(&self.namespace), left)
                    .map(|before| (Arc::clone(&self.namespace), before)),
            }
        };
        self.shares.all.fetch_sub(self.amount, Ordering::Relaxed);
        drop(emptied);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(whole: usize) -> &'static Shares {
        Box::leak(Box::new(Shares::new(whole)))
    }

    fn fill(shares: &'static Shares, namespace: &str) -> Vec<Part> {
        let namespace = namespace.into();
        std::iter::from_fn(|| shares.take(&namespace, 1)).collect()
    }

    #[test]
    fn a_namespace_gets_seven_eighths_alone_and_half_beside_others() {
        let shares = shares(80);
        let one = fill(shares, "one");
        assert_eq!(one.len(), 70);
        let other = fill(shares, "other");
        assert_eq!(other.len(), 10);
        drop(one);
        assert_eq!(fill(shares, "third").len(), 40);
        assert_eq!(shares.all(), 10);
    }

    #[test]
    fn released_shares_can_be_taken_again() {
        let shares = shares(80);
        for _ in 0..3 {
            assert_eq!(fill(shares, "one").len(), 70);
        }
        assert_eq!(shares.all(), 0);
        assert!(shares.held().is_empty());
    }

    #[test]
    fn large_parts_must_be_released_while_all_parts_together_exceed_the_whole() {
        let shares = shares(80);
        let namespaces = ["one", "two", "three"].map(Arc::from);
        let [one, two, small] = [(&namespaces[0], 40), (&namespaces[1], 36), (&namespaces[2], 5)]
            .map(|(namespace, amount)| shares.take_forced(namespace, amount));
        assert!(one.must_be_released() && two.must_be_released() && !small.must_be_released());
        drop(one);
        assert!(!two.must_be_released());
    }

    #[test]
    fn a_forced_part_beyond_half_of_the_whole_is_too_much() {
        let shares = shares(80);
        let (one, other) = ("one".into(), "other".into());
        let small = shares.take_forced(&other, 1);
        let large = shares.take_forced(&one, 41);
        assert!(large.is_too_much() && !small.is_too_much());
    }
}
