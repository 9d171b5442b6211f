//! The native half of `crypto-*.js`: Web Cryptography's algorithms.
//!
//! ```text
//!   op ─► arguments: buffers copied, keys found by their handles
//!          └► answer ─┬─ little: at once, on this thread ─────────────────────────┬─► bytes, a boolean, or a
//!                     └─ much: `offload`, by a promise, charged for what it took ─┘   ticket for a secret
//! ```
//!
//! - [`keys`]: where keys are and how JavaScript holds them; [`material`]: how they are made, and what can be had of them;
//!   [`encoding`], [`text`]: how they are written down.
//! - [`digest`], [`sign`], [`cipher`], [`derive`]: what is done with them. [`rsa`], [`curve`]: keys that come in pairs.
//! - [`lc`]: the calls of the C library that `aws-lc-rs` has no function for.
//!
//! What the standard asks for before that, an algorithm's normalization, its usages and the order of errors, is
//! JavaScript's business. What fails here is a `DataError` or an `OperationError` that says what to do.

mod answer;
mod arguments;
pub(super) mod cipher;
mod curve;
pub(super) mod derive;
pub(super) mod digest;
mod encoding;
mod keys;
mod lc;
pub(super) mod material;
pub(super) mod rsa;
pub(super) mod sign;
pub(super) mod text;
