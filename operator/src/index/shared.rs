//! The index, shared by the watches and the reconcilers.

use std::sync::{Arc, Mutex, PoisonError};

use super::Index;

/// The index, shared between the watches, which write it, and the reconcilers, which read it.
#[derive(Clone)]
pub struct SharedIndex(Arc<Mutex<Index>>);

impl SharedIndex {
    pub fn new(index: Index) -> Self {
        Self(Arc::new(Mutex::new(index)))
    }

    /// Calls `f` with the index. `f` must be short, a few map operations, because the lock is held.
    pub fn with<T>(&self, f: impl FnOnce(&mut Index) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
