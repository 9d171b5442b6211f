//! RSA with the padding of PKCS #1 v1.5 for data other than digests (RFC 8017 §7.2, §9.2).
//!
//! Decryption with a private key is missing on purpose: its success would depend on the padding,
//! which lets an attacker decrypt other data (Bleichenbacher's attack).

#![allow(unsafe_code)] // Calls a C library.

use std::ffi::c_int;

use aws_lc_sys as lc;

use super::rsa::Rsa;
use super::worked;

type Operation = unsafe extern "C" fn(usize, *const u8, *mut u8, *mut lc::RSA, c_int) -> c_int;

impl Rsa {
    /// Encrypts with a public key. Returns `None` if the data is not at least 11 bytes shorter than
    /// the modulus.
    pub fn encrypt_v1_5(&self, data: &[u8]) -> Option<Vec<u8>> {
        self.run(lc::RSA_public_encrypt, data)
    }

    /// Signs data, which may be of any kind, with a private key. Returns `None` as
    /// [`Rsa::encrypt_v1_5`] does, and for a public key.
    pub fn sign_any(&self, data: &[u8]) -> Option<Vec<u8>> {
        self.run(lc::RSA_private_encrypt, data)
    }

    /// Returns the data that was signed with the private key of this public key. Returns `None` if
    /// the signature does not have the padding.
    pub fn recover(&self, signature: &[u8]) -> Option<Vec<u8>> {
        self.run(lc::RSA_public_decrypt, signature)
    }

    fn run(&self, operation: Operation, data: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.size()];
        // SAFETY: each operation reads the data, which has the given length, and writes at most as
        // many bytes as the modulus has. The key is not changed.
        let written = unsafe {
            operation(
                data.len(),
                data.as_ptr(),
                out.as_mut_ptr(),
                self.as_ptr(),
                lc::RSA_PKCS1_PADDING,
            )
        };
        let len = usize::try_from(written).ok();
        worked(len.is_some().into()).then_some(())?;
        out.truncate(len?);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_signed_by_the_private_key_is_recovered_by_the_public_key() {
        let key = Rsa::generate(2048, &[1, 0, 1], &mut || true).unwrap();
        let signature = key.sign_any(b"data").unwrap();
        assert_eq!(key.recover(&signature).unwrap(), b"data");
        assert!(key.recover(&[7; 256]).is_none());
        assert_eq!(key.encrypt_v1_5(b"data").unwrap().len(), 256);
        assert!(key.encrypt_v1_5(&[0; 256]).is_none());
        assert!(key.recover(&key.encrypt_v1_5(b"data").unwrap()).is_none());
    }
}
