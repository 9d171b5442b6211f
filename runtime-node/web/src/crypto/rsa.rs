//! RSA keys and their parts. [`material`] generates and imports the keys.

pub(crate) mod material;

use tenon_engine::thrown::Thrown;

use super::lc::{Rsa, RsaPart, RsaPrivate};

/// The longest modulus that is accepted, in bits: a signature with such a key takes about 30 ms.
const LONGEST: u32 = 8192;

/// An RSA key.
pub(crate) struct RsaKey {
    pub(crate) rsa: Rsa,
    pub(crate) is_private: bool,
}

impl RsaKey {
    /// Returns the key's approximate memory, in bytes: its numbers, and their precomputed forms.
    pub(crate) fn size(&self) -> usize {
        1024 + self.rsa.bits() as usize * if self.is_private { 3 } else { 1 }
    }

    /// Creates the key that consists of these numbers.
    ///
    /// # Errors
    /// Fails if the numbers are not a valid key, or if its modulus is too long.
    pub(crate) fn from_parts(
        n: &[u8],
        e: &[u8],
        private: Option<&RsaPrivate<'_>>,
    ) -> Result<Self, Thrown> {
        let longest = LONGEST as usize / 8;
        let numbers = private
            .map(|private| [private.d, private.p, private.q, private.dp, private.dq, private.qi]);
        if [n, e].iter().chain(numbers.iter().flatten()).any(|number| number.len() > longest) {
            return Err(Thrown::dom(
                "NotSupportedError",
                format!("RSA keys of more than {LONGEST} bits are not supported"),
            ));
        }
        let rsa = Rsa::from_parts(n, e, private)
            .ok_or_else(|| Thrown::dom("DataError", "The values are not an RSA key"))?;
        Ok(Self { rsa, is_private: private.is_some() })
    }

    /// Returns the public key alone.
    pub(crate) fn to_public(&self) -> Option<Self> {
        let (n, e) = (self.rsa.part(RsaPart::Modulus)?, self.rsa.part(RsaPart::PublicExponent)?);
        Self::from_parts(&n, &e, None).ok()
    }

    /// Returns a part by its name in a JSON Web Key (RFC 7518 §6.3).
    pub(crate) fn named_part(&self, name: &str) -> Option<Vec<u8>> {
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

    use super::super::hash::Hash;
    use super::*;

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
