//! Measures the memory of an isolate, and collects the garbage of idle isolates.

use super::Isolate;
use crate::collection;

impl Isolate {
    /// Returns the size of the JavaScript heap, and of the memory outside the heap that is charged
    /// to the isolate, such as array buffers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let mut vm = self.vm.borrow_mut();
        let heap = vm.isolate.exists().then(|| vm.isolate.get_heap_statistics());
        let heap = heap.map_or(0, |heap| heap.total_physical_size() + heap.malloced_memory());
        heap + self.state.buffers.used()
    }

    /// Makes an idle isolate release memory that it does not need, which blocks the thread for
    /// a few milliseconds (see [`collection`]). Returns the number of freed bytes. Does nothing and
    /// returns `None` if the isolate is not idle, is too large, or has been collected too often
    /// recently.
    pub fn collect(&self) -> Option<usize> {
        if self.is_sealed()
            || self.in_flight() > 0
            || !collection::is_small(&mut self.vm.borrow_mut().isolate)
        {
            return None;
        }
        let before = self.memory_bytes();
        self.enter(|scope, _| collection::release_unneeded(scope).then_some(()))?;
        Some(before.saturating_sub(self.memory_bytes()))
    }
}
