//! Permits for work that is limited in total and for each namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits of two kinds: each piece of work needs a permit of its namespace and one of the total. A
/// namespace whose work is slow therefore holds no more than its own share of the total. Clones
/// share the permits.
#[derive(Clone)]
pub struct NamespacePermits {
    total: Arc<Semaphore>,
    per_namespace: usize,
    /// A namespace has a semaphore while work waits for its permits or holds one.
    by_namespace: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

/// The right to one piece of work, until it is dropped.
#[derive(Debug)]
pub struct NamespacePermit {
    _of_namespace: OwnedSemaphorePermit,
    _of_total: OwnedSemaphorePermit,
}

impl NamespacePermits {
    /// Creates permits.
    ///
    /// # Arguments
    /// * `total` - maximum number of concurrent pieces of work.
    /// * `per_namespace` - maximum number of concurrent pieces of work of one namespace.
    pub fn new(total: usize, per_namespace: usize) -> Self {
        let total = Arc::new(Semaphore::new(total));
        Self { total, per_namespace, by_namespace: Arc::default() }
    }

    /// Waits for a permit. Calls for the same namespace get their permits in the order of the
    /// calls.
    pub async fn acquire(&self, namespace: &str) -> NamespacePermit {
        // Work that waits for a permit of its namespace holds no permit of the total.
        let of_namespace = acquire(self.semaphore(namespace)).await;
        let of_total = acquire(Arc::clone(&self.total)).await;
        NamespacePermit { _of_namespace: of_namespace, _of_total: of_total }
    }

    fn semaphore(&self, namespace: &str) -> Arc<Semaphore> {
        let mut by_namespace = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = by_namespace.get(namespace).and_then(Weak::upgrade) {
            return semaphore;
        }
        by_namespace.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.per_namespace));
        by_namespace.insert(namespace.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio_test::{assert_pending, task};

    use super::*;

    /// Returns a permit if one is free.
    fn try_acquire(permits: &NamespacePermits, namespace: &str) -> Option<NamespacePermit> {
        match task::spawn(permits.acquire(namespace)).poll() {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_namespace_gets_no_more_than_its_share() {
        let permits = NamespacePermits::new(4, 2);
        let first = try_acquire(&permits, "a");
        let second = try_acquire(&permits, "a");
        assert!(first.is_some() && second.is_some() && try_acquire(&permits, "a").is_none());
        drop(first);
        assert!(try_acquire(&permits, "a").is_some());
    }

    #[test]
    fn work_that_waits_for_its_namespace_holds_no_permit_of_total() {
        let permits = NamespacePermits::new(2, 1);
        let _held = try_acquire(&permits, "a").unwrap();
        let mut waiting = task::spawn(permits.acquire("a"));
        assert_pending!(waiting.poll());
        assert!(try_acquire(&permits, "b").is_some());
    }

    #[test]
    fn all_namespaces_together_get_no_more_than_the_total() {
        let permits = NamespacePermits::new(2, 2);
        let held = ["a", "b"].map(|namespace| try_acquire(&permits, namespace).unwrap());
        assert!(try_acquire(&permits, "c").is_none());
        drop(held);
        assert!(try_acquire(&permits, "c").is_some());
    }

    #[test]
    fn idle_namespaces_are_forgotten() {
        let permits = NamespacePermits::new(8, 1);
        for i in 0..100 {
            drop(try_acquire(&permits, &i.to_string()));
        }
        assert!(permits.by_namespace.lock().unwrap().len() <= 1);
    }
}
