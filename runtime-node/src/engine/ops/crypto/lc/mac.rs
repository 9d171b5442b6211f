//! HMAC (RFC 2104).

#![allow(unsafe_code)] // Calls a C library.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

use super::super::digest::Hash;
use super::{md, worked};

/// HMAC (RFC 2104) with one key, many times.
pub(in super::super) struct Mac {
    context: NonNull<lc::HMAC_CTX>,
    len: usize,
}

// SAFETY: what it points to belongs to it alone, and to no thread.
unsafe impl Send for Mac {}

impl Mac {
    pub(in super::super) fn new(hash: Hash, key: &[u8]) -> Option<Self> {
        // SAFETY: makes one for us to free.
        let context = NonNull::new(unsafe { lc::HMAC_CTX_new() })?;
        let mac = Self { context, len: hash.len() };
        // SAFETY: reads the key, which is as long as it is told, and keeps no pointer to it. One of no bytes is told by its
        // length: a null pointer would mean the key before.
        let ready = unsafe {
            let data = if key.is_empty() { &[0] } else { key }.as_ptr().cast();
            lc::HMAC_Init_ex(context.as_ptr(), data, key.len(), md(hash), ptr::null_mut())
        };
        worked(ready).then_some(mac)
    }

    /// Bytes of a MAC.
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    /// The MAC of these parts in a row.
    pub(in super::super) fn of(&mut self, parts: &[&[u8]], out: &mut [u8]) -> Option<()> {
        let context = self.context.as_ptr();
        let mut written = 0;
        // SAFETY: it is ours alone; null means the key and the hash that it has. `out` has room for a MAC.
        let done = unsafe {
            out.len() >= self.len
                && worked(lc::HMAC_Init_ex(context, ptr::null(), 0, ptr::null(), ptr::null_mut()))
                && parts.iter().all(|part| worked(lc::HMAC_Update(context, part.as_ptr(), part.len())))
                && worked(lc::HMAC_Final(context, out.as_mut_ptr(), &raw mut written))
        };
        done.then_some(())
    }

    /// The MAC of a MAC, in its place.
    pub(in super::super) fn again(&mut self, mac: &mut [u8]) -> Option<()> {
        let context = self.context.as_ptr();
        let mut written = 0;
        // SAFETY: as above; what goes in has been read when what comes out is written.
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
        // SAFETY: it is ours, and is given back once. What it knows of the key is overwritten.
        unsafe { lc::HMAC_CTX_free(self.context.as_ptr()) };
    }
}
