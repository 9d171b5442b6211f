//! Functions of AWS-LC that `aws-lc-rs` does not have: RSA with any hash, salt and exponent,
//! AES-GCM with any nonce and tag, AES key wrap with keys of 192 bits, ciphers that are fed
//! incrementally, compressed points, and repeated HMAC without copying its state each time; the
//! copies would be half of the cost of PBKDF2.
//!
//! The functions take slices, and return vectors or write to slices; no pointer leaves these files
//! except inside an [`Rsa`], a [`Mac`] or a [`CipherContext`]. `None` and `false` mean that a
//! length is out of range or that AWS-LC refused; AWS-LC's reason is not examined, and its
//! per-thread error queue is cleared.

#![allow(unsafe_code)] // Calls a C library.

mod aes;
mod cipher_context;
mod mac;
mod point;
mod rsa;
mod rsa_v1_5;

use std::ffi::c_int;

use aws_lc_sys as lc;

use crate::hash::Hash;

pub use aes::{gcm, key_wrap};
pub use cipher_context::CipherContext;
pub use mac::Mac;
pub use point::convert_point;
pub(crate) use rsa::RsaPart;
pub use rsa::{Rsa, RsaPrivate};

/// Returns whether a call succeeded. The errors are discarded, because no caller acts on a specific
/// one.
fn worked(result: c_int) -> bool {
    if result != 1 {
        // SAFETY: the function takes no argument and touches only this thread's queue.
        unsafe { lc::ERR_clear_error() };
    }
    result == 1
}

fn md(hash: Hash) -> *const lc::EVP_MD {
    // SAFETY: each function returns a pointer to a static.
    unsafe {
        match hash {
            Hash::Sha1 => lc::EVP_sha1(),
            Hash::Sha256 => lc::EVP_sha256(),
            Hash::Sha384 => lc::EVP_sha384(),
            Hash::Sha512 => lc::EVP_sha512(),
        }
    }
}
