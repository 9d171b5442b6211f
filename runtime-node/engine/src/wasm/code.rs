//! The memory that V8 takes for a compiled module, all of it outside its heap: the module's bytes,
//! its metadata, and the code of the functions that have been called.
//!
//! V8 does not report how much that is. An estimate is charged while any part of the module exists:
//! to the isolate that has it, although isolates with the same module share all of it, and to its
//! namespace's share of the process, because V8 ends a process that has 4 GiB of code or a full
//! table of functions.

use std::sync::Arc;

use super::check::ModuleSizes;
use crate::heap::{BufferBudget, Charge};
use crate::shares::{Part, Shares};

/// The memory of an empty module, in bytes: its code space with the stubs that each has, and the
/// objects.
const MODULE: usize = 64 << 10;

/// The memory of an entry (function, type, import, export), in bytes.
const ENTRY: usize = 64;

/// Bytes of machine code charged per byte of code: the baseline compiler's output is four to five
/// times as long, but some functions are never called. Anything longer is counted when it is
/// compiled (see `code_space.rs`).
const CODE: usize = 3;

/// The memory that all modules of the process may take, in bytes: three quarters of V8's limit.
const ALL: usize = 3 << 30;

/// The bytes taken so far. Like V8's ceiling, this is per process.
pub(crate) static TAKEN: Shares = Shares::new(ALL);

/// The functions that all modules of the process may have: three quarters of the places in V8's
/// table of them, which has 128 MiB.
const FUNCTIONS: usize = (16 << 20) / 4 * 3;

/// The entries of modules so far, most of which are functions.
static DECLARED: Shares = Shares::new(FUNCTIONS);

impl ModuleSizes {
    /// Returns the estimated memory, in bytes.
    pub fn memory(&self) -> usize {
        MODULE + self.size + CODE * self.code + ENTRY * self.entries
    }
}

/// The charge for a module, given back when it is dropped.
pub struct CodeCharge {
    _taken: Part,
    _declared: Part,
    _charge: Charge,
    /// An array buffer has at least one byte.
    byte: [u8; 1],
}

impl CodeCharge {
    /// Charges a module. Returns `None` if there is no room for it in the isolate, in its
    /// namespace's share, or in the process.
    pub fn charge(
        sizes: &ModuleSizes,
        budget: &Arc<BufferBudget>,
        namespace: &Arc<str>,
    ) -> Option<Self> {
        let bytes = sizes.memory();
        let (charge, taken) = (budget.charge(bytes)?, TAKEN.take(namespace, bytes)?);
        let declared = DECLARED.take(namespace, sizes.entries)?;
        Some(Self { _taken: taken, _declared: declared, _charge: charge, byte: [0] })
    }

    /// Wraps the charge in an array buffer's memory, so that references to the buffer keep the
    /// charge.
    pub fn into_backing_store(self) -> v8::UniqueRef<v8::BackingStore> {
        v8::ArrayBuffer::new_backing_store_from_bytes(Box::new(self))
    }
}

impl AsMut<[u8]> for CodeCharge {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.byte
    }
}
