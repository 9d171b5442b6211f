//! Keys on curves: P-256, P-384 and P-521 (FIPS 186-5), Ed25519 (RFC 8032), X25519 (RFC 7748).

use std::sync::OnceLock;

use aws_lc_rs::agreement::{
    self, ECDH_P256, ECDH_P384, ECDH_P521, UnparsedPublicKey, X25519, agree,
};
use aws_lc_rs::digest::{Digest, SHA256, SHA384, SHA512};
use aws_lc_rs::encoding::{AsBigEndian as _, EcPrivateKeyBin};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING,
    ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, ParsedPublicKey,
    VerificationAlgorithm,
};
use zeroize::Zeroizing;

/// The first byte of an uncompressed point, which two coordinates follow (SEC 1 §2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A curve that Web Crypto supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    P256,
    P384,
    P521,
    Ed25519,
    X25519,
}

impl Curve {
    /// Returns the curve with this name in Web Crypto.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "P-256" => Self::P256,
            "P-384" => Self::P384,
            "P-521" => Self::P521,
            "Ed25519" => Self::Ed25519,
            "X25519" => Self::X25519,
            _ => return None,
        })
    }

    /// Returns the length of a private key, and of a coordinate, in bytes.
    pub fn key_len(self) -> usize {
        match self {
            Self::P256 | Self::Ed25519 | Self::X25519 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Returns whether public keys are points with two coordinates.
    pub fn has_points(self) -> bool {
        matches!(self, Self::P256 | Self::P384 | Self::P521)
    }

    fn agreement(self) -> Option<&'static agreement::Algorithm> {
        match self {
            Self::P256 => Some(&ECDH_P256),
            Self::P384 => Some(&ECDH_P384),
            Self::P521 => Some(&ECDH_P521),
            Self::X25519 => Some(&X25519),
            Self::Ed25519 => None,
        }
    }

    fn signing(self) -> Option<&'static EcdsaSigningAlgorithm> {
        match self {
            Self::P256 => Some(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Self::P384 => Some(&ECDSA_P384_SHA384_FIXED_SIGNING),
            Self::P521 => Some(&ECDSA_P521_SHA512_FIXED_SIGNING),
            Self::Ed25519 | Self::X25519 => None,
        }
    }

    fn verification(self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Self::P256 => Some(&ECDSA_P256_SHA256_FIXED),
            Self::P384 => Some(&ECDSA_P384_SHA384_FIXED),
            Self::P521 => Some(&ECDSA_P521_SHA512_FIXED),
            Self::Ed25519 => Some(&ED25519),
            Self::X25519 => None,
        }
    }
}

/// A public key, with the private key if it is known.
pub struct CurveKey {
    pub curve: Curve,
    /// An uncompressed point, or the 32 bytes that encode a point of Ed25519 or X25519.
    public: Vec<u8>,
    private: Option<Zeroizing<Vec<u8>>>,
    /// This field and the next two are created on first use.
    signer: OnceLock<Option<Signer>>,
    verifier: OnceLock<Option<ParsedPublicKey>>,
    agreement_key: OnceLock<Option<agreement::PrivateKey>>,
}

enum Signer {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl CurveKey {
    /// The approximate memory of a key in use, in bytes.
    pub(crate) const SIZE: usize = 2048;

    fn new(curve: Curve, public: Vec<u8>, private: Option<Zeroizing<Vec<u8>>>) -> Self {
        Self {
            curve,
            public,
            private,
            signer: OnceLock::new(),
            verifier: OnceLock::new(),
            agreement_key: OnceLock::new(),
        }
    }

    /// Generates a key pair. Returns `None` if AWS-LC or the system's random generator fails.
    pub fn generate(curve: Curve) -> Option<Self> {
        if curve.has_points() {
            let generated = agreement::PrivateKey::generate(curve.agreement()?).ok()?;
            let bytes: EcPrivateKeyBin<'_> = generated.as_be_bytes().ok()?;
            Self::from_private(curve, bytes.as_ref())
        } else {
            // Any 32 bytes are a private key of these curves.
            let mut private = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *private).ok()?;
            Self::from_private(curve, &*private)
        }
    }

    /// Creates a key pair. Returns `None` if the bytes are not a private key of the curve.
    pub fn from_private(curve: Curve, private: &[u8]) -> Option<Self> {
        if private.len() != curve.key_len() {
            return None;
        }
        let public = match curve.agreement() {
            None => {
                Ed25519KeyPair::from_seed_unchecked(private).ok()?.public_key().as_ref().to_vec()
            }
            Some(algorithm) => {
                let key = agreement::PrivateKey::from_private_key(algorithm, private).ok()?;
                key.compute_public_key().ok()?.as_ref().to_vec()
            }
        };
        Some(Self::new(curve, public, Some(Zeroizing::new(private.to_vec()))))
    }

    /// Creates a public key. Returns `None` if the bytes are not a point of the curve, or are a
    /// compressed point. For Ed25519 and X25519, any 32 bytes are accepted.
    pub fn from_public(curve: Curve, public: &[u8]) -> Option<Self> {
        if !curve.has_points() {
            return (public.len() == curve.key_len())
                .then(|| Self::new(curve, public.to_vec(), None));
        }
        if public.len() != 1 + 2 * curve.key_len() || public[0] != UNCOMPRESSED {
            return None;
        }
        let parsed = ParsedPublicKey::new(curve.verification()?, public).ok()?;
        let key = Self::new(curve, public.to_vec(), None);
        key.verifier.get_or_init(|| Some(parsed));
        Some(key)
    }

    /// Returns the point with these coordinates, uncompressed.
    pub fn point(x: &[u8], y: &[u8]) -> Vec<u8> {
        [&[UNCOMPRESSED], x, y].concat()
    }

    /// Returns the public key alone.
    pub fn to_public(&self) -> Self {
        Self::new(self.curve, self.public.clone(), None)
    }

    /// Returns the public key, as [`CurveKey::from_public`] takes it.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the private key, if it is known.
    pub fn private(&self) -> Option<&[u8]> {
        self.private.as_ref().map(|private| &private[..])
    }

    /// Returns the coordinates of the point, if public keys have two coordinates.
    pub fn coordinates(&self) -> Option<(&[u8], &[u8])> {
        self.curve.has_points().then(|| self.public[1..].split_at(self.curve.key_len()))
    }

    /// Returns the secret shared with the owner of another key. Returns `None` if the private key
    /// is not known, if the curve is Ed25519, or if AWS-LC refuses the other key.
    pub fn agree(&self, other: &Self) -> Option<Vec<u8>> {
        let algorithm = self.curve.agreement()?;
        let make = || agreement::PrivateKey::from_private_key(algorithm, self.private()?).ok();
        let private = self.agreement_key.get_or_init(make).as_ref()?;
        // X25519 refuses an all-zero secret, as RFC 7748 §6.1 recommends.
        agree(private, UnparsedPublicKey::new(algorithm, &other.public), (), |secret| {
            Ok(secret.to_vec())
        })
        .ok()
    }

    /// Signs a digest with ECDSA; the signature is the concatenation of r and s. Returns `None` if
    /// the private key is not known, or is not for ECDSA.
    pub fn sign_ecdsa(&self, digest: &[u8]) -> Option<Vec<u8>> {
        match self.signer()? {
            Signer::Ecdsa(pair) => {
                Some(pair.sign_digest(&self.fit(digest)?).ok()?.as_ref().to_vec())
            }
            Signer::Ed25519(_) => None,
        }
    }

    /// Returns whether a signature of a digest with ECDSA is valid.
    pub fn verify_ecdsa(&self, digest: &[u8], signature: &[u8]) -> bool {
        let verify = || self.verifier()?.verify_digest_sig(&self.fit(digest)?, signature).ok();
        verify().is_some()
    }

    /// Signs data with Ed25519. Returns `None` if the private key is not known, or is not for
    /// Ed25519.
    pub fn sign_ed25519(&self, data: &[u8]) -> Option<Vec<u8>> {
        match self.signer()? {
            Signer::Ed25519(pair) => Some(pair.try_sign(data).ok()?.as_ref().to_vec()),
            Signer::Ecdsa(_) => None,
        }
    }

    /// Returns whether a signature of data with Ed25519 is valid. Keys and signatures with points
    /// of small order are refused, because they admit signatures that are valid for many messages.
    pub fn verify_ed25519(&self, data: &[u8], signature: &[u8]) -> bool {
        let point = signature.get(..self.curve.key_len());
        if has_small_order(&self.public) || point.is_none_or(has_small_order) {
            return false;
        }
        self.verifier().is_some_and(|key| key.verify_sig(data, signature).is_ok())
    }

    fn signer(&self) -> Option<&Signer> {
        let make = || {
            let private = self.private()?;
            Some(match self.curve.signing() {
                Some(algorithm) => {
                    let pair = EcdsaKeyPair::from_private_key_and_public_key(
                        algorithm,
                        private,
                        &self.public,
                    );
                    Signer::Ecdsa(pair.ok()?)
                }
                None if self.curve == Curve::Ed25519 => {
                    Signer::Ed25519(Ed25519KeyPair::from_seed_unchecked(private).ok()?)
                }
                None => return None,
            })
        };
        self.signer.get_or_init(make).as_ref()
    }

    fn verifier(&self) -> Option<&ParsedPublicKey> {
        self.verifier
            .get_or_init(|| ParsedPublicKey::new(self.curve.verification()?, &self.public).ok())
            .as_ref()
    }

    /// Adapts a digest of any hash to `aws-lc-rs`, whose algorithms each fix a hash. ECDSA
    /// interprets the first n bits of a digest as a number, where n is the number of bits of the
    /// curve's order: a longer digest is truncated, and a shorter one is padded with leading zeros.
    /// No digest has as many bits as the order of P-521.
    fn fit(&self, digest: &[u8]) -> Option<Digest> {
        let algorithm = match self.curve {
            Curve::P256 => &SHA256,
            Curve::P384 => &SHA384,
            Curve::P521 => &SHA512,
            Curve::Ed25519 | Curve::X25519 => return None,
        };
        let len = algorithm.output_len();
        let used = &digest[..digest.len().min(len)];
        let mut fitted = vec![0; len - used.len()];
        fitted.extend_from_slice(used);
        Digest::import_less_safe(&fitted, algorithm).ok()
    }
}

/// Returns whether these 32 bytes encode a point of Ed25519 of order 1, 2, 4 or 8, in any encoding.
/// The last bit, the sign of the x coordinate, does not matter. Returns true for any other length.
fn has_small_order(point: &[u8]) -> bool {
    /// The points of order 8 have two y coordinates: this one and its negative.
    const ORDER_8: [u8; 32] = [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ];
    const ORDER_8_NEGATIVE: [u8; 32] = [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ];
    let Ok(mut y) = <[u8; 32]>::try_from(point) else { return true };
    y[31] &= 0x7F;
    // The other y coordinates are 0 and 1, which p and p + 1 encode as well, and p − 1, where p =
    // 2²⁵⁵ − 19.
    let is_small = y[1..].iter().all(|byte| *byte == 0) && y[0] <= 1;
    let is_large =
        y[31] == 0x7F && y[1..31].iter().all(|byte| *byte == 0xFF) && (0xEC..=0xEE).contains(&y[0]);
    is_small || is_large || y == ORDER_8 || y == ORDER_8_NEGATIVE
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest;

    use super::*;
    use crate::hash::Hash;

    #[test]
    fn each_curve_signs_digests_of_each_hash() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let key = CurveKey::generate(curve).unwrap();
            for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
                let digest = digest::digest(hash.algorithm(), b"data");
                let signature = key.sign_ecdsa(digest.as_ref()).unwrap();
                assert_eq!(signature.len(), 2 * curve.key_len());
                assert!(
                    key.to_public().verify_ecdsa(digest.as_ref(), &signature),
                    "{curve:?} {hash:?}"
                );
                assert!(
                    !key.verify_ecdsa(
                        digest::digest(hash.algorithm(), b"other").as_ref(),
                        &signature
                    ),
                    "{curve:?} {hash:?}"
                );
            }
        }
    }

    #[test]
    fn no_signature_is_valid_for_a_key_of_small_order() {
        // If the key and R were the neutral element and S were zero, the signature would be valid
        // for every message.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        let key = CurveKey::from_public(Curve::Ed25519, &neutral).unwrap();
        assert!(!key.verify_ed25519(b"anything", &[&neutral[..], &[0; 32]].concat()));
        assert!(!has_small_order(&[7; 32]));
    }

    #[test]
    fn zero_and_values_beyond_the_order_are_not_private_keys() {
        for private in [[0; 32], [0xFF; 32]] {
            assert!(CurveKey::from_private(Curve::P256, &private).is_none());
        }
    }
}
