//! An isolate that does not belong to a Worker yet, made from the snapshot ahead of time, because
//! that takes most of a cold start.
//!
//! V8 can lower the limit of a heap, but not raise it. So a spare is made with the limit
//! [`LARGEST`], which is lowered to that of its Worker. A Worker with a larger limit starts without
//! a spare.

use std::sync::Arc;

use tenon_proto::revision::Limits;

use super::blocking_time::Pauses;
use super::heap::{BufferBudget, Headroom, HeapGuard};
use super::host::Host;
use super::platform::{Foreground, Tasks};
use super::snapshot::{self, Builtins};
use super::vm::{Exited, Vm};
use super::wasm::account::MemoryAccount;
use super::{cage, callbacks, code_range};

/// The smallest heap limit, in bytes: a smaller heap would not hold the built-in JavaScript and
/// leave room to collect garbage.
const LEAST_HEAP: usize = 8 << 20;

/// The largest memory limit of a Worker that a spare suits, in MiB.
pub(crate) const LARGEST: u32 = 512;

/// The size of the old generation at which V8 first collects it, in bytes, if the limit is not
/// lower: half of the default limit.
const INITIAL: usize = 64 << 20;

/// An isolate with its first realm, but without a Worker's code.
pub(crate) struct Spare {
    pub(crate) vm: Vm,
    pub(crate) foreground: Arc<Foreground>,
    pub(crate) buffers: Arc<BufferBudget>,
}

impl Spare {
    /// Makes an isolate.
    ///
    /// # Arguments
    /// * `memory_mib` - limit of its heap, and separately of its array buffers, in MiB.
    /// * `headroom` - how far the heap may outgrow the limit while the code that filled it is
    ///   terminated.
    /// * `builtins` - the built-in JavaScript that it starts with.
    pub(crate) fn make(memory_mib: u32, headroom: Headroom, builtins: &'static Builtins) -> Self {
        let buffers = BufferBudget::new(bytes(memory_mib));
        let mut params =
            with_limit(builtins.params(), memory_mib).set_code_range_size_in_bytes(cage::CODE);
        if memory_mib <= LARGEST {
            let default = with_limit(v8::CreateParams::default(), Limits::default().memory_mib);
            params = params
                .set_max_young_generation_size_in_bytes(
                    default.max_young_generation_size_in_bytes(),
                )
                .set_initial_old_generation_size_in_bytes(INITIAL);
        }
        let params = params
            .array_buffer_allocator(buffers.allocator().make_shared())
            .allow_atomics_wait(false);
        let (mut isolate, tasks) =
            Tasks::while_making(|| code_range::while_making(|| v8::Isolate::new(params)));
        let foreground = tasks.foreground();
        let guard = HeapGuard::install(&mut isolate, headroom);
        let pauses = Pauses::install(&mut isolate);
        isolate.set_microtasks_policy(v8::MicrotasksPolicy::Explicit);
        callbacks::install::<Host>(&mut isolate);
        let realm = {
            v8::scope!(let scope, &mut isolate);
            snapshot::new_realm(scope, None).expect("a new heap has room for a realm")
        };
        let handle = isolate.thread_safe_handle();
        let memories = MemoryAccount::new(&buffers, handle.clone(), &guard);
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

    /// Lowers the limits to those of a Worker.
    ///
    /// # Arguments
    /// * `memory_mib` - at most the limit that the isolate was made with.
    pub(crate) fn lower(&mut self, memory_mib: u32) {
        self.buffers.lower(bytes(memory_mib));
        let params = with_limit(v8::CreateParams::default(), memory_mib);
        self.vm.guard.lower(&mut self.vm.isolate, params.max_old_generation_size_in_bytes());
    }
}

/// Returns the parameters of an isolate with this memory limit, in MiB, which V8 divides between
/// young and old objects.
fn with_limit(params: v8::CreateParams, memory_mib: u32) -> v8::CreateParams {
    params.heap_limits(0, bytes(memory_mib).max(LEAST_HEAP))
}

fn bytes(memory_mib: u32) -> usize {
    memory_mib as usize * (1 << 20)
}
