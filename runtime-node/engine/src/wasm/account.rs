//! The account of one isolate for memory that V8 takes from the operating system while the
//! isolate's JavaScript runs: memories of WebAssembly, and room for machine code.
//!
//! The system functions that V8 calls for this memory are not told which isolate or Worker needs
//! it. A reservation therefore belongs to the isolate that the thread has entered
//! ([`MemoryAccount::enter`]).

#![allow(unsafe_code)] // Makes an `Arc` from the raw pointer that this thread holds.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::heap::{BufferBudget, Charge, HeapGuard};

/// The account to which the memories of an isolate are charged.
pub(crate) struct MemoryAccount {
    budget: Arc<BufferBudget>,
    /// Number of memories that exist.
    memories: AtomicUsize,
    isolate: v8::IsolateHandle,
    /// Whether the isolate has exceeded its memory limit.
    exhausted: Arc<AtomicBool>,
    /// The namespace of the isolate's Worker, once the isolate has a Worker.
    namespace: OnceLock<Arc<str>>,
}

thread_local! {
    /// The account of the isolate that this thread has entered, or null if the thread has entered
    /// no isolate.
    static ENTERED: Cell<*const MemoryAccount> = const { Cell::new(ptr::null()) };
}

impl MemoryAccount {
    pub(crate) fn new(
        budget: &Arc<BufferBudget>,
        isolate: v8::IsolateHandle,
        guard: &HeapGuard,
    ) -> Arc<Self> {
        let budget = Arc::clone(budget);
        Arc::new(Self {
            budget,
            memories: AtomicUsize::new(0),
            isolate,
            exhausted: guard.exhausted(),
            namespace: OnceLock::new(),
        })
    }

    /// Assigns the isolate to a Worker of the given namespace.
    pub(crate) fn assign_to(&self, namespace: &str) {
        self.namespace.get_or_init(|| namespace.into());
    }

    pub(crate) fn namespace(&self) -> Arc<str> {
        self.namespace.get().cloned().unwrap_or_default()
    }

    pub(super) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.budget.charge(bytes)
    }

    /// Returns whether the budget has room for `bytes` more bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.budget.has_room(bytes)
    }

    /// Counts one more memory, unless the isolate already has `max` memories. Returns whether the
    /// memory was counted.
    pub(super) fn add_memory(&self, max: usize) -> bool {
        let one_more = |now: usize| Some(now + 1).filter(|then| *then <= max);
        self.memories.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts one memory fewer.
    pub(super) fn remove_memory(&self) {
        self.memories.fetch_sub(1, Ordering::Relaxed);
    }

    /// Terminates the running code and seals its isolate, because the isolate exceeds its memory
    /// limit.
    pub(super) fn end(&self) {
        self.exhausted.store(true, Ordering::Relaxed);
        self.isolate.terminate_execution();
    }

    /// Charges reservations on this thread to this account until the returned guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        let account = Arc::clone(self);
        let before = ENTERED.replace(Arc::as_ptr(&account));
        Entered { _account: account, before }
    }

    /// Returns the account of the isolate that this thread has entered.
    pub(super) fn entered() -> Option<Arc<Self>> {
        let account = ENTERED.get();
        if account.is_null() {
            return None;
        }
        // SAFETY: the pointer came from an `Arc`, and the `Entered` guard holds that `Arc` for as
        // long as `ENTERED` of this thread has the pointer.
        unsafe {
            Arc::increment_strong_count(account);
            Some(Arc::from_raw(account))
        }
    }
}

/// A guard that exists while reservations on the thread are charged to an account.
pub(crate) struct Entered {
    _account: Arc<MemoryAccount>,
    /// The account to which reservations are charged after the guard has been dropped.
    before: *const MemoryAccount,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.before);
    }
}
