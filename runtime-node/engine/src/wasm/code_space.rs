//! The memory for a module's machine code beyond what V8 reserved when the module was made.
//!
//! That first reservation is part of the module's estimate (see `code.rs`). V8 reserves more when
//! compiled functions turn out longer than usual, which a Worker can bring about, so these
//! reservations are counted here. They cannot be refused, because V8 would end the process. An
//! isolate that exceeds its budget in this way ends like one whose heap is full; the excess is at
//! most the code of one function, which is bounded.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::account::MemoryAccount;
use super::code::TAKEN;
use crate::heap::Charge;
use crate::shares::Part;

thread_local! {
    /// Set while a module is being made on this thread.
    static COMPILING: Cell<bool> = const { Cell::new(false) };
}

/// The reservations by address. The charge is `None` if there was no room for it.
static SPACES: Mutex<BTreeMap<usize, (Option<Charge>, Part)>> = Mutex::new(BTreeMap::new());

fn spaces() -> MutexGuard<'static, BTreeMap<usize, (Option<Charge>, Part)>> {
    // No code panics while it holds the lock.
    SPACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `compile`, whose reservations are part of the module's estimate.
pub fn while_compiling<R>(compile: impl FnOnce() -> R) -> R {
    let before = COMPILING.replace(true);
    let result = compile();
    COMPILING.set(before);
    result
}

/// Records that V8 has reserved `bytes` at this address.
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

/// Records that V8 has released its reservation at this address.
pub fn remove(address: usize) {
    let space = spaces().remove(&address);
    drop(space);
}
