//! The account of one isolate for memory that V8 takes from the operating system while its
//! JavaScript runs: memories of WebAssembly, and room for machine code.
//!
//! The system functions that V8 calls for it know neither isolate nor Worker. A reservation belongs
//! to the isolate that the thread has entered ([`MemoryAccount::enter`]).

#![allow(unsafe_code)] // Counts a reference behind a pointer of this thread.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::heap::{BufferBudget, Charge, HeapGuard};

/// The account that an isolate's memories are charged to.
pub(crate) struct MemoryAccount {
    budget: Arc<BufferBudget>,
    memories: AtomicUsize,
    isolate: v8::IsolateHandle,
    exhausted: Arc<AtomicBool>,
    /// The namespace of its Worker, once it has one.
    namespace: OnceLock<Arc<str>>,
}

thread_local! {
    /// The account of the isolate that this thread has entered; null if none.
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

    /// Assigns the isolate to a Worker of this namespace.
    pub(crate) fn assign_to(&self, namespace: &str) {
        self.namespace.get_or_init(|| namespace.into());
    }

    pub(crate) fn namespace(&self) -> Arc<str> {
        self.namespace.get().cloned().unwrap_or_default()
    }

    pub(super) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.budget.charge(bytes)
    }

    /// Returns whether `bytes` more would be granted.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.budget.has_room(bytes)
    }

    /// Counts one more memory, unless there are `most` of them already. Returns whether it was
    /// counted.
    pub(super) fn add_memory(&self, most: usize) -> bool {
        let one_more = |now: usize| Some(now + 1).filter(|then| *then <= most);
        self.memories.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Stops counting one memory.
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
        // SAFETY: it came from an `Arc` that `Entered` holds for as long as the pointer is set, on
        // this thread.
        unsafe {
            Arc::increment_strong_count(account);
            Some(Arc::from_raw(account))
        }
    }
}

/// A guard for the time that a thread has entered an isolate.
pub(crate) struct Entered {
    _account: Arc<MemoryAccount>,
    before: *const MemoryAccount,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.before);
    }
}
