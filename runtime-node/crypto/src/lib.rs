//! Cryptographic algorithms over bytes, and the encodings of keys, for Web Cryptography and for the
//! module `crypto` of Node.js.
//!
//! - [`key`]: a key of any kind, and secrets; [`rsa`], [`curve`]: asymmetric keys.
//! - [`encoding`]: the serializations of keys.
//! - [`hash`]: the hashes that the algorithms use.
//! - [`lc`]: the functions of the C library, AWS-LC, that `aws-lc-rs` does not have.
//!
//! The crate knows no V8, and holds no state. A caller bounds the time of a call by the length of
//! its data; only the generation of an RSA key, which can take seconds, can be canceled.

pub mod curve;
pub mod encoding;
pub mod hash;
pub mod key;
pub mod lc;
pub mod rsa;
