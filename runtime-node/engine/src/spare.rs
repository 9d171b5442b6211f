//! A spare isolate, which does not belong to a Worker yet. It is made from the snapshot ahead of
//! demand, because making an isolate takes most of the time of a cold start.
//!
//! V8 can lower the limit of a heap, but cannot raise it. A spare is therefore made with the limit
//! [`LARGEST`], which is later lowered to the limit of its Worker. A Worker with a larger limit
//! starts without a spare.

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

/// Minimum heap limit, in bytes: a smaller heap would have no room for the built-in JavaScript and
/// for garbage collections.
const MIN_HEAP: usize = 8 << 20;

/// Maximum memory limit of a Worker that can start with a spare, in MiB.
pub(crate) const LARGEST: u32 = 512;

/// Size of the old generation at which V8 first collects it, in bytes, unless the limit is lower.
/// This is half of a Worker's default limit.
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
    /// * `memory_mib` - limit of the heap, and separate limit of the array buffers, in MiB.
    /// * `headroom` - the amount by which the heap may outgrow the limit while the code that filled
    ///   it is terminated.
    /// * `builtins` - the built-in JavaScript with which the isolate starts.
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
            snapshot::new_realm(scope, None).expect("the new heap has no room for a realm")
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
    /// * `memory_mib` - the Worker's limit in MiB, at most the limit with which the isolate was
    ///   made.
    pub(crate) fn lower(&mut self, memory_mib: u32) {
        self.buffers.lower(bytes(memory_mib));
        let params = with_limit(v8::CreateParams::default(), memory_mib);
        self.vm.guard.lower(&mut self.vm.isolate, params.max_old_generation_size_in_bytes());
    }
}

/// Returns the parameters with this limit of the heap, in MiB, which V8 divides between the young
/// and the old generation.
fn with_limit(params: v8::CreateParams, memory_mib: u32) -> v8::CreateParams {
    params.heap_limits(0, bytes(memory_mib).max(MIN_HEAP))
}

fn bytes(memory_mib: u32) -> usize {
    memory_mib as usize * (1 << 20)
}
