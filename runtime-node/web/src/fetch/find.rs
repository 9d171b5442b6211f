//! `bytesFind(view, needle, from, to)`: searches bytes for a sequence.

use memchr::memmem;
use tenon_engine::bytes;

crate::ops::native! {
    "bytesFind(bytes: View, needle: View, from: number, to: number): number" => find,
}

/// Returns the index in `view` of the first `needle` that lies between `from` and `to`, or -1.
/// Takes time in proportion to that distance, which the caller bounds.
pub(crate) fn find(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let place = |index| args.get(index).number_value(scope).unwrap_or_default() as usize;
    let (from, to) = (place(2), place(3));
    result.set_double(-1.0);
    let (Ok(view), Ok(needle)) = (args.get(0).try_cast(), args.get(1).try_cast()) else { return };
    let found = bytes::read(needle, |needle| {
        bytes::read(view, |all| {
            let within = all.get(from.min(all.len())..to.min(all.len())).unwrap_or_default();
            memmem::find(within, needle)
        })
    });
    if let Some(found) = found {
        result.set_double((from + found) as f64);
    }
}
