//! RSA keys and their generation.

use std::time::Duration;

use tenon_engine::offload::Lane;
use tenon_engine::promise::Thrown;

use super::answer::{Effort, Output, answer};
use super::arguments::{bytes, number};
use super::keys::{self, Key};
use super::lc::{Rsa, RsaPart, RsaPrivate};

crate::ops::native! {
    "rsaGenerate" => generate,
    "rsaImport" => import,
}

/// Lengths of generated moduli, in bits, in steps of [`STEP`]. The time grows with about the fourth
/// power of the length.
const LENGTHS: std::ops::RangeInclusive<u32> = 2048..=4096;

/// AWS-LC would round to multiples of this.
const STEP: u32 = 128;

/// The longest modulus that is accepted, in bits: a signature with such a key takes about 30 ms.
const LONGEST: u32 = 8192;

/// The public exponents of generated keys: those in common use.
const EXPONENTS: [&[u8]; 2] = [&[3], &[1, 0, 1]];

/// A lower bound: no key of the shortest length was ever generated in less. Most take ten times as
/// long, and some fifty times.
const QUICKEST: Duration = Duration::from_millis(10);

pub(crate) struct RsaKey {
    pub(crate) rsa: Rsa,
    pub(crate) is_private: bool,
}

impl RsaKey {
    /// Returns the key's approximate memory, in bytes: its numbers, and their precomputed forms.
    pub(crate) fn size(&self) -> usize {
        1024 + self.rsa.bits() as usize * if self.is_private { 3 } else { 1 }
    }

    /// Creates the key of these numbers.
    ///
    /// # Errors
    /// Fails if the numbers are not a valid key, or too long.
    pub(crate) fn from_parts(n: &[u8], e: &[u8], private: Option<&RsaPrivate<'_>>) -> Result<Self, Thrown> {
        let longest = LONGEST as usize / 8;
        let numbers = private.map(|private| [private.d, private.p, private.q, private.dp, private.dq, private.qi]);
        if [n, e].iter().chain(numbers.iter().flatten()).any(|number| number.len() > longest) {
            return Err(Thrown::dom(
                "NotSupportedError",
                format!("RSA keys of more than {LONGEST} bits are not supported"),
            ));
        }
        let rsa =
            Rsa::from_parts(n, e, private).ok_or_else(|| Thrown::dom("DataError", "The values are not an RSA key"))?;
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

/// `rsaGenerate(bits, exponent)`: returns a promise of a ticket for a private key.
pub(crate) fn generate(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    result: v8::ReturnValue<'_>,
) {
    let bits = number(scope, args.get(0));
    let Some(exponent) = bytes(scope, args.get(1)) else { return };
    let exponent = match check(bits, &exponent) {
        Ok(exponent) => exponent,
        Err(thrown) => return thrown.throw(scope),
    };
    let effort = Effort::Much { lane: Lane::Whole, at_least: QUICKEST };
    answer(scope, result, effort, move |slice| {
        let mut go_on = || slice.is_none_or(|slice| slice.is_worth_it());
        let rsa = Rsa::generate(bits, exponent, &mut go_on)?;
        Some(Ok(Output::Secret(Key::Rsa(RsaKey { rsa, is_private: true }))))
    });
}

/// Returns the exponent, if such a key can be generated.
fn check(bits: u32, exponent: &[u8]) -> Result<&'static [u8], Thrown> {
    let (shortest, longest) = (LENGTHS.start(), LENGTHS.end());
    if !LENGTHS.contains(&bits) || !bits.is_multiple_of(STEP) {
        let limit = format!(
            "RSA keys are generated with {shortest} to {longest} bits, in multiples of {STEP}, not with {bits}"
        );
        return Err(Thrown::dom("OperationError", limit));
    }
    let zeros = exponent.iter().take_while(|byte| **byte == 0).count();
    let known = EXPONENTS.into_iter().find(|known| *known == &exponent[zeros..]);
    known.ok_or_else(|| Thrown::dom("OperationError", "RSA keys are generated with the public exponent 3 or 65537"))
}

/// `rsaImport(n, e, d?, p, q, dp, dq, qi)`: returns a handle; private with `d`.
pub(crate) fn import(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    mut result: v8::ReturnValue<'_>,
) {
    let mut numbers = Vec::with_capacity(8);
    for at in 0..8 {
        let Some(number) = bytes(scope, args.get(at)) else { return };
        numbers.push(zeroize::Zeroizing::new(number.to_vec()));
    }
    let [n, e, d, p, q, dp, dq, qi] = &numbers[..] else { return };
    let private = (!d.is_empty()).then_some(RsaPrivate { d, p, q, dp, dq, qi });
    let key = RsaKey::from_parts(n, e, private.as_ref());
    match key.and_then(|key| keys::hold(scope, Key::Rsa(key))) {
        Ok(handle) => result.set(handle.into()),
        Err(thrown) => thrown.throw(scope),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest;

    use super::super::digest::Hash;
    use super::*;

    #[test]
    fn only_keys_that_end_in_sight_are_generated() {
        assert_eq!(check(2048, &[1, 0, 1]).unwrap(), [1, 0, 1]);
        assert_eq!(check(4096, &[0, 0, 3]).unwrap(), [3]);
        for (bits, exponent) in
            [(1024, &[1, 0, 1][..]), (2049, &[1, 0, 1]), (8192, &[1, 0, 1]), (2048, &[]), (2048, &[1]), (2048, &[4])]
        {
            assert!(check(bits, exponent).is_err(), "{bits} {exponent:?}");
        }
    }

    #[test]
    fn a_key_that_is_generated_signs_by_every_scheme_and_is_given_up_when_it_is_not_wanted() {
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
