//! AES-GCM and AES key wrap.

#![allow(unsafe_code)] // Calls a C library.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use aws_lc_sys as lc;
use zeroize::Zeroizing;

use super::worked;

/// The maximum length of the data, in bytes, well within the range of `int`, in which AWS-LC counts
/// a cipher's lengths.
const LONGEST: usize = c_int::MAX as usize / 2;

struct Cipher(NonNull<lc::EVP_CIPHER_CTX>);

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is freed once. Its key material is overwritten.
        unsafe { lc::EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

/// Runs AES-GCM (NIST SP 800-38D) over `data` in place. Returns whether this succeeded.
/// Plaintext that fails authentication is overwritten.
///
/// # Arguments
/// * `key` - 16, 24 or 32 bytes.
/// * `nonce` - not empty.
/// * `aad` - the additional authenticated data. Like `data`, it must be shorter than 1 GiB.
/// * `tag` - 4 to 16 bytes: the expected tag for decryption, or space for the tag for encryption.
pub fn gcm(
    encrypt: bool,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
    tag: &mut [u8],
) -> bool {
    let (Ok(nonce_len), Ok(tag_len)) = (c_int::try_from(nonce.len()), c_int::try_from(tag.len()))
    else {
        return false;
    };
    if data.len() > LONGEST || aad.len() > LONGEST {
        return false;
    }
    // SAFETY: the context is ours alone, and lives until the end of the block. The cipher fixes the
    // length of its key; the nonce and the tag have the given lengths; the output is as long as the
    // input.
    let done = unsafe {
        let cipher = match key.len() {
            16 => lc::EVP_aes_128_gcm(),
            24 => lc::EVP_aes_192_gcm(),
            32 => lc::EVP_aes_256_gcm(),
            _ => return false,
        };
        let Some(context) = NonNull::new(lc::EVP_CIPHER_CTX_new()).map(Cipher) else {
            return false;
        };
        let ctx = context.0.as_ptr();
        let (no_engine, none) = (ptr::null_mut(), ptr::null_mut());
        let out = data.as_mut_ptr();
        let mut written = 0;
        worked(lc::EVP_CipherInit_ex(
            ctx,
            cipher,
            no_engine,
            ptr::null(),
            ptr::null(),
            encrypt.into(),
        )) && worked(lc::EVP_CIPHER_CTX_ctrl(ctx, lc::EVP_CTRL_AEAD_SET_IVLEN, nonce_len, none))
            && worked(lc::EVP_CipherInit_ex(
                ctx,
                ptr::null(),
                no_engine,
                key.as_ptr(),
                nonce.as_ptr(),
                encrypt.into(),
            ))
            && (aad.is_empty()
                || worked(lc::EVP_CipherUpdate(
                    ctx,
                    ptr::null_mut(),
                    &raw mut written,
                    aad.as_ptr(),
                    aad.len() as c_int,
                )))
            && (data.is_empty()
                || worked(lc::EVP_CipherUpdate(
                    ctx,
                    out,
                    &raw mut written,
                    out,
                    data.len() as c_int,
                )))
            && (encrypt
                || worked(lc::EVP_CIPHER_CTX_ctrl(
                    ctx,
                    lc::EVP_CTRL_AEAD_SET_TAG,
                    tag_len,
                    tag.as_mut_ptr().cast(),
                )))
            && worked(lc::EVP_CipherFinal_ex(ctx, [0_u8; 16].as_mut_ptr(), &raw mut written))
            && (!encrypt
                || worked(lc::EVP_CIPHER_CTX_ctrl(
                    ctx,
                    lc::EVP_CTRL_AEAD_GET_TAG,
                    tag_len,
                    tag.as_mut_ptr().cast(),
                )))
    };
    if !done {
        data.fill(0);
    }
    done
}

/// Runs AES key wrap (RFC 3394), or its inverse. Returns `None` if the length of the key or of the
/// data is invalid, or if the wrapped key fails the integrity check.
pub fn key_wrap(wrap: bool, key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 8;
    let mut schedule = Zeroizing::new(Schedule::default());
    let bits = u32::try_from(key.len() * 8).ok()?;
    // SAFETY: `key` has the given length, and there is room for the output, which is eight bytes
    // longer or shorter than the input.
    unsafe {
        let set = if wrap { lc::AES_set_encrypt_key } else { lc::AES_set_decrypt_key };
        if set(key.as_ptr(), bits, schedule.0.as_mut_ptr()) != 0 {
            return None;
        }
        let run = if wrap { lc::AES_wrap_key } else { lc::AES_unwrap_key };
        let mut out = vec![0; if wrap { data.len() + BLOCK } else { data.len() }];
        let len =
            run(schedule.0.as_ptr(), ptr::null(), out.as_mut_ptr(), data.as_ptr(), data.len());
        let len = usize::try_from(len).ok().filter(|len| *len > 0);
        if len.is_none() {
            // Clears the error queue.
            worked(0);
        }
        out.truncate(len?);
        Some(out)
    }
}

/// An expanded key.
struct Schedule(MaybeUninit<lc::AES_KEY>);

impl Default for Schedule {
    fn default() -> Self {
        Self(MaybeUninit::zeroed())
    }
}

impl zeroize::Zeroize for Schedule {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}
