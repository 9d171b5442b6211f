//! The native half of `base64.js`. JavaScript's binary strings have one character per byte.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

crate::ops::native! {
    "base64Encode(text: string): string | undefined" => encode,
    "base64Decode(text: string): string | undefined" => decode,
}

/// `base64Encode(string)`: returns the base64 of its characters' bytes, or undefined if a character
/// is not a byte.
pub(crate) fn encode(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Ok(string) = args.get(0).try_cast::<v8::String>() else { return };
    if !string.contains_only_onebyte() {
        return;
    }
    let mut bytes = vec![0; string.length()];
    string.write_one_byte_v2(scope, 0, &mut bytes, v8::WriteFlags::empty());
    let encoded = STANDARD.encode(bytes);
    if let Some(encoded) =
        v8::String::new_from_one_byte(scope, encoded.as_bytes(), v8::NewStringType::Normal)
    {
        result.set(encoded.into());
    }
}

/// `base64Decode(string)`: returns a binary string, or undefined if the input is not base64.
pub(crate) fn decode(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let Some(bytes) = forgiving(args.get(0).to_rust_string_lossy(scope).into_bytes()) else {
        return;
    };
    if let Some(string) = v8::String::new_from_one_byte(scope, &bytes, v8::NewStringType::Normal) {
        result.set(string.into());
    }
}

/// Implements forgiving-base64 decode (Infra §7): whitespace is allowed anywhere, padding is either
/// complete or absent, and left-over bits are ignored.
fn forgiving(mut text: Vec<u8>) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::RequireNone),
    );
    text.retain(|byte| !byte.is_ascii_whitespace());
    if text.len().is_multiple_of(4) {
        let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
        text.truncate(text.len() - padding);
    }
    LENIENT.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        forgiving(text.as_bytes().to_vec())
    }

    #[test]
    fn white_space_missing_padding_and_spare_bits_are_forgiven() {
        for text in ["YQ==", "YQ", " Y\tQ\n=\x0C= ", "YR", "YR=="] {
            assert_eq!(decoded(text).as_deref(), Some(&b"a"[..]), "{text:?}");
        }
        assert_eq!(decoded("").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn wrong_padding_length_and_characters_are_not() {
        for text in ["Y", "YQ=", "YQ===", "=", "====", "YW!j", "YWJj=", "Y=Q=", "é"] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }
}
