//! The native half of `node-crypto-hash.js`, and of PBKDF2 in `node-crypto-derive.js`: incremental
//! hashes and HMACs, which Web Crypto does not have.
//!
//! Each hasher has a number until JavaScript takes its result or drops it. The JavaScript caller
//! bounds the input of each call, because it passes long input in steps. The hashes are those of
//! AWS-LC, because Node.js supports more hashes than `aws_lc_rs` exposes.

#![allow(unsafe_code)] // Calls aws-lc.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;
use rustc_hash::FxHashMap;
use tenon_engine::bytes;
use tenon_engine::collection::make_room;
use tenon_engine::heap::Charge;
use tenon_engine::slot::slot;
use tenon_engine::thrown::{Thrown, out_of_memory};
use tenon_op::op;

use crate::ops::View;

/// The memory charged for a hasher, in bytes: the three states of an HMAC with SHA-3, whose states
/// are the largest, and the map entry.
const HASHER: usize = 1536;

/// The longest result, in bytes.
const MAX_DIGEST_LEN: usize = lc::EVP_MAX_MD_SIZE as usize;

/// Returns the hash function with this name in Node.js. The name is in lower case, without `rsa-`
/// and without dashes.
fn function(name: &str) -> Option<*const lc::EVP_MD> {
    // SAFETY: each function returns a pointer to a static.
    unsafe {
        Some(match name {
            "md5" => lc::EVP_md5(),
            "ripemd160" | "rmd160" => lc::EVP_ripemd160(),
            "sha1" => lc::EVP_sha1(),
            "sha224" => lc::EVP_sha224(),
            "sha256" => lc::EVP_sha256(),
            "sha384" => lc::EVP_sha384(),
            "sha512" => lc::EVP_sha512(),
            "sha512256" | "sha512/256" => lc::EVP_sha512_256(),
            "sha3224" => lc::EVP_sha3_224(),
            "sha3256" => lc::EVP_sha3_256(),
            "sha3384" => lc::EVP_sha3_384(),
            "sha3512" => lc::EVP_sha3_512(),
            _ => return None,
        })
    }
}

/// A hash or an HMAC that is fed incrementally.
enum Hasher {
    Plain(NonNull<lc::EVP_MD_CTX>),
    Keyed(NonNull<lc::HMAC_CTX>),
}

impl Hasher {
    fn plain(function: *const lc::EVP_MD) -> Option<Self> {
        // SAFETY: the context is ours, and the function is a static.
        unsafe {
            let context = NonNull::new(lc::EVP_MD_CTX_new())?;
            let hasher = Self::Plain(context);
            (lc::EVP_DigestInit_ex(context.as_ptr(), function, ptr::null_mut()) == 1)
                .then_some(hasher)
        }
    }

    fn keyed(function: *const lc::EVP_MD, key: &[u8]) -> Option<Self> {
        // An empty key still needs a non-null pointer: null means that the previous key stays.
        let key_ptr = if key.is_empty() { [0_u8].as_ptr() } else { key.as_ptr() };
        // SAFETY: the context is ours, the function is a static, and the key has the given length
        // and is copied.
        unsafe {
            let context = NonNull::new(lc::HMAC_CTX_new())?;
            let hasher = Self::Keyed(context);
            let done = lc::HMAC_Init_ex(
                context.as_ptr(),
                key_ptr.cast(),
                key.len(),
                function,
                ptr::null_mut(),
            );
            (done == 1).then_some(hasher)
        }
    }

    fn copy(&self) -> Option<Self> {
        // SAFETY: both contexts are ours, and the source is initialized.
        unsafe {
            match self {
                Self::Plain(context) => {
                    let copy = NonNull::new(lc::EVP_MD_CTX_new())?;
                    let hasher = Self::Plain(copy);
                    (lc::EVP_MD_CTX_copy_ex(copy.as_ptr(), context.as_ptr()) == 1).then_some(hasher)
                }
                Self::Keyed(context) => {
                    let copy = NonNull::new(lc::HMAC_CTX_new())?;
                    let hasher = Self::Keyed(copy);
                    (lc::HMAC_CTX_copy_ex(copy.as_ptr(), context.as_ptr()) == 1).then_some(hasher)
                }
            }
        }
    }

    fn update(&mut self, data: &[u8]) {
        // SAFETY: the context is initialized, and the data has the given length. Neither function
        // fails for such arguments.
        unsafe {
            match self {
                Self::Plain(context) => {
                    lc::EVP_DigestUpdate(context.as_ptr(), data.as_ptr().cast(), data.len())
                }
                Self::Keyed(context) => {
                    lc::HMAC_Update(context.as_ptr(), data.as_ptr(), data.len())
                }
            };
        }
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut out = vec![0; MAX_DIGEST_LEN];
        let mut len = 0;
        // SAFETY: the context is initialized, and there is room for the longest result.
        unsafe {
            match self {
                Self::Plain(context) => {
                    lc::EVP_DigestFinal_ex(context.as_ptr(), out.as_mut_ptr(), &raw mut len)
                }
                Self::Keyed(context) => {
                    lc::HMAC_Final(context.as_ptr(), out.as_mut_ptr(), &raw mut len)
                }
            };
        }
        out.truncate(len as usize);
        out
    }

    /// Restarts an HMAC with the same key. Returns the HMAC of `data` alone; `None` for a hash
    /// without a key, or if AWS-LC fails.
    fn restart(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let Self::Keyed(context) = self else { return None };
        // SAFETY: without a key and a function, the context keeps those that it has.
        let begun = unsafe {
            lc::HMAC_Init_ex(context.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null_mut())
        };
        (begun == 1).then(|| {
            self.update(data);
            self.finish()
        })
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is freed once. Its key material is overwritten.
        unsafe {
            match self {
                Self::Plain(context) => lc::EVP_MD_CTX_free(context.as_ptr()),
                Self::Keyed(context) => lc::HMAC_CTX_free(context.as_ptr()),
            }
        }
    }
}

/// An isolate's hashers, by number. Numbers are not reused.
#[derive(Default)]
struct Hashers {
    last: u32,
    open: FxHashMap<u32, (Hasher, Charge)>,
}

impl Hashers {
    fn add(&mut self, hasher: Hasher, charge: Charge) -> u32 {
        self.last += 1;
        self.open.insert(self.last, (hasher, charge));
        self.last
    }
}

/// Stores a hasher and returns its number.
///
/// # Errors
/// Fails if there is not enough memory.
fn keep(scope: &mut v8::PinScope<'_, '_>, hasher: Option<Hasher>) -> Result<u32, Thrown> {
    let charge = make_room(scope, HASHER).and_then(|buffers| buffers.charge(HASHER));
    let (hasher, charge) = hasher.zip(charge).ok_or_else(out_of_memory)?;
    Ok(slot::<Hashers>(scope).add(hasher, charge))
}

/// Creates a hasher, which computes an HMAC if there is a key. Returns its number; `undefined` if
/// there is no hash function of this name.
#[op]
pub(crate) fn hash_open(
    scope: &mut v8::PinScope<'_, '_>,
    name: String,
    key: Option<View<'_>>,
) -> Option<Result<u32, Thrown>> {
    let function = function(&name.to_ascii_lowercase().replace("rsa-", "").replace('-', ""))?;
    let hasher = match key {
        Some(key) => bytes::read(key, |key| Hasher::keyed(function, key)),
        None => Hasher::plain(function),
    };
    Some(keep(scope, hasher))
}

/// Copies a hasher in its current state. Returns the number of the copy.
#[op]
pub(crate) fn hash_copy(scope: &mut v8::PinScope<'_, '_>, hasher: u32) -> Result<u32, Thrown> {
    let copy = slot::<Hashers>(scope).open.get(&hasher).and_then(|(hasher, _)| hasher.copy());
    keep(scope, copy)
}

/// Feeds bytes to a hasher.
#[op]
pub(crate) fn hash_update(scope: &mut v8::PinScope<'_, '_>, hasher: u32, bytes: View<'_>) {
    if let Some((hasher, _)) = slot::<Hashers>(scope).open.get_mut(&hasher) {
        bytes::read(bytes, |data| hasher.update(data));
    }
}

/// Writes a hasher's result into the view, and drops the hasher. Returns the length of the result
/// in bytes; `undefined` if there is no such hasher.
#[op]
pub(crate) fn hash_finish(
    scope: &mut v8::PinScope<'_, '_>,
    hasher: u32,
    into: View<'_>,
) -> Option<usize> {
    let (mut hasher, _) = slot::<Hashers>(scope).open.remove(&hasher)?;
    let digest = hasher.finish();
    bytes::cells(into, |cells| cells.iter().zip(&digest).for_each(|(cell, byte)| cell.set(*byte)));
    Some(digest.len())
}

/// Drops a hasher.
#[op]
pub(crate) fn hash_close(scope: &mut v8::PinScope<'_, '_>, hasher: u32) {
    drop(slot::<Hashers>(scope).open.remove(&hasher));
}

/// Performs iterations of PBKDF2 (RFC 8018 §5.2) with an HMAC. Each iteration replaces `last` with
/// its HMAC, and combines `sum` with that HMAC by exclusive or.
///
/// # Errors
/// Returns a `TypeError` if the hasher does not compute an HMAC, or if AWS-LC fails.
#[op]
pub(crate) fn hash_iterate(
    scope: &mut v8::PinScope<'_, '_>,
    hasher: u32,
    last: View<'_>,
    sum: View<'_>,
    iterations: u32,
) -> Result<(), Thrown> {
    let Some((hasher, _)) = slot::<Hashers>(scope).open.get_mut(&hasher) else { return Ok(()) };
    let (mut block, mut total) =
        (bytes::read(last, <[u8]>::to_vec), bytes::read(sum, <[u8]>::to_vec));
    for _ in 0..iterations {
        let next = hasher.restart(&block);
        block = next.ok_or_else(|| Thrown::type_error("PBKDF2 needs an HMAC"))?;
        total.iter_mut().zip(&block).for_each(|(total, byte)| *total ^= byte);
    }
    for (view, bytes) in [(last, block), (sum, total)] {
        bytes::cells(view, |cells| {
            cells.iter().zip(&bytes).for_each(|(cell, byte)| cell.set(*byte))
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_copied_hash_is_independent() {
        let mut one = Hasher::plain(function("md5").unwrap()).unwrap();
        one.update(b"a");
        let mut other = one.copy().unwrap();
        other.update(b"bc");
        assert_eq!(hex(&one.finish()), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(hex(&other.finish()), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn an_hmac_with_an_empty_key_works_and_can_restart() {
        let mut hmac = Hasher::keyed(function("sha256").unwrap(), b"").unwrap();
        let first = hmac.finish();
        assert_eq!(hex(&first), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
        assert_eq!(hmac.restart(b"").unwrap(), first);
    }
}
