//! The native half of `crypto.js`: randomness from the operating system.

use tenon_engine::bytes;

crate::ops::native! {
    "randomFill(view: View): void" => random_fill,
    "randomUuid(): string" => random_uuid,
}

/// `randomFill(view)`: fills the view with random bytes.
pub(crate) fn random_fill(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _result: v8::ReturnValue<'_>,
) {
    let Ok(view) = args.get(0).try_cast::<v8::ArrayBufferView>() else { return };
    let mut random = vec![0; view.byte_length()];
    if fill(scope, &mut random).is_some() {
        bytes::cells(view, |cells| {
            cells.iter().zip(random).for_each(|(cell, byte)| cell.set(byte))
        });
    }
}

/// `randomUuid()`: returns a version 4 UUID (RFC 9562 §5.4).
pub(crate) fn random_uuid(
    scope: &mut v8::PinScope<'_, '_>,
    _args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let mut random = [0; 16];
    if fill(scope, &mut random).is_none() {
        return;
    }
    if let Some(uuid) = v8::String::new(scope, &uuid(random)) {
        result.set(uuid.into());
    }
}

fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0F | 0x40; // version 4
    random[8] = random[8] & 0x3F | 0x80; // variant 10
    let hex = format!("{:032x}", u128::from_be_bytes(random));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Fills the slice. Throws if the operating system has no randomness.
fn fill(scope: &mut v8::PinScope<'_, '_>, random: &mut [u8]) -> Option<()> {
    if getrandom::fill(random).is_ok() {
        return Some(());
    }
    let message = v8::String::new(scope, "no randomness to be had")?;
    let error = v8::Exception::error(scope, message);
    scope.throw_exception(error);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_its_version_and_variant() {
        assert_eq!(uuid([0xFF; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
