//! RSA keys for JavaScript: their generation, and their import from the numbers that they consist
//! of.

use std::time::Duration;

use tenon_crypto::key::Key;
use tenon_crypto::lc::{Rsa, RsaPrivate};
use tenon_crypto::rsa::RsaKey;
use tenon_engine::offload::QueueKind;
use tenon_engine::thrown::Thrown;
use tenon_op::op;
use zeroize::Zeroizing;

use super::arguments::Data;
use super::keys::{self, Handle, Ticket};
use super::operation::{Cost, Output, not_a_key, perform};
use crate::ops::MaybePromise;

/// The lengths of generated moduli, in bits, in steps of [`STEP`]. The time to generate a key grows
/// with about the fourth power of the length.
const LENGTHS: std::ops::RangeInclusive<u32> = 2048..=4096;

/// AWS-LC would round the length to a multiple of this number of bits.
const STEP: u32 = 128;

/// The public exponents of generated keys: those in common use.
const EXPONENTS: [&[u8]; 2] = [&[3], &[1, 0, 1]];

/// A lower bound on the time to generate a key: in measurements, no key of the shortest length took
/// less. Most keys take ten times as long, and some fifty times.
const MIN_TIME: Duration = Duration::from_millis(10);

/// Generates a private key. Returns a promise of a ticket for it.
#[op]
pub(crate) fn rsa_generate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    bits: u32,
    exponent: Data,
) -> Result<MaybePromise<'s, Ticket>, Thrown> {
    let exponent = check(bits, &exponent)?;
    let cost = Cost::Large { queue: QueueKind::Whole, at_least: MIN_TIME };
    perform(scope, cost, move |slice| {
        let mut may_continue = || slice.is_none_or(|slice| slice.is_worth_it());
        let rsa = Rsa::generate(bits, exponent, &mut may_continue)?;
        Some(Ok(Output::Secret(Key::Rsa(RsaKey { rsa, is_private: true }))))
    })
}

/// Returns the exponent, without leading zeros, if a key with this length in bits and this exponent
/// can be generated.
///
/// # Errors
/// Fails with an `OperationError` otherwise.
pub(crate) fn check(bits: u32, exponent: &[u8]) -> Result<&'static [u8], Thrown> {
    let (shortest, longest) = (LENGTHS.start(), LENGTHS.end());
    if !LENGTHS.contains(&bits) || !bits.is_multiple_of(STEP) {
        let limit = format!(
            "RSA keys are generated with {shortest} to {longest} bits, in multiples of {STEP}, not with {bits}"
        );
        return Err(Thrown::dom("OperationError", limit));
    }
    let zeros = exponent.iter().take_while(|byte| **byte == 0).count();
    let known = EXPONENTS.into_iter().find(|known| *known == &exponent[zeros..]);
    known.ok_or_else(|| {
        Thrown::dom("OperationError", "RSA keys are generated with the public exponent 3 or 65537")
    })
}

/// Imports a key from its numbers: a private key if there is a `d`, and otherwise a public key.
#[op]
pub(crate) fn rsa_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    n: Data,
    e: Data,
    d: Option<Data>,
    p: Option<Data>,
    q: Option<Data>,
    dp: Option<Data>,
    dq: Option<Data>,
    qi: Option<Data>,
) -> Result<Handle<'s>, Thrown> {
    let [n, e] = [n, e].map(|mut number| Zeroizing::new(number.take()));
    let [d, p, q, dp, dq, qi] = [d, p, q, dp, dq, qi]
        .map(|number| Zeroizing::new(number.map(|mut number| number.take()).unwrap_or_default()));
    let private = RsaPrivate { d: &d, p: &p, q: &q, dp: &dp, dq: &dq, qi: &qi };
    let private = (!d.is_empty()).then_some(private);
    let key = RsaKey::from_parts(&n, &e, private.as_ref()).map_err(not_a_key)?;
    keys::hold(scope, Key::Rsa(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sizes_and_exponents_are_restricted() {
        assert_eq!(check(2048, &[1, 0, 1]).unwrap(), [1, 0, 1]);
        assert_eq!(check(4096, &[0, 0, 3]).unwrap(), [3]);
        for (bits, exponent) in [
            (1024, &[1, 0, 1][..]),
            (2049, &[1, 0, 1]),
            (8192, &[1, 0, 1]),
            (2048, &[]),
            (2048, &[1]),
            (2048, &[4]),
        ] {
            assert!(check(bits, exponent).is_err(), "{bits} {exponent:?}");
        }
    }
}
