//! Readiness as a count of what is still waited for: a process is ready when every handle is dropped.
//!
//! A part that must come up takes a handle before the process serves, and drops it when it is up. A part that
//! is lost later, or a drain that begins, takes one again. Any thread may hold one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// What a process waits for. Clones share the same answer.
#[derive(Clone, Default)]
pub struct Readiness {
    held: Arc<watch::Sender<Held>>,
}

/// How many handles are held under each name.
type Held = BTreeMap<String, usize>;

/// While this lives the process is not ready.
#[must_use = "a handle that is dropped at once holds nothing back"]
pub struct Handle {
    name: String,
    readiness: Readiness,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the process unready until the handle is dropped. `name` is what `/readyz` shows as waited for.
    pub fn hold(&self, name: impl Into<String>) -> Handle {
        let name = name.into();
        self.held.send_modify(|held| *held.entry(name.clone()).or_default() += 1);
        Handle { name, readiness: self.clone() }
    }

    pub fn is_ready(&self) -> bool {
        self.held.borrow().is_empty()
    }

    /// The names of what is waited for, in order, each once.
    pub fn waiting(&self) -> Vec<String> {
        self.held.borrow().keys().cloned().collect()
    }

    /// Resolves when the process is ready, at once if it is already.
    pub async fn ready(&self) {
        let mut held_rx = self.held.subscribe();
        held_rx.wait_for(BTreeMap::is_empty).await.expect("the sender lives as long as this");
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.readiness.held.send_modify(|held| {
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
    fn who_waits_for_readiness_is_woken_by_the_last_handle() {
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
