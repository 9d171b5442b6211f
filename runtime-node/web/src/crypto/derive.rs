//! Derivation of secrets, each returned as a ticket: HKDF (RFC 5869), PBKDF2 (RFC 8018 §5.2), ECDH
//! and X25519.

use std::time::Duration;

use aws_lc_rs::hkdf;
use tenon_crypto::hash::Hash;
use tenon_crypto::key::{Key, Secret};
use tenon_crypto::lc::Mac;
use tenon_engine::collection::make_room;
use tenon_engine::offload::{QueueKind, Slice};
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;
use zeroize::Zeroizing;

use super::arguments::Data;
use super::keys::{KeyRef, Ticket};
use super::operation::{Cost, Output, failed, perform};
use crate::ops::MaybePromise;

/// Derives `bits` bits with HKDF.
#[op]
pub(crate) fn crypto_hkdf<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: KeyRef,
    hash: Hash,
    salt: Data,
    info: Data,
    bits: usize,
) -> Result<MaybePromise<'s, Ticket>, Thrown> {
    let len = bits / 8;
    // Each block hashes the info again.
    let blocks = len.div_ceil(hash.output_len());
    if blocks > 255 {
        let most = 255 * hash.output_len() * 8;
        let limit = format!("HKDF with this hash derives at most {most} bits, not {}", len * 8);
        return Err(Thrown::dom("OperationError", limit));
    }
    let cost = Cost::of_bytes(
        salt.len()
            + blocks * (info.len() + hash.output_len())
            + key.secret().map_or(0, <[u8]>::len),
    );
    perform(scope, cost, move |_| Some(expand(hash, key.secret()?, &salt, &info, len)))
}

fn expand(
    hash: Hash,
    secret: &[u8],
    salt: &[u8],
    info: &[u8],
    len: usize,
) -> Result<Output, Thrown> {
    let mut out = Zeroizing::new(vec![0; len]);
    // `aws-lc-rs` does not accept a length of zero.
    if len > 0 {
        let algorithm = match hash {
            Hash::Sha1 => hkdf::HKDF_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => hkdf::HKDF_SHA256,
            Hash::Sha384 => hkdf::HKDF_SHA384,
            Hash::Sha512 => hkdf::HKDF_SHA512,
        };
        let prk = hkdf::Salt::new(algorithm, salt).extract(secret);
        let filled = prk.expand(&[info], Length(len)).and_then(|okm| okm.fill(&mut out));
        filled.map_err(|_unspecified| failed())?;
    }
    Ok(Output::Secret(Key::Secret(Secret::new(std::mem::take(&mut out)))))
}

/// A length in bytes, in the form that `aws-lc-rs` requires.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives `bits` bits with PBKDF2.
#[op]
pub(crate) fn crypto_pbkdf2<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    key: KeyRef,
    hash: Hash,
    salt: Data,
    iterations: u32,
    bits: usize,
) -> Result<MaybePromise<'s, Ticket>, Thrown> {
    let len = bits / 8;
    let password = key.secret().ok_or_else(failed)?;
    let room = make_room(scope, len).and_then(|buffers| buffers.charge(len));
    let room = room.ok_or_else(out_of_memory)?;
    let at_least = Pbkdf2::at_least(hash, iterations, len);
    let is_small = at_least.is_zero() && salt.len() + password.len() <= SMALL_INPUT;
    let cost =
        if is_small { Cost::Small } else { Cost::Large { queue: QueueKind::Parts, at_least } };
    let mac = Mac::new(hash, password).ok_or_else(failed)?;
    let mut work = Pbkdf2::new(mac, salt.to_vec(), iterations, len);
    perform(scope, cost, move |slice| {
        let _charged = &room;
        match work.run_slice(&|| slice.is_some_and(Slice::is_over)) {
            Some(true) => Some(Ok(Output::Secret(Key::Secret(Secret::new(work.take()))))),
            Some(false) => None,
            None => Some(Err(failed())),
        }
    })
}

/// The maximum length of salt and password together, in bytes, for a derivation on the shard's
/// thread. Longer input is processed on another thread even if there are few iterations.
const SMALL_INPUT: usize = 16 << 10;

/// The number of iterations between two checks of the clock.
const STRIDE: u32 = 256;

/// A derivation in progress. Each block of the output is the exclusive or of a chain of MACs.
pub(crate) struct Pbkdf2 {
    mac: Mac,
    salt: Vec<u8>,
    iterations: u32,
    out: Vec<u8>,
    /// The number of bytes derived.
    done: usize,
    /// The state of the current block: the number of its iterations so far, the last MAC, and the
    /// exclusive or of all MACs.
    iteration: u32,
    last: Zeroizing<Vec<u8>>,
    sum: Zeroizing<Vec<u8>>,
}

impl Pbkdf2 {
    pub(crate) fn new(mac: Mac, salt: Vec<u8>, iterations: u32, len: usize) -> Self {
        let (last, sum) = [(); 2].map(|()| Zeroizing::new(vec![0; mac.output_len()])).into();
        Self { mac, salt, iterations, out: vec![0; len], done: 0, iteration: 0, last, sum }
    }

    /// Returns a lower bound on the CPU time on any processor: an iteration is two compressions.
    /// Returns zero if the time is negligible.
    fn at_least(hash: Hash, iterations: u32, len: usize) -> Duration {
        const NEGLIGIBLE: Duration = Duration::from_micros(100);
        let nanoseconds = match hash {
            Hash::Sha1 | Hash::Sha256 => 80,
            Hash::Sha384 | Hash::Sha512 => 200,
        };
        let iterations =
            u64::from(iterations).saturating_mul(len.div_ceil(hash.output_len()) as u64);
        let cost = Duration::from_nanos(iterations.saturating_mul(nanoseconds));
        if cost < NEGLIGIBLE { Duration::ZERO } else { cost }
    }

    /// Continues until the output is complete or `is_over` returns true. Returns whether the output
    /// is complete; `None` if a call of AWS-LC failed.
    pub(crate) fn run_slice(&mut self, is_over: &dyn Fn() -> bool) -> Option<bool> {
        while self.done < self.out.len() {
            if self.iteration == 0 {
                self.begin()?;
            }
            let until = self.iterations.min(self.iteration.saturating_add(STRIDE));
            while self.iteration < until {
                self.mac.rehash(&mut self.last)?;
                self.sum.iter_mut().zip(&*self.last).for_each(|(sum, byte)| *sum ^= byte);
                self.iteration += 1;
            }
            if self.iteration == self.iterations {
                self.end();
            }
            if self.done < self.out.len() && is_over() {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Takes the complete output.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn begin(&mut self) -> Option<()> {
        let number = (self.done / self.mac.output_len() + 1) as u32;
        self.mac.compute(&[&self.salt, &number.to_be_bytes()], &mut self.last)?;
        self.sum.copy_from_slice(&self.last);
        self.iteration = 1;
        Some(())
    }

    fn end(&mut self) {
        let rest = &mut self.out[self.done..];
        let len = rest.len().min(self.sum.len());
        rest[..len].copy_from_slice(&self.sum[..len]);
        self.done += len;
        self.iteration = 0;
    }
}

/// Derives the secret that a private and a public key share, or its first `bits` bits.
#[op]
pub(crate) fn crypto_agree<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    private: KeyRef,
    public: KeyRef,
    bits: Option<usize>,
) -> Result<MaybePromise<'s, Ticket>, Thrown> {
    perform(scope, Cost::Small, move |_| Some(shared(&private, &public, bits)))
}

fn shared(private: &Key, public: &Key, bits: Option<usize>) -> Result<Output, Thrown> {
    let (Key::Curve(private), Key::Curve(public)) = (private, public) else { return Err(failed()) };
    let refused =
        || Thrown::dom("OperationError", "No shared secret can be derived from the public key");
    let secret = Zeroizing::new(private.agree(public).ok_or_else(refused)?);
    let available = secret.len() * 8;
    let bits = bits.unwrap_or(available);
    if bits > available {
        let message = format!("The shared secret has {available} bits, not {bits}");
        return Err(Thrown::dom("OperationError", message));
    }
    Ok(Output::Secret(Key::Secret(Secret::of_bits(&secret, bits))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pbkdf2_in_steps_matches_the_library() {
        for (hash, theirs) in [
            (Hash::Sha1, aws_lc_rs::pbkdf2::PBKDF2_HMAC_SHA1),
            (Hash::Sha256, aws_lc_rs::pbkdf2::PBKDF2_HMAC_SHA256),
            (Hash::Sha512, aws_lc_rs::pbkdf2::PBKDF2_HMAC_SHA512),
        ] {
            for (iterations, len) in [(1, 1), (2, 20), (256, 64), (257, 200), (1000, 33)] {
                let mac = Mac::new(hash, b"password").unwrap();
                let mut ours = Pbkdf2::new(mac, b"salt".to_vec(), iterations, len);
                assert_eq!(ours.run_slice(&|| false), Some(true));
                let mut expected = vec![0; len];
                let count = iterations.try_into().unwrap();
                aws_lc_rs::pbkdf2::derive(theirs, count, b"salt", b"password", &mut expected);
                assert_eq!(ours.out, expected, "{hash:?} {iterations} {len}");
            }
        }
    }
}
