//! The native half of `base64.js`, which defines `atob` and `btoa`. A binary string in JavaScript
//! has one character per byte.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use tenon_engine::string::{from_octets, to_octets};
use tenon_op::op;

/// Returns the base64 of the bytes of a string's characters; `undefined` if a character is not a
/// byte.
#[op]
pub(crate) fn base64_encode<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    text: v8::Local<'s, v8::String>,
) -> Option<v8::Local<'s, v8::String>> {
    let bytes = text.contains_only_onebyte().then(|| to_octets(scope, text))?;
    from_octets(scope, STANDARD.encode(bytes).as_bytes())
}

/// Decodes base64 to a binary string. Returns `undefined` if the text is not base64.
#[op]
pub(crate) fn base64_decode<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    text: String,
) -> Option<v8::Local<'s, v8::String>> {
    from_octets(scope, &forgiving_decode(text.into_bytes())?)
}

/// Implements forgiving-base64 decode (Infra §7): whitespace is allowed anywhere, padding is either
/// complete or absent, and left-over bits are ignored.
fn forgiving_decode(mut text: Vec<u8>) -> Option<Vec<u8>> {
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
        forgiving_decode(text.as_bytes().to_vec())
    }

    #[test]
    fn whitespace_missing_padding_and_spare_bits_are_accepted() {
        for text in ["YQ==", "YQ", " Y\tQ\n=\x0C= ", "YR", "YR=="] {
            assert_eq!(decoded(text).as_deref(), Some(&b"a"[..]), "{text:?}");
        }
        assert_eq!(decoded("").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn incorrect_padding_lengths_and_characters_are_refused() {
        for text in ["Y", "YQ=", "YQ===", "=", "====", "YW!j", "YWJj=", "Y=Q=", "é"] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }
}
