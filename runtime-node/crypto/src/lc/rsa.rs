//! RSA keys (RFC 8017).

#![allow(unsafe_code)] // Calls a C library.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use aws_lc_sys as lc;
use zeroize::Zeroizing;

use super::{md, worked};
use crate::hash::Hash;

/// An RSA key, public or private.
pub struct Rsa(NonNull<lc::RSA>);

// SAFETY: the key is not changed once it has been created, except for caches that AWS-LC keeps in
// it under its own lock; its documentation allows any thread, and several threads at a time, to use
// a key.
unsafe impl Send for Rsa {}
// SAFETY: as for `Send`.
unsafe impl Sync for Rsa {}

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: the key is ours, and is freed once. Its numbers are overwritten.
        unsafe { lc::RSA_free(self.0.as_ptr()) };
    }
}

/// A number that is part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RsaPart {
    Modulus,
    PublicExponent,
    PrivateExponent,
    Prime1,
    Prime2,
    Exponent1,
    Exponent2,
    Coefficient,
}

/// The private numbers of a key, big-endian, named as in JSON Web Keys (RFC 7518 §6.3.2).
pub struct RsaPrivate<'a> {
    pub d: &'a [u8],
    pub p: &'a [u8],
    pub q: &'a [u8],
    pub dp: &'a [u8],
    pub dq: &'a [u8],
    pub qi: &'a [u8],
}

impl Rsa {
    fn new() -> Option<Self> {
        // SAFETY: creates a key for us to free.
        NonNull::new(unsafe { lc::RSA_new() }).map(Self)
    }

    /// Returns a pointer to the key, which lives as long as this value.
    pub(super) fn as_ptr(&self) -> *mut lc::RSA {
        self.0.as_ptr()
    }

    /// Generates a key. Returns `None` if the generation is aborted or AWS-LC refuses an argument.
    ///
    /// # Arguments
    /// * `bits` - the length of the modulus.
    /// * `exponent` - the public exponent, big-endian.
    /// * `may_continue` - called from time to time; returning false aborts the generation.
    pub fn generate(
        bits: u32,
        exponent: &[u8],
        mut may_continue: &mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        unsafe extern "C" fn on_progress(_: c_int, _: c_int, callback: *mut lc::BN_GENCB) -> c_int {
            // SAFETY: `arg` is the pointer set below, and its owner waits for `RSA_generate_key_ex`
            // to return.
            let may_continue = unsafe { &mut *(*callback).arg.cast::<&mut dyn FnMut() -> bool>() };
            may_continue().into()
        }
        let rsa = Self::new()?;
        let exponent = Number::new(exponent)?;
        let bits = c_int::try_from(bits).ok()?;
        let mut callback = MaybeUninit::<lc::BN_GENCB>::zeroed();
        // SAFETY: the callback is written before it is used, and outlives the call together with
        // its argument; the key is ours alone.
        let generated = unsafe {
            lc::BN_GENCB_set(
                callback.as_mut_ptr(),
                Some(on_progress),
                (&raw mut may_continue).cast::<c_void>(),
            );
            lc::RSA_generate_key_ex(rsa.0.as_ptr(), bits, exponent.as_ptr(), callback.as_mut_ptr())
        };
        worked(generated).then_some(rsa)
    }

    /// Creates the key that consists of these numbers, big-endian. Returns `None` if they are not a
    /// valid key.
    pub(crate) fn from_parts(n: &[u8], e: &[u8], private: Option<&RsaPrivate<'_>>) -> Option<Self> {
        let rsa = Self::new()?;
        let key = rsa.0.as_ptr();
        let (n, e) = (Number::new(n)?, Number::new(e)?);
        // SAFETY, here and below: the key is ours alone; it takes ownership of the numbers if it
        // accepts them, and `disown` then forgets them.
        match private {
            None => disown(
                unsafe { lc::RSA_set0_key(key, n.as_ptr(), e.as_ptr(), ptr::null_mut()) },
                [n, e],
            )?,
            Some(private) => {
                let d = Number::new(private.d)?;
                disown(
                    unsafe { lc::RSA_set0_key(key, n.as_ptr(), e.as_ptr(), d.as_ptr()) },
                    [n, e, d],
                )?;
                let (p, q) = (Number::new(private.p)?, Number::new(private.q)?);
                disown(unsafe { lc::RSA_set0_factors(key, p.as_ptr(), q.as_ptr()) }, [p, q])?;
                let (dp, dq, qi) =
                    (Number::new(private.dp)?, Number::new(private.dq)?, Number::new(private.qi)?);
                let set =
                    unsafe { lc::RSA_set0_crt_params(key, dp.as_ptr(), dq.as_ptr(), qi.as_ptr()) };
                disown(set, [dp, dq, qi])?;
            }
        }
        // SAFETY: reads the key.
        worked(unsafe { lc::RSA_check_key(key) }).then_some(rsa)
    }

    /// Returns one of the key's numbers, big-endian and without leading zeros; `None` if the key
    /// does not have it.
    pub(crate) fn part(&self, part: RsaPart) -> Option<Zeroizing<Vec<u8>>> {
        let key = self.0.as_ptr();
        let mut number = ptr::null();
        let none = ptr::null_mut();
        // SAFETY: each function writes a pointer into the key, or null, to the given place.
        unsafe {
            match part {
                RsaPart::Modulus => lc::RSA_get0_key(key, &raw mut number, none, none),
                RsaPart::PublicExponent => lc::RSA_get0_key(key, none, &raw mut number, none),
                RsaPart::PrivateExponent => lc::RSA_get0_key(key, none, none, &raw mut number),
                RsaPart::Prime1 => lc::RSA_get0_factors(key, &raw mut number, none),
                RsaPart::Prime2 => lc::RSA_get0_factors(key, none, &raw mut number),
                RsaPart::Exponent1 => lc::RSA_get0_crt_params(key, &raw mut number, none, none),
                RsaPart::Exponent2 => lc::RSA_get0_crt_params(key, none, &raw mut number, none),
                RsaPart::Coefficient => lc::RSA_get0_crt_params(key, none, none, &raw mut number),
            }
        }
        if number.is_null() {
            return None;
        }
        // SAFETY: the number lives as long as the key; there is room for all of its bytes.
        unsafe {
            let mut bytes = Zeroizing::new(vec![0; lc::BN_num_bits(number).div_ceil(8) as usize]);
            lc::BN_bn2bin(number, bytes.as_mut_ptr());
            Some(bytes)
        }
    }

    /// Returns the length of the modulus, in bits.
    pub fn bits(&self) -> u32 {
        // SAFETY: reads the key.
        unsafe { lc::RSA_bits(self.0.as_ptr()) }
    }

    /// Returns the length of a signature or a ciphertext, in bytes.
    pub(super) fn size(&self) -> usize {
        // SAFETY: reads the key.
        unsafe { lc::RSA_size(self.0.as_ptr()) as usize }
    }

    /// Signs a digest with PKCS #1 v1.5 (RFC 8017 §8.2). Returns `None` for a public key, and if
    /// the modulus is too short for the hash.
    pub fn sign_pkcs1(&self, hash: Hash, digest: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.size()];
        let mut len = 0;
        // SAFETY: there is room for a signature; the key is not changed.
        let signed = unsafe {
            let out = signature.as_mut_ptr();
            lc::RSA_sign(
                nid(hash),
                digest.as_ptr(),
                digest.len(),
                out,
                &raw mut len,
                self.0.as_ptr(),
            )
        };
        signature.truncate(len as usize);
        worked(signed).then_some(signature)
    }

    /// Returns whether a signature of a digest with PKCS #1 v1.5 is valid.
    pub fn verify_pkcs1(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: reads its arguments; the key is not changed.
        worked(unsafe {
            let (data, len) = (signature.as_ptr(), signature.len());
            lc::RSA_verify(nid(hash), digest.as_ptr(), digest.len(), data, len, self.0.as_ptr())
        })
    }

    /// Signs a digest with PSS (RFC 8017 §8.1); the mask uses the same hash. Returns `None` for a
    /// public key, and if the modulus is too short for the hash and the salt.
    ///
    /// # Arguments
    /// * `salt` - the length of the salt, in bytes; -1 for the length of the digest, or -2 for the
    ///   greatest length that fits.
    pub fn sign_pss(&self, hash: Hash, salt: c_int, digest: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.size()];
        let mut len = 0;
        // SAFETY: there is room for a signature, of the given length; the key is not changed.
        let signed = unsafe {
            let (out, max_len, md) = (signature.as_mut_ptr(), signature.len(), md(hash));
            let key = self.0.as_ptr();
            lc::RSA_sign_pss_mgf1(
                key,
                &raw mut len,
                out,
                max_len,
                digest.as_ptr(),
                digest.len(),
                md,
                md,
                salt,
            )
        };
        signature.truncate(len);
        worked(signed).then_some(signature)
    }

    /// Returns whether a signature of a digest with PSS is valid.
    ///
    /// # Arguments
    /// * `salt` - the length of the salt, in bytes; -1 for the length of the digest, or -2 for any
    ///   length.
    pub fn verify_pss(&self, hash: Hash, salt: c_int, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: reads its arguments; the key is not changed.
        worked(unsafe {
            let (data, len, md) = (signature.as_ptr(), signature.len(), md(hash));
            lc::RSA_verify_pss_mgf1(
                self.0.as_ptr(),
                digest.as_ptr(),
                digest.len(),
                md,
                md,
                salt,
                data,
                len,
            )
        })
    }

    /// Encrypts or decrypts with OAEP (RFC 8017 §7.1); the mask uses the same hash. Returns `None`
    /// if the data is too long to encrypt, or is not a ciphertext with this label for this key.
    pub fn oaep(&self, encrypt: bool, hash: Hash, label: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let context = PkeyContext::new(self)?;
        let ctx = context.0.as_ptr();
        // SAFETY: the context is ours alone. It takes ownership of the copy of the label if it
        // accepts the copy; there is room for the output, of the given length.
        unsafe {
            let begin = if encrypt { lc::EVP_PKEY_encrypt_init } else { lc::EVP_PKEY_decrypt_init };
            let md = md(hash);
            let ready = worked(begin(ctx))
                && worked(lc::EVP_PKEY_CTX_set_rsa_padding(ctx, lc::RSA_PKCS1_OAEP_PADDING))
                && worked(lc::EVP_PKEY_CTX_set_rsa_oaep_md(ctx, md))
                && worked(lc::EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md));
            if !ready {
                return None;
            }
            if !label.is_empty() {
                let copy = NonNull::new(lc::OPENSSL_malloc(label.len()).cast::<u8>())?;
                ptr::copy_nonoverlapping(label.as_ptr(), copy.as_ptr(), label.len());
                if !worked(lc::EVP_PKEY_CTX_set0_rsa_oaep_label(ctx, copy.as_ptr(), label.len())) {
                    lc::OPENSSL_free(copy.as_ptr().cast());
                    return None;
                }
            }
            let mut out = vec![0; self.size()];
            let mut len = out.len();
            let run = if encrypt { lc::EVP_PKEY_encrypt } else { lc::EVP_PKEY_decrypt };
            let done = worked(run(ctx, out.as_mut_ptr(), &raw mut len, data.as_ptr(), data.len()));
            out.truncate(len);
            done.then_some(out)
        }
    }
}

/// The context of a single operation with a key.
struct PkeyContext(NonNull<lc::EVP_PKEY_CTX>);

impl PkeyContext {
    fn new(rsa: &Rsa) -> Option<Self> {
        // SAFETY: the `EVP_PKEY` holds a reference to the key, and the context holds one to the
        // `EVP_PKEY`; our own reference to the `EVP_PKEY` is released here.
        unsafe {
            let pkey = NonNull::new(lc::EVP_PKEY_new())?.as_ptr();
            let context = if worked(lc::EVP_PKEY_set1_RSA(pkey, rsa.0.as_ptr())) {
                lc::EVP_PKEY_CTX_new(pkey, ptr::null_mut())
            } else {
                ptr::null_mut()
            };
            lc::EVP_PKEY_free(pkey);
            NonNull::new(context).map(Self)
        }
    }
}

impl Drop for PkeyContext {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is freed once.
        unsafe { lc::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}

fn nid(hash: Hash) -> c_int {
    match hash {
        Hash::Sha1 => lc::NID_sha1,
        Hash::Sha256 => lc::NID_sha256,
        Hash::Sha384 => lc::NID_sha384,
        Hash::Sha512 => lc::NID_sha512,
    }
}

/// A number owned by us, in the library's representation.
struct Number(NonNull<lc::BIGNUM>);

impl Number {
    fn new(bytes: &[u8]) -> Option<Self> {
        // SAFETY: reads `bytes`, and allocates a number for us to free, as the null pointer
        // requests.
        NonNull::new(unsafe { lc::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()) })
            .map(Self)
    }

    /// Returns a pointer to the number. After a call that takes ownership of it, see [`disown`].
    fn as_ptr(&self) -> *mut lc::BIGNUM {
        self.0.as_ptr()
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: the number is ours, and is freed once; `disown` forgets those that the key owns.
        unsafe { lc::BN_clear_free(self.0.as_ptr()) };
    }
}

/// Forgets the numbers that the key has taken ownership of, if the call succeeded.
fn disown<const N: usize>(result: c_int, numbers: [Number; N]) -> Option<()> {
    worked(result).then(|| numbers.map(std::mem::forget)).map(drop)
}
