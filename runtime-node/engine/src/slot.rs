//! The values that an isolate carries: one of each type, in V8's slots for its embedder.
//!
//! Native code that has only a scope finds values of the isolate in these slots. A lookup costs a
//! hash of the type, so a native function should look up one or two values rather than every field
//! that it needs.

/// Returns a clone of the value of type `T` that was stored when the isolate was created.
///
/// # Panics
/// Panics if no such value was stored.
pub fn slot_value<T: Clone + 'static>(isolate: &v8::Isolate) -> T {
    isolate.get_slot::<T>().expect("the isolate has no value of this type").clone()
}

/// Returns the value of type `T` in a slot of the isolate. On first use, the value is created with
/// its default.
pub fn slot<T: Default + 'static>(isolate: &mut v8::Isolate) -> &mut T {
    if isolate.get_slot::<T>().is_none() {
        isolate.set_slot(T::default());
    }
    isolate.get_slot_mut().expect("the slot is empty after it was set")
}
