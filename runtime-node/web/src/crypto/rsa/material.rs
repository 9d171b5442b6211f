//! RSA keys for JavaScript: their generation, and their import from the numbers that they consist of.

use std::time::Duration;

use tenon_engine::offload::Lane;
use tenon_engine::thrown::Thrown;

use super::RsaKey;
use crate::crypto::answer::{Effort, Output, answer};
use crate::crypto::arguments::{bytes, number};
use crate::crypto::keys::{self, Key};
use crate::crypto::lc::{Rsa, RsaPrivate};

crate::ops::native! {
    "rsaGenerate(bits: number, exponent: View): Answer<Ticket>" => generate,
    "rsaImport(n: View, e: View, d?: View, p?: View, q?: View, dp?: View, dq?: View, qi?: View): Handle" => import,
}

/// Lengths of generated moduli, in bits, in steps of [`STEP`]. The time grows with about the fourth
/// power of the length.
const LENGTHS: std::ops::RangeInclusive<u32> = 2048..=4096;

/// AWS-LC would round to multiples of this.
const STEP: u32 = 128;

/// The public exponents of generated keys: those in common use.
const EXPONENTS: [&[u8]; 2] = [&[3], &[1, 0, 1]];

/// A lower bound: no key of the shortest length was ever generated in less. Most take ten times as
/// long, and some fifty times.
const QUICKEST: Duration = Duration::from_millis(10);

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
    known.ok_or_else(|| {
        Thrown::dom("OperationError", "RSA keys are generated with the public exponent 3 or 65537")
    })
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
    use super::*;

    #[test]
    fn only_keys_that_end_in_sight_are_generated() {
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
