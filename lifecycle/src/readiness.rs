//! Readiness as a set of held handles: a process is ready when every handle is dropped.
//!
//! A part that must start takes a handle before the process serves, and drops the handle once the
//! part runs. A part that is lost later, or a drain that begins, takes a handle again. Any thread
//! may hold a handle.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// The readiness of a process. Clones share the same state.
#[derive(Clone, Default)]
pub struct Readiness {
    held_tx: Arc<watch::Sender<Held>>,
}

/// Number of held handles by name.
type Held = BTreeMap<String, usize>;

/// Keeps the process unready until the handle is dropped.
#[must_use = "a handle that is dropped immediately does not keep the process unready"]
pub struct Handle {
    name: String,
    readiness: Readiness,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the process unready until the handle is dropped. `/readyz` lists `name` among the
    /// awaited parts.
    pub fn hold(&self, name: impl Into<String>) -> Handle {
        let name = name.into();
        self.held_tx.send_modify(|held| *held.entry(name.clone()).or_default() += 1);
        Handle { name, readiness: self.clone() }
    }

    pub fn is_ready(&self) -> bool {
        self.held_tx.borrow().is_empty()
    }

    /// Returns the names of the awaited parts, sorted and without duplicates.
    pub fn waiting(&self) -> Vec<String> {
        self.held_tx.borrow().keys().cloned().collect()
    }

    /// Waits until the process is ready.
    pub async fn ready(&self) {
        let mut held_rx = self.held_tx.subscribe();
        held_rx.wait_for(BTreeMap::is_empty).await.expect("the sender in self was dropped");
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.readiness.held_tx.send_modify(|held| {
            if let Some(count) = held.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    held.remove(&self.name);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_every_handle_is_dropped() {
        let readiness = Readiness::new();
        let (catalog, shard_0, shard_1) =
            (readiness.hold("catalog"), readiness.hold("shards"), readiness.hold("shards"));
        assert_eq!(readiness.waiting(), ["catalog", "shards"]);
        drop(shard_0);
        drop(catalog);
        assert_eq!(readiness.waiting(), ["shards"]);
        assert!(!readiness.is_ready());
        drop(shard_1);
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_task_that_awaits_readiness_is_woken_by_the_last_handle() {
        let readiness = Readiness::new();
        let (catalog, shards) = (readiness.hold("catalog"), readiness.hold("shards"));
        let mut ready = tokio_test::task::spawn(readiness.ready());
        tokio_test::assert_pending!(ready.poll());
        drop(shards);
        tokio_test::assert_pending!(ready.poll());
        drop(catalog);
        assert!(ready.is_woken());
        tokio_test::assert_ready!(ready.poll());
    }

    #[test]
    fn a_ready_process_can_become_unready_again() {
        let readiness = Readiness::new();
        drop(readiness.hold("catalog"));
        let drain = readiness.hold("drain");
        assert!(!readiness.is_ready());
        drop(drain);
    }
}
