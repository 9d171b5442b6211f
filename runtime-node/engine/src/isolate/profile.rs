//! Records CPU profiles and takes heap snapshots of an isolate.
//!
//! Both run between turns. The page that the supervisor reads ([`crate::page`]) therefore does not
//! name the revision: if V8 runs out of memory
//! for a snapshot and ends the process, the Worker's code is not to blame.

use super::Isolate;
use crate::cpu_profile;
use crate::inspector::cpu_profiler::CpuProfiler;
use crate::page::Page;
use crate::source_maps::{self, Origins};

impl Isolate {
    /// Begins a CPU profile, which continues until [`Isolate::end_cpu_profile`] or the end of the
    /// isolate. Does nothing if a profile is being recorded, or if the isolate must never be
    /// entered again.
    pub fn begin_cpu_profile(&self) {
        if self.is_sealed() || self.profiler.borrow().is_some() {
            return;
        }
        let profiler = self.vm.borrow_mut().enter(|scope| CpuProfiler::start(scope));
        *self.profiler.borrow_mut() = Some(profiler);
    }

    /// Ends the CPU profile. Returns its JSON, with positions in the author's files where source
    /// maps name them, or `None` if the isolate has ended or records no profile.
    pub fn end_cpu_profile(&self) -> Option<String> {
        let profiler = self.take_profiler()?;
        let profile = self.vm.borrow_mut().enter(|_| profiler.stop())?;
        let revision = &self.state.revision;
        if !source_maps::are_in(revision) {
            return Some(profile);
        }
        let mut origins = Origins::of(revision, &self.state.buffers);
        let place = |module: &str, line, column| origins.place(module, line, column);
        Some(cpu_profile::with_places(&profile, place).unwrap_or(profile))
    }

    /// Ends the CPU profile, if one is being recorded, without its result.
    pub fn drop_cpu_profile(&self) {
        if let Some(profiler) = self.take_profiler() {
            self.vm.borrow_mut().enter(|_| drop(profiler));
        }
    }

    /// Takes the profiler, unless the isolate must never be entered again: then the profiler ends
    /// when the isolate is disposed of.
    fn take_profiler(&self) -> Option<CpuProfiler> {
        if self.is_sealed() { None } else { self.profiler.take() }
    }

    /// Takes a heap snapshot, which blocks the thread for seconds if the heap is large, and passes
    /// its JSON to `sink` piece by piece until `sink` returns false. Returns false, and does not
    /// call `sink`, if the isolate must never be entered again.
    ///
    /// V8 needs a multiple of the heap's size for the snapshot, which no limit of the Worker
    /// bounds.
    pub fn heap_snapshot(&self, mut sink: impl FnMut(&[u8]) -> bool) -> bool {
        if self.is_sealed() {
            return false;
        }
        let page = self.engine.page.as_deref();
        let mut vm = self.vm.borrow_mut();
        let _memories = vm.memories.enter();
        vm.enter(|scope| {
            scope.take_heap_snapshot(|piece| {
                // The thread makes progress, although its event loop does not run.
                page.into_iter().for_each(Page::beat);
                sink(piece)
            });
        });
        true
    }
}
