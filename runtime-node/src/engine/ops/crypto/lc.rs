//! What AWS-LC offers and `aws-lc-rs` does not: RSA with any hash, salt and exponent, AES-GCM with any nonce and tag, AES key
//! wrap with keys of 192 bits, and HMAC again and again without a copy of its state each time, which is half of what PBKDF2
//! would take. Nothing here knows what Web Crypto wants of it.
//!
//! Every function takes slices and gives vectors; no pointer leaves these files but inside of an [`Rsa`] or a [`Mac`]. `None`
//! and `false` mean that AWS-LC refused, and nobody asks why: its list of errors, one for each thread, is emptied.

#![allow(unsafe_code)] // Calls a C library.

mod aes;
mod mac;
mod rsa;

use std::ffi::c_int;

use aws_lc_sys as lc;

use super::digest::Hash;

pub(super) use aes::{gcm, key_wrap};
pub(super) use mac::Mac;
pub(super) use rsa::{Rsa, RsaPart, RsaPrivate};

/// Nothing that can be done about an error depends on which it was.
fn worked(result: c_int) -> bool {
    if result != 1 {
        // SAFETY: takes nothing and touches only this thread's list.
        unsafe { lc::ERR_clear_error() };
    }
    result == 1
}

fn md(hash: Hash) -> *const lc::EVP_MD {
    // SAFETY: each gives a pointer to something that lives for ever.
    unsafe {
        match hash {
            Hash::Sha1 => lc::EVP_sha1(),
            Hash::Sha256 => lc::EVP_sha256(),
            Hash::Sha384 => lc::EVP_sha384(),
            Hash::Sha512 => lc::EVP_sha512(),
        }
    }
}
