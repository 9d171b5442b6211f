//! An isolate that does not belong to a Worker yet, made from the snapshot ahead of time, because
//! that takes most of a cold start.
//!
//! A heap's limit is fixed when the heap is made. Spares have the default limit of Workers; a
//! Worker with a limit of its own starts without a spare.

use std::sync::Arc;

use tenon_proto::revision::Limits;

use super::heap::{BufferBudget, Headroom, HeapGuard};
use super::host::Host;
use super::platform::{Foreground, Tasks};
use super::snapshot::{self, Builtins};
use super::stretches::Pauses;
use super::vm::{Exited, Vm};
use super::wasm::account::Account;
use super::{cage, callbacks, code_range};

/// The smallest heap limit, in bytes: a smaller heap would not hold the built-in JavaScript and
/// leave room to collect garbage.
const LEAST_HEAP: usize = 8 << 20;

/// An isolate with its first realm, but without a Worker's code.
pub(crate) struct Spare {
    pub(crate) vm: Vm,
    pub(crate) foreground: Arc<Foreground>,
    pub(crate) buffers: Arc<BufferBudget>,
}

impl Spare {
    /// Returns whether a spare may run a Worker with these limits.
    pub(crate) fn suits(limits: &Limits) -> bool {
        limits.memory_mib == Limits::default().memory_mib
    }

    /// Makes an isolate.
    ///
    /// # Arguments
    /// * `memory_mib` - limit of its heap, and separately of its array buffers, in MiB.
    /// * `headroom` - how far the heap may outgrow the limit while the code that filled it is
    ///   terminated.
    /// * `builtins` - the built-in JavaScript that it starts with.
    pub(crate) fn make(memory_mib: u32, headroom: Headroom, builtins: &'static Builtins) -> Self {
        let memory = memory_mib as usize * (1 << 20);
        let buffers = BufferBudget::new(memory);
        let params = builtins
            .params()
            .heap_limits(0, memory.max(LEAST_HEAP))
            .set_code_range_size_in_bytes(cage::CODE)
            .array_buffer_allocator(buffers.allocator().make_shared())
            .allow_atomics_wait(false);
        let (mut isolate, tasks) =
            Tasks::attend(|| code_range::while_making(|| v8::Isolate::new(params)));
        let foreground = tasks.foreground();
        let guard = HeapGuard::install(&mut isolate, headroom);
        let pauses = Pauses::install(&mut isolate);
        isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
        callbacks::install::<Host>(&mut isolate);
        let realm = {
            v8::scope!(let scope, &mut isolate);
            snapshot::new_realm(scope).expect("a new heap has room for a realm")
        };
        let handle = isolate.thread_safe_handle();
        let memories = Account::new(&buffers, handle.clone(), &guard);
        let vm = Vm {
            realm,
            ready: None,
            isolate: Exited::new(isolate),
            handle,
            guard,
            pauses,
            memories,
            tasks,
        };
        Self { vm, foreground, buffers }
    }
}
