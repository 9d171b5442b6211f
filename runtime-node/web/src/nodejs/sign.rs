//! The native half of `node-crypto-sign.js` and `node-crypto-rsa.js`: operations with RSA keys and
//! keys on curves, on the shard's thread. The key determines the time of an operation, because
//! JavaScript has hashed the data in steps.

use std::ffi::c_int;

use pkcs8::der::asn1::UintRef;
use pkcs8::der::{self, Decode as _, Encode as _, Reader as _, SliceReader};
use tenon_crypto::hash::Hash;
use tenon_crypto::key::Key;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::crypto::arguments::Data;
use crate::crypto::keys::KeyRef;
use crate::crypto::operation::{buffer, failed};
use crate::crypto::sign::Scheme;

/// The maximum length of a message that is signed or verified without a digest, in bytes. Hashing
/// this length takes a few milliseconds.
const MAX_MESSAGE_LEN: usize = 1 << 20;

/// The length of the salt of RSA-PSS: a number of bytes, -1 for the length of the digest, or -2 for
/// the maximum when signing, and for any length when verifying.
type Salt = f64;

fn scheme(name: &str, hash: Option<Hash>, salt: Option<Salt>) -> Result<Scheme, Thrown> {
    Ok(match (name, hash) {
        ("pkcs1", Some(hash)) => Scheme::Pkcs1(hash),
        ("pss", Some(hash)) => Scheme::Pss(hash, salt.unwrap_or(-2.0) as c_int),
        ("ecdsa", Some(hash)) => Scheme::Ecdsa(hash),
        ("ed25519", None) => Scheme::Ed25519,
        _ => return Err(failed()),
    })
}

/// Signs a digest or, with Ed25519, a message of at most 1 MiB. Returns `undefined` if the key
/// cannot sign it.
///
/// # Arguments
/// * `name` - the scheme: `pkcs1`, `pss`, `ecdsa` or `ed25519`.
#[op]
pub(crate) fn digest_sign<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    name: String,
    key: KeyRef,
    digest: Data,
    hash: Option<Hash>,
    salt: Option<Salt>,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    if digest.len() > MAX_MESSAGE_LEN {
        return None;
    }
    let scheme = match scheme(&name, hash, salt) {
        Ok(scheme) => scheme,
        Err(error) => return Some(Err(error)),
    };
    scheme.sign(&key, &digest).map(|signature| buffer(scope, signature))
}

/// Returns whether the signature of a digest or, with Ed25519, of a message is valid.
#[op]
pub(crate) fn digest_verify(
    name: String,
    key: KeyRef,
    digest: Data,
    signature: Data,
    hash: Option<Hash>,
    salt: Option<Salt>,
) -> Result<bool, Thrown> {
    let scheme = scheme(&name, hash, salt)?;
    Ok(digest.len() <= MAX_MESSAGE_LEN && scheme.verify(&key, &digest, &signature))
}

/// Converts an ECDSA signature from r and s of equal length to a DER sequence of two integers (RFC
/// 3279 §2.2.3).
#[op]
pub(crate) fn ecdsa_to_der<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    signature: Data,
) -> Result<v8::Local<'s, v8::ArrayBuffer>, Thrown> {
    let der = to_der(&signature).map_err(|_| failed())?;
    buffer(scope, der)
}

/// Converts an ECDSA signature from a DER sequence of two integers to r and s of `len` bytes each.
/// Returns `undefined` if the signature is malformed.
#[op]
pub(crate) fn ecdsa_from_der<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    der: Data,
    len: usize,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    from_der(&der, len).map(|signature| buffer(scope, signature))
}

fn to_der(signature: &[u8]) -> der::Result<Vec<u8>> {
    let (r, s) = signature.split_at(signature.len() / 2);
    let mut numbers = Vec::new();
    for number in [r, s] {
        UintRef::new(number)?.encode_to_vec(&mut numbers)?;
    }
    let mut out = Vec::new();
    der::Header::new(der::Tag::Sequence, numbers.len().try_into()?).encode_to_vec(&mut out)?;
    out.extend(numbers);
    Ok(out)
}

fn from_der(der: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut reader = SliceReader::new(der).ok()?;
    let numbers = reader.sequence(|reader| -> der::Result<_> {
        Ok([UintRef::decode(reader)?, UintRef::decode(reader)?])
    });
    let numbers = numbers.ok()?;
    reader.finish().ok()?;
    let mut out = Vec::with_capacity(2 * len);
    for number in &numbers {
        let zeros = len.checked_sub(number.as_bytes().len())?;
        out.resize(out.len() + zeros, 0);
        out.extend_from_slice(number.as_bytes());
    }
    Some(out)
}

/// Encrypts, decrypts, signs or recovers data with an RSA key. Returns `undefined` if the key
/// cannot process the data.
///
/// # Arguments
/// * `operation` - `encrypt-oaep`, `decrypt-oaep`, `encrypt-v1.5`, `sign` or `recover`.
/// * `hash` - the hash of OAEP.
/// * `label` - the label of OAEP.
#[op]
pub(crate) fn rsa_crypt<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    operation: String,
    key: KeyRef,
    data: Data,
    hash: Option<Hash>,
    label: Option<Data>,
) -> Option<Result<v8::Local<'s, v8::ArrayBuffer>, Thrown>> {
    let Key::Rsa(key) = &*key else { return None };
    let label = label.unwrap_or_default();
    let done = match operation.as_str() {
        "encrypt-oaep" => key.rsa.oaep(true, hash?, &label, &data),
        "decrypt-oaep" if key.is_private => key.rsa.oaep(false, hash?, &label, &data),
        "encrypt-v1.5" => key.rsa.encrypt_v1_5(&data),
        "sign" if key.is_private => key.rsa.sign_any(&data),
        "recover" => key.rsa.recover(&data),
        _ => None,
    };
    done.map(|done| buffer(scope, done))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_forms_of_a_signature_have_the_same_numbers(
            signature in prop::collection::vec(any::<u8>(), 64),
            zeros in 0_usize..34,
        ) {
            let mut signature = signature;
            signature[..zeros.min(32)].fill(0);
            let der = to_der(&signature).unwrap();
            prop_assert_eq!(from_der(&der, 32).unwrap(), signature);
            prop_assert!(from_der(&der[1..], 32).is_none());
        }
    }

    #[test]
    fn numbers_that_are_too_long_or_negative_are_refused() {
        assert_eq!(from_der(&[0x30, 6, 2, 1, 1, 2, 1, 2], 2).unwrap(), [0, 1, 0, 2]);
        assert!(from_der(&[0x30, 7, 2, 2, 1, 1, 2, 1, 2], 1).is_none());
        assert!(from_der(&[0x30, 6, 2, 1, 0x81, 2, 1, 2], 2).is_none());
        assert!(from_der(&[0x30, 6, 2, 1, 1, 2, 1, 2, 0], 2).is_none());
    }
}
