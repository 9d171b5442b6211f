//! The native half of the Streams Standard: bodies that JavaScript reads and writes, and codecs.
//!
//! - [`read`]: streams held by native code, read by JavaScript; [`pipe`]: streams that JavaScript
//!   writes and native code reads.
//! - [`compression`]: `CompressionStream` and `DecompressionStream`.

pub(crate) mod compression;
pub(crate) mod pipe;
pub(crate) mod read;
