//! The native half of `node-crypto-keys.js`: keys in all formats of Node.js, of which Web Crypto
//! reads only some, and the generation of RSA keys on the shard's thread.

use pkcs8::der::{Decode as _, Header, Reader as _, SliceReader};
use tenon_crypto::curve::{Curve, CurveKey};
use tenon_crypto::encoding::{self, KeyError};
use tenon_crypto::key::Key;
use tenon_crypto::lc::{Rsa, convert_point};
use tenon_crypto::rsa::RsaKey;
use tenon_engine::is_turn_over;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::crypto::arguments::Data;
use crate::crypto::keys::{self, Handle, KeyRef};
use crate::crypto::operation::{buffer, data_error, failed, not_a_key};
use crate::crypto::rsa::check;

/// The longest serialized key that is accepted, in bytes: several times as long as an RSA key of
/// the longest modulus.
const MAX_KEY_LEN: usize = 64 << 10;

/// Imports a key of any supported algorithm.
///
/// # Arguments
/// * `format` - `spki`, `pkcs8`, `pkcs1-public`, `pkcs1-private`, `sec1` or `certificate`.
///
/// # Errors
/// Returns a `DataError` if the data is too long or is not a key in this format, a
/// `NotSupportedError` if an RSA modulus is too long, an `OperationError` for any other format, and
/// a `RangeError` if there is not enough memory.
#[op]
pub(crate) fn key_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    format: String,
    der: Data,
) -> Result<Handle<'s>, Thrown> {
    if der.len() > MAX_KEY_LEN {
        return Err(data_error("The key is too long"));
    }
    let key = match format.as_str() {
        "spki" => encoding::from_spki(&der),
        "pkcs8" => encoding::from_pkcs8(&der),
        "pkcs1-public" => encoding::rsa_from_public(&der).map(Key::Rsa),
        "pkcs1-private" => encoding::rsa_from_private(&der).map(Key::Rsa),
        "sec1" => encoding::curve_from_private(&der).map(Key::Curve),
        "certificate" => {
            subject_public_key_info(&der).ok_or(KeyError::Malformed).and_then(encoding::from_spki)
        }
        _ => return Err(failed()),
    };
    keys::hold(scope, key.map_err(not_a_key)?)
}

/// Returns the `SubjectPublicKeyInfo` of a certificate (RFC 5280 §4.1). The signature of the
/// certificate is not verified.
fn subject_public_key_info(der: &[u8]) -> Option<&[u8]> {
    let to_be_signed = SliceReader::new(content_of(der)?).ok()?.tlv_bytes().ok()?;
    let mut fields = SliceReader::new(content_of(to_be_signed)?).ok()?;
    // Certificates of version 1 do not contain their version.
    if fields.peek_byte()? == 0xA0 {
        fields.tlv_bytes().ok()?;
    }
    // Skips the serial number, the signature's algorithm, the issuer, the validity and the subject.
    for _ in 0..5 {
        fields.tlv_bytes().ok()?;
    }
    fields.tlv_bytes().ok()
}

/// Returns the content of a DER element, without its tag and length.
fn content_of(der: &[u8]) -> Option<&[u8]> {
    let mut reader = SliceReader::new(der).ok()?;
    let header = Header::decode(&mut reader).ok()?;
    reader.read_slice(header.length()).ok()
}

/// Returns the name of a key's curve in Web Crypto, `RSA`, or `secret`.
#[op]
pub(crate) fn key_kind(key: KeyRef) -> &'static str {
    match &*key {
        Key::Secret(_) => "secret",
        Key::Rsa(_) => "RSA",
        Key::Curve(key) => match key.curve {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
            Curve::Ed25519 => "Ed25519",
            Curve::X25519 => "X25519",
        },
    }
}

/// Generates a private RSA key on this thread. Stops when the turn is over: the termination of the
/// turn then ends the Worker's code.
#[op]
pub(crate) fn rsa_generate_here<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bits: u32,
    exponent: Data,
) -> Result<Handle<'s>, Thrown> {
    let exponent = check(bits, &exponent)?;
    let mut may_continue = || !is_turn_over(scope);
    let rsa = Rsa::generate(bits, exponent, &mut may_continue).ok_or_else(failed)?;
    keys::hold(scope, Key::Rsa(RsaKey { rsa, is_private: true }))
}

/// Makes a private key on a curve from its bytes. Returns `undefined` if the bytes are not a
/// private key.
#[op]
pub(crate) fn curve_from_private<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    curve: Curve,
    bytes: Data,
) -> Option<Result<Handle<'s>, Thrown>> {
    CurveKey::from_private(curve, &bytes).map(|key| keys::hold(scope, Key::Curve(key)))
}

/// Converts the encoding of a point on a curve. Returns `undefined` if the bytes do not encode a
/// point.
#[op]
pub(crate) fn point_convert<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    curve: Curve,
    bytes: Data,
    compresses: bool,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    convert_point(curve, &bytes, compresses).map(|point| buffer(scope, point))
}
