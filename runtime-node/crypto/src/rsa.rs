//! RSA keys and their parts.

use crate::encoding::KeyError;
use crate::lc::{Rsa, RsaPart, RsaPrivate};

/// The longest modulus that is accepted, in bits: a signature with such a key takes about 30 ms.
pub(crate) const LONGEST: u32 = 8192;

/// An RSA key.
pub struct RsaKey {
    pub rsa: Rsa,
    pub is_private: bool,
}

impl RsaKey {
    /// Returns the key's approximate memory, in bytes: its numbers, and their precomputed forms.
    pub(crate) fn size(&self) -> usize {
        1024 + self.rsa.bits() as usize * if self.is_private { 3 } else { 1 }
    }

    /// Creates the key that consists of these numbers.
    ///
    /// # Errors
    /// Returns [`KeyError::TooLong`] if a number has more bytes than the longest modulus, and
    /// [`KeyError::InvalidNumbers`] if the numbers are not a valid key.
    pub fn from_parts(
        n: &[u8],
        e: &[u8],
        private: Option<&RsaPrivate<'_>>,
    ) -> Result<Self, KeyError> {
        let longest = LONGEST as usize / 8;
        let numbers = private
            .map(|private| [private.d, private.p, private.q, private.dp, private.dq, private.qi]);
        if [n, e].iter().chain(numbers.iter().flatten()).any(|number| number.len() > longest) {
            return Err(KeyError::TooLong);
        }
        let rsa = Rsa::from_parts(n, e, private).ok_or(KeyError::InvalidNumbers)?;
        Ok(Self { rsa, is_private: private.is_some() })
    }

    /// Returns the public key alone, or `None` if AWS-LC fails.
    pub fn to_public(&self) -> Option<Self> {
        let (n, e) = (self.rsa.part(RsaPart::Modulus)?, self.rsa.part(RsaPart::PublicExponent)?);
        Self::from_parts(&n, &e, None).ok()
    }

    /// Returns a part by its name in a JSON Web Key (RFC 7518 §6.3). Returns `None` if there is no
    /// such part, or if the key is public and the part is private.
    pub fn named_part(&self, name: &str) -> Option<Vec<u8>> {
        let part = match name {
            "n" => RsaPart::Modulus,
            "e" => RsaPart::PublicExponent,
            "d" => RsaPart::PrivateExponent,
            "p" => RsaPart::Prime1,
            "q" => RsaPart::Prime2,
            "dp" => RsaPart::Exponent1,
            "dq" => RsaPart::Exponent2,
            "qi" => RsaPart::Coefficient,
            _ => return None,
        };
        self.rsa.part(part).map(|number| number.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest;

    use super::*;
    use crate::hash::Hash;

    #[test]
    fn a_generated_key_supports_every_scheme_and_generation_can_be_canceled() {
        assert!(Rsa::generate(2048, &[1, 0, 1], &mut || false).is_none());
        let rsa = Rsa::generate(2048, &[1, 0, 1], &mut || true).unwrap();
        let key = RsaKey { rsa, is_private: true };
        let public = key.to_public().unwrap();
        for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            let digest = digest::digest(hash.algorithm(), b"data");
            let signature = key.rsa.sign_pkcs1(hash, digest.as_ref()).unwrap();
            assert!(public.rsa.verify_pkcs1(hash, digest.as_ref(), &signature));
            for salt in [0, 7, 32] {
                let signature = key.rsa.sign_pss(hash, salt, digest.as_ref()).unwrap();
                assert!(public.rsa.verify_pss(hash, salt, digest.as_ref(), &signature));
                assert!(!public.rsa.verify_pss(hash, salt + 1, digest.as_ref(), &signature));
            }
            let secret = public.rsa.oaep(true, hash, b"label", b"plain").unwrap();
            assert_eq!(key.rsa.oaep(false, hash, b"label", &secret).unwrap(), b"plain");
            assert!(key.rsa.oaep(false, hash, b"other", &secret).is_none());
        }
        assert!(public.rsa.part(RsaPart::PrivateExponent).is_none());
    }
}
