//! Signatures: HMAC (RFC 2104), RSA with PKCS #1 v1.5 and with PSS (RFC 8017), ECDSA and Ed25519.

use std::ffi::c_int;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac};
use tenon_crypto::hash::Hash;
use tenon_crypto::key::Key;
use tenon_engine::offload::{QueueKind, Slice};
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use super::arguments::Data;
use super::digest::Progress;
use super::keys::KeyRef;
use super::operation::{Cost, Output, failed, perform};
use crate::ops::MaybePromise;

/// A signature scheme with its parameters.
#[derive(Clone, Copy)]
pub(crate) enum Scheme {
    Hmac(Hash),
    Pkcs1(Hash),
    /// The hash, and the length of the salt in bytes.
    Pss(Hash, c_int),
    Ecdsa(Hash),
    Ed25519,
}

impl Scheme {
    fn new(name: &str, hash: Option<Hash>, salt: u32) -> Result<Self, Thrown> {
        Ok(match (name, hash) {
            ("HMAC", Some(hash)) => Self::Hmac(hash),
            ("RSASSA-PKCS1-v1_5", Some(hash)) => Self::Pkcs1(hash),
            ("RSA-PSS", Some(hash)) => {
                let too_long =
                    |_| Thrown::dom("OperationError", "The salt is too long for the key");
                Self::Pss(hash, salt.try_into().map_err(too_long)?)
            }
            ("ECDSA", Some(hash)) => Self::Ecdsa(hash),
            ("Ed25519", _) => Self::Ed25519,
            _ => return Err(failed()),
        })
    }

    /// Returns the hasher whose result is signed.
    fn hasher(self, key: &Key) -> Hasher {
        match self {
            Self::Hmac(hash) => {
                let key = hmac::Key::new(hash.hmac(), key.secret().unwrap_or_default());
                Hasher::Hmac(hmac::Context::with_key(&key))
            }
            Self::Pkcs1(hash) | Self::Pss(hash, _) | Self::Ecdsa(hash) => {
                Hasher::Digest(digest::Context::new(hash.algorithm()))
            }
            Self::Ed25519 => Hasher::None,
        }
    }

    /// Returns the cost of signing or verifying. Any operation with a private RSA key takes half a
    /// millisecond or more.
    fn cost(self, key: &Key, data: &[u8]) -> Cost {
        match key {
            Key::Rsa(rsa) if rsa.is_private => {
                Cost::Large { queue: QueueKind::Parts, at_least: Duration::ZERO }
            }
            Key::Rsa(_) | Key::Curve(_) => Cost::of_bytes(data.len()),
            Key::Secret(secret) => Cost::of_bytes(data.len() + secret.bytes().len()),
        }
    }

    /// Signs a digest, or the data if the scheme has no digest. Returns `None` if the key does not
    /// fit the scheme or AWS-LC fails.
    pub(crate) fn sign(self, key: &Key, digest: &[u8]) -> Option<Vec<u8>> {
        match (self, key) {
            (Self::Hmac(_), _) => Some(digest.to_vec()),
            (Self::Pkcs1(hash), Key::Rsa(key)) => key.rsa.sign_pkcs1(hash, digest),
            (Self::Pss(hash, salt), Key::Rsa(key)) => key.rsa.sign_pss(hash, salt, digest),
            (Self::Ecdsa(_), Key::Curve(key)) => key.sign_ecdsa(digest),
            (Self::Ed25519, Key::Curve(key)) => key.sign_ed25519(digest),
            _ => None,
        }
    }

    pub(crate) fn verify(self, key: &Key, digest: &[u8], signature: &[u8]) -> bool {
        match (self, key) {
            (Self::Hmac(_), _) => verify_slices_are_equal(digest, signature).is_ok(),
            (Self::Pkcs1(hash), Key::Rsa(key)) => key.rsa.verify_pkcs1(hash, digest, signature),
            (Self::Pss(hash, salt), Key::Rsa(key)) => {
                key.rsa.verify_pss(hash, salt, digest, signature)
            }
            (Self::Ecdsa(_), Key::Curve(key)) => key.verify_ecdsa(digest, signature),
            (Self::Ed25519, Key::Curve(key)) => key.verify_ed25519(digest, signature),
            _ => false,
        }
    }
}

/// Hashes the data of an operation piece by piece.
#[allow(clippy::large_enum_variant)] // Each operation has one hasher, and moves it once.
enum Hasher {
    Hmac(hmac::Context),
    Digest(digest::Context),
    /// The scheme signs the data itself.
    None,
}

impl Hasher {
    fn update(&mut self, part: &[u8]) {
        match self {
            Self::Hmac(context) => context.update(part),
            Self::Digest(context) => context.update(part),
            Self::None => {}
        }
    }

    /// Calls `f` with the digest, or with the data if the scheme has no digest.
    fn with_digest<R>(self, data: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Hmac(context) => f(context.sign().as_ref()),
            Self::Digest(context) => f(context.finish().as_ref()),
            Self::None => f(data),
        }
    }
}

/// Signs data with a scheme. Returns the signature.
#[op]
pub(crate) fn crypto_sign<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    scheme: String,
    key: KeyRef,
    data: Data,
    hash: Option<Hash>,
    salt: Option<u32>,
) -> Result<MaybePromise<'s, v8::ArrayBuffer>, Thrown> {
    let scheme = Scheme::new(&scheme, hash, salt.unwrap_or_default())?;
    hash_then(scope, scheme, key, data, |scheme, key, digest| {
        scheme.sign(key, digest).map(Output::Bytes).ok_or_else(failed)
    })
}

/// Returns whether a signature of the data is valid.
#[op]
pub(crate) fn crypto_verify<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    scheme: String,
    key: KeyRef,
    signature: Data,
    data: Data,
    hash: Option<Hash>,
    salt: Option<u32>,
) -> Result<MaybePromise<'s, bool>, Thrown> {
    let scheme = Scheme::new(&scheme, hash, salt.unwrap_or_default())?;
    hash_then(scope, scheme, key, data, move |scheme, key, digest| {
        Ok(Output::Boolean(scheme.verify(key, digest, &signature)))
    })
}

/// Hashes the data, and calls `finish` with the digest, or with the data if the scheme has no
/// digest. Returns the result.
fn hash_then<'s, T>(
    scope: &mut v8::PinScope<'s, '_>,
    scheme: Scheme,
    key: KeyRef,
    data: Data,
    finish: impl FnOnce(Scheme, &Key, &[u8]) -> Result<Output, Thrown> + Send + 'static,
) -> Result<MaybePromise<'s, T>, Thrown> {
    let (mut hasher, mut progress, mut finish) = (None, Progress::default(), Some(finish));
    perform(scope, scheme.cost(&key, &data), move |slice| {
        let hashing = hasher.get_or_insert_with(|| scheme.hasher(&key));
        if !matches!(hashing, Hasher::None)
            && !progress.run_slice(
                &data,
                || slice.is_some_and(Slice::is_over),
                |part| hashing.update(part),
            )
        {
            return None;
        }
        let (hasher, finish) = (hasher.take()?, finish.take()?);
        Some(hasher.with_digest(&data, |digest| finish(scheme, &key, digest)))
    })
}
