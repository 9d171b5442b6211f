//! HMAC (RFC 2104).

#![allow(unsafe_code)] // Calls a C library.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

use super::{md, worked};
use crate::hash::Hash;

/// HMAC (RFC 2104) with one key, for many messages.
pub struct Mac {
    context: NonNull<lc::HMAC_CTX>,
    len: usize,
}

// SAFETY: the context belongs to this value alone, and to no thread.
unsafe impl Send for Mac {}

impl Mac {
    /// Begins HMAC with a key. Returns `None` if AWS-LC cannot allocate or initialize the context.
    pub fn new(hash: Hash, key: &[u8]) -> Option<Self> {
        // SAFETY: creates a context for us to free.
        let context = NonNull::new(unsafe { lc::HMAC_CTX_new() })?;
        let mac = Self { context, len: hash.output_len() };
        // SAFETY: reads the key, which has the given length, and keeps no pointer to it. An empty
        // key is passed as a non-null pointer: a null pointer would mean the previous key.
        let ready = unsafe {
            let data = if key.is_empty() { &[0] } else { key }.as_ptr().cast();
            lc::HMAC_Init_ex(context.as_ptr(), data, key.len(), md(hash), ptr::null_mut())
        };
        worked(ready).then_some(mac)
    }

    /// Returns the length of a MAC, in bytes.
    pub fn output_len(&self) -> usize {
        self.len
    }

    /// Writes the MAC of the concatenated parts to the beginning of `out`. Returns `None` if `out`
    /// is too short.
    pub fn compute(&mut self, parts: &[&[u8]], out: &mut [u8]) -> Option<()> {
        let context = self.context.as_ptr();
        let mut written = 0;
        // SAFETY: the context is ours alone; null means its current key and hash. `out` has room
        // for a MAC.
        let done = unsafe {
            out.len() >= self.len
                && worked(lc::HMAC_Init_ex(context, ptr::null(), 0, ptr::null(), ptr::null_mut()))
                && parts
                    .iter()
                    .all(|part| worked(lc::HMAC_Update(context, part.as_ptr(), part.len())))
                && worked(lc::HMAC_Final(context, out.as_mut_ptr(), &raw mut written))
        };
        done.then_some(())
    }

    /// Replaces a MAC with the MAC of its bytes. Returns `None` if `mac` does not have the length
    /// of a MAC.
    pub fn rehash(&mut self, mac: &mut [u8]) -> Option<()> {
        let context = self.context.as_ptr();
        let mut written = 0;
        // SAFETY: as in `compute`; the input has been read when the output is written.
        let done = unsafe {
            mac.len() == self.len
                && worked(lc::HMAC_Init_ex(context, ptr::null(), 0, ptr::null(), ptr::null_mut()))
                && worked(lc::HMAC_Update(context, mac.as_ptr(), mac.len()))
                && worked(lc::HMAC_Final(context, mac.as_mut_ptr(), &raw mut written))
        };
        done.then_some(())
    }
}

impl Drop for Mac {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and is freed once. Its key material is overwritten.
        unsafe { lc::HMAC_CTX_free(self.context.as_ptr()) };
    }
}
