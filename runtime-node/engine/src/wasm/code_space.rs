//! Charges the memory for a module's machine code beyond the memory that V8 reserved when the
//! module was made.
//!
//! The first reservation is part of the module's estimate (see `code.rs`). V8 reserves more memory
//! when compiled functions are longer than usual, and a Worker can write such functions. The
//! functions here therefore charge the further reservations. They cannot refuse them, because V8
//! would end the process. An isolate whose code exceeds its budget ends like an isolate whose heap
//! is full. The excess is bounded: it is at most the code of one function, whose work
//! [`check`](super::check) bounds.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::account::MemoryAccount;
use super::code::TAKEN;
use crate::heap::Charge;
use crate::shares::Part;

thread_local! {
    /// Whether a module is being made on this thread.
    static COMPILING: Cell<bool> = const { Cell::new(false) };
}

/// The reservations by address. The charge is `None` if the isolate's budget had no room for it.
static SPACES: Mutex<BTreeMap<usize, (Option<Charge>, Part)>> = Mutex::new(BTreeMap::new());

fn spaces() -> MutexGuard<'static, BTreeMap<usize, (Option<Charge>, Part)>> {
    // No code panics while it holds the lock, so the lock is never poisoned.
    SPACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `compile`, and charges none of the reservations that V8 makes meanwhile, because they are
/// part of the module's estimate.
pub fn while_compiling<R>(compile: impl FnOnce() -> R) -> R {
    let before = COMPILING.replace(true);
    let result = compile();
    COMPILING.set(before);
    result
}

/// Records that V8 has reserved `bytes` bytes at `address`, and charges them to the account. Does
/// nothing while a module is being made on this thread.
pub(crate) fn add(account: &MemoryAccount, address: usize, bytes: usize) {
    if COMPILING.get() {
        return;
    }
    let (charge, taken) = (account.charge(bytes), TAKEN.take_forced(&account.namespace(), bytes));
    if charge.is_none() || taken.is_too_much() {
        account.end();
    }
    spaces().insert(address, (charge, taken));
}

/// Records that V8 has released its reservation at `address`.
pub fn remove(address: usize) {
    let space = spaces().remove(&address);
    drop(space);
}
