//! Readiness as a count of what is still waited for: a process is ready when every handle is dropped.
//!
//! A part that must come up takes a handle before the process serves, and drops it when it is up. A part that
//! is lost later, or a drain that begins, takes one again. Any thread may hold one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a process waits for. Clones share the same answer.
#[derive(Clone, Default)]
pub struct Readiness {
    held: Arc<Mutex<Held>>,
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
        *self.lock().entry(name.clone()).or_default() += 1;
        Handle { name, readiness: self.clone() }
    }

    pub fn is_ready(&self) -> bool {
        self.lock().is_empty()
    }

    /// The names of what is waited for, in order, each once.
    pub fn waiting(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // A count is whole between any two statements, so a panic elsewhere cannot have left it broken.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut held = self.readiness.lock();
        if let Some(count) = held.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.name);
            }
        }
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
    fn a_ready_process_can_become_unready_again() {
        let readiness = Readiness::new();
        drop(readiness.hold("catalog"));
        let drain = readiness.hold("drain");
        assert!(!readiness.is_ready());
        drop(drain);
    }
}
