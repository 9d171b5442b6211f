//! Charges the memory that V8 takes for a compiled module outside V8's heap. This memory holds the
//! module's bytes, the module's metadata, and the code of the functions that have been called.
//!
//! V8 does not report the size of this memory, so an estimate is charged while any part of the
//! module exists. The estimate is charged to each isolate that has the module, although isolates
//! share the memory of the same module. The estimate is also charged to the namespace's share of
//! the process, because V8 ends a process that has 4 GiB of code or a full table of functions.

use std::sync::Arc;

use super::check::ModuleSizes;
use crate::heap::{BufferBudget, Charge};
use crate::shares::{Part, Shares};

/// The memory of an empty module, in bytes. An empty module has objects, and a code space with the
/// stubs that every code space has.
const MODULE: usize = 64 << 10;

/// The memory of an entry (function, type, import, export), in bytes.
const ENTRY: usize = 64;

/// Number of bytes of machine code that are charged per byte of WebAssembly code. The baseline
/// compiler's output is four to five times as long as the WebAssembly code, but some functions are
/// never called. Machine code beyond the estimate is charged when it is compiled (see
/// `code_space.rs`).
const CODE: usize = 3;

/// Maximum memory for all modules of the process, in bytes: three quarters of V8's limit.
const ALL: usize = 3 << 30;

/// The bytes that all modules take. The process has one total because V8's limit applies to the
/// process.
pub(crate) static TAKEN: Shares = Shares::new(ALL);

/// Maximum number of functions of all modules of the process: three quarters of the entries of V8's
/// table of functions, whose size is 128 MiB.
const FUNCTIONS: usize = (16 << 20) / 4 * 3;

/// The number of entries that all modules declare. Most entries are functions.
static DECLARED: Shares = Shares::new(FUNCTIONS);

impl ModuleSizes {
    /// Returns an estimate of the memory that V8 takes for the module, in bytes.
    pub fn memory(&self) -> usize {
        MODULE + self.size + CODE * self.code + ENTRY * self.entries
    }
}

/// The charge for a module, which ends when this value is dropped.
pub struct CodeCharge {
    _taken: Part,
    _declared: Part,
    _charge: Charge,
    /// The content of the array buffer that keeps the charge. An array buffer with memory of its
    /// own has at least one byte.
    byte: [u8; 1],
}

impl CodeCharge {
    /// Charges a module. Returns `None` if there is not enough room for the module in the isolate's
    /// budget, in the namespace's share, or in the process.
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
