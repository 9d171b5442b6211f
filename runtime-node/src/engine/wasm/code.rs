//! The memory that V8 takes for a compiled module, all of it outside of its heap: the module's bytes, what it knows of
//! them, and the code of those functions that have been called.
//!
//! V8 does not say how much that is. It is charged by an estimate, when the module is made and for as long as anything of
//! it is there: to the isolate that has it, though isolates with the same module share all of it, and to the process,
//! because V8 ends the process that has 4 GiB of code.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::check::Facts;
use crate::engine::heap::{BufferBudget, Charge};

/// Of a module with nothing in it, in bytes: its code space with what every one has to have at hand, and the objects.
const MODULE: usize = 64 << 10;

/// Of what it lists: functions, types, imports, exports.
const ENTRY: usize = 64;

/// Machine code for each byte of code: what the baseline compiler makes is four to five times as long, but some of it is
/// never called. What is longer than that is counted when it is made (see `spaces.rs`).
const CODE: usize = 3;

/// What all modules of the process may take: three quarters of what V8 bears.
const ALL: usize = 3 << 30;

/// V8's ceiling is the process's, and so is this.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

impl Facts {
    /// Bytes.
    pub(in crate::engine) fn memory(&self) -> usize {
        MODULE + self.size + CODE * self.code + ENTRY * self.entries
    }
}

/// The charge for a module, given back when it is dropped.
pub(in crate::engine) struct Code {
    _taken: Taken,
    _charge: Charge,
    /// An array buffer has at least one byte.
    byte: [u8; 1],
}

impl Code {
    /// `None` when there is no room for it, in the isolate or in the process.
    pub(super) fn charge(facts: &Facts, budget: &Arc<BufferBudget>) -> Option<Self> {
        let bytes = facts.memory();
        let (charge, taken) = (budget.charge(bytes)?, Taken::anyhow(bytes));
        (!taken.is_too_much()).then_some(Self { _taken: taken, _charge: charge, byte: [0] })
    }

    /// As memory of an array buffer: who refers to that refers to this.
    pub(in crate::engine) fn into_backing_store(self) -> v8::UniqueRef<v8::BackingStore> {
        v8::ArrayBuffer::new_backing_store_from_bytes(Box::new(self))
    }
}

impl AsMut<[u8]> for Code {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.byte
    }
}

/// Bytes of the process's, until this is dropped.
pub(super) struct Taken(usize);

impl Taken {
    pub(super) fn anyhow(bytes: usize) -> Self {
        TAKEN.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }

    /// Whether all modules together, with this, take more than they may.
    pub(super) fn is_too_much(&self) -> bool {
        TAKEN.load(Ordering::Relaxed) > ALL
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}
