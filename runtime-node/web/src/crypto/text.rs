//! The text form of bytes in a JSON Web Key: strict base64url without padding (RFC 7515 §2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tenon_engine::string::{from_octets, to_octets};
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use super::arguments::Data;
use super::operation::buffer;
use crate::ops::Maybe;

/// The maximum length of a text, in characters: longer than the text of any key.
const MAX_TEXT: usize = 2 << 20;

/// Encodes bytes as text.
#[op]
pub(crate) fn key_text<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bytes: Data,
) -> Maybe<v8::Local<'s, v8::String>> {
    Maybe(from_octets(scope, URL_SAFE_NO_PAD.encode(&*bytes).as_bytes()))
}

/// Decodes a text. Returns `undefined` if the text is too long or is not such an encoding.
#[op]
pub(crate) fn key_bytes<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    text: v8::Local<'s, v8::String>,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    if text.length() > MAX_TEXT || !text.contains_only_onebyte() {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(to_octets(scope, text)).ok()?;
    Some(buffer(scope, bytes))
}
