//! The text form of bytes in a JSON Web Key: strict base64url without padding (RFC 7515 §2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::answer::buffer;
use super::arguments::bytes;

crate::ops::native! {
    "keyText(bytes: View): string" => encode,
    "keyBytes(text: string): ArrayBuffer | undefined" => decode,
}

/// The longest text that is accepted, in characters: longer than that of any key.
const LONGEST: usize = 2 << 20;

/// `keyText(view)`: returns the text.
pub(crate) fn encode(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(bytes) = bytes(scope, args.get(0)) else { return };
    let text = URL_SAFE_NO_PAD.encode(&*bytes);
    if let Some(text) =
        v8::String::new_from_one_byte(scope, text.as_bytes(), v8::NewStringType::Normal)
    {
        result.set(text.into());
    }
}

/// `keyBytes(text)`: returns an `ArrayBuffer`, or undefined if the text is not such an encoding.
pub(crate) fn decode(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(text) = args.get(0).try_cast::<v8::String>() else { return };
    if text.length() > LONGEST || !text.contains_only_onebyte() {
        return;
    }
    let mut octets = vec![0; text.length()];
    text.write_one_byte_v2(scope, 0, &mut octets, v8::WriteFlags::empty());
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(octets) else { return };
    match buffer(scope, bytes) {
        Ok(buffer) => result.set(buffer.into()),
        Err(thrown) => thrown.throw(scope),
    }
}
