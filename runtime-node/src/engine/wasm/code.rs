//! The memory that V8 takes for a compiled module, all of it outside of its heap: the module's bytes, what it knows of
//! them, and the code of those functions that have been called.
//!
//! V8 does not say how much that is. It is charged by an estimate, when the module is made and for as long as anything of
//! it is there: to the isolate that has it, though isolates with the same module share all of it, and to its namespace's share
//! of what the process may have, because V8 ends the process that has 4 GiB of code.

use std::sync::Arc;

use super::check::Facts;
use super::shares::{Part, Shares};
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

/// V8's ceiling is the process's, and so is this. Bytes.
pub(super) static TAKEN: Shares = Shares::new(ALL);

impl Facts {
    /// Bytes.
    pub(in crate::engine) fn memory(&self) -> usize {
        MODULE + self.size + CODE * self.code + ENTRY * self.entries
    }
}

/// The charge for a module, given back when it is dropped.
pub(in crate::engine) struct Code {
    _taken: Part,
    _charge: Charge,
    /// An array buffer has at least one byte.
    byte: [u8; 1],
}

impl Code {
    /// `None` when there is no room for it: in the isolate, in its namespace's share, or in the process.
    pub(super) fn charge(facts: &Facts, budget: &Arc<BufferBudget>, namespace: &Arc<str>) -> Option<Self> {
        let bytes = facts.memory();
        let (charge, taken) = (budget.charge(bytes)?, TAKEN.take(namespace, bytes)?);
        Some(Self { _taken: taken, _charge: charge, byte: [0] })
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
