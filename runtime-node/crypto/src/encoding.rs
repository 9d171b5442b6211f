//! Serialization of keys: raw, as `SubjectPublicKeyInfo` (RFC 5280 §4.1.2.7) and as
//! `PrivateKeyInfo` (RFC 5208), which contain the structures of RSA (RFC 8017 §A.1) and of curves
//! (RFC 5915, RFC 8410); and these structures by themselves, which only Node.js reads and writes.

use pkcs1::{RsaPrivateKey, RsaPublicKey, UintRef};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::asn1::{AnyRef, BitStringRef, Null, ObjectIdentifier, OctetStringRef};
use pkcs8::der::{Decode, Encode};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use sec1::{EcParameters, EcPrivateKey};
use zeroize::Zeroizing;

use crate::curve::{Curve, CurveKey};
use crate::key::Key;
use crate::lc::{RsaPart, RsaPrivate};
use crate::rsa::{LONGEST, RsaKey};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const X25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.110");

/// The reason why data is not a key that can be used. The messages are for the author of a Worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("The key is not valid in its format")]
    Malformed,
    #[error("The key is not valid for its algorithm")]
    Invalid,
    #[error("The key is for another algorithm")]
    OtherAlgorithm,
    #[error("The key is on another curve")]
    OtherCurve,
    #[error(
        "The key is not a point on its curve, or is a compressed point, which is not supported"
    )]
    NoPoint,
    #[error("The public key does not match the private key")]
    OtherPublicKey,
    #[error("The values are not an RSA key")]
    InvalidNumbers,
    #[error("RSA keys of more than {LONGEST} bits are not supported")]
    TooLong,
    #[error(
        "Only keys of RSA and of the curves P-256, P-384, P-521, Ed25519 and X25519 are supported"
    )]
    Unsupported,
}

/// The object identifiers of a curve's keys.
struct Identifiers {
    algorithm: ObjectIdentifier,
    curve: Option<ObjectIdentifier>,
}

impl Identifiers {
    fn of(curve: Curve) -> Self {
        let (algorithm, curve) = match curve {
            Curve::P256 => (EC, Some(P256)),
            Curve::P384 => (EC, Some(P384)),
            Curve::P521 => (EC, Some(P521)),
            Curve::Ed25519 => (ED25519, None),
            Curve::X25519 => (X25519, None),
        };
        Self { algorithm, curve }
    }

    fn to_algorithm(&self) -> AlgorithmIdentifierRef<'_> {
        AlgorithmIdentifierRef {
            oid: self.algorithm,
            parameters: self.curve.as_ref().map(AnyRef::from),
        }
    }

    fn expect(&self, found: AlgorithmIdentifierRef<'_>) -> Result<(), KeyError> {
        if found.oid != self.algorithm {
            return Err(KeyError::OtherAlgorithm);
        }
        let curve = match (self.curve, found.parameters) {
            (None, None) => return Ok(()),
            (Some(_), Some(parameters)) => parameters.try_into().ok(),
            _ => None,
        };
        if curve == self.curve { Ok(()) } else { Err(KeyError::OtherCurve) }
    }
}

fn malformed<E>(_: E) -> KeyError {
    KeyError::Malformed
}

// ---- RSA

fn rsa_algorithm() -> AlgorithmIdentifierRef<'static> {
    AlgorithmIdentifierRef { oid: RSA, parameters: Some(Null.into()) }
}

fn expect_rsa(found: AlgorithmIdentifierRef<'_>) -> Result<(), KeyError> {
    let has_no_parameters = found.parameters.is_none_or(|parameters| parameters.is_null());
    if found.oid == RSA && has_no_parameters { Ok(()) } else { Err(KeyError::OtherAlgorithm) }
}

/// Imports a public RSA key from its `SubjectPublicKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn rsa_from_spki(der: &[u8]) -> Result<RsaKey, KeyError> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(malformed)?;
    expect_rsa(info.algorithm)?;
    rsa_from_public(info.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?)
}

/// Imports an `RSAPublicKey`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn rsa_from_public(der: &[u8]) -> Result<RsaKey, KeyError> {
    let key: RsaPublicKey<UintRef<'_>> = RsaPublicKey::from_der(der).map_err(malformed)?;
    RsaKey::from_parts(key.modulus.as_bytes(), key.public_exponent.as_bytes(), None)
}

/// Imports a private RSA key from its `PrivateKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn rsa_from_pkcs8(der: &[u8]) -> Result<RsaKey, KeyError> {
    let info = PrivateKeyInfoRef::from_der(der).map_err(malformed)?;
    expect_rsa(info.algorithm)?;
    rsa_from_private(info.private_key.as_bytes())
}

/// Imports an `RSAPrivateKey`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn rsa_from_private(der: &[u8]) -> Result<RsaKey, KeyError> {
    let key: RsaPrivateKey<UintRef<'_>> = RsaPrivateKey::from_der(der).map_err(malformed)?;
    let private = RsaPrivate {
        d: key.private_exponent.as_bytes(),
        p: key.prime1.as_bytes(),
        q: key.prime2.as_bytes(),
        dp: key.exponent1.as_bytes(),
        dq: key.exponent2.as_bytes(),
        qi: key.coefficient.as_bytes(),
    };
    RsaKey::from_parts(key.modulus.as_bytes(), key.public_exponent.as_bytes(), Some(&private))
}

/// Exports the public part of an RSA key as `SubjectPublicKeyInfo`.
pub fn rsa_to_spki(key: &RsaKey) -> Option<Vec<u8>> {
    to_spki(rsa_algorithm(), &rsa_to_public(key)?)
}

/// Exports an `RSAPublicKey`.
pub fn rsa_to_public(key: &RsaKey) -> Option<Vec<u8>> {
    let (n, e) = (key.rsa.part(RsaPart::Modulus)?, key.rsa.part(RsaPart::PublicExponent)?);
    let key =
        RsaPublicKey { modulus: UintRef::new(&n).ok()?, public_exponent: UintRef::new(&e).ok()? };
    key.to_der().ok()
}

/// Exports a private RSA key as `PrivateKeyInfo`. Returns `None` for a public key.
pub fn rsa_to_pkcs8(key: &RsaKey) -> Option<Vec<u8>> {
    to_pkcs8(rsa_algorithm(), &Zeroizing::new(rsa_to_private(key)?))
}

/// Exports an `RSAPrivateKey`. Returns `None` for a public key.
pub fn rsa_to_private(key: &RsaKey) -> Option<Vec<u8>> {
    let part = |part| key.rsa.part(part);
    let (n, e, d) =
        (part(RsaPart::Modulus)?, part(RsaPart::PublicExponent)?, part(RsaPart::PrivateExponent)?);
    let (p, q) = (part(RsaPart::Prime1)?, part(RsaPart::Prime2)?);
    let (dp, dq, qi) =
        (part(RsaPart::Exponent1)?, part(RsaPart::Exponent2)?, part(RsaPart::Coefficient)?);
    let key = RsaPrivateKey {
        modulus: UintRef::new(&n).ok()?,
        public_exponent: UintRef::new(&e).ok()?,
        private_exponent: UintRef::new(&d).ok()?,
        prime1: UintRef::new(&p).ok()?,
        prime2: UintRef::new(&q).ok()?,
        exponent1: UintRef::new(&dp).ok()?,
        exponent2: UintRef::new(&dq).ok()?,
        coefficient: UintRef::new(&qi).ok()?,
        other_prime_infos: None,
    };
    key.to_der().ok()
}

// ---- Curves

/// Imports a public key on a curve from its bytes.
///
/// # Errors
/// Returns [`KeyError::NoPoint`] if [`CurveKey::from_public`] refuses the bytes.
pub fn curve_from_raw(curve: Curve, bytes: &[u8]) -> Result<CurveKey, KeyError> {
    CurveKey::from_public(curve, bytes).ok_or(KeyError::NoPoint)
}

/// Imports a public key on a curve from its `SubjectPublicKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn curve_from_spki(curve: Curve, der: &[u8]) -> Result<CurveKey, KeyError> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(malformed)?;
    Identifiers::of(curve).expect(info.algorithm)?;
    curve_from_raw(curve, info.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?)
}

/// Imports a private key on a curve from its `PrivateKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn curve_from_pkcs8(curve: Curve, der: &[u8]) -> Result<CurveKey, KeyError> {
    let info = PrivateKeyInfoRef::from_der(der).map_err(malformed)?;
    let identifiers = Identifiers::of(curve);
    identifiers.expect(info.algorithm)?;
    let inner = info.private_key.as_bytes();
    if !curve.has_points() {
        let seed = <&OctetStringRef>::from_der(inner).map_err(malformed)?;
        return CurveKey::from_private(curve, seed.as_bytes()).ok_or(KeyError::Invalid);
    }
    let inner = EcPrivateKey::from_der(inner).map_err(malformed)?;
    if inner.parameters.is_some_and(|parameters| parameters.named_curve() != identifiers.curve) {
        return Err(KeyError::OtherCurve);
    }
    let key = CurveKey::from_private(curve, inner.private_key).ok_or(KeyError::Invalid)?;
    if inner.public_key.is_some_and(|public| public != key.public()) {
        return Err(KeyError::OtherPublicKey);
    }
    Ok(key)
}

/// Imports an `ECPrivateKey`, which must name its curve.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn curve_from_private(der: &[u8]) -> Result<CurveKey, KeyError> {
    let key = EcPrivateKey::from_der(der).map_err(malformed)?;
    let named = key.parameters.and_then(EcParameters::named_curve);
    let curve = CURVES.into_iter().find(|curve| {
        let identifiers = Identifiers::of(*curve);
        named.is_some() && identifiers.curve == named
    });
    let private = CurveKey::from_private(curve.ok_or(KeyError::Unsupported)?, key.private_key);
    private.ok_or(KeyError::Invalid)
}

/// Exports an `ECPrivateKey`. Returns `None` for a public key, and for a key on Ed25519 or X25519.
pub fn curve_to_private(key: &CurveKey) -> Option<Vec<u8>> {
    let parameters = Some(EcParameters::NamedCurve(Identifiers::of(key.curve).curve?));
    let (private_key, public_key) = (key.private()?, Some(key.public()));
    EcPrivateKey { private_key, parameters, public_key }.to_der().ok()
}

/// Exports the public part of a key on a curve as `SubjectPublicKeyInfo`.
pub fn curve_to_spki(key: &CurveKey) -> Option<Vec<u8>> {
    to_spki(Identifiers::of(key.curve).to_algorithm(), key.public())
}

/// Exports a private key on a curve as `PrivateKeyInfo`. Returns `None` for a public key.
pub fn curve_to_pkcs8(key: &CurveKey) -> Option<Vec<u8>> {
    let private = key.private()?;
    let inner = if key.curve.has_points() {
        EcPrivateKey { private_key: private, parameters: None, public_key: Some(key.public()) }
            .to_der()
            .ok()?
    } else {
        OctetStringRef::new(private).ok()?.to_der().ok()?
    };
    to_pkcs8(Identifiers::of(key.curve).to_algorithm(), &Zeroizing::new(inner))
}

// ---- Any algorithm

const CURVES: [Curve; 5] = [Curve::P256, Curve::P384, Curve::P521, Curve::Ed25519, Curve::X25519];

/// Returns the curve of an algorithm; `None` for RSA.
///
/// # Errors
/// Returns [`KeyError::Unsupported`] for any other algorithm or curve.
fn curve_of(algorithm: AlgorithmIdentifierRef<'_>) -> Result<Option<Curve>, KeyError> {
    if algorithm.oid == RSA {
        return Ok(None);
    }
    let is_for = |curve: &Curve| Identifiers::of(*curve).expect(algorithm).is_ok();
    CURVES.into_iter().find(is_for).map(Some).ok_or(KeyError::Unsupported)
}

/// Imports a public key of any algorithm from its `SubjectPublicKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn from_spki(der: &[u8]) -> Result<Key, KeyError> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(malformed)?;
    Ok(match curve_of(info.algorithm)? {
        Some(curve) => Key::Curve(curve_from_spki(curve, der)?),
        None => Key::Rsa(rsa_from_spki(der)?),
    })
}

/// Imports a private key of any algorithm from its `PrivateKeyInfo`.
///
/// # Errors
/// Returns the reason why the data is not such a key, or why the key is not supported.
pub fn from_pkcs8(der: &[u8]) -> Result<Key, KeyError> {
    let info = PrivateKeyInfoRef::from_der(der).map_err(malformed)?;
    Ok(match curve_of(info.algorithm)? {
        Some(curve) => Key::Curve(curve_from_pkcs8(curve, der)?),
        None => Key::Rsa(rsa_from_pkcs8(der)?),
    })
}

// ---- Enclosing structures

fn to_spki(algorithm: AlgorithmIdentifierRef<'_>, key: &[u8]) -> Option<Vec<u8>> {
    let subject_public_key = BitStringRef::from_bytes(key).ok()?;
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().ok()
}

fn to_pkcs8(algorithm: AlgorithmIdentifierRef<'_>, key: &[u8]) -> Option<Vec<u8>> {
    PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(key).ok()?).to_der().ok()
}
