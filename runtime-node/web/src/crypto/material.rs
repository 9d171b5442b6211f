//! Creation of keys, and access to their parts.

use tenon_crypto::curve::{Curve, CurveKey};
use tenon_crypto::encoding;
use tenon_crypto::key::{Key, Secret};
use tenon_engine::thrown::Thrown;
use tenon_op::op;
use zeroize::Zeroizing;

use super::arguments::Data;
use super::keys::{self, Handle, KeyRef, LONGEST_SECRET, Ticket};
use super::operation::{buffer, data_error, failed, not_a_key};
use crate::ops::{Argument, Arguments};

/// Takes the name of a curve.
impl<'s> Argument<'s> for Curve {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        let name: String = arguments.take(scope)?;
        Self::from_name(&name).ok_or_else(failed)
    }
}

/// Bytes, or the secret of a handle.
pub(crate) enum SecretSource {
    Bytes(Data),
    Key(KeyRef),
}

impl<'s> Argument<'s> for SecretSource {
    fn take(
        scope: &mut v8::PinScope<'s, '_>,
        arguments: &mut Arguments<'s>,
    ) -> Result<Self, Thrown> {
        if arguments.peek().is_array_buffer_view() {
            arguments.take(scope).map(Self::Bytes)
        } else {
            arguments.take(scope).map(Self::Key)
        }
    }
}

/// Creates a secret of `bits` random bits, but of at most [`LONGEST_SECRET`] bytes.
#[op]
pub(crate) fn secret_generate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bits: usize,
) -> Result<Handle<'s>, Thrown> {
    let mut random = Zeroizing::new(vec![0; bits.div_ceil(8).min(LONGEST_SECRET)]);
    getrandom::fill(&mut random).map_err(|_none| failed())?;
    let secret = Secret::of_bits(&random, bits.min(random.len() * 8));
    keys::hold(scope, Key::Secret(secret))
}

/// Creates a secret of the first `bits` bits of the given bytes or secret, or of all their bits.
#[op]
pub(crate) fn secret_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    secret: SecretSource,
    bits: Option<usize>,
) -> Result<Handle<'s>, Thrown> {
    let (bytes, available) = match &secret {
        SecretSource::Bytes(bytes) => (&bytes[..], bytes.len() * 8),
        SecretSource::Key(key) => match &**key {
            Key::Secret(secret) => (secret.bytes(), secret.bits()),
            Key::Rsa(_) | Key::Curve(_) => return Err(failed()),
        },
    };
    if bytes.len() > LONGEST_SECRET {
        let limit =
            format!("A secret may have at most {LONGEST_SECRET} bytes, not {}", bytes.len());
        return Err(Thrown::dom("DataError", limit));
    }
    let secret = Secret::of_bits(bytes, bits.unwrap_or(available).min(available));
    keys::hold(scope, Key::Secret(secret))
}

/// Creates a private key of a curve.
#[op]
pub(crate) fn curve_generate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    curve: Curve,
) -> Result<Handle<'s>, Thrown> {
    let key = CurveKey::generate(curve).ok_or_else(failed)?;
    keys::hold(scope, Key::Curve(key))
}

/// Imports a key from its coordinates: a private key if there is a `d`, and otherwise a public key.
#[op]
pub(crate) fn curve_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    curve: Curve,
    x: Data,
    y: Option<Data>,
    d: Option<Data>,
) -> Result<Handle<'s>, Thrown> {
    let y = y.unwrap_or_default();
    let public = if curve.has_points() { CurveKey::point(&x, &y) } else { x.to_vec() };
    if x.len() != curve.key_len() || (curve.has_points() && y.len() != curve.key_len()) {
        return Err(data_error("The coordinates do not have the length that the curve requires"));
    }
    let mut key = encoding::curve_from_raw(curve, &public).map_err(not_a_key)?;
    if let Some(d) = d {
        key = CurveKey::from_private(curve, &d)
            .ok_or_else(|| data_error("'d' is not a private key of the curve"))?;
        if key.public() != public {
            return Err(data_error("The public key does not match the private key"));
        }
    }
    keys::hold(scope, Key::Curve(key))
}

/// Imports a key from its serialization.
///
/// # Arguments
/// * `kind` - the name of a curve, or any other name for RSA.
/// * `format` - `raw`, `spki` or `pkcs8`.
#[op]
pub(crate) fn key_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    kind: String,
    format: String,
    data: Data,
) -> Result<Handle<'s>, Thrown> {
    let key = match (Curve::from_name(&kind), format.as_str()) {
        (Some(curve), "raw") => encoding::curve_from_raw(curve, &data).map(Key::Curve),
        (Some(curve), "spki") => encoding::curve_from_spki(curve, &data).map(Key::Curve),
        (Some(curve), "pkcs8") => encoding::curve_from_pkcs8(curve, &data).map(Key::Curve),
        (None, "spki") => encoding::rsa_from_spki(&data).map(Key::Rsa),
        (None, "pkcs8") => encoding::rsa_from_pkcs8(&data).map(Key::Rsa),
        _ => return Err(failed()),
    };
    keys::hold(scope, key.map_err(not_a_key)?)
}

/// Returns a handle to the public key that belongs to a key.
#[op]
pub(crate) fn key_public<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: KeyRef,
) -> Result<Handle<'s>, Thrown> {
    let public = match &*key {
        Key::Rsa(key) => key.to_public().map(Key::Rsa),
        Key::Curve(key) => Some(Key::Curve(key.to_public())),
        Key::Secret(_) => None,
    };
    keys::hold(scope, public.ok_or_else(failed)?)
}

/// Returns a part of a key by its name, or the key in a serialization.
#[op]
pub(crate) fn key_part<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: KeyRef,
    name: String,
) -> Result<v8::Local<'s, v8::ArrayBuffer>, Thrown> {
    buffer(scope, named_part(&key, &name).ok_or_else(failed)?)
}

fn named_part(key: &Key, name: &str) -> Option<Vec<u8>> {
    match (key, name) {
        (Key::Secret(secret), "raw") => Some(secret.bytes().to_vec()),
        (Key::Rsa(key), "spki") => encoding::rsa_to_spki(key),
        (Key::Rsa(key), "pkcs8") => encoding::rsa_to_pkcs8(key),
        (Key::Rsa(key), "pkcs1-public") => encoding::rsa_to_public(key),
        (Key::Rsa(key), "pkcs1-private") => encoding::rsa_to_private(key),
        (Key::Rsa(key), name) => key.named_part(name),
        (Key::Curve(key), "raw") => Some(key.public().to_vec()),
        (Key::Curve(key), "spki") => encoding::curve_to_spki(key),
        (Key::Curve(key), "pkcs8") => encoding::curve_to_pkcs8(key),
        (Key::Curve(key), "sec1") => encoding::curve_to_private(key),
        (Key::Curve(key), "x") => key.coordinates().map(|(x, _)| x.to_vec()),
        (Key::Curve(key), "y") => key.coordinates().map(|(_, y)| y.to_vec()),
        (Key::Curve(key), "d") => key.private().map(<[u8]>::to_vec),
        _ => None,
    }
}

/// Returns the length of a key in bits: of a secret, of an RSA modulus, or of the encoding of a
/// curve's private keys.
#[op]
pub(crate) fn key_bits(key: KeyRef) -> usize {
    match &*key {
        Key::Secret(secret) => secret.bits(),
        Key::Rsa(key) => key.rsa.bits() as usize,
        Key::Curve(key) => key.curve.key_len() * 8,
    }
}

/// Exchanges a ticket for a handle.
#[op]
pub(crate) fn key_take<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    ticket: Ticket,
) -> Result<Handle<'s>, Thrown> {
    keys::take(scope, ticket).ok_or_else(failed)
}
