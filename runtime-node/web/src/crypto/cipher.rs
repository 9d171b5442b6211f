//! Encryption and decryption.
//!
//! | scheme | `first`, `second` and `third` of the op |
//! | --- | --- |
//! | `AES-GCM` | nonce, additional data, length of the tag in bits |
//! | `AES-CBC` | initialization vector |
//! | `AES-CTR` | first counter block, nothing, length of the counter in bits |
//! | `AES-KW` | |
//! | `RSA-OAEP` | label, nothing, hash |

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptingKey, EncryptionContext,
    PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use tenon_crypto::hash::Hash;
use tenon_crypto::key::{Key, Secret};
use tenon_crypto::lc;
use tenon_engine::offload::QueueKind;
use tenon_engine::thrown::Thrown;
use tenon_op::op;
use zeroize::Zeroizing;

use super::arguments::Data;
use super::keys::KeyRef;
use super::operation::{Cost, Output, failed, perform};
use crate::ops::MaybePromise;

/// The size of a block of AES, in bytes.
const BLOCK: usize = 16;

/// A cipher with all parameters except the key and the data.
enum Cipher {
    Gcm { nonce: Data, aad: Data, tag: usize },
    Cbc { iv: [u8; BLOCK] },
    Ctr { counter: u128, bits: u32 },
    KeyWrap,
    Oaep { hash: Hash, label: Data },
}

/// The name of the result in TypeScript: bytes, or a [`Ticket`](super::keys::Ticket) for a secret.
pub(crate) enum Crypted {}

/// The length of a tag or of a counter in bits, or the name of a hash.
type LengthOrHash<'s> = v8::Local<'s, v8::Value>;

/// Encrypts or decrypts `data`. Returns the resulting bytes or, if `secret` is set, a ticket for a
/// secret that consists of them.
#[op]
pub(crate) fn crypto_crypt<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    scheme: String,
    encrypt: bool,
    key: KeyRef,
    mut data: Data,
    secret: bool,
    first: Option<Data>,
    second: Option<Data>,
    third: Option<LengthOrHash<'s>>,
) -> Result<MaybePromise<'s, Crypted>, Thrown> {
    let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
    let number = third.and_then(|third| third.uint32_value(scope)).unwrap_or_default();
    let cipher = match scheme.as_str() {
        "AES-GCM" => Cipher::Gcm { nonce: first, aad: second, tag: number as usize / 8 },
        "AES-CBC" => Cipher::Cbc { iv: block(&first)? },
        "AES-CTR" => Cipher::Ctr { counter: u128::from_be_bytes(block(&first)?), bits: number },
        "AES-KW" => Cipher::KeyWrap,
        _ => {
            let name = third.and_then(|third| third.try_cast::<v8::String>().ok());
            let hash = name.and_then(|name| Hash::from_name(&name.to_rust_string_lossy(scope)));
            Cipher::Oaep { hash: hash.ok_or_else(failed)?, label: first }
        }
    };
    let cost = match (&*key, &cipher) {
        (Key::Rsa(rsa), _) if rsa.is_private => {
            Cost::Large { queue: QueueKind::Parts, at_least: Duration::ZERO }
        }
        (_, Cipher::Gcm { aad, .. }) => Cost::of_bytes(data.len() + aad.len()),
        _ => Cost::of_bytes(data.len()),
    };
    perform(scope, cost, move |_| {
        let done = cipher.run(encrypt, &key, &mut data);
        let output = |bytes| {
            if secret {
                Output::Secret(Key::Secret(Secret::new(bytes)))
            } else {
                Output::Bytes(bytes)
            }
        };
        Some(done.map(output))
    })
}

fn block(bytes: &[u8]) -> Result<[u8; BLOCK], Thrown> {
    bytes.try_into().map_err(|_| failed())
}

impl Cipher {
    fn run(&self, encrypt: bool, key: &Arc<Key>, data: &mut Data) -> Result<Vec<u8>, Thrown> {
        let error = |message: &'static str| Thrown::dom("OperationError", message);
        match (self, &**key) {
            (Self::Gcm { nonce, aad, tag }, Key::Secret(key)) => {
                let done = gcm(encrypt, key.bytes(), nonce, aad, *tag, data.take());
                done.ok_or_else(|| error("The data was not encrypted with this key, iv and additional data"))
            }
            (Self::Cbc { iv }, Key::Secret(key)) => {
                let done = cbc(encrypt, key.bytes(), *iv, data.take());
                done.ok_or_else(|| error("The data was not encrypted with this key and iv"))
            }
            (Self::Ctr { counter, bits }, Key::Secret(key)) => {
                let done = ctr(key.bytes(), *counter, *bits, data.take());
                done.ok_or_else(|| error("The data has more blocks than a counter of that length can count"))
            }
            (Self::KeyWrap, Key::Secret(key)) if encrypt => lc::key_wrap(true, key.bytes(), data).ok_or_else(|| {
                error("AES-KW wraps only multiples of 8 bytes, at least 16; wrap a key in JSON with AES-GCM")
            }),
            (Self::KeyWrap, Key::Secret(key)) => {
                lc::key_wrap(false, key.bytes(), data).ok_or_else(|| error("The data was not wrapped with this key"))
            }
            (Self::Oaep { hash, label }, Key::Rsa(key)) => key.rsa.oaep(encrypt, *hash, label, data).ok_or_else(|| {
                error(if encrypt {
                    "The data is too long for the key"
                } else {
                    "The data was not encrypted for this key"
                })
            }),
            _ => Err(failed()),
        }
    }
}

fn gcm(
    encrypt: bool,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    tag_len: usize,
    mut data: Vec<u8>,
) -> Option<Vec<u8>> {
    if encrypt {
        let mut tag = [0; 16];
        lc::gcm(true, key, nonce, aad, &mut data, tag.get_mut(..tag_len)?).then(|| {
            data.extend_from_slice(&tag[..tag_len]);
            data
        })
    } else {
        let mut tag = data.split_off(data.len().checked_sub(tag_len)?);
        lc::gcm(false, key, nonce, aad, &mut data, &mut tag).then_some(data)
    }
}

fn unbound(key: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match key.len() {
        16 => &AES_128,
        24 => &AES_192,
        32 => &AES_256,
        _ => return None,
    };
    UnboundCipherKey::new(algorithm, key).ok()
}

/// Encrypts or decrypts with the padding of PKCS #7 (RFC 5652 §6.3).
fn cbc(encrypt: bool, key: &[u8], iv: [u8; BLOCK], mut data: Vec<u8>) -> Option<Vec<u8>> {
    let key = unbound(key)?;
    if encrypt {
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?;
        key.less_safe_encrypt(&mut data, EncryptionContext::Iv128((&iv).into())).ok()?;
    } else {
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let plain = key.decrypt(&mut data, DecryptionContext::Iv128((&iv).into())).ok()?.len();
        data.truncate(plain);
    }
    Some(data)
}

/// Encrypts or decrypts with a counter in only the last `bits` bits of the block (NIST SP 800-38A
/// §B.1).
/// AWS-LC's AES-CTR counts in the whole block, so the blocks before and after the counter wraps
/// around are encrypted in two runs.
fn ctr(key: &[u8], counter: u128, bits: u32, mut data: Vec<u8>) -> Option<Vec<u8>> {
    let mask = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
    let blocks = data.len().div_ceil(BLOCK) as u128;
    // More blocks would repeat a counter. The number of the last block is compared, because
    // `mask + 1` overflows for a counter of 128 bits.
    if blocks.checked_sub(1).is_some_and(|last| last > mask) {
        return None;
    }
    let before_zero = (mask - (counter & mask)).saturating_add(1);
    let first = usize::try_from(before_zero)
        .map_or(data.len(), |blocks| data.len().min(blocks.saturating_mul(BLOCK)));
    let (first, second) = data.split_at_mut(first);
    for (counter, part) in [(counter, first), (counter & !mask, second)] {
        let key = EncryptingKey::ctr(unbound(key)?).ok()?;
        let counter = Zeroizing::new(counter.to_be_bytes());
        key.less_safe_encrypt(part, EncryptionContext::Iv128((&*counter).into())).ok()?;
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: [u8; 16] = [7; 16];

    /// Returns the block of the key stream for this counter.
    fn stream(counter: u128) -> Vec<u8> {
        ctr(&KEY, counter, 128, vec![0; BLOCK]).unwrap()
    }

    proptest! {
        #[test]
        fn a_counter_wraps_to_zero(
            counter in any::<u128>(), bits in 1_u32..=128, back in 0_u128..4, blocks in 0_usize..8,
        ) {
            let mask = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
            let counter = counter | mask.wrapping_sub(back) & mask;
            prop_assume!((blocks as u128).saturating_sub(1) <= mask);
            let all = ctr(&KEY, counter, bits, vec![0; blocks * BLOCK]).unwrap();
            for (number, block) in all.chunks(BLOCK).enumerate() {
                let at = counter & !mask | (counter & mask).wrapping_add(number as u128) & mask;
                prop_assert_eq!(block, &stream(at)[..], "block {}", number);
            }
        }
    }

    #[test]
    fn data_with_more_blocks_than_the_counter_can_count_is_refused() {
        assert!(ctr(&KEY, 5, 1, vec![0; 2 * BLOCK]).is_some());
        assert!(ctr(&KEY, 5, 1, vec![0; 2 * BLOCK + 1]).is_none());
    }

    #[test]
    fn changed_ciphertext_is_not_decrypted() {
        for tag in [4, 8, 12, 16] {
            for nonce in
                [&b"1"[..], b"123456789012", b"a nonce that is longer than a block has bytes"]
            {
                let secret = gcm(true, &KEY, nonce, b"more", tag, b"plain".to_vec()).unwrap();
                assert_eq!(
                    gcm(false, &KEY, nonce, b"more", tag, secret.clone()).unwrap(),
                    b"plain"
                );
                for at in 0..secret.len() {
                    let mut changed = secret.clone();
                    changed[at] ^= 1;
                    assert!(gcm(false, &KEY, nonce, b"more", tag, changed).is_none());
                }
                assert!(gcm(false, &KEY, nonce, b"less", tag, secret).is_none());
            }
        }
    }
}
