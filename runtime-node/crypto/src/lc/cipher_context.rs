//! Ciphers that are fed incrementally: AES in several modes, and ChaCha20-Poly1305.

#![allow(unsafe_code)] // Calls a C library.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

use super::worked;

/// The maximum length of the input of one call, in bytes: the caller passes longer data in steps.
/// The length fits into an `int`, as AWS-LC counts lengths.
const LONGEST: usize = 1 << 20;

/// The length of the longest block and of the longest tag, in bytes.
const BLOCK: usize = 16;

/// An encryption or a decryption in progress.
pub struct CipherContext {
    context: NonNull<lc::EVP_CIPHER_CTX>,
    encrypts: bool,
}

/// Returns the cipher with this name in Node.js, and whether it authenticates its data.
fn named(name: &str) -> Option<(*const lc::EVP_CIPHER, bool)> {
    // SAFETY: each function returns a pointer to a static.
    unsafe {
        Some(match name {
            "aes-128-cbc" => (lc::EVP_aes_128_cbc(), false),
            "aes-192-cbc" => (lc::EVP_aes_192_cbc(), false),
            "aes-256-cbc" => (lc::EVP_aes_256_cbc(), false),
            "aes-128-ctr" => (lc::EVP_aes_128_ctr(), false),
            "aes-192-ctr" => (lc::EVP_aes_192_ctr(), false),
            "aes-256-ctr" => (lc::EVP_aes_256_ctr(), false),
            "aes-128-ecb" => (lc::EVP_aes_128_ecb(), false),
            "aes-192-ecb" => (lc::EVP_aes_192_ecb(), false),
            "aes-256-ecb" => (lc::EVP_aes_256_ecb(), false),
            "aes-128-gcm" => (lc::EVP_aes_128_gcm(), true),
            "aes-192-gcm" => (lc::EVP_aes_192_gcm(), true),
            "aes-256-gcm" => (lc::EVP_aes_256_gcm(), true),
            "chacha20-poly1305" => (lc::EVP_chacha20_poly1305(), true),
            _ => return None,
        })
    }
}

impl CipherContext {
    /// Begins an encryption or a decryption. Returns `None` if there is no cipher with this name,
    /// or if the cipher does not accept the length of the key or of the initialization vector.
    pub fn new(name: &str, encrypts: bool, key: &[u8], iv: &[u8]) -> Option<Self> {
        let (cipher, has_tag) = named(name)?;
        // SAFETY: creates a context for us to free.
        let context = NonNull::new(unsafe { lc::EVP_CIPHER_CTX_new() })?;
        let created = Self { context, encrypts };
        let ctx = context.as_ptr();
        let (no_engine, none) = (ptr::null_mut(), ptr::null());
        // SAFETY: the context is ours alone. The lengths of the key and of the vector are checked
        // or set before the cipher reads these lengths, and the cipher copies both.
        let ready = unsafe {
            let iv_len = lc::EVP_CIPHER_iv_length(cipher) as usize;
            if key.len() != lc::EVP_CIPHER_key_length(cipher) as usize
                || (has_tag && (iv.is_empty() || iv.len() > LONGEST))
                || (!has_tag && iv.len() != iv_len)
            {
                return None;
            }
            let vector = if iv.is_empty() { none } else { iv.as_ptr() };
            let direction = encrypts.into();
            worked(lc::EVP_CipherInit_ex(ctx, cipher, no_engine, none, none, direction))
                && (!has_tag
                    || created.control(lc::EVP_CTRL_AEAD_SET_IVLEN, iv.len(), ptr::null_mut()))
                && worked(lc::EVP_CipherInit_ex(
                    ctx,
                    ptr::null(),
                    no_engine,
                    key.as_ptr(),
                    vector,
                    direction,
                ))
        };
        ready.then_some(created)
    }

    /// Sends a command to the cipher. Returns whether the cipher accepted it.
    ///
    /// # Safety
    /// `data` must have the length and the content that the command requires.
    unsafe fn control(&self, command: c_int, argument: usize, data: *mut u8) -> bool {
        let Ok(argument) = c_int::try_from(argument) else { return false };
        // SAFETY: the context is ours; the caller guarantees the rest.
        worked(unsafe {
            lc::EVP_CIPHER_CTX_ctrl(self.context.as_ptr(), command, argument, data.cast())
        })
    }

    /// Sets whether the padding of PKCS #7 is added and removed. The block modes do so by default.
    /// Returns whether AWS-LC accepted the setting.
    pub fn set_padding(&mut self, pads: bool) -> bool {
        // SAFETY: the context is ours alone.
        worked(unsafe { lc::EVP_CIPHER_CTX_set_padding(self.context.as_ptr(), pads.into()) })
    }

    /// Authenticates data that is not encrypted, at most 1 MiB, before any other data.
    pub fn authenticate(&mut self, data: &[u8]) -> bool {
        let mut written = 0;
        // SAFETY: without an output, the cipher only reads the data, which has the given length.
        data.len() <= LONGEST
            && worked(unsafe {
                lc::EVP_CipherUpdate(
                    self.context.as_ptr(),
                    ptr::null_mut(),
                    &raw mut written,
                    data.as_ptr(),
                    data.len() as c_int,
                )
            })
    }

    /// Encrypts or decrypts more data, at most 1 MiB. Returns the output that is available, or
    /// `None` if the cipher refuses the data.
    pub fn update(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        if data.len() > LONGEST {
            return None;
        }
        let mut out = vec![0; data.len() + BLOCK];
        let mut written = 0;
        // SAFETY: the output has room for the input, and for a block that earlier calls have begun.
        let done = data.is_empty()
            || worked(unsafe {
                lc::EVP_CipherUpdate(
                    self.context.as_ptr(),
                    out.as_mut_ptr(),
                    &raw mut written,
                    data.as_ptr(),
                    data.len() as c_int,
                )
            });
        out.truncate(usize::try_from(written).ok()?);
        done.then_some(out)
    }

    /// Sets the tag, at most 16 bytes, that a decryption must find.
    pub fn expect_tag(&mut self, tag: &[u8]) -> bool {
        let mut copy = tag.to_vec();
        // SAFETY: the cipher copies the tag, of the given length.
        !self.encrypts
            && tag.len() <= BLOCK
            && unsafe { self.control(lc::EVP_CTRL_AEAD_SET_TAG, copy.len(), copy.as_mut_ptr()) }
    }

    /// Returns the rest of the output. Returns `None` if the data is incomplete, has the wrong
    /// padding, or is not authentic.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        let mut out = vec![0; 2 * BLOCK];
        let mut written = 0;
        // SAFETY: the output has room for a block.
        let done = worked(unsafe {
            lc::EVP_CipherFinal_ex(self.context.as_ptr(), out.as_mut_ptr(), &raw mut written)
        });
        out.truncate(usize::try_from(written).ok()?);
        done.then_some(out)
    }

    /// Returns the tag of a finished encryption, with a length of at most 16 bytes. Returns `None`
    /// for a decryption.
    pub fn tag(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut tag = vec![0; len];
        // SAFETY: the cipher writes a tag of the given length.
        let done = self.encrypts
            && len <= BLOCK
            && unsafe { self.control(lc::EVP_CTRL_AEAD_GET_TAG, len, tag.as_mut_ptr()) };
        done.then_some(tag)
    }
}

impl Drop for CipherContext {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is freed once. Its key material is overwritten.
        unsafe { lc::EVP_CIPHER_CTX_free(self.context.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHENTICATED: [(&str, usize); 4] =
        [("aes-128-gcm", 16), ("aes-192-gcm", 24), ("aes-256-gcm", 32), ("chacha20-poly1305", 32)];

    fn run(mut context: CipherContext, data: &[u8], step: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for part in data.chunks(step) {
            out.extend(context.update(part)?);
        }
        out.extend(context.finish()?);
        Some(out)
    }

    #[test]
    fn data_is_encrypted_in_steps_as_at_once() {
        let data = [9; 100];
        for (name, key, iv) in [
            ("aes-128-cbc", 16, 16),
            ("aes-192-ctr", 24, 16),
            ("aes-256-cbc", 32, 16),
            ("aes-256-ecb", 32, 0),
        ] {
            let (key, iv) = (vec![1; key], vec![2; iv]);
            let new = |encrypts| CipherContext::new(name, encrypts, &key, &iv).unwrap();
            let secret = run(new(true), &data, 100).unwrap();
            assert_eq!(run(new(true), &data, 7).unwrap(), secret, "{name}");
            assert_eq!(run(new(false), &secret, 5).unwrap(), data, "{name}");
        }
    }

    #[test]
    fn only_authentic_data_is_decrypted_to_its_end() {
        for (name, key) in AUTHENTICATED {
            let (key, iv) = (vec![1; key], [2; 12]);
            let mut encryption = CipherContext::new(name, true, &key, &iv).unwrap();
            assert!(encryption.authenticate(b"more"), "{name}");
            let secret = encryption.update(b"some data").unwrap();
            assert!(encryption.finish().unwrap().is_empty());
            let tag = encryption.tag(16).unwrap();
            for (aad, changed, works) in
                [(&b"more"[..], 0, true), (b"less", 0, false), (b"more", 1, false)]
            {
                let mut decryption = CipherContext::new(name, false, &key, &iv).unwrap();
                let mut tag = tag.clone();
                tag[3] ^= changed;
                assert!(decryption.expect_tag(&tag) && decryption.authenticate(aad), "{name}");
                assert_eq!(decryption.update(&secret).unwrap(), b"some data");
                assert_eq!(decryption.finish().is_some(), works, "{name}");
            }
        }
    }

    #[test]
    fn keys_and_vectors_of_a_wrong_length_are_refused() {
        assert!(CipherContext::new("aes-128-cbc", true, &[0; 15], &[0; 16]).is_none());
        assert!(CipherContext::new("aes-128-cbc", true, &[0; 16], &[0; 12]).is_none());
        assert!(CipherContext::new("aes-128-gcm", true, &[0; 16], &[]).is_none());
        assert!(CipherContext::new("chacha20-poly1305", true, &[0; 32], &[0; 13]).is_none());
        assert!(CipherContext::new("rot13", true, &[], &[]).is_none());
    }
}
