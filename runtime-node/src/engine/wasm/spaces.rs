//! The memory that V8 puts a module's machine code in, beyond what it set aside when the module was made.
//!
//! That first part is in the estimate by which a module is charged (see `code.rs`). More comes when functions turn out
//! longer than usual when they are compiled, which a Worker can bring about: so what V8 reserves then is counted here. It
//! cannot be refused, because V8 would end the process. An isolate that goes over its budget by it ends like one whose
//! heap is full; it is over by what one function takes, which is bounded.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::code::TAKEN;
use super::pages::Account;
use super::shares::Part;
use crate::engine::heap::Charge;

thread_local! {
    /// A module is being made on this thread.
    static COMPILES: Cell<bool> = const { Cell::new(false) };
}

/// By address. The charge is none where there was no room for it.
static SPACES: Mutex<BTreeMap<usize, (Option<Charge>, Part)>> = Mutex::new(BTreeMap::new());

fn spaces() -> MutexGuard<'static, BTreeMap<usize, (Option<Charge>, Part)>> {
    // Nothing panics while it holds the lock.
    SPACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is reserved meanwhile is in the estimate.
pub(in crate::engine) fn while_compiling<R>(compile: impl FnOnce() -> R) -> R {
    let before = COMPILES.replace(true);
    let result = compile();
    COMPILES.set(before);
    result
}

/// V8 has reserved so many bytes at this address.
pub(super) fn add(account: &Account, address: usize, bytes: usize) {
    if COMPILES.get() {
        return;
    }
    let (charge, taken) = (account.charge(bytes), TAKEN.take_anyhow(&account.namespace(), bytes));
    if charge.is_none() || taken.is_too_much() {
        account.end();
    }
    spaces().insert(address, (charge, taken));
}

/// V8 has given back what it had at this address.
pub(super) fn remove(address: usize) {
    let space = spaces().remove(&address);
    drop(space);
}
