//! The values that an isolate carries: one of each type, in V8's slots for its embedder.
//!
//! Native code that has only a scope finds here what belongs to the isolate. A lookup costs a hash
//! of the type, so a native function looks up one or two values, not every field that it needs.

/// Returns a clone of the value of type `T` that the isolate was given when it was made.
///
/// # Panics
/// Panics if it was given none.
pub fn given<T: Clone + 'static>(isolate: &v8::Isolate) -> T {
    isolate.get_slot::<T>().expect("every isolate is created with a value of this type").clone()
}

/// Returns the value of type `T` in its slot of the isolate, creating it on first use.
pub fn slot<T: Default + 'static>(isolate: &mut v8::Isolate) -> &mut T {
    if isolate.get_slot::<T>().is_none() {
        isolate.set_slot(T::default());
    }
    isolate.get_slot_mut().expect("set above")
}
