//! The native half of `crypto-*.js`: Web Cryptography's algorithms.
//!
//! ```text
//!  op ─► arguments: buffers copied, keys found by their handles
//!         └► perform ─┬─ small: at once, on this thread ───────────────┬─► bytes, a boolean, or
//!                     └─ large: `offload`, a promise, charged as CPU ──┘   a ticket for a secret
//! ```
//!
//! - [`keys`]: where keys are stored, and how JavaScript refers to them; [`material`], [`rsa`]: how
//!   they are created, and which parts can be read; [`text`]: bytes in JSON Web Keys.
//! - [`digest`], [`sign`], [`cipher`], [`derive`]: the operations.
//! - [`operation`]: performs them on this thread or another.
//!
//! The algorithms and the encodings of keys are in a separate crate, [`tenon_crypto`].
//!
//! JavaScript performs the steps that the standard requires before these operations: normalization
//! of the algorithm, checks of the usages, and the order of errors. A failure here is a `DataError`
//! or an `OperationError`, or a `NotSupportedError` for a key that is too long.

pub(crate) mod arguments;
pub(crate) mod cipher;
pub(crate) mod derive;
pub(crate) mod digest;
pub(crate) mod keys;
pub(crate) mod material;
pub(crate) mod operation;
pub(crate) mod random;
pub(crate) mod rsa;
pub(crate) mod sign;
pub(crate) mod text;
