//! An isolate that is nobody's yet: made from the snapshot ahead of the Worker that it will run, because that takes
//! most of a cold start's time.
//!
//! A heap's limit is fixed when it is made. Spares have the default of Workers, and one that has set a limit of its
//! own starts without.

use std::sync::Arc;

use tenon_proto::revision::Limits;

use super::heap::{BufferBudget, Headroom, HeapGuard};
use super::isolate::Vm;
use super::platform::{Foreground, Tasks};
use super::realm::Realm;
use super::stretches::Pauses;
use super::turn::Exited;
use super::{code_range, fence, snapshot, wasm};

/// A heap limit below this would not hold the built-in JavaScript and room to collect garbage in.
const LEAST_HEAP: usize = 8 << 20;

/// An isolate with its first realm, without code.
pub(super) struct Spare {
    pub(super) vm: Vm,
    pub(super) foreground: Arc<Foreground>,
    pub(super) buffers: Arc<BufferBudget>,
}

impl Spare {
    /// Whether a spare may run a Worker with these limits.
    pub(super) fn suits(limits: &Limits) -> bool {
        limits.memory_mib == Limits::default().memory_mib
    }

    /// # Arguments
    /// * `memory_mib` - what its heap, and its array buffers, may take.
    /// * `headroom` - what the heap may take beyond, while what has filled it comes to its end.
    pub(super) fn make(memory_mib: u32, headroom: Headroom) -> Self {
        let memory = memory_mib as usize * (1 << 20);
        let buffers = BufferBudget::new(memory);
        let params = v8::CreateParams::default()
            .snapshot_blob(snapshot::blob())
            .external_references(snapshot::references())
            .heap_limits(0, memory.max(LEAST_HEAP))
            .array_buffer_allocator(buffers.allocator().make_shared())
            .allow_atomics_wait(false);
        let (mut isolate, tasks) = Tasks::attend(|| code_range::while_making(|| v8::Isolate::new(params)));
        let foreground = tasks.foreground();
        let guard = HeapGuard::install(&mut isolate, headroom);
        let pauses = Pauses::install(&mut isolate);
        isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
        fence::install(&mut isolate);
        let realm = {
            v8::scope!(let scope, &mut isolate);
            Realm::make(scope).expect("a new heap has room for a realm")
        };
        let handle = isolate.thread_safe_handle();
        let memories = wasm::pages::Account::new(&buffers, handle.clone(), &guard);
        let vm = Vm { realm, ready: None, isolate: Exited::new(isolate), handle, guard, pauses, memories, tasks };
        Self { vm, foreground, buffers }
    }
}
