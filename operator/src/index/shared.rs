//! The index as the watches and the reconcilers share it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Index;

/// The index, shared between the watches, which write it, and the reconcilers, which read it.
#[derive(Clone)]
pub struct SharedIndex(Arc<Mutex<Index>>);

impl SharedIndex {
    pub fn new(index: Index) -> Self {
        Self(Arc::new(Mutex::new(index)))
    }

    /// Calls `f` with the index. The lock is to be held only for a few map operations.
    pub fn with<T>(&self, f: impl FnOnce(&mut Index) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
