//! The hashes of Web Crypto (FIPS 180-4), and the algorithms of `aws-lc-rs` that compute them.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use aws_lc_rs::hmac;

/// A hash of Web Crypto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// Returns the hash with this name in Web Crypto.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "SHA-1" => Self::Sha1,
            "SHA-256" => Self::Sha256,
            "SHA-384" => Self::Sha384,
            "SHA-512" => Self::Sha512,
            _ => return None,
        })
    }

    /// Returns the hash as `aws-lc-rs` knows it.
    pub fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha1 => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }

    /// Returns HMAC with this hash, as `aws-lc-rs` knows it.
    pub fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    /// Returns the length of a digest, in bytes.
    pub fn output_len(self) -> usize {
        self.algorithm().output_len()
    }
}
